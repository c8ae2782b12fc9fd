"""The file that the jobs of a heat share on a node; a heat is a group of jobs that measure in turns.

The job that starts first creates the file, which only its user can access.
"""

import errno
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

BYTES = 1 << 17  # Size of the file in bytes: more than the areas in ``turns`` need.

_SHARED = "/dev/shm"  # noqa: S108 - shared memory of one node, which MPI libraries use too
_PREFIX = "autotune-heat-"  # Prefix of the names of these files.


def create(name: str, join_s: float) -> tuple[int, str, str]:
    """Create the file of a heat on this node, or open it if another job has created it.

    The file is in the node's shared memory, or else in the directory for temporary files. A job waits
    ``join_s`` seconds for the other jobs; files of earlier heats that are older than twice this time are
    removed.

    Returns:
        Descriptor, path and an empty text; if no file can be created, −1, an empty path and the reason.
    """
    problem = ""
    for place in dict.fromkeys((_SHARED, tempfile.gettempdir())):
        _remove_forgotten(Path(place), 2 * join_s)
        path = Path(place) / f"{_PREFIX}{name}"
        try:
            return open_own(str(path), os.O_CREAT), str(path), ""
        except OSError as exc:
            problem = f"{path}: {exc.strerror or exc}"
            if exc.errno == errno.ENOSPC:  # if another job found room here later, the two would not meet
                with suppress(OSError):
                    if not path.stat().st_size:
                        path.unlink()
                break
    return -1, "", problem


def open_own(path: str, flags: int = 0) -> int:
    """Return a descriptor of a file that only this user can access, with all its memory allocated.

    Raises:
        OSError: If other users can access the file, or there is not enough memory.
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
    """Remove what killed jobs left: each heat has a file, which is removed once all its jobs have opened it.

    Only the jobs themselves can remove such files, since the driver may run on another node.
    """
    for path in place.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            about = path.lstat()
            if about.st_uid == os.geteuid() and time.time() - about.st_mtime > age_s:
                path.unlink()
