"""Find the MPI to use: the one that the scenario names, else the site's own, else the MPI of a PyPI wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from autotune.errors import StackError, allowed, installing
from autotune.stacks import implementations

MAKERS = {"openmpi": "Open MPI", "mpich": "MPICH", "intelmpi": "Intel MPI"}
"""Maps a flavour to the name of the implementation as its makers write it."""
_STACKS = "AUTOTUNE_STACKS"  # Variable with further virtual environments that have an MPI (``make stacks``).
_TIMEOUT_S = 60.0  # Seconds after which a command that has not ended is killed.


@dataclass(frozen=True, slots=True)
class Installation:
    """Describes one MPI on this machine."""

    flavour: str  # ``openmpi``, ``mpich`` or ``intelmpi``.
    version: str  # Version that the launcher prints.
    mpirun: Path  # Path of the launcher.
    library: Path  # Path of the MPI library, with links resolved.
    origin: str  # Where the MPI comes from: ``scenario`` (the user named it), ``site`` or ``wheel``.

    @property
    def named(self) -> str:
        """The makers' name of the implementation, with its version."""
        return f"{MAKERS[self.flavour]} {self.version}"


def find(mpirun: str | None = None, origin: str = "auto", stack: str = "any") -> Installation:
    """Return the MPI that the scenario names, else the site's own, else the MPI of the wheel.

    Args:
        mpirun: Path or name of a launcher; None: a launcher is searched for.
        origin: Where a launcher is searched for: ``site``, ``wheel``, or ``auto`` for both in this order.
        stack: The flavour that the MPI must have, with or without a major version (``openmpi4``); then the
            whole search path is searched, and after it this interpreter's virtual environment and the
            environments next to it. ``any``: the first MPI that is found is used.

    Raises:
        StackError: no MPI is found, its launcher does not answer, or this project does not know it.
    """
    if origin not in ("auto", "site", "wheel"):
        raise StackError(f"mpi.from={origin!r}", allowed(origin, ("auto", "site", "wheel")))
    if mpirun:
        path = _on_path(mpirun, os.get_exec_path())
        if path is None:
            raise StackError(
                f"mpi.mpirun={mpirun!r} is not an executable", "give the path of an mpirun, or leave it out"
            )
        candidate = _inspect(path, "scenario")
        if not _fits(candidate, stack):
            raise StackError(
                f"mpi.mpirun={mpirun} is {candidate.flavour} {candidate.version}, asked for is mpi={stack}",
                "leave one of the two out",
            )
        return candidate
    unsuitable = []
    for path, whence in _launchers(origin, stack != "any"):
        try:
            candidate = _inspect(path, whence)
        except StackError:
            if stack == "any":
                raise
            continue  # an unknown launcher does not hide the MPI that was asked for, which may come later
        if _fits(candidate, stack):
            return candidate
        unsuitable.append(f"{candidate.flavour} {candidate.version}")
    missing = "mpirun" if stack == "any" else stack
    raise StackError(
        f"no {missing} found"
        + ("" if origin == "auto" else f" with mpi.from={origin}")
        + (f", only {', '.join(dict.fromkeys(unsuitable))}" if unsuitable else ""),
        "load your MPI module, set mpi.mpirun=/path/to/mpirun, "
        + (f"or: {installing('openmpi')}" if stack == "any" else "or: make stacks"),
    )


def unreached(mpirun: Path) -> str:
    """Return a note that names the measured ``mpirun``, or an empty text if PATH has the same ``mpirun``."""
    on_path = shutil.which("mpirun")
    if on_path and mpirun.samefile(on_path):
        return ""
    return f"where mpirun is {mpirun}, which was measured; PATH has {on_path or 'none'}"


def _fits(installation: Installation, stack: str) -> bool:
    return stack in (
        "any",
        installation.flavour,
        f"{installation.flavour}{installation.version.partition('.')[0]}",
    )


def _launchers(origin: str, all_of_them: bool) -> Iterator[tuple[Path, str]]:
    """Yield (launcher, origin), the preferred launchers first.

    With ``all_of_them`` these are all launchers of the search path and of other virtual environments;
    otherwise only the first launcher on the search path and the launcher of the wheel.
    """
    wheel = _wheel()
    if origin != "wheel":
        site = [d for d in os.get_exec_path() if wheel is None or Path(d).resolve() != wheel.parent.resolve()]
        for folders in [[folder] for folder in site] if all_of_them else [site]:
            for name in ("mpirun", "mpiexec"):
                if path := _on_path(name, folders):
                    yield path, "site"
                    break
            for name in ("mpirun.openmpi", "mpirun.mpich") if all_of_them else ():  # names in Debian
                if path := _on_path(name, folders):
                    yield path, "site"
    if origin != "site":
        if wheel is not None:
            yield wheel, "wheel"
        for prefix in _other_environments() if all_of_them else ():
            if path := _on_path("mpiexec", [str(prefix / "bin")]):
                yield path, "wheel"


def _other_environments() -> list[Path]:
    environments = filter(None, os.environ.get(_STACKS, "").split(os.pathsep))
    return [
        *map(Path, environments),
        *(Path(f"{sys.prefix}-{name}") for name in ("openmpi41", "mpich", "intel")),
    ]


def run(
    command: Sequence[str], env: Mapping[str, str], errors: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, and return its exit code with everything that it printed.

    ``env`` is the command's whole environment. ``errors`` says where standard error goes, as the argument
    ``stderr`` of ``subprocess.run`` does.

    Raises:
        StackError: the command cannot be started or does not end in time.
    """
    try:
        return subprocess.run(
            list(command),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise StackError(f"{command[0]} does not answer within {_TIMEOUT_S:g} s") from exc
    except OSError as exc:
        raise StackError(f"{command[0]} does not answer: {exc.strerror or exc}") from exc


def output(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Return what a command prints to both output streams; ``env`` is added to its environment.

    Raises:
        StackError: the command cannot be started or does not end in time.
    """
    return run(command, {**os.environ, **(env or {})}, subprocess.STDOUT).stdout.decode(errors="replace")


def _inspect(mpirun: Path, origin: str) -> Installation:
    text = output([str(mpirun), "--version"])
    for flavour, dialect in implementations().items():
        if dialect.banner and (match := dialect.banner.search(text)):
            library = _library(mpirun, dialect.library_folders(mpirun), flavour)
            return Installation(flavour, match[1], mpirun, library, origin)
    first = text.strip().splitlines()[0] if text.strip() else "(nothing)"
    raise StackError(
        f"{mpirun} is no MPI launcher that is known here: it says {first!r}", allowed("", implementations())
    )


def _library(mpirun: Path, first: Sequence[Path], flavour: str) -> Path:
    """Return the path of ``libmpi`` of the installation that ``mpirun`` belongs to.

    The folders ``first`` are searched before the installation's own folders.
    """
    prefixes = dict.fromkeys((mpirun.parent.parent, mpirun.resolve().parent.parent))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    lib = ("lib", "lib64", f"lib/{multiarch}") if multiarch else ("lib", "lib64")
    folders = [*first, *(prefix / name for prefix in prefixes for name in lib)]
    debian = ("libmpich.so.[0-9]*",) if flavour == "mpich" else ()  # Debian's libmpi.so belongs to Open MPI
    for folder in folders:
        for pattern in (*debian, "libmpi.so.[0-9]*", "libmpi.so"):
            for candidate in sorted(folder.glob(pattern), key=lambda p: len(p.name)):
                if _begins_as_library(candidate.resolve()):  # libmpi.so can be a linker script
                    return candidate.resolve()
    raise StackError(f"no libmpi beside {mpirun}", f"looked in {', '.join(map(str, folders))}")


def _begins_as_library(file: Path) -> bool:
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _wheel() -> Path | None:
    """Return the launcher of an MPI that pip installed into this environment; None if pip installed none."""
    for name in (words.distribution for words in implementations().values()):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        launchers = {f.name: f for f in files if f.parent.name == "bin"}
        for launcher in ("mpirun", "mpiexec"):
            if launcher in launchers:
                return Path(os.path.normpath(str(launchers[launcher].locate())))
    launcher_here = Path(sys.prefix) / "bin" / "mpirun"
    return launcher_here if sys.prefix != sys.base_prefix and launcher_here.exists() else None


def _on_path(name: str, folders: Iterable[str]) -> Path | None:
    candidates = [Path(name)] if "/" in name else [Path(d) / name for d in folders if d]
    for candidate in candidates:
        with suppress(OSError):  # a folder that cannot be searched is skipped, as in shells
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate.absolute()
    return None
