"""Collect the state of a machine: versions, build options, firmware, drivers, file hashes, variables.

Compute nodes have other devices, kernels and firmware than the log-in node on which ``guard`` may run. So a
process of one rank is started on a compute node, in the same way as launches for measurements. The process
reads from a file in its directory which facts it has to collect, and writes them to the same directory.
"""

import hashlib
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from autotune.campaign.bench import Bench
from autotune.errors import StackError
from autotune.history.folder import make_empty
from autotune.probe.protocol import ProbeResult
from autotune.resources import user_text
from autotune.stacks.installation import MAKERS, Installation, find, output
from autotune.stacks.knobs import Knob, listings
from autotune.stacks.knobs.openmpi import NEVER_SET, components
from autotune.stacks.ports import LaunchRequest
from autotune.stacks.ucx import detect, site_file
from autotune.structure import Document, plain

_LAYERS = {"ucx": "UCX", "ucc": "UCC", "libfabric": "libfabric"}
"""Maps each library below MPI to its name in reports."""
_BUILD_COMMANDS = {"openmpi": ("ompi_info", "--parsable", "--config"), "mpich": ("mpichversion",)}
"""Maps each MPI implementation to the command, next to its launcher, that prints how it was built."""
_BUILD_LINES = ("config:cli:", "MPICH configure:", "MPICH Device:", "compiler:c:version:")
"""Beginnings of the lines with the build options in the output of ``_BUILD_COMMANDS``."""
_LIBRARIES = ("libmpi*.so*", "libopen-*.so*", "libprrte.so*", "libuc[cpstm]*.so*", "libfabric.so*",
              "libpmix.so*", "libhwloc.so*")  # fmt: skip
PREFIX = "prefix"
"""Key in ``Facts.environment`` for the installation prefix of the MPI, which is no environment variable."""
FOLDERS = (PREFIX, "LD_LIBRARY_PATH", "OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX", "I_MPI_ROOT",
           "UCX_CONFIG_DIR", "UCX_MODULE_DIR")  # fmt: skip
"""Names in ``Facts.environment`` whose values are folders of libraries or of their files."""
_RELEVANT = re.compile(
    r"(OMPI|OPAL|PRTE|PMIX|UCX|UCC|HCOLL|FI|MPICH|MPIR|I_MPI|HYDRA|PSM2|PSM3|MLX5|IBV|RDMAV|LD_PRELOAD)(_.*)?"
)
"""Names of environment variables that MPI and the libraries below it read."""
_IRRELEVANT = re.compile(r"OMPI_ALLOW_RUN_AS_ROOT.*|PMIX_(RANK|NAMESPACE|SERVER_.*|SECURITY_MODE|HOSTNAME)")
"""Names of variables that have no effect on speed, or that a launcher sets for each process."""
_A_RANKS = re.compile(r"(OMPI|OPAL|PRTE|PMIX|PMI|MPI_LOCAL|MPIEXEC|HYDI|I_MPI_HYDRA)_.*")
"""Variables that a launcher sets for each rank, and that the queried libraries would mistake for settings."""
_CHECKSUM_DIGITS = 4
"""Hexadecimal digits of a short checksum: a changed value goes unnoticed in one of 65,536 cases, and 16 bits
disclose no secret."""
_LARGEST = 1 << 30
"""Maximum size in bytes of files that are hashed; the largest library of any MPI has a tenth of this size."""
_SYSTEM, _PROCESSOR = Path("/sys"), Path("/proc/cpuinfo")
_MOST_BYTES = 4096  # Maximum number of bytes read from a file of the kernel; such files have one line.
_QUESTION, _ANSWER = "question.json", "facts.json"
_TIMEOUT_S = 120.0  # Querying the libraries twice takes seconds, but a shared file system may be slow.


@dataclass(frozen=True, slots=True)
class VariableDescription:
    """Declaration of one configuration variable, as its library prints it."""

    kind: str  # Type of the value.
    default: str = ""
    """Default value as the library prints it; empty if it prints none, or a different one each time."""
    allowed: tuple[str, ...] = ()  # Allowed values; empty if the library does not list them.
    others: tuple[str, ...] = ()  # Other names of the variable.
    deprecated: bool = False  # Whether the library advises against its use.
    about: str = ""  # Checksum of the documentation of the variable.

    @classmethod
    def by(cls, knob: Knob) -> "VariableDescription":
        """Return the declaration of a variable that its library listed as ``knob``."""
        about = f"{crc32(knob.documentation.encode()):08x}" if knob.documentation else ""
        names, default = (*knob.inherits, *knob.children), _without_user_folders(knob.default)
        return cls(str(knob.kind), default, knob.allowed, names, knob.deprecated, about)


def _without_user_folders(default: str) -> str:
    """Replace the user's home and current folder in a list of folders, which Open MPI has as a default."""
    if ":" not in default:
        return default
    home, current = f"{Path.home()}/.openmpi", str(Path.cwd())
    parts = default.split(":")
    return ":".join("." if part == current else part.replace(home, "~/.openmpi") for part in parts)


@dataclass(frozen=True, slots=True)
class Facts:
    """State of a machine at one time, as far as an unprivileged user sees it."""

    stack: Mapping[str, str] = field(default_factory=dict)  # Versions of MPI and the libraries below it.
    machine: Mapping[str, str] = field(default_factory=dict)  # Kernel, processor, firmware and drivers.
    files: Mapping[str, str] = field(default_factory=dict)  # SHA-256 by path; empty if the file is missing.
    mpirun: str = ""  # Path of the launcher.
    variables: Mapping[str, Mapping[str, VariableDescription]] = field(default_factory=dict)
    """Maps each layer (MPI, UCX, …) to the variables that it declares, by name."""
    offers: Mapping[str, str] = field(default_factory=dict)
    """Maps "components" to the MPI's components, and "transports of UCX" to UCX's transports on this machine;
    both are lists of words in one text."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Maps each environment variable that MPI and the libraries below it read to a short checksum of its
    value, because everybody may read this document and a value may be a secret. The variables in ``FOLDERS``
    are mapped to their values."""
    parameters: tuple[str, ...] = ()
    """Paths of the parameter files among ``files`` that MPI and the libraries below it read by themselves."""

    @property
    def identity(self) -> str:
        """Return a checksum of versions, machine, libraries, variables and parameter files, without paths."""
        by_name = sorted((Path(path).name, value) for path, value in self.files.items() if ".so" in path)
        values = sorted((name, v) for name, v in self.environment.items() if name not in FOLDERS)
        contents = sorted(self.files[path] for path in self.parameters if self.files[path])
        parts = (sorted(self.stack.items()), sorted(self.machine.items()), by_name)
        text = repr((*parts, *filter(None, (values, contents))))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def facts_there(
    bench: Bench,
    installation: Installation,
    settings: Iterable[Path],
    work_folder: Path,
    steady: bool = False,
) -> Facts:
    """Return the facts of the first node on which launches of a bench run; see ``facts_of``.

    All nodes must see ``work_folder``.

    Raises:
        StackError: a library does not print its variables, or no process can be started on the node.
    """
    launcher = bench.launcher
    if launcher is None or not getattr(launcher, "away", False):
        return facts_of(installation, settings, steady)
    directory = make_empty(work_folder / "facts").absolute()
    paths = [str(path.absolute()) for path in settings]
    question = {"mpirun": str(installation.mpirun), "settings": paths, "steady": steady,
                "environment": sorted(os.environ)}  # fmt: skip
    (directory / _QUESTION).write_text(json.dumps(question), encoding="utf-8")
    outcome = launcher.run(
        LaunchRequest(
            directory=directory,
            program=(sys.executable, "-P", "-m", __name__, str(directory)),
            env={},
            placement=replace(bench.placement, ranks=1, nodes=1, ppn=1, map_by="", bind_to=""),
            timeout_s=_TIMEOUT_S,
        )
    )
    path = directory / _ANSWER
    if not path.exists():
        raise StackError(f"no facts of the nodes: {outcome.reason}", f"see {directory}")
    facts = Document(str(path), own=True).structured(Facts, json.loads(user_text(path)))
    return replace(facts, environment=environment_of(installation))


def facts_of(installation: Installation, settings: Iterable[Path] = (), steady: bool = False) -> Facts:
    """Collect the state of this machine.

    Args:
        installation: The MPI.
        settings: Paths of the files that apply the tuned settings.
        steady: Whether to list all variables twice. A default that differs between the two lists is not a
            property of the version, and is left out.

    Raises:
        StackError: An installed library does not print its variables.
    """
    listed, maker = listings(installation), MAKERS[installation.flavour]
    stack = {maker: installation.version}
    stack |= {_LAYERS[listing.layer]: listing.version for listing in listed if listing.layer in _LAYERS}
    if build_options := _build_options(installation):
        stack[f"{maker} built with"] = build_options
    library_folder = installation.library.parent  # UCX and the like are here or in a subfolder
    folders = (library_folder, library_folder / "openmpi", library_folder / "mpich")
    libraries = {f.resolve() for folder in folders for name in _LIBRARIES for f in folder.glob(name)}
    prefix = installation.mpirun.resolve().parent.parent
    ucx_file = site_file(installation.library)
    parameters = [*_read_files(prefix, os.environ), *([ucx_file] if ucx_file else [])]
    files = {str(path): _hash(path) for path in (*sorted(libraries), *parameters, *settings)}
    variables = {
        listing.layer: {
            c.knob.name: VariableDescription.by(c.knob) for c in listing.knobs if c.knob.name not in NEVER_SET
        }
        for listing in listed
    }
    for listing in listings(installation) if steady else ():
        described = variables[listing.layer]
        for knob in (c.knob for c in listing.knobs if c.knob.name in described):
            if described[knob.name].default != VariableDescription.by(knob).default:
                described[knob.name] = replace(described[knob.name], default="")
    return Facts(
        *(stack, dict(_machine()), files, str(installation.mpirun), variables),
        *(dict(_offers(installation)), environment_of(installation)),
        tuple(dict.fromkeys(str(path) for path in parameters)),
    )


def _read_files(prefix: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the parameter files that Open MPI, PRRTE, PMIx and UCX read by themselves, existing or not.

    UCX also reads ``ucx.conf`` of the current directory, which depends on the user and is left out.
    """
    for home in (Path(env["HOME"]),) if env.get("HOME") else ():
        yield from (home / f".{name}" / "mca-params.conf" for name in ("openmpi", "prte", "pmix"))
        yield home / "ucx.conf"
    for name in ("openmpi-mca-params", "openmpi-mca-params-override", "prte-mca-params", "pmix-mca-params"):
        yield prefix / "etc" / f"{name}.conf"
    if folder := env.get("UCX_CONFIG_DIR"):
        yield Path(folder) / "ucx.conf"
    for name in ("param_files", "override_param_file"):
        for layer in ("OMPI", "PRTE", "PMIX"):
            paths = env.get(f"{layer}_MCA_mca_base_{name}", "")
            yield from (Path(path) for path in re.split("[:,]", paths) if path.startswith("/"))


def variables_read() -> dict[str, str]:
    """Return the variables of this process that MPI and the libraries below it read, with their values."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name in FOLDERS or (_RELEVANT.fullmatch(name) and not _IRRELEVANT.fullmatch(name))
    }


def environment_of(installation: Installation) -> dict[str, str]:
    """Return the variables of ``variables_read`` without secrets, as described at ``Facts.environment``."""
    environment = {PREFIX: str(installation.mpirun.resolve().parent.parent)}
    for name, value in variables_read().items():
        checksum = hashlib.sha256(value.encode(errors="replace")).hexdigest()[:_CHECKSUM_DIGITS]
        environment[name] = value if name in FOLDERS else checksum
    return environment


def replaced(reference: Facts) -> list[str]:
    """Return the names of the libraries whose files changed since the state ``reference`` was saved."""
    libraries = {path: value for path, value in reference.files.items() if ".so" in path and value}
    return sorted(Path(path).name for path, value in libraries.items() if _hash(Path(path)) != value)


def _offers(installation: Installation) -> Iterator[tuple[str, str]]:
    """Yield the MPI components and UCX transports that settings can choose, as the libraries list them."""
    if installation.flavour == "openmpi":
        frameworks = components(installation.mpirun).items()
        yield "components", " ".join(f"{name}/{c}" for name, names in frameworks for c in names)
    with suppress(StackError):
        # All transports are listed, because settings may choose others than today's environment does.
        if ucx := detect(installation.library, all_transports=True):
            yield "transports of UCX", " ".join(ucx.transports)


def _build_options(installation: Installation) -> str:
    """Return the build options of the MPI on one line; empty if the MPI does not print them."""
    name, *options = _BUILD_COMMANDS.get(installation.flavour, ("",))
    program = installation.mpirun.resolve().with_name(name) if name else None
    if program is None or not program.exists():
        return ""
    with suppress(StackError):
        lines = [
            line for line in output([str(program), *options]).splitlines() if line.startswith(_BUILD_LINES)
        ]
        return "; ".join(" ".join(line.partition(":")[2].split()) for line in lines)
    return ""


def _machine() -> Iterator[tuple[str, str]]:
    yield "kernel", platform.release()
    with suppress(OSError), _PROCESSOR.open(encoding="utf-8", errors="replace") as lines:
        fields = {}
        for line in lines:
            key, _, value = line.partition(":")
            if not key.strip():
                break  # the lines of the next core follow
            fields[key.strip()] = value.strip()
        yield from ((name, fields[name]) for name in ("model name", "microcode") if name in fields)
    yield from _kernel_line("firmware of the board", _SYSTEM / "class/dmi/id/bios_version")
    yield from _kernel_line("clock governor", _SYSTEM / "devices/system/cpu/cpu0/cpufreq/scaling_governor")
    yield from _kernel_line("transparent huge pages", _SYSTEM / "kernel/mm/transparent_hugepage/enabled")
    for device in sorted((_SYSTEM / "class/infiniband").glob("*")):
        yield from _kernel_line(f"firmware of {device.name}", device / "fw_ver")
        with suppress(OSError):
            driver = (device / "device/driver/module").resolve(strict=True)
            yield from _kernel_line(f"driver {driver.name}", driver / "version")


def _kernel_line(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield ``name`` with the content of a file of the kernel; yield nothing if the file cannot be read."""
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        yield name, file.read(_MOST_BYTES).strip()


def _hash(path: Path) -> str:
    """Return the SHA-256 of a file; empty if the file is missing, unreadable or larger than ``_LARGEST``."""
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= _LARGEST:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def main(directory: Path) -> int:
    """Collect the facts that a file in ``directory`` asks for; this function runs on a compute node."""
    question = json.loads((directory / _QUESTION).read_text(encoding="utf-8"))
    for name in set(os.environ) - set(question["environment"]):
        if _A_RANKS.fullmatch(name):
            del os.environ[name]
    facts = facts_of(find(question["mpirun"]), map(Path, question["settings"]), question["steady"])
    (directory / _ANSWER).write_text(json.dumps(plain(facts)), encoding="utf-8")
    ProbeResult("ok").write(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
