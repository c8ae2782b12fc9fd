"""Files that are handed over: written beside and renamed, all of them or none (step 12 of the flow)."""

import errno
import os
import stat
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex

from autotune.errors import STORAGE, StorageError, UserError

_ALLOWED = "nothing was changed; allowed: a new or a writable file, where you may write (--out: elsewhere)"


def write_files(
    contents: Mapping[Path, str | bytes | None],
    keep: Collection[Path] = (),
    parents: bool = False,
    mode: int = 0o666,
) -> Mapping[Path, Path]:
    """Write, replace or remove files: all of them, or none.

    A link is followed to its file. What is replaced hands on its mode and owner. A terminal, a pipe or a
    device is written to as it is.

    Args:
        contents: File → its content, text in UTF-8; None: there shall be none.
        keep: Files of which a copy is kept under the time of day, where they exist.
        parents: Make the directories that are missing.
        mode: Of files that are new, less the process's mask.

    Returns:
        File → the copy that was kept.

    Raises:
        UserError: where no file can be, or may be, written.
        StorageError: the disk is full or read-only.
    """
    copies: dict[Path, Path] = {}
    changes: list[tuple[Path, Path | None, Path | None]] = []
    path = Path()
    with ExitStack() as undo:
        try:
            for path, content in contents.items():
                data = content.encode() if isinstance(content, str) else content
                if data is not None and path.exists() and not (path.is_file() or path.is_dir()):
                    path.write_bytes(data)
                    continue
                target = _writable(path)
                if parents and data is not None:
                    _make(target.parent, undo)
                old = fresh = None
                if target.exists():
                    old = _copy_name(target) if path in keep else _beside(target)
                    _create(old, target.read_bytes(), undo, target)
                if data is not None:
                    fresh = _beside(target)
                    _create(fresh, data, undo, target if old else None, mode)
                if fresh or old:
                    changes.append((target, fresh, old))
                if old and path in keep:
                    copies[path] = old
            for path, fresh, old in changes:
                if fresh:
                    fresh.replace(path)
                elif old:
                    path.unlink()
                undo.callback(_put_back, path, old)
            for folder in {target.parent for target, _, _ in changes}:
                _sync(folder)
        except OSError as exc:
            kind = StorageError if exc.errno in STORAGE else UserError
            raise kind(f"cannot write {path}: {exc.strerror or exc}", _ALLOWED) from exc
        undo.pop_all()
    for _, _, old in changes:
        if old and old not in copies.values():
            old.unlink()
    return copies


def _writable(path: Path) -> Path:
    """The file that a name stands for.

    Raises:
        OSError: a link to nothing, no file, or one that may not be written.
    """
    target = Path(os.path.realpath(path))
    if path.is_symlink() and not target.exists():
        raise OSError(errno.ENOENT, f"it is a link to {target}, which does not exist")
    if target.exists():  # renaming would replace a read-only file all the same: nobody wanted that
        os.close(os.open(target, os.O_WRONLY))
    return target


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


def _make(folder: Path, undo: ExitStack) -> None:
    """Make a directory and those above it."""
    if not folder.is_dir():
        _make(folder.parent, undo)
        folder.mkdir()
        undo.callback(_quietly_removed, folder)


def _create(path: Path, data: bytes, undo: ExitStack, like: Path | None, mode: int = 0) -> None:
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
    """Have the names in a directory survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
