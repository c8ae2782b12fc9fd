"""Ends what a driver that was killed has left running; also a program of its own, beside each driver.

Beside a driver it reads process groups from its standard input, of each launch one, and sleeps in between: a
measurement pays nothing for it. The end of the input is the end of the driver, whatever ended that; then the
last launch is ended, if it still runs. The standard library alone, since it is started with no other path.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

MARKER = "AUTOTUNE_LAUNCH"
"""Name of the environment variable that marks every process of one launch: ``driver:launches:launch``."""
SHARED = Path("/dev/shm")  # noqa: S108 - the libraries' own place
"""Where ranks of one node share memory."""
SEGMENTS = (
    *("open_mpi.", "sm_segment.", "vader_segment.", "osc_sm.", "osc_rdma."),  # Open MPI
    *("ucx_shm_posix_", "mpich_shm_", "mpich_shar_tmp", "Intel_MPI_"),
)
"""How the names begin that MPI libraries give it."""
SWEEP = "sweep"
"""First word of the program where it is to remove what was left since so many seconds, and nothing else."""

_TOLD_S = 1.0
"""A launch is told of within this time of its start."""


def end(group: int, ours: Callable[[str], bool], grace_s: float) -> None:
    """End a process group politely, then all that is left of it, or carries a mark, by force.

    Args:
        group: Its number; 0: it is not known.
        ours: Whether a mark, a value of ``MARKER``, is of what is to be ended.
        grace_s: Between both. A second Ctrl-C or SIGTERM of a caller that blocks them ends the wait.
    """
    _signal(group, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while time.monotonic() < deadline and (_lives(group) or any(marked(ours))):
        if signal.sigpending() & {signal.SIGINT, signal.SIGTERM}:
            break
        time.sleep(0.05)
    _signal(group, signal.SIGKILL)
    for _ in range(20):
        left = list(marked(ours))
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def sweep(since_s: float) -> None:
    """Remove the shared memory that ranks have left, who crashed, were killed, or whose library forgot it.

    Nobody else would. Open MPI tries 128 names and then takes another kind of memory, for everybody on the
    machine and without a sign in any result. Only what this user's ranks made since then, and what no process
    has open.

    Args:
        since_s: Start of the launch, seconds since the epoch.
    """
    left = []
    for prefix in SEGMENTS:
        for path in SHARED.glob(f"{prefix}*"):
            with contextlib.suppress(OSError):
                seen = path.lstat()
                if seen.st_uid == os.getuid() and seen.st_mtime >= since_s:
                    left.append(path)
    used = set(_open_files()) if left else set()
    for path in left:
        if str(path) not in used:
            with contextlib.suppress(OSError):
                path.unlink()


def _open_files() -> Iterator[str]:
    """Files that any process has open or mapped, as far as they may be seen."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                yield from (line.rpartition(" ")[2] for line in (folder / "maps").read_text().splitlines())
                for link in (folder / "fd").iterdir():
                    with contextlib.suppress(OSError):
                        yield str(link.readlink())


def marked(ours: Callable[[str], bool]) -> Iterator[int]:
    """Pids of living processes whose environment carries such a mark."""
    name = f"{MARKER}=".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                variables = (folder / "environ").read_bytes().split(b"\0")
                marks = (os.fsdecode(v[len(name) :]) for v in variables if v.startswith(name))
                if any(map(ours, marks)):
                    yield int(folder.name)


def _signal(group: int, number: int) -> None:
    if group:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)


def _lives(group: int) -> bool:
    """Whether a member of the group is still there, but for one that only waits for its parent."""
    if not group:
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{group}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def main(driver: str, grace_s: float) -> None:
    """Wait for the end of the driver, then of its last launch."""
    group, since_s = 0, time.time()
    for line in sys.stdin:
        group, since_s = int(line), time.time()
    end(group, lambda mark: mark.startswith(driver), grace_s)
    if group:
        sweep(since_s - _TOLD_S)


if __name__ == "__main__":
    if sys.argv[1] == SWEEP:
        sweep(time.time() - float(sys.argv[2]))
    else:
        main(sys.argv[1], float(sys.argv[2]))
