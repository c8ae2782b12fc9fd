"""Files for the user: written beside and renamed, all of them or none (step 12 of the flow)."""

import errno
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from autotune.errors import STORAGE, StorageError, UserError
from autotune.history.folder import link_below, opened_folder, top_of

_ALLOWED = "nothing was changed; allowed: a new or a writable file, where you may write (--out: elsewhere)"


def write_files(
    contents: Mapping[Path, str | bytes | None],
    keep: Collection[Path] = (),
    parents: bool = False,
    mode: int = 0o666,
    links: bool = True,
    public: bool = False,
    below: Path | None = None,
) -> Mapping[Path, Path]:
    """Write, replace or remove files: all of them, or none.

    A link is followed to its file, and a terminal, a pipe or a device is written to as it is; but not inside
    of a directory of ours, which can be anybody's work. What is replaced hands on its mode and owner.

    Args:
        contents: File → its content, text in UTF-8; None: there shall be none.
        keep: Files of which a copy is kept under the time of day, where they exist.
        parents: Make the directories that are missing.
        mode: Of files that are new, less the process's mask.
        links: Follow those in the place of a file, which the user has named; never inside of a campaign.
        public: For everybody to read, whatever the mask and what was there: 0644 and what it had, and new
            directories 0755.
        below: Directory that is filled: it may be a link of the user's, but none in it is followed.

    Returns:
        File → the copy that was kept.

    Raises:
        UserError: where no file can be, or may be, written.
        StorageError: the disk is full or read-only.
    """
    copies: dict[Path, Path] = {}
    changes: list[tuple[Path, Path, Path | None, Path | None]] = []
    path = Path()
    with ExitStack() as folders, ExitStack() as undo:
        try:
            for path, content in contents.items():
                data = content.encode(errors="surrogateescape") if isinstance(content, str) else content
                top = top_of(path, below)
                followed = links and not top
                if followed and data is not None and path.exists() and not (path.is_file() or path.is_dir()):
                    path.write_bytes(data)
                    continue
                target = _followed(path) if followed else path
                if link := link_below(path.parent, top):
                    raise OSError(errno.ELOOP, f"{link} is a link, and none is followed here")
                if parents and data is not None:
                    _make(target.parent, undo, public)
                if not followed:
                    target = _pinned(path, folders, top)
                old = fresh = None
                if target.exists():
                    os.close(os.open(target, os.O_WRONLY))  # renaming would replace a read-only file too
                    old = _copy_name(target) if path in keep else _beside(target)
                    _create(old, target.read_bytes(), undo, target)
                if data is not None:
                    fresh = _beside(target)
                    _create(fresh, data, undo, target if old else None, mode, public)
                if fresh or old:
                    changes.append((path, target, fresh, old))
            for path, target, fresh, old in changes:  # noqa: B007 - errors name the path
                if fresh:
                    fresh.replace(target)
                elif old:
                    target.unlink()
                undo.callback(_put_back, target, old)
            for folder in {target.parent for _, target, _, _ in changes}:
                _sync(folder)
        except OSError as exc:
            kind = StorageError if exc.errno in STORAGE else UserError
            raise kind(f"cannot write {path}: {exc.strerror or exc}", _ALLOWED) from exc
        undo.pop_all()
        for path, _, _, old in changes:
            if old and path in keep:
                copies[path] = old if old.parent == _followed(path).parent else path.with_name(old.name)
            elif old:
                old.unlink()
    return copies


def _followed(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if path.is_symlink() and not target.exists():
        raise OSError(errno.ENOENT, f"it is a link to {target}, which does not exist")
    return target


def _pinned(path: Path, folders: ExitStack, top: Path | None) -> Path:
    """The same path by its opened directory: whatever becomes of the names above, it is in that one."""
    descriptor = opened_folder(path.parent, top)
    folders.callback(os.close, descriptor)
    pinned = Path(f"/proc/self/fd/{descriptor}") / path.name
    if pinned.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and none is followed here")
    if pinned.exists() and not pinned.is_file():
        raise OSError(errno.EINVAL, "it is no file")
    return pinned


def _beside(target: Path) -> Path:
    """A name in the same directory that nobody has; short, for a file's own may be as long as can be."""
    return target.with_name(f".autotune-{token_hex(6)}")


def _copy_name(target: Path) -> Path:
    """The first free name for a copy that is kept."""
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    copy, number = target.with_name(f"{target.name}.{stamp}"), 1
    while copy.exists():
        number += 1
        copy = target.with_name(f"{target.name}.{stamp}.{number}")
    return copy


def _make(folder: Path, undo: ExitStack, public: bool) -> None:
    """Make a directory and those above it."""
    if not folder.is_dir():
        _make(folder.parent, undo, public)
        folder.mkdir()
        undo.callback(_quietly_removed, folder)
        if public:
            folder.chmod(folder.stat().st_mode | 0o755)


def _create(
    path: Path, data: bytes, undo: ExitStack, like: Path | None, mode: int = 0, public: bool = False
) -> None:
    """Write a new file and sync it, with mode and owner of another one where there is one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if like else mode)
    undo.callback(_quietly_removed, path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if like:
            its = like.stat()
            with suppress(PermissionError):  # another owner's: the file that replaces it is the user's own
                os.fchown(descriptor, its.st_uid, its.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(its.st_mode))
        if public:
            os.fchmod(descriptor, 0o644 | (stat.S_IMODE(like.stat().st_mode) if like else 0))
        file.flush()
        os.fsync(descriptor)


def _put_back(target: Path, old: Path | None) -> None:
    if old is None:
        _quietly_removed(target)
    else:
        old.replace(target)


def _quietly_removed(path: Path) -> None:
    with suppress(OSError):
        path.rmdir() if path.is_dir() else path.unlink()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
