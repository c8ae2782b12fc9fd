"""Ends what a launch or a driver that was killed has left running; a program of its own, beside and between.

Beside a driver it reads the start and the process groups of its launches from its standard input, and sleeps
in between: a measurement pays nothing for it. The end of the input is the end of the driver, whatever ended
that; then the last launch is ended, if it still runs. Between a driver and its launch it is the parent of all
whose own one has ended (``PR_SET_CHILD_SUBREAPER``, prctl(2)): so it finds daemons that left group, session
and environment behind, and nobody who was not started by the launch. It hears from the kernel when the driver
ends (``PR_SET_PDEATHSIG``), and the launch is killed when it is killed itself.

Of the driver, the guard and the parent any one suffices: it ends the launch and removes what it leaves,
whoever of the others is killed, and when. The standard library alone, since it is started with no other path.
"""

import contextlib
import ctypes
import errno
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

MARKER = "AUTOTUNE_LAUNCH"
"""Name of the environment variable that marks every process of one launch: ``driver:launches:launch``."""
SHARED = Path("/dev/shm")  # noqa: S108 - the libraries' own place
"""Where ranks of one node share memory."""
SEGMENTS = (
    *("open_mpi.", "sm_segment.", "vader_segment.", "osc_sm.", "osc_rdma."),  # Open MPI
    *(
        "ucx_shm_posix_",
        "mpich_shm_",
        "mpich_shar_tmp",
        "Intel_MPI_",
        "ib_shmem",
        "ib_pool-",
    ),  # MVAPICH's last
    *("psm2_shm.", "psm3_shm."),
    "autotune-heat-",  # the jobs of a heat, until all have come
)
"""How the names begin that MPI libraries, and our own ranks, give it."""
SESSION = "ompi."
"""How the name begins, before its pid, of the directory that ``mpirun`` of Open MPI 5 has while it runs."""
SWEEP, LAUNCH = "sweep", "launch"
"""First word of the program where it removes what was left since so many seconds, or is a launch's parent."""

_FORCED_S, _ROUND_S = 30.0, 0.05
"""So long at most, and in rounds so long apart, are those ended by force who still come to be: the end of a
killed process takes seconds on a busy machine, and does not come while it waits for a dead file system."""
_BECOMING_S = 1.0
"""So long is waited for a process between two programs to have an environment; some never have one."""
_DEATH_SIGNAL, _SUBREAPER, _DUMPABLE = 1, 36, 4
"""``PR_SET_PDEATHSIG``, ``PR_SET_CHILD_SUBREAPER`` and ``PR_SET_DUMPABLE`` of ``linux/prctl.h``."""
_EXITING, _KERNEL = 0x4, 0x200000
"""``PF_EXITING`` and ``PF_KTHREAD`` of ``linux/sched.h``: flags of who ends, and of the kernel's own."""


def end(group: int, ours: Callable[[str], bool], grace_s: float) -> set[int]:
    """End a launch politely, then all that is left of it, or carries a mark, by force.

    Args:
        group: That of its ``supervise``; below 0: a process alone, by its pid; 0: it is not known.
        ours: Whether a mark, a value of ``MARKER``, is of what is to be ended.
        grace_s: Between both. A second Ctrl-C or SIGTERM of a caller that blocks them ends the wait.

    Returns:
        Pids of those that were ended by force, for ``sweep``.
    """
    _signal(group, signal.SIGTERM)
    _signal(group, signal.SIGCONT)  # a launch may have stopped its parent, who alone finds its daemons
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (_lives(group) or any(marked(ours))):
        if signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
            break
        time.sleep(_ROUND_S)
    _signal(group, signal.SIGTERM)
    killed: set[int] = set()
    deadline = time.monotonic() + _FORCED_S
    while time.monotonic() < deadline:
        left = set(marked(ours))
        killed |= left  # who is dying has no environment any more, and holds its shared memory open
        if not (_lives(group) or any(map(_runs, killed))):
            return killed
        _kill(left)
        time.sleep(_ROUND_S)
    _signal(group, signal.SIGKILL)
    return killed


def supervise(errors: int, driver: int, grace_s: float, mark: str, words: list[str]) -> int:
    """Run a command in a session of its own, and end whatever of it is left when it has ended.

    SIGTERM is handed on; the second one ends all by force, and before it whoever is left has time. The end of
    the driver counts as the first one, where there was none, and some time later as the second one.

    Args:
        errors: Descriptor that takes the number of the error where the command cannot be started; closed
            where it is.
        driver: Pid of this process's own parent.
        grace_s: Between a driver's end and the end by force.
        mark: Value of ``MARKER`` in its environment.
        words: The command.

    Returns:
        Its exit code; where a signal ended it, the same one ends this process.
    """
    since_s, heard = time.time(), {signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
    _prctl(_SUBREAPER, 1)
    if not _follows(driver, signal.SIGHUP):
        return 128 + signal.SIGKILL
    os.set_inheritable(errors, False)
    main = _begun(errors, before - heard, {**os.environ, MARKER: mark}, words)
    os.close(errors)
    ended, asked, forced_at, until, killed = None, 0, math.inf, math.inf, {main}
    while time.monotonic() < until:
        try:
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                ended = found[1] if found[0] == main else ended
        except ChildProcessError:
            break
        forced = asked > 1 or (ended is not None and not asked) or time.monotonic() >= forced_at
        if forced:
            until = min(until, time.monotonic() + _FORCED_S)
            _kill(left := set(_children()))
            killed |= left
        wait_s = _ROUND_S if forced else min(3600.0, max(0.0, forced_at - time.monotonic()))
        received = signal.sigtimedwait(heard, wait_s)
        number = received.si_signo if received is not None else signal.SIGCHLD
        if number == signal.SIGHUP:
            forced_at = time.monotonic() + grace_s
        if number == signal.SIGTERM or (number == signal.SIGHUP and not asked):
            asked += 1
            _signal(main if ended is None else 0, signal.SIGTERM)
    sweep(since_s, killed)
    return _as(os.waitstatus_to_exitcode(ended) if ended is not None else 128 + signal.SIGKILL)


def _begun(errors: int, mask: Iterable[int], env: Mapping[str, str], words: list[str]) -> int:
    """Pid of a command in a session of its own, which is killed with this process; see ``supervise``."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        if _follows(parent, signal.SIGKILL):
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(words[0], words, env)  # noqa: S606 - no shell is meant to read it
    except OSError as exc:
        os.write(errors, b"%d" % (exc.errno or errno.ENOEXEC))
    finally:
        os._exit(127)


def _follows(parent: int, number: signal.Signals) -> bool:
    """Have the kernel send this signal when the parent ends; whether that is still there."""
    _prctl(_DEATH_SIGNAL, number)
    return os.getppid() == parent


def sweep(since_s: float, ended: Iterable[int] = ()) -> None:
    """Remove what a launch has left that crashed, was killed, or whose library forgot it.

    Nobody else would. Of shared memory Open MPI tries 128 names and then takes another kind of memory, for
    everybody on the machine and without a sign in any result; in the directory of a killed ``mpirun`` a later
    one that is given the same pid fails (openpmix issue 4022). Only what this user made since then: of
    directories our own alone, as others' processes cannot be seen from a container, nor on another node; of
    files what no process has open that goes on: from one that ends the kernel takes its memory first, which
    can last seconds, and closes its files afterwards.

    Args:
        since_s: Start of the launch, seconds since the epoch.
        ended: Pids of the launch's processes that have ended.
    """
    gone = {f"{SESSION}{pid}" for pid in ended if not _runs(pid)}
    for folder in _made(since_s, Path(os.environ.get("TMPDIR") or "/tmp"), SESSION):  # noqa: S108 - as it does
        if folder.name in gone:
            import shutil  # slow to load, and most launches leave nothing

            shutil.rmtree(folder, ignore_errors=True)
    left = [path for prefix in SEGMENTS for path in _made(since_s, SHARED, prefix)]
    used = set(_open_files()) if left else set()
    for path in left:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _made(since_s: float, folder: Path, prefix: str) -> Iterator[Path]:
    """Paths there that this user has made or changed since then, of names that begin so."""
    for path in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            seen = path.lstat()
            if seen.st_uid == os.getuid() and seen.st_mtime >= since_s:
                yield path


def _open_files() -> Iterator[str]:
    """Files that any process that goes on has open or mapped, as far as they may be seen."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and not _flags(folder) & _EXITING:
            with contextlib.suppress(OSError):
                for link in (folder / "fd").iterdir():  # first: who maps a file closes it afterwards
                    with contextlib.suppress(OSError):
                        yield str(link.readlink())
                maps = os.fsdecode((folder / "maps").read_bytes())
                yield from (line.rpartition(" ")[2] for line in maps.splitlines())


def marked(ours: Callable[[str], bool]) -> Iterator[int]:
    """Pids of living processes whose environment carries such a mark."""
    name = f"{MARKER}=".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                variables = _environment(folder).split(b"\0")
                marks = (os.fsdecode(v[len(name) :]) for v in variables if v.startswith(name))
                if any(map(ours, marks)):
                    yield int(folder.name)


def _environment(folder: Path) -> bytes:
    """A process's environment; one that becomes another program has neither this nor words for a moment."""
    deadline = time.monotonic() + _BECOMING_S
    while not (found := (folder / "environ").read_bytes()):
        if (
            _flags(folder) & (_EXITING | _KERNEL)
            or (folder / "cmdline").read_bytes()
            or time.monotonic() > deadline
        ):
            break
        time.sleep(_ROUND_S / 10)
    return found


def _children() -> Iterator[int]:
    """Pids of this process's children, adopted ones too."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if int(_stat(folder)[1]) == os.getpid():
                    yield int(folder.name)


def _stat(folder: Path) -> list[str]:
    """A process's fields after its name: its state, its parent and more, see proc(5)."""
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _flags(folder: Path) -> int:
    """The kernel's flags of a process; those of one that ends where it is no longer there."""
    try:
        return int(_stat(folder)[6])
    except OSError:
        return _EXITING


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _as(code: int) -> int:
    """End as somebody else has: the exit code, below 0 the number of the signal; no second core is dumped."""
    if code < 0:
        _prctl(_DUMPABLE, 0)
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    return code


def _prctl(option: int, value: int) -> None:
    """Set an attribute of this process in the kernel; one that does not know it goes on without."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(group: int, number: int) -> None:
    if group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-group, number)


def _lives(group: int) -> bool:
    """Whether a member of the group is still there, but for one that only waits for its parent."""
    if not group:
        return False
    try:
        os.kill(-group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _runs(abs(group), unknown=True)


def _runs(pid: int, unknown: bool = False) -> bool:
    """Whether a process is there, and not only waited for."""
    with contextlib.suppress(OSError, IndexError):
        return _stat(Path(f"/proc/{pid}"))[0] != "Z"
    return unknown


def main(driver: str, grace_s: float) -> None:
    """Wait for the end of the driver, then of the launches that were under way."""
    since_s, groups = 0.0, list[int]()
    for line in sys.stdin:
        start, *numbers = line.split()
        since_s, groups = float(start), list(map(int, numbers))
    deadline = time.monotonic() + grace_s + _FORCED_S
    launches = [group for group in groups if group > 0]
    while time.monotonic() < deadline and any(map(_lives, launches)):  # they end themselves
        time.sleep(_ROUND_S)
    killed = set[int]()
    for group in groups or [0]:
        killed |= end(group, lambda mark: mark.startswith(driver), grace_s if _lives(group) else 0.0)
    if since_s:
        sweep(since_s, killed)


if __name__ == "__main__":
    if sys.argv[1] == LAUNCH:
        descriptor, pid, seconds, mark, *words = sys.argv[2:]
        sys.exit(supervise(int(descriptor), int(pid), float(seconds), mark, words))
    elif sys.argv[1] == SWEEP:
        sweep(time.time() - float(sys.argv[2]))
    else:
        main(sys.argv[1], float(sys.argv[2]))
