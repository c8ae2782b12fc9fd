"""Which MPI is used: the scenario's, else the site's own, else the PyPI wheel beside this interpreter."""

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

_STACKS = "AUTOTUNE_STACKS"  # Names environments with an MPI each, beside those of ``make stacks``.
_TIMEOUT_S = 60.0  # Until a command is given up.


@dataclass(frozen=True, slots=True)
class Installation:
    """One MPI on this machine."""

    flavour: str  # ``openmpi``, ``mpich`` or ``intelmpi``.
    version: str  # As its launcher says.
    mpirun: Path  # The launcher.
    library: Path  # The MPI library that belongs to it, links resolved.
    origin: str  # Why this one: ``scenario``, ``site`` or ``wheel``.


def find(mpirun: str | None = None, origin: str = "auto", stack: str = "any") -> Installation:
    """The MPI that the scenario gives by path or name, else by ``auto`` the site's own, else the wheel.

    A stack is a flavour, with or without its major version (``openmpi4``); others than the first one that is
    found are looked for along the search path, then in this interpreter's environment and in those beside it.

    Raises:
        StackError: there is none, it does not answer, or it is none that this project knows.
    """
    if origin not in ("auto", "site", "wheel"):
        raise StackError(f"mpi.from={origin!r}", allowed(origin, ("auto", "site", "wheel")))
    if mpirun:
        path = _on_path(mpirun, os.get_exec_path())
        if path is None:
            raise StackError(
                f"mpi.mpirun={mpirun!r} is not an executable", "give the path of an mpirun, or leave it out"
            )
        found = _inspect(path, "scenario")
        if not _is(found, stack):
            raise StackError(
                f"mpi.mpirun={mpirun} is {found.flavour} {found.version}, asked for is mpi={stack}",
                "leave one of the two out",
            )
        return found
    seen = []
    for path, whence in _launchers(origin, stack != "any"):
        try:
            found = _inspect(path, whence)
        except StackError:
            if stack == "any":
                raise
            continue  # a launcher that is none of ours does not hide one that was named
        if _is(found, stack):
            return found
        seen.append(f"{found.flavour} {found.version}")
    wanted = "mpirun" if stack == "any" else stack
    raise StackError(
        f"no {wanted} found"
        + ("" if origin == "auto" else f" with mpi.from={origin}")
        + (f", only {', '.join(dict.fromkeys(seen))}" if seen else ""),
        "load your MPI module, set mpi.mpirun=/path/to/mpirun, "
        + (f"or: {installing('openmpi')}" if stack == "any" else "or: make stacks"),
    )


def unreached(mpirun: Path) -> str:
    """For a user whose search path does not lead to this launcher, which one was measured; empty: it does."""
    found = shutil.which("mpirun")
    if found and mpirun.samefile(found):
        return ""
    return f"where mpirun is {mpirun}, which was measured; PATH has {found or 'none'}"


def _is(found: Installation, stack: str) -> bool:
    return stack in ("any", found.flavour, f"{found.flavour}{found.version.partition('.')[0]}")


def _launchers(origin: str, all_of_them: bool) -> Iterator[tuple[Path, str]]:
    """Launchers where one is to be looked for, with why; only the first of the search path, or all of it."""
    wheel = _wheel()
    if origin != "wheel":
        site = [d for d in os.get_exec_path() if wheel is None or Path(d).resolve() != wheel.parent.resolve()]
        for folders in [[folder] for folder in site] if all_of_them else [site]:
            for name in ("mpirun", "mpiexec"):
                if path := _on_path(name, folders):
                    yield path, "site"
                    break
            for name in ("mpirun.openmpi", "mpirun.mpich") if all_of_them else ():  # Debian's, side by side
                if path := _on_path(name, folders):
                    yield path, "site"
    if origin != "site":
        if wheel is not None:
            yield wheel, "wheel"
        for prefix in _beside() if all_of_them else ():
            if path := _on_path("mpiexec", [str(prefix / "bin")]):
                yield path, "wheel"


def _beside() -> list[Path]:
    named = filter(None, os.environ.get(_STACKS, "").split(os.pathsep))
    return [*map(Path, named), *(Path(f"{sys.prefix}-{name}") for name in ("openmpi41", "mpich", "intel"))]


def run(
    command: Sequence[str], env: Mapping[str, str], errors: int = subprocess.PIPE
) -> subprocess.CompletedProcess[bytes]:
    """A command that ended, with what it printed; ``errors`` is where its standard error goes.

    Raises:
        StackError: it cannot be started or does not end in time.
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
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise StackError(f"{command[0]} does not answer: {exc}") from exc


def output(command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """Output of a command, both streams.

    Raises:
        StackError: it cannot be started or does not end in time.
    """
    return run(command, {**os.environ, **(env or {})}, subprocess.STDOUT).stdout.decode(errors="replace")


def _inspect(mpirun: Path, origin: str) -> Installation:
    text = output([str(mpirun), "--version"])
    for flavour, known in implementations().items():
        if known.banner and (match := known.banner.search(text)):
            library = _library(mpirun, known.library_folders(mpirun), flavour)
            return Installation(flavour, match[1], mpirun, library, origin)
    first = text.strip().splitlines()[0] if text.strip() else "(nothing)"
    raise StackError(
        f"{mpirun} is no MPI launcher that is known here: it says {first!r}", allowed("", implementations())
    )


def _library(mpirun: Path, first: Sequence[Path], flavour: str) -> Path:
    """``libmpi`` of the installation that ``mpirun`` belongs to; ``first``: folders that come first."""
    prefixes = dict.fromkeys((mpirun.parent.parent, mpirun.resolve().parent.parent))
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    lib = ("lib", "lib64", f"lib/{multiarch}") if multiarch else ("lib", "lib64")
    folders = [*first, *(prefix / name for prefix in prefixes for name in lib)]
    own = ("libmpich.so.[0-9]*",) if flavour == "mpich" else ()  # Debian's, beside Open MPI's libmpi.so
    for folder in folders:
        for pattern in (*own, "libmpi.so.[0-9]*", "libmpi.so"):
            for candidate in sorted(folder.glob(pattern), key=lambda p: len(p.name)):
                if _begins_as_library(candidate.resolve()):  # libmpi.so can be a linker script
                    return candidate.resolve()
    raise StackError(f"no libmpi beside {mpirun}", f"looked in {', '.join(map(str, folders))}")


def _begins_as_library(file: Path) -> bool:
    """Whether a file is in the format of libraries."""
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"\x7fELF"


def _wheel() -> Path | None:
    """The launcher of an MPI that was installed by pip into this interpreter's environment."""
    for name in (known.distribution for known in implementations().values()):
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue
        launchers = {f.name: f for f in files if f.parent.name == "bin"}
        for launcher in ("mpirun", "mpiexec"):
            if launcher in launchers:
                return Path(os.path.normpath(str(launchers[launcher].locate())))
    beside = Path(sys.prefix) / "bin" / "mpirun"
    return beside if sys.prefix != sys.base_prefix and beside.exists() else None


def _on_path(name: str, folders: Iterable[str]) -> Path | None:
    candidates = [Path(name)] if "/" in name else [Path(d) / name for d in folders if d]
    for candidate in candidates:
        with suppress(OSError):  # of a folder that cannot be searched, as a shell passes over it
            if candidate.is_file() and os.access(candidate, os.X_OK):
                return candidate.absolute()
    return None
