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
    """The outermost campaign or site whose directory a path is in; None: it is in none."""
    above = reversed(path.absolute().parents)
    return next((p for p in above if any(os.path.lexists(p / name) for name in (FILE, WISHES))), None)


def top_of(path: Path, below: Path | None = None) -> Path | None:
    """The outermost directory of ours that a path is in: a campaign's, a site's, or one that a command fills.

    Args:
        path: A file or directory.
        below: Directory that the command fills: its name is the user's, and what is in it is not.
    """
    path, top = path.absolute(), campaign_of(path)
    inside = below is not None and below.absolute() in path.parents
    if below is None or not inside:
        return top
    return top if top is not None and top in below.absolute().parents else below.absolute()


def link_below(path: Path, top: Path | None) -> Path | None:
    """The first link on the way from a directory to a path in it; what is not there yet is none."""
    places = [path.absolute(), *path.absolute().parents]
    inside = places[: places.index(top)] if top in places else []
    return next((place for place in reversed(inside) if place.is_symlink()), None)


def refuse_links(path: Path, below: Path | None = None) -> None:
    """Refuse a path that leads over a link inside of a directory of ours; what is not there yet is none.

    Raises:
        JournalError: with the link.
    """
    if link := link_below(path, top_of(path, below)):
        raise JournalError(f"{link} is a link", "inside of a campaign's directory no link is followed")


def opened_folder(folder: Path, top: Path | None = None) -> int:
    """A descriptor of a directory; below ``top`` none of its names was a link when it was opened.

    ``top``: a directory above it, or itself; None: that of the campaign or site that it is in.

    Raises:
        OSError: it is not there, or one is.
    """
    folder = folder.absolute()
    top = top or campaign_of(folder / FILE)
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


def opened_file(path: Path) -> int:
    """A descriptor of a new or emptied file to write to, for the user alone; over no link in its place.

    Raises:
        OSError: it cannot be written, or it or a name above it in a directory of ours is a link.
    """
    folder = opened_folder(path.parent)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(path.name, flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def remove_folder(folder: Path, below: Path) -> None:
    """Remove a directory with all that is in it, if it is there; what cannot be removed stays.

    Raises:
        JournalError: a link below ``below`` leads there.
    """
    refuse_links(folder, below)
    shutil.rmtree(folder, ignore_errors=True)


def make_empty(folder: Path) -> Path:
    """Make a directory for the user alone, in place of what stood there; and those above it.

    Raises:
        JournalError: a link inside of a campaign leads there.
        OSError: it cannot be made.
    """
    refuse_links(folder, folder.parent)
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
