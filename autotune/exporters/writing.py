"""Write files, all of them or none, as temporary files that are then renamed (step 12 of the data flow)."""

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

_HINT = "nothing was changed; allowed: a new or a writable file, where you may write (--out: elsewhere)"


def write_files(
    contents: Mapping[Path, str | bytes | None],
    keep: Collection[Path] = (),
    parents: bool = False,
    mode: int = 0o666,
    links: bool = True,
    public: bool = False,
    below: Path | None = None,
) -> Mapping[Path, Path]:
    """Write, replace or remove files: all of them or, if an error occurs, none.

    If a path is a symbolic link, the file to which it points is written; a terminal, a pipe or a device is
    written to directly. Inside a campaign's directory both are refused, because anybody may have added links
    there. A file that replaces another file gets the mode and the owner of that file.

    Args:
        contents: Maps each file to its content (a text is written in UTF-8); None removes the file.
        keep: Files of which a copy is saved before they are replaced; the copy's name contains date and time.
        parents: Whether to make missing directories.
        mode: Mode of new files, from which the process's mask is removed.
        links: Whether to follow a path that is a link. Links inside a campaign's directory are never
            followed.
        public: Whether everybody may read the files, whatever the mask and their earlier mode: 0644 is added
            to the mode, and new directories get 0755.
        below: Directory that contains the files. It may be a link itself, but no link inside it is followed.

    Returns:
        Maps each file of ``keep`` that existed to the path of its copy.

    Raises:
        UserError: A file cannot be written, or must not be.
        StorageError: The disk is full or read-only.
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
                old_file = new_file = None
                if target.exists():
                    # Opening a read-only file fails; renaming another file to it would not.
                    os.close(os.open(target, os.O_WRONLY))
                    old_file = _copy_name(target) if path in keep else _temporary_name(target)
                    _create(old_file, target.read_bytes(), undo, target)
                if data is not None:
                    new_file = _temporary_name(target)
                    _create(new_file, data, undo, target if old_file else None, mode, public)
                if new_file or old_file:
                    changes.append((path, target, new_file, old_file))
            for path, target, new_file, old_file in changes:  # noqa: B007 - errors name the path
                if new_file:
                    new_file.replace(target)
                elif old_file:
                    target.unlink()
                undo.callback(_put_back, target, old_file)
            for folder in {target.parent for _, target, _, _ in changes}:
                _sync(folder)
        except OSError as exc:
            kind = StorageError if exc.errno in STORAGE else UserError
            raise kind(f"cannot write {path}: {exc.strerror or exc}", _HINT) from exc
        undo.pop_all()
        for path, _, _, old_file in changes:
            if old_file and path in keep:
                copies[path] = (
                    old_file if old_file.parent == _followed(path).parent else path.with_name(old_file.name)
                )
            elif old_file:
                old_file.unlink()
    return copies


def _followed(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if path.is_symlink() and not target.exists():
        raise OSError(errno.ENOENT, f"it is a link to {target}, which does not exist")
    return target


def _pinned(path: Path, folders: ExitStack, top: Path | None) -> Path:
    descriptor = opened_folder(path.parent, top)
    folders.callback(os.close, descriptor)
    pinned = Path(f"/proc/self/fd/{descriptor}") / path.name
    if pinned.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and none is followed here")
    if pinned.exists() and not pinned.is_file():
        raise OSError(errno.EINVAL, "it is no file")
    return pinned


def _temporary_name(target: Path) -> Path:
    """Return an unused path in the same directory, with a short name."""
    return target.with_name(f".autotune-{token_hex(6)}")


def _copy_name(target: Path) -> Path:
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    copy, number = target.with_name(f"{target.name}.{stamp}"), 1
    while copy.exists():
        number += 1
        copy = target.with_name(f"{target.name}.{stamp}.{number}")
    return copy


def _make(folder: Path, undo: ExitStack, public: bool) -> None:
    if not folder.is_dir():
        _make(folder.parent, undo, public)
        folder.mkdir()
        undo.callback(_quietly_removed, folder)
        if public:
            folder.chmod(folder.stat().st_mode | 0o755)


def _create(
    path: Path, data: bytes, undo: ExitStack, like: Path | None, mode: int = 0, public: bool = False
) -> None:
    """Write a new file to disk; if ``like`` is not None, it gets the mode and owner of that file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if like else mode)
    undo.callback(_quietly_removed, path)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if like:
            status = like.stat()
            with suppress(PermissionError):  # only root may set another owner; else the user owns the file
                os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
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
