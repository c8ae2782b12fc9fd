"""End the processes that a killed launch or driver has left running; a separate program with two roles.

The *driver* is the process that makes the launches. In the first role, as a *guard*, this program runs next
to a driver and reads the start times and process groups of the driver's launches from its standard input.
Between two launches it sleeps, so that it does not disturb measurements. Its input ends when the driver ends,
for whatever reason; then the guard ends the last launch if the launch still runs.

In the second role, this program is the *parent* of one launch, between it and the driver. It becomes the
parent of all processes of the launch whose own parent has ended (``PR_SET_CHILD_SUBREAPER``, prctl(2)). So it
finds even daemons that left the launch's process group, session and environment, but no process that the
launch did not start. The kernel notifies the parent when the driver ends (``PR_SET_PDEATHSIG``), and kills
the launch when the parent is killed.

Each of driver, guard and parent is able to end the launch alone and to remove the launch's leftovers, even if
the other two were killed. This module uses the standard library alone, since it is started without other
paths to packages.
"""

import contextlib
import ctypes
import errno
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

MARKER = "AUTOTUNE_LAUNCH"
"""Name of the environment variable that marks every process of a launch. Its value is the name of the driver,
the folder of the campaign's launches and an id of the launch, separated by colons."""
SHARED = Path("/dev/shm")  # noqa: S108 - the libraries use it
"""Directory with the shared memory of the ranks of a node."""
SEGMENTS = (
    *("open_mpi.", "sm_segment.", "vader_segment.", "osc_sm.", "osc_rdma."),  # Open MPI
    *("ucx_shm_posix_", "mpich_shm_", "mpich_shar_tmp", "Intel_MPI_"),
    *("ib_shmem", "ib_pool-"),  # MVAPICH
    *("psm2_shm.", "psm3_shm."),
    "autotune-heat-",  # shared by launches that take turns (a heat), until all of them have attached to it
)
"""Prefixes of the names of shared memory that MPI libraries, or this project's ranks, create."""
SESSION = "ompi."
"""Prefix of the name of a directory that ``mpirun`` of Open MPI 5 has while it runs; its pid follows."""
SWEEP, LAUNCH = "sweep", "launch"
"""First word of the program's arguments. With ``SWEEP`` the program removes the leftovers that are younger
than the given number of seconds, with ``LAUNCH`` it runs a launch as the parent of the launch."""

_FORCED_S, _ROUND_S = 30.0, 0.05
"""Time limit in seconds for ending processes by force, and the pause between rounds. On a busy machine a
killed process takes seconds to end, and a process that waits for a dead file system never ends."""
_BECOMING_S = 1.0  # Seconds to wait for the environment of a process that begins to execute a program.
_DEATH_SIGNAL, _SUBREAPER, _DUMPABLE = 1, 36, 4
"""``PR_SET_PDEATHSIG``, ``PR_SET_CHILD_SUBREAPER`` and ``PR_SET_DUMPABLE`` of ``linux/prctl.h``."""
_EXITING, _KERNEL = 0x4, 0x200000
"""``PF_EXITING`` and ``PF_KTHREAD`` of ``linux/sched.h``: flags of ending processes and of kernel threads."""


def end(groups: Sequence[int], is_target: Callable[[str], bool], grace_s: float) -> set[int]:
    """Ask launches to end, then kill all of their processes that are left; return the pids of the killed.

    Args:
        groups: Process groups of the launches' parents (``supervise``), as far as they are known.
        is_target: Whether a mark (a value of ``MARKER``) belongs to a process that is to be ended.
        grace_s: Time between asking and killing, in seconds. A second Ctrl-C or SIGTERM ends the wait if the
            caller blocks these signals.
    """
    _signal(groups, signal.SIGTERM)
    _signal(groups, signal.SIGCONT)  # a launch may have stopped its parent, which is needed to find daemons
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (any(map(_lives, groups)) or any(marked(is_target))):
        if signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
            break
        time.sleep(_ROUND_S)
    _signal(groups, signal.SIGTERM)
    killed: set[int] = set()
    deadline = time.monotonic() + _FORCED_S
    while time.monotonic() < deadline:
        remaining = set(marked(is_target))
        killed |= remaining  # a dying process has no environment any more, but still has shared memory open
        if not (any(map(_lives, groups)) or any(map(_runs, killed))):
            return killed
        _kill(remaining)
        time.sleep(_ROUND_S)
    _signal(groups, signal.SIGKILL)
    return killed


def supervise(errors: int, driver: int, grace_s: float, mark: str, words: list[str]) -> int:
    """Run a command in a session of its own; when it has ended, kill all processes that it has left.

    A first SIGTERM is passed on to the command; a second one kills all of its processes. The end of the
    driver counts as a first SIGTERM, if there was none, and ``grace_s`` later as a second.

    Args:
        errors: File descriptor to which the error number is written if the command cannot be started; it is
            closed when the command has started.
        driver: Pid of the driver, the parent of this process.
        grace_s: Time between the driver's end and the killing, in seconds.
        mark: Value of ``MARKER`` in the command's environment.
        words: The command, whose exit code is returned; a signal that ends it ends this process, too.
    """
    since_s, handled = time.time(), {signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    _prctl(_SUBREAPER, 1)
    if not _follows(driver, signal.SIGHUP):
        return 128 + signal.SIGKILL
    os.set_inheritable(errors, False)
    main = _fork_command(errors, previous_mask - handled, {**os.environ, MARKER: mark}, words)
    os.close(errors)
    wait_status, n_requests, forced_at, give_up_at, killed = None, 0, math.inf, math.inf, {main}
    while time.monotonic() < give_up_at:
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                wait_status = reaped[1] if reaped[0] == main else wait_status
        except ChildProcessError:
            break
        ended_alone = wait_status is not None and not n_requests
        if forced := n_requests > 1 or ended_alone or time.monotonic() >= forced_at:
            give_up_at = min(give_up_at, time.monotonic() + _FORCED_S)
            _kill(children := set(_children()))
            killed |= children
        wait_s = _ROUND_S if forced else min(3600.0, max(0.0, forced_at - time.monotonic()))
        received = signal.sigtimedwait(handled, wait_s)
        number = received.si_signo if received is not None else signal.SIGCHLD
        if number == signal.SIGHUP:
            forced_at = time.monotonic() + grace_s
        if number == signal.SIGTERM or (number == signal.SIGHUP and not n_requests):
            n_requests += 1
            _signal([main] if wait_status is None else [], signal.SIGTERM)
    sweep(since_s, killed)
    if wait_status is None:
        return 128 + signal.SIGKILL
    return _end_alike(os.waitstatus_to_exitcode(wait_status))


def _fork_command(errors: int, mask: Iterable[int], env: Mapping[str, str], words: list[str]) -> int:
    """Start a command in a session of its own and return its pid; the command is killed with this process."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        if _follows(parent, signal.SIGKILL):
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these, a command should not
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(words[0], words, env)  # noqa: S606 - no shell should read the words
    except OSError as exc:
        os.write(errors, b"%d" % (exc.errno or errno.ENOEXEC))
    finally:
        os._exit(127)


def _follows(parent: int, number: signal.Signals) -> bool:
    """Let the kernel signal this process when the parent ends; return whether the parent still exists."""
    _prctl(_DEATH_SIGNAL, number)
    return os.getppid() == parent


def sweep(since_s: float, ended_pids: Iterable[int] = ()) -> None:
    """Remove files that a launch has left because it crashed, was killed, or its library forgot them.

    Nothing else removes these files, and they do harm. Open MPI tries 128 names for shared memory; if all
    exist, it uses another kind of memory, for all users of the machine and without a trace in any result. If
    a killed ``mpirun`` has left its directory, a later ``mpirun`` that gets the same pid fails (openpmix
    issue 4022).

    Only files that this user made since the start of the launch are removed. Directories are removed only if
    they belong to the launch's own processes, since other processes cannot be seen from a container or from
    another node. Files are removed only if no running process has them open. Processes that are ending do not
    count: the kernel first releases their memory, which can take seconds, and closes their files afterwards.
    """
    session_names = {f"{SESSION}{pid}" for pid in ended_pids if not _runs(pid)}
    for folder in _paths_since(since_s, Path(os.environ.get("TMPDIR") or "/tmp"), SESSION):  # noqa: S108 - as in mpirun
        if folder.name in session_names:
            import shutil  # slow to load, and seldom needed

            shutil.rmtree(folder, ignore_errors=True)
    leftovers = [path for prefix in SEGMENTS for path in _paths_since(since_s, SHARED, prefix)]
    used = set(_open_files()) if leftovers else set()
    for path in leftovers:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _paths_since(since_s: float, folder: Path, prefix: str) -> Iterator[Path]:
    """Yield paths in a folder that begin with a prefix and that this user made or changed since a time."""
    for path in folder.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            if status.st_uid == os.getuid() and status.st_mtime >= since_s:
                yield path


def _open_files() -> Iterator[str]:
    """Yield the files that are open or mapped in visible processes, except in processes that are ending."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and not _flags(folder) & _EXITING:
            with contextlib.suppress(OSError):
                # Descriptors are read before maps, since a process first maps a file and then closes it.
                for link in (folder / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield str(link.readlink())
                maps = os.fsdecode((folder / "maps").read_bytes())
                yield from (line.rpartition(" ")[2] for line in maps.splitlines())


def marked(is_target: Callable[[str], bool]) -> Iterator[int]:
    """Yield pids of living processes whose environment carries a mark that ``is_target`` accepts."""
    name = f"{MARKER}=".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                variables = _environment(folder).split(b"\0")
                marks = (os.fsdecode(v[len(name) :]) for v in variables if v.startswith(name))
                if any(map(is_target, marks)):
                    yield int(folder.name)


def _environment(folder: Path) -> bytes:
    """Return a process's environment; wait for it while the process begins to execute a new program."""
    deadline = time.monotonic() + _BECOMING_S
    while not (content := (folder / "environ").read_bytes()) and time.monotonic() <= deadline:
        if _flags(folder) & (_EXITING | _KERNEL) or (folder / "cmdline").read_bytes():
            break
        time.sleep(_ROUND_S / 10)
    return content


def _children() -> Iterator[int]:
    """Yield pids of this process's children, including those that it got from the kernel as a subreaper."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                if int(_stat(folder)[1]) == os.getpid():
                    yield int(folder.name)


def _stat(folder: Path) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` after the name: the state, the parent and more; see proc(5)."""
    return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()


def _flags(folder: Path) -> int:
    """Return the kernel's flags of a process; ``_EXITING`` if the process no longer exists."""
    try:
        return int(_stat(folder)[6])
    except OSError:
        return _EXITING


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _end_alike(code: int) -> int:
    """End this process like another one with this exit code: by the signal -``code``, or return ``code``."""
    if code < 0:
        _prctl(_DUMPABLE, 0)  # no second core is dumped
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-code})
        os.kill(os.getpid(), -code)
    return code


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _signal(groups: Iterable[int], number: int) -> None:
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-group, number)


def _lives(group: int) -> bool:
    """Whether a process of the group still exists and its leader is not a zombie."""
    try:
        os.kill(-group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return _runs(abs(group), unknown=True)


def _runs(pid: int, unknown: bool = False) -> bool:
    """Whether a process exists and is no zombie; return ``unknown`` if its state cannot be read."""
    with contextlib.suppress(OSError, IndexError):
        return _stat(Path(f"/proc/{pid}"))[0] != "Z"
    return unknown


def main(driver: str, grace_s: float) -> None:
    """Wait for the end of the driver, then end its launches that still run."""
    since_s, groups = 0.0, list[int]()
    for line in sys.stdin:
        start, *numbers = line.split()
        since_s, groups = float(start), list(map(int, numbers))
    deadline = time.monotonic() + grace_s + _FORCED_S
    launches = [group for group in groups if group > 0]
    while time.monotonic() < deadline and any(map(_lives, launches)):  # their parents end them
        time.sleep(_ROUND_S)
    grace_s = grace_s if any(map(_lives, groups)) else 0.0
    killed = end(groups, lambda mark: mark.startswith(driver), grace_s)
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
