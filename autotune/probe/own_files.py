"""Create and open files that no other user can have written: the ranks load code only from such files."""

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def make_own(directory: Path) -> None:
    """Create a directory that only the user can access, or restrict an existing one to the user.

    Raises:
        OSError: If the directory cannot be created, belongs to another user, or is a link.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "not a directory of the user's own", str(directory))
    if status.st_mode & 0o077:
        directory.chmod(0o700)


@contextmanager
def opened_own(path: Path) -> Iterator[int]:
    """Open a file that only the user can have written, and yield its descriptor.

    Raises:
        OSError: If the file does not exist, is a link, or other users own it or could write it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "others could have written it", str(path))
        yield descriptor
    finally:
        os.close(descriptor)


def is_own(path: Path) -> bool:
    """Return whether the file exists and only the user can have written it."""
    try:
        with opened_own(path):
            return True
    except OSError:
        return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file during the body of the ``with`` statement, so that one process at a time runs it.

    Raises:
        OSError: If the lock file cannot be created, or is a link.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
