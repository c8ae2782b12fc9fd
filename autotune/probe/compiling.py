"""C made into a shared library by the MPI's own compiler, once, where nobody else can have written it.

Standing below ``native`` and beside mpi4py's users: it needs no MPI in this process.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from autotune.errors import StackError
from autotune.probe.own_files import is_own, locked, make_own

_STALLED_S = 60.0
"""So long a compiler may do nothing at all until it is given up: file systems that are shared can be slow. It
may take any time to finish, as long as it goes on: on a busy machine it has a small part of a core."""
_LOOK_S = 1.0  # Between looks at what it does.
FLAGS = ("-O2", "-fPIC", "-shared", "-std=gnu11")


def compilers(library: Path, search: str) -> Iterator[Path]:
    """Compiler wrappers that may belong to an MPI library: beside it first, then the one in a search path."""
    for parent in list(library.parents)[1:5]:
        for name in ("mpicc", "mpicc.openmpi", "mpicc.mpich"):  # Debian has several under one roof
            if (parent / "bin" / name).exists():
                yield parent / "bin" / name
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
    """The first of some sources as a shared library for an MPI, by the first compiler that can; kept.

    Its place is named after all that it depends on: sources, MPI library and its version, compiler, flags.
    Where headers are included from a folder, any library with the same binary interface will do; otherwise
    what is made must be bound to this very one.

    Raises:
        StackError: no compiler does it; the message says what each of them said.
    """
    problems = []
    for compiler in dict.fromkeys(found for folder in search for found in compilers(library, folder)):
        key = "\0".join((*sources, str(library), str(compiler), version, *flags))
        place = f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:20]}.so"
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
    """The file that ``built`` makes, in the user's cache, else below the fallback."""
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
    """The shared library at a path, made there unless it exists and nobody else can have written it.

    ``library`` is the one that it must bring into a process, None: any or none.

    Raises:
        OSError: the directory cannot be written, or is not the user's own.
        StackError: the compiler failed, or belongs to another library.
    """
    make_own(path.parent)
    with locked(path.with_suffix(".lock")):
        if is_own(path):
            return path
        # The compiler's own files are in there as well. Who holds the lock is alone: what is there was left.
        for left in path.parent.glob(f"{path.stem}.*/"):
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=f"{path.stem}.", dir=path.parent) as folder:
            partial = Path(folder) / path.name
            argv = [str(compiler), *flags, "-x", "c", "-", "-o", str(partial)]
            code, said = _compiled(argv, text, {**os.environ, "TMPDIR": folder}, Path(folder))
            if code:
                words = said.strip().splitlines() or ["no message"]
                raise StackError(f"{compiler} failed: {words[0]}")
            if library is not None and library not in _linked(partial, library):
                raise StackError(f"{compiler} belongs to another MPI than {library}")
            partial.chmod(0o700)
            partial.replace(path)
    return path


def _compiled(argv: Sequence[str], text: str, env: Mapping[str, str], folder: Path) -> tuple[int, str]:
    """Exit code and messages of a compiler with a text as its input; nothing that it has started is left.

    Raises:
        StackError: it does not start, or neither computes nor writes any more.
    """
    source, messages = folder / "source.c", folder / "messages"
    source.write_text(text, encoding="utf-8")
    with source.open("rb") as given, messages.open("wb") as said:
        try:
            process = subprocess.Popen(
                argv, stdin=given, stdout=said, stderr=said, env=env, start_new_session=True
            )
        except OSError as exc:
            raise StackError(f"{argv[0]} did not run: {exc}") from exc
    try:
        code = _ended(process, folder)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code is None:
        raise StackError(f"{argv[0]} did nothing for {_STALLED_S:.0f} s and was ended")
    return code, messages.read_text(encoding="utf-8", errors="replace")


def _ended(process: "subprocess.Popen[bytes]", folder: Path) -> int | None:
    """The exit code of a compiler, which is not waited for once it has stalled: None."""
    before, since = None, time.monotonic()
    while time.monotonic() - since < _STALLED_S:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_S)
        if (now := _progress(process.pid, folder)) != before:
            before, since = now, time.monotonic()
    return None


def _progress(session: int, folder: Path) -> tuple[int, ...]:
    """Numbers that change while a compiler goes on: its processes, their ticks on a core, its files."""
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
    """Libraries that a shared object would load into this process; ``unknown`` where there is no ldd."""
    ldd = shutil.which("ldd")
    if ldd is None:
        return {unknown}
    done = subprocess.run([ldd, str(shared)], capture_output=True, text=True, check=False)
    return {Path(place).resolve() for place in re.findall(r"(?m)=> (/.+) \(0x[0-9a-f]+\)$", done.stdout)}
