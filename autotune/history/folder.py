"""A campaign's directory, which can be anybody's work: no link in it is followed, nobody else writes there.

Directories are unpacked, copied and shared. The name that the user gave may lead over links as they like;
from the directory with the journal on, a link would have a file of the user's replaced in their own name.
"""

import errno
import os
import shutil
import stat
from pathlib import Path

from autotune.errors import JournalError

FILE = "journal.jsonl"  # Name of the journal in a campaign's directory.
WISHES = "site.json"  # Of a whole site: what it wants, beside the campaigns of its jobs.


def campaign_of(path: Path) -> Path | None:
    """The outermost campaign whose directory a path is in; None: it is in none."""
    return next((p for p in reversed(path.absolute().parents) if os.path.lexists(p / FILE)), None)


def refuse_links(path: Path) -> None:
    """Refuse a path that leads over a link inside of a campaign's directory; what is not there yet is none.

    Raises:
        JournalError: with the link.
    """
    path, top = path.absolute(), campaign_of(path)
    for place in (path, *path.parents) if top else ():
        if place == top:
            return
        if place.is_symlink():
            raise JournalError(f"{place} is a link", "inside of a campaign's directory no link is followed")


def opened_folder(folder: Path) -> int:
    """A descriptor of a directory; inside of a campaign none of its names was a link when it was opened.

    Raises:
        OSError: it is not there, or one is.
    """
    folder, top = folder.absolute(), campaign_of(folder / FILE)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    descriptor = os.open(top or folder, flags)
    for name in folder.relative_to(top).parts if top else ():
        above = descriptor
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW, dir_fd=above)
        except OSError as exc:
            if exc.errno in (errno.ENOTDIR, errno.ELOOP):
                exc.strerror = f"{name} is a link, or no directory: inside of a campaign no link is followed"
            raise
        finally:
            os.close(above)
    return descriptor


def make_empty(folder: Path) -> Path:
    """Make a directory for the user alone, in place of what stood there; and those above it.

    Raises:
        JournalError: a link inside of a campaign leads there.
        OSError: it cannot be made.
    """
    refuse_links(folder)
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    return folder


def check_ours(directory: Path) -> None:
    """Refuse a directory in which somebody else could have written.

    Raises:
        JournalError: it or its journal belongs to another user, or others can write there.
    """
    for path in (directory, directory / FILE):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        if found.st_uid != os.geteuid():
            raise JournalError(
                f"{path} belongs to another user", "its commands would run in your name: copy what you trust"
            )
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            whom = "everybody" if found.st_mode & stat.S_IWOTH else "its group"
            raise JournalError(
                f"{path} can be written by {whom}", f"check its content; then: chmod go-w {path}"
            )
