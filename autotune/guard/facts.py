"""Facts of this machine: versions, build options, firmware, drivers, hashes, and libraries' variables."""

import hashlib
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from zlib import crc32

from autotune.errors import StackError
from autotune.stacks.installation import Installation, output
from autotune.stacks.knobs import Knob, listings
from autotune.stacks.knobs.openmpi import NEVER_SET, components
from autotune.stacks.ucx import detect, site_file

_LAYERS = {"ucx": "UCX", "ucc": "UCC", "libfabric": "libfabric"}
"""Layer → what its makers call it."""
_MAKERS = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI"}
_ASKED = {"openmpi": ("ompi_info", "--parsable", "--config"), "mpich": ("mpichversion",)}
"""Flavour → the program beside its launcher that says how it was built."""
_BUILT = ("config:cli:", "MPICH configure:", "MPICH Device:", "compiler:c:version:")
"""How those of its lines begin that say it."""
_LIBRARIES = ("libmpi*.so*", "libopen-*.so*", "libprrte.so*", "libuc[cpstm]*.so*", "libfabric.so*",
              "libpmix.so*", "libhwloc.so*")  # fmt: skip
PREFIX = "prefix"
"""Key beside the variables: where the MPI lies."""
FOLDERS = (PREFIX, "LD_LIBRARY_PATH", "OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX", "I_MPI_ROOT",
           "UCX_CONFIG_DIR", "UCX_MODULE_DIR")  # fmt: skip
"""Those that say where libraries and their files lie."""
_READ = re.compile(
    r"(OMPI|OPAL|PRTE|PMIX|UCX|UCC|HCOLL|FI|MPICH|MPIR|I_MPI|HYDRA|PSM2|PSM3|MLX5|IBV|RDMAV|LD_PRELOAD)(_.*)?"
)
"""Names of variables that MPI and the libraries below it read."""
_SHORT = 4
"""Digits: of 65,536 values one looks the same, and 16 bits give away no secret."""
_MEANS_NOTHING = re.compile(
    r"OMPI_ALLOW_RUN_AS_ROOT.*|PMIX_(RANK|NAMESPACE|SERVER_.*|SECURITY_MODE|HOSTNAME)"
)
"""Some of these say nothing of speed, others are given to each process by its launcher."""
_LARGEST = 1 << 30
"""Bytes of a file that is hashed: the largest library of any MPI has a tenth of it."""
_SYSTEM, _PROCESSOR = Path("/sys"), Path("/proc/cpuinfo")
_MOST = 4096
"""Bytes read of a file of the kernel's: each has one line."""


@dataclass(frozen=True, slots=True)
class Said:
    """One variable, as its library describes it."""

    kind: str
    """Type of its value."""
    default: str = ""
    """As printed; empty: it does not say, or says something else each time."""
    allowed: tuple[str, ...] = ()
    """Words that may stand; empty: it does not list them."""
    others: tuple[str, ...] = ()
    """Its other names."""
    deprecated: bool = False
    """Whether it is not to be used any more."""
    about: str = ""
    """Checksum of its documentation."""

    @classmethod
    def by(cls, knob: Knob) -> "Said":
        """Take it from a listing."""
        about = f"{crc32(knob.documentation.encode()):08x}" if knob.documentation else ""
        others = (*knob.inherits, *knob.children)
        return cls(str(knob.kind), _of_nobody(knob.default), knob.allowed, others, knob.deprecated, about)


def _of_nobody(default: str) -> str:
    """A list of folders without those of whoever asks, home and current: Open MPI's defaults name them."""
    if ":" not in default:
        return default
    home, here = f"{Path.home()}/.openmpi", str(Path.cwd())
    return ":".join("." if part == here else part.replace(home, "~/.openmpi") for part in default.split(":"))


@dataclass(frozen=True, slots=True)
class Facts:
    """One state of a machine, as far as an unprivileged user sees it."""

    stack: Mapping[str, str] = field(default_factory=dict)
    """Versions of MPI and the libraries below it, and how it was built."""
    machine: Mapping[str, str] = field(default_factory=dict)
    """Kernel, processor, firmware, drivers of this node."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Path → SHA-256; empty: it is not there."""
    mpirun: str = ""
    """The launcher."""
    variables: Mapping[str, Mapping[str, Said]] = field(default_factory=dict)
    """Layer → variable → what the layer says of it."""
    offers: Mapping[str, str] = field(default_factory=dict)
    """Components of the MPI, and UCX's transports that have a device here."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables in effect that MPI and the libraries below it read, each with a short checksum of its value:
    everybody may read this, and a value may be a secret. Folders by which libraries are found are themselves.
    """
    parameters: tuple[str, ...] = ()
    """Those of ``files`` that MPI and the libraries below it read by themselves."""

    @property
    def identity(self) -> str:
        """The same for the same versions, build, machine, libraries and parameters, wherever they lie."""
        by_name = sorted((Path(path).name, value) for path, value in self.files.items() if ".so" in path)
        known: list[object] = [sorted(self.stack.items()), sorted(self.machine.items()), by_name]
        values = sorted((name, v) for name, v in self.environment.items() if name not in FOLDERS)
        contents = sorted(self.files[path] for path in self.parameters if self.files[path])
        known += [part for part in (values, contents) if part]  # as earlier versions have it, without any
        text = repr(tuple(known))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def facts_of(installation: Installation, settings: Iterable[Path] = (), steady: bool = False) -> Facts:
    """Collect the state of this machine.

    Args:
        installation: Of which MPI.
        settings: Files of the settings that are kept.
        steady: Ask for all variables twice: a default that differs comes of the moment, not of the version.

    Raises:
        StackError: a library that is there does not answer.
    """
    listed = listings(installation)
    stack = {_MAKERS[installation.flavour]: installation.version}
    stack |= {_LAYERS[one.layer]: one.version for one in listed if one.layer in _LAYERS}
    if built := _built(installation):
        stack[f"{_MAKERS[installation.flavour]} built with"] = built
    beside = installation.library.parent  # libraries below an MPI are in a folder of its own, or beside it
    folders = (beside, beside / "openmpi", beside / "mpich")
    libraries = {f.resolve() for folder in folders for name in _LIBRARIES for f in folder.glob(name)}
    prefix = installation.mpirun.resolve().parent.parent
    ucx_file = site_file(installation.library)
    parameters = [*_read_files(prefix, os.environ), *([ucx_file] if ucx_file else [])]
    files = {str(path): _hash(path) for path in (*sorted(libraries), *parameters, *settings)}
    variables = {
        one.layer: {c.knob.name: Said.by(c.knob) for c in one.knobs if c.knob.name not in NEVER_SET}
        for one in listed
    }
    for again in listings(installation) if steady else ():
        known = variables[again.layer]
        for knob in (c.knob for c in again.knobs):
            if knob.name in known and known[knob.name].default != Said.by(knob).default:
                known[knob.name] = replace(known[knob.name], default="")
    offers = dict(_offers(installation))
    environment = environment_of(installation)
    return Facts(
        *(stack, dict(_machine()), files, str(installation.mpirun), variables, offers, environment),
        tuple(dict.fromkeys(str(path) for path in parameters)),
    )


def _read_files(prefix: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Parameter files that Open MPI, PRRTE, PMIx and UCX read by themselves, there or not.

    UCX reads ``ucx.conf`` of the current directory too, which is that of whoever asks.
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
            named = env.get(f"{layer}_MCA_mca_base_{name}", "")
            yield from (Path(one) for one in re.split("[:,]", named) if one.startswith("/"))


def environment_of(installation: Installation) -> dict[str, str]:
    """Variables of this process that MPI and the libraries below it read, see ``Facts.environment``."""
    return {PREFIX: str(installation.mpirun.resolve().parent.parent)} | {
        name: value
        if name in FOLDERS
        else hashlib.sha256(value.encode(errors="replace")).hexdigest()[:_SHORT]
        for name, value in sorted(os.environ.items())
        if name in FOLDERS or (_READ.fullmatch(name) and not _MEANS_NOTHING.fullmatch(name))
    }


def _offers(installation: Installation) -> Iterator[tuple[str, str]]:
    """Components and transports that can be chosen, as far as the libraries name them."""
    if installation.flavour == "openmpi":
        frameworks = components(installation.mpirun).items()
        yield "components", " ".join(f"{name}/{c}" for name, its in frameworks for c in its)
    with suppress(StackError):
        if ucx := detect(installation.library):
            yield "transports of UCX", " ".join(ucx.transports)


def _built(installation: Installation) -> str:
    """How the MPI was configured, on one line; empty: it does not say."""
    name, *options = _ASKED.get(installation.flavour, ("",))
    program = installation.mpirun.resolve().with_name(name) if name else None
    if program is None or not program.exists():
        return ""
    with suppress(StackError):
        lines = output([str(program), *options]).splitlines()
        return "; ".join(
            " ".join(line.partition(":")[2].split()) for line in lines if line.startswith(_BUILT)
        )
    return ""


def _machine() -> Iterator[tuple[str, str]]:
    """Kernel, processor, firmware and drivers of this node."""
    yield "kernel", platform.release()
    with suppress(OSError), _PROCESSOR.open(encoding="utf-8", errors="replace") as lines:
        fields = {}
        for line in lines:
            key, _, value = line.partition(":")
            if not key.strip():
                break  # the next core
            fields[key.strip()] = value.strip()
        yield from ((name, fields[name]) for name in ("model name", "microcode") if name in fields)
    yield from _read("firmware of the board", _SYSTEM / "class/dmi/id/bios_version")
    yield from _read("clock governor", _SYSTEM / "devices/system/cpu/cpu0/cpufreq/scaling_governor")
    yield from _read("transparent huge pages", _SYSTEM / "kernel/mm/transparent_hugepage/enabled")
    for device in sorted((_SYSTEM / "class/infiniband").glob("*")):
        yield from _read(f"firmware of {device.name}", device / "fw_ver")
        with suppress(OSError):
            driver = (device / "device/driver/module").resolve(strict=True)
            yield from _read(f"driver {driver.name}", driver / "version")


def _read(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """A line of the kernel's, where it may be read."""
    with suppress(OSError), path.open(encoding="utf-8", errors="replace") as file:
        yield name, file.read(_MOST).strip()


def _hash(path: Path) -> str:
    """SHA-256 of a file; empty: there is none, it cannot be read, or it is larger than any library."""
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= _LARGEST:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return ""
