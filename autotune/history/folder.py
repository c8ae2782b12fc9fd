"""Safe access to a campaign's directory: no link inside it is followed, and nobody else may write to it.

Directories are unpacked, copied and shared, so their content can be anybody's work. The path that the user
gave may contain links. Inside the directory with the journal a link is refused, because it could make this
program replace one of the user's own files.
"""

import errno
import os
import shutil
import stat
from pathlib import Path

from autotune.errors import JournalError

FILE = "journal.jsonl"  # Name of the journal in a campaign's directory.
WISHES = "site.json"  # Name of the file with the jobs and limits that a site's user asked for.


def is_campaign(word: str) -> bool:
    """Return whether a word is the path of a directory with a campaign's journal."""
    return bool(word) and os.path.lexists(Path(word) / FILE)


def campaign_of(path: Path) -> Path | None:
    """Return the directory of the outermost campaign or site that a path is in; None if it is in none."""
    above = reversed(path.absolute().parents)
    return next((p for p in above if any(os.path.lexists(p / name) for name in (FILE, WISHES))), None)


def top_of(path: Path, below: Path | None = None) -> Path | None:
    """Return the outermost directory written by this program that a path is in; None if it is in none.

    Such a directory belongs to a campaign or to a site, or a command fills it.

    Args:
        path: A file or directory.
        below: The directory that the command fills: the user chose its name, but not its content. None: the
            command fills none.
    """
    path, top = path.absolute(), campaign_of(path)
    inside = below is not None and below.absolute() in path.parents
    if below is None or not inside:
        return top
    return top if top is not None and top in below.absolute().parents else below.absolute()


def link_below(path: Path, top: Path | None) -> Path | None:
    """Return the first link on the way from ``top`` to a path in it; None if there is none.

    A name that does not exist yet is not a link.
    """
    places = [path.absolute(), *path.absolute().parents]
    inside = places[: places.index(top)] if top in places else []
    return next((place for place in reversed(inside) if place.is_symlink()), None)


def refuse_links(path: Path, below: Path | None = None) -> None:
    """Refuse a path that leads over a link inside a directory that ``top_of`` finds.

    Raises:
        JournalError: there is such a link; the message names it.
    """
    if link := link_below(path, top_of(path, below)):
        raise JournalError(f"{link} is a link", "inside of a campaign's directory no link is followed")


def opened_folder(folder: Path, top: Path | None = None) -> int:
    """Return a descriptor of a directory that is reached from ``top`` without following a link.

    Args:
        folder: The directory to open.
        top: A directory above ``folder``, or ``folder`` itself; None: the directory of the campaign or site
            that ``folder`` is in.

    Raises:
        OSError: the directory does not exist, or one of the names below ``top`` is a link.
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
    """Return a descriptor of a new or emptied file to write to, which only the user may read.

    Raises:
        OSError: the file cannot be written or is a link, or a directory above it inside a campaign or site
            is a link.
    """
    folder = opened_folder(path.parent)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        return os.open(path.name, flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


def remove_folder(folder: Path, below: Path) -> None:
    """Remove a directory with its content, if it exists; files that cannot be removed are kept.

    Raises:
        JournalError: a link inside ``below`` leads to the directory.
    """
    refuse_links(folder, below)
    shutil.rmtree(folder, ignore_errors=True)


def make_empty(folder: Path) -> Path:
    """Make an empty directory for the user alone, and the directories above it; return its path.

    A directory that is already there is removed with its content.

    Raises:
        JournalError: a link inside a campaign leads to the directory.
        OSError: the directory cannot be made.
    """
    refuse_links(folder, folder.parent)
    if folder.exists():
        shutil.rmtree(folder)
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700)
    return folder


def check_ours(directory: Path) -> None:
    """Refuse a campaign's directory that somebody else could have written to.

    Raises:
        JournalError: the directory or its journal belongs to another user, or other users can write to one of
            them.
    """
    for path in (directory, directory / FILE):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        if status.st_uid != os.geteuid():
            raise JournalError(
                f"{path} belongs to another user", "its commands would run in your name: copy what you trust"
            )
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            whom = "everybody" if status.st_mode & stat.S_IWOTH else "its group"
            raise JournalError(
                f"{path} can be written by {whom}", f"check its content; then: chmod go-w {path}"
            )
