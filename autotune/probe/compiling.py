"""Compile C code once into a shared library by the MPI's own compiler, where nobody else can write.

Programs without MPI also use this module, since it does not load MPI into their process.
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
"""Seconds without any activity after which a compiler is ended: shared file systems can be slow.

An active compiler may take any time, since on a busy machine it gets only a small part of a core."""
_LOOK_S = 1.0  # Seconds between two checks of a compiler's activity.
FLAGS = ("-O2", "-fPIC", "-shared", "-std=gnu11")  # Options of the compiler for a shared library.


def compilers(library: Path, search: str) -> Iterator[Path]:
    """Yield MPI compilers (``mpicc``): those next to an MPI library, then one in the search path."""
    for parent in list(library.parents)[1:5]:
        for name in ("mpicc", "mpicc.openmpi", "mpicc.mpich"):  # names with a suffix are Debian's
            if (parent / "bin" / name).exists():
                yield parent / "bin" / name
    import shutil  # imported here and below, as it is slow to load and most launches need no compilation

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
    """Compile a source with the first compiler that succeeds, and return the path of the shared library.

    The shared library is saved for later launches. Its name is derived from all that it depends on: sources,
    MPI library and its version, compiler, options.

    Args:
        name: Prefix of the file's name.
        sources: Texts in C. The first one is compiled; the others only enter the file's name.
        library: Path of the MPI library.
        search: Search paths in which a compiler may be.
        fallback: Directory for the file if the user's cache cannot be written.
        version: Version of the MPI library.
        flags: Options of the compiler.
        include: Folder of headers to compile against; then the result may be linked to any MPI library with
            the same binary interface. None: the result must be linked to ``library``.
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
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "autotune"
    try:
        return built(compiler, text, library, cache / name, flags)
    except OSError:
        pass  # there is no home directory on this node, or it is full or read-only
    try:
        return built(compiler, text, library, fallback / "kernel" / name, flags)
    except OSError as exc:
        raise StackError(f"neither {cache} nor {fallback} can be written: {exc}") from exc


def built(compiler: Path, text: str, library: Path | None, path: Path, flags: Sequence[str] = FLAGS) -> Path:
    """Compile a source in C to ``path``, unless the user's own file is there already, and return ``path``.

    Args:
        compiler: Path of the compiler.
        text: The source in C.
        library: The MPI library that the result must load; None: the result may load any library or none.
        path: Path of the shared library.
        flags: Options of the compiler.

    Raises:
        OSError: If the directory cannot be written, or is not the user's own.
        StackError: If the compiler fails, or belongs to another MPI library.
    """
    make_own(path.parent)
    with locked(path.with_suffix(".lock")):
        if is_own(path):
            return path
        import shutil
        import tempfile

        # Remove temporary folders of compilations that were killed: with the lock, no other one is running.
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
    """Return the exit code and messages of a compiler, and kill whatever it has started."""
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
            raise StackError(f"{argv[0]} did not run: {exc.strerror or exc}") from exc
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
    import subprocess

    last_progress, since = None, time.monotonic()
    while time.monotonic() - since < _STALLED_S:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        if (progress := _progress(process.pid, folder)) != last_progress:
            last_progress, since = progress, time.monotonic()
    return None


def _progress(session: int, folder: Path) -> tuple[int, ...]:
    """Return figures about a compiler's processes and files, which change while the compiler is active."""
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
    """Return the libraries that ldd lists for a shared object; ``unknown`` alone if there is no ldd."""
    import shutil
    import subprocess

    ldd = shutil.which("ldd")
    if ldd is None:
        return {unknown}
    process = subprocess.run([ldd, str(shared)], capture_output=True, text=True, check=False)
    return {Path(place).resolve() for place in re.findall(r"(?m)=> (/.+) \(0x[0-9a-f]+\)$", process.stdout)}
