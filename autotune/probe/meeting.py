"""The file in which the jobs of a heat meet on a node: created by whichever comes first, its user's alone."""

import errno
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

BYTES = 1 << 17  # Bytes of the file: more than either kind of area needs.

_SHARED = "/dev/shm"  # noqa: S108 - what ranks of one node share, as MPI libraries do
_PREFIX = "autotune-heat-"  # Prefix of the names of these files.


def create(name: str, join_s: float) -> tuple[int, str, str]:
    """Create the file of a heat on this node, or open it where another job has created it.

    The file is in the node's memory, or in the directory for temporary files where that fails.

    Args:
        name: Name of the file without its prefix.
        join_s: Seconds for which a job waits for the others; files older than twice that are removed.

    Returns:
        Descriptor, path and an empty text; or −1, an empty path and the problem where no file is possible.
    """
    problem = ""
    for place in dict.fromkeys((_SHARED, tempfile.gettempdir())):
        _remove_forgotten(Path(place), 2 * join_s)
        path = Path(place) / f"{_PREFIX}{name}"
        try:
            return open_own(str(path), os.O_CREAT), str(path), ""
        except OSError as exc:
            problem = f"{path}: {exc.strerror or exc}"
            if exc.errno == errno.ENOSPC:  # another job may find room here later, and the two would not meet
                with suppress(OSError):
                    if not path.stat().st_size:
                        path.unlink()
                break
    return -1, "", problem


def open_own(path: str, flags: int = 0) -> int:
    """Return a descriptor of a file that is this user's alone, with all its memory allocated.

    Raises:
        OSError: If the file belongs to another user, or there is no room.
    """
    file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | flags, 0o600)
    try:
        about = os.fstat(file)
        if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            raise PermissionError(1, "it is not this user's alone")
        os.posix_fallocate(file, 0, BYTES)
    except OSError:
        os.close(file)
        raise
    return file


def _remove_forgotten(place: Path, age_s: float) -> None:
    """Remove files of heats whose jobs were killed before all had come; on other nodes nobody else does.

    A file is needed until all jobs have come, no longer than twice the time for which one waits for others.
    """
    for path in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = path.lstat()
            if about.st_uid == os.geteuid() and time.time() - about.st_mtime > age_s:
                path.unlink()
