"""Compilation of C into a shared library by the MPI's own compiler, once, where nobody else can write it.

The module is below ``native`` and used beside mpi4py's users: it needs no MPI in this process.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.errors import StackError
from autotune.probe.own_files import is_own, locked, make_own

if TYPE_CHECKING:
    import subprocess

_STALLED_S = 60.0
"""Seconds without any activity after which a compiler is ended: shared file systems can be slow. It may take
any time to finish as long as it is active, since on a busy machine it has a small part of a core."""
_LOOK_S = 1.0  # Seconds between two checks of a compiler's activity.
FLAGS = ("-O2", "-fPIC", "-shared", "-std=gnu11")


def compilers(library: Path, search: str) -> Iterator[Path]:
    """Yield compiler wrappers that may belong to a library: those beside it, then one in the search path."""
    for parent in list(library.parents)[1:5]:
        for name in ("mpicc", "mpicc.openmpi", "mpicc.mpich"):  # Debian installs several MPIs in one folder
            if (parent / "bin" / name).exists():
                yield parent / "bin" / name
    import shutil  # here and below: slow to load, and most launches find an earlier compilation

    wrapper = shutil.which("mpicc", path=search)
    if wrapper:
        yield Path(wrapper)


def compiled(
    name: str,
    sources: Sequence[str],
    library: Path,
    search: Iterable[str],
    fallback: Path,
    *,
    version: str,
    flags: Sequence[str] = FLAGS,
    include: Path | None = None,
    hint: str = "",
) -> Path:
    """Compile the first source that some compiler accepts, and return the path of the shared library.

    The library is kept, and its name is derived from all that it depends on: sources, MPI library and its
    version, compiler, flags.

    Args:
        name: Prefix of the file's name.
        sources: Texts in C, all of which enter the name; the first one is compiled.
        library: Path of the MPI library.
        search: Search paths in which a compiler may be.
        fallback: Directory for the file where the user's cache cannot be written.
        version: Version of the MPI library.
        flags: Options of the compiler.
        include: Folder of headers; then any library with the same binary interface will do. None: the result
            must be bound to this very MPI library.
        hint: Hint of the error.

    Raises:
        StackError: If no compiler succeeds; the message quotes the problem of each.
    """
    problems, attempted = [], set[Path]()
    for compiler in (candidate for folder in search for candidate in compilers(library, folder)):
        if compiler in attempted:
            continue
        attempted.add(compiler)
        key = "\0".join((*sources, str(library), str(compiler), version, *flags))
        place = f"{name}-{source_hash(key.encode()).hex()}.so"
        try:
            if include is None:
                return _stored(compiler, sources[0], place, fallback, library, flags)
            return _stored(compiler, sources[0], place, fallback, None, [*flags, f"-I{include}"])
        except StackError as exc:
            problems.append(exc.message)
    raise StackError("; ".join(dict.fromkeys(problems)) or f"no mpicc beside {library} nor in PATH", hint)


def _stored(
    compiler: Path, text: str, name: str, fallback: Path, library: Path | None, flags: Sequence[str]
) -> Path:
    """Return the file that ``built`` makes in the user's cache, or below the fallback."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune"
    try:
        return built(compiler, text, library, cache / name, flags)
    except OSError:
        pass  # no home on this node, or a full or read-only one
    try:
        return built(compiler, text, library, fallback / "kernel" / name, flags)
    except OSError as exc:
        raise StackError(f"neither {cache} nor {fallback} can be written: {exc}") from exc


def built(compiler: Path, text: str, library: Path | None, path: Path, flags: Sequence[str] = FLAGS) -> Path:
    """Return the path of a shared library, compiled there unless it exists and is the user's own.

    Args:
        compiler: Path of the compiler.
        text: The source in C.
        library: The MPI library that the result must load; None: any or none.
        path: Where the result is stored.
        flags: Options of the compiler.

    Raises:
        OSError: If the directory cannot be written, or is not the user's own.
        StackError: If the compiler fails, or belongs to another library.
    """
    make_own(path.parent)
    with locked(path.with_suffix(".lock")):
        if is_own(path):
            return path
        import shutil
        import tempfile

        # Folders of compilers that were killed: whoever holds the lock is the only one at work here.
        for leftover in path.parent.glob(f"{path.stem}.*/"):
            shutil.rmtree(leftover, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{path.stem}.", dir=path.parent) as folder:
            partial = Path(folder) / path.name
            argv = [str(compiler), *flags, "-x", "c", "-", "-o", str(partial)]
            code, output = _compiled(argv, text, {**os.environ, "TMPDIR": folder}, Path(folder))
            if code:
                words = output.strip().splitlines() or ["no message"]
                raise StackError(f"{compiler} failed: {words[0]}")
            if library is not None and library not in _linked(partial, library):
                raise StackError(f"{compiler} belongs to another MPI than {library}")
            partial.chmod(0o700)
            partial.replace(path)
    return path


def _compiled(argv: Sequence[str], text: str, env: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Run a compiler with a text as its input, and return its exit code and messages.

    No process that it has started is left.

    Raises:
        StackError: If it does not start, or stalls.
    """
    import signal
    import subprocess

    source, messages = folder / "source.c", folder / "messages"
    source.write_text(text, encoding="utf-8")
    with source.open("rb") as stdin, messages.open("wb") as output:
        try:
            process = subprocess.Popen(
                argv, stdin=stdin, stdout=output, stderr=output, env=env, start_new_session=True
            )
        except OSError as exc:
            raise StackError(f"{argv[0]} did not run: {exc}") from exc
    try:
        code = _exit_code(process, folder)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code is None:
        raise StackError(f"{argv[0]} did nothing for {_STALLED_S:.0f} s and was ended")
    return code, messages.read_text(encoding="utf-8", errors="replace")


def _exit_code(process: "subprocess.Popen[bytes]", folder: Path) -> int | None:
    """Return the exit code of a compiler; None once it has stalled."""
    import subprocess

    last_progress, since = None, time.monotonic()
    while time.monotonic() - since < _STALLED_S:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        if (progress := _progress(process.pid, folder)) != last_progress:
            last_progress, since = progress, time.monotonic()
    return None


def _progress(session: int, folder: Path) -> tuple[int, ...]:
    """Return numbers that change while a compiler is active: its processes, their ticks, its files."""
    processes, ticks = 0, 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()  # proc(5)
            if int(words[3]) == session:
                processes += int(stat.parent.name)
                ticks += int(words[11]) + int(words[12]) + int(words[13]) + int(words[14])
    sizes = 0
    for file in folder.iterdir():
        with suppress(OSError):
            sizes += file.stat().st_size
    return processes, ticks, sizes


def _linked(shared: Path, unknown: Path) -> set[Path]:
    """Return the libraries that a shared object would load into this process; ``unknown`` without ldd."""
    import shutil
    import subprocess

    ldd = shutil.which("ldd")
    if ldd is None:
        return {unknown}
    process = subprocess.run([ldd, str(shared)], capture_output=True, text=True, check=False)
    return {Path(place).resolve() for place in re.findall(r"(?m)=> (/.+) \(0x[0-9a-f]+\)$", process.stdout)}
