"""Store a campaign's events in its journal: ``journal.jsonl``, one event a line, appended and synced.

One process writes, under a lock; anybody reads. Each line is *sealed*: it ends with its own number and a
CRC-32 of everything in front of the checksum, ``…,"line":7,"crc":"89abcdef"}``. Reading therefore raises an
error if a line was altered, doubled or left out, and names the line. Lines of version 1 are not sealed and
are accepted without a check; after a sealed line all later lines must be sealed. Text after the last line
break is a line that a crash cut off: readers ignore it, and the next writer removes it.

Nobody else may be able to write the journal: the journal and its directory must belong to the user, neither
may be a link, and new files are readable by the user alone.
"""

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any
from zlib import crc32

from autotune.errors import JournalError, LockedError, StorageError
from autotune.history.folder import FILE, check_ours, refuse_links
from autotune.structure import plain

VERSION = 2  # Version of the journal's format; in version 1 lines had no number and checksum.

_MOST_BYTES = 1 << 30  # Size of the largest journal that is read, in bytes; a launch takes some 5 kB.

_SEAL = re.compile(rb',"line":([0-9]{1,15}),"crc":"([0-9a-f]{8})"\}$')


@dataclass(frozen=True, slots=True)
class Line:
    """Holds one line of a journal, decoded."""

    event: Mapping[str, Any]  # The event, without line number and checksum.
    number: int | None  # The line's own number, if its checksum is right; None: the line is not sealed.


def sealed(event: Mapping[str, Any], number: int) -> bytes:
    """Return the line of an event: compact JSON with its line number and checksum, and a line break."""
    text = json.dumps(plain(event), separators=(",", ":"), allow_nan=False).encode()
    body = text[:-1] + b',"line":%d' % number
    return body + b',"crc":"%08x"}\n' % crc32(body)


def opened(line: bytes) -> Line:
    """Return the event in a line, after checking its checksum; the line is given without its line break.

    Raises:
        ValueError: the line is damaged; the message says how.
    """
    number, text = None, line
    if seal := _SEAL.search(line):
        if crc32(line[: seal.end(1)]) != int(seal[2], 16):
            raise ValueError("its checksum is another one")
        number, text = int(seal[1]), line[: seal.start()] + b"}"
    try:
        event = json.loads(text, parse_int=None if seal else _integer)
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise ValueError("it is not an event")
    return Line(event, number)


def as_read(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event in the form in which it will be read from the journal."""
    return opened(sealed(event, 1)[:-1]).event


class Journal(AbstractContextManager["Journal"]):
    """Keeps the journal of one campaign open for its only writer."""

    def __init__(self, directory: Path) -> None:
        """Lock and open the journal, creating both if they do not exist.

        Raises:
            LockedError: another process is writing the journal.
            JournalError: the journal is damaged or of a newer format, or others could have written it.
            StorageError: the disk is full or read-only.
        """
        self._directory = directory
        self._file = locked(directory)
        try:
            self._fresh: Sequence[Mapping[str, Any]] | None = read_events(directory)
            self._lines = len(self._fresh)
            self.torn_bytes = self._drop_torn_line()
            self._bytes = os.fstat(self._file).st_size
            if not self._lines:
                self.append({"event": "journal", "version": VERSION})
        except BaseException:
            self.close()
            raise

    torn_bytes: int  # Length in bytes of a last line that a crash cut off and that was removed; 0: none.

    def append(self, *events: Mapping[str, Any]) -> None:
        """Append events, all or none of them. Once this returns, the events are on disk and survive a crash.

        Raises:
            JournalError: somebody has removed, replaced or changed the journal since it was opened.
            StorageError: the disk is full or read-only; the journal is unchanged.
        """
        lines = b"".join(sealed(event, self._lines + i) for i, event in enumerate(events, start=1))
        self._fresh = None
        self._check()
        try:
            remaining = memoryview(lines)
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
            os.fsync(self._file)
        except OSError as exc:
            os.ftruncate(self._file, self._bytes)
            raise not_stored(self._directory, exc) from exc
        self._lines += len(events)
        self._bytes = os.fstat(self._file).st_size

    @property
    def lines(self) -> int:
        """The number of lines that the journal has."""
        return self._lines

    def read(self) -> Sequence[Mapping[str, Any]]:
        """Return all events so far, oldest first."""
        events, self._fresh = self._fresh, None  # events read at opening are returned once
        return read_events(self._directory) if events is None else events

    def close(self) -> None:
        """Close the file, which releases the lock."""
        os.close(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        """Refuse to append if earlier lines were lost or changed, since later lines depend on them."""
        path, opened_status = self._directory / FILE, os.fstat(self._file)
        try:
            path_status = path.lstat()
            change = (
                "replaced"
                if (path_status.st_dev, path_status.st_ino) != (opened_status.st_dev, opened_status.st_ino)
                else ""
            )
        except OSError:
            change = "removed"
        if not change and opened_status.st_size != self._bytes:
            change = "cut short" if opened_status.st_size < self._bytes else "written by somebody else"
        if change:
            raise JournalError(
                f"{path} was {change} while the campaign ran: {self._lines} events had been written",
                "nothing is launched any more; with the journal back in its place the same command continues",
            )

    def _drop_torn_line(self) -> int:
        text = content(self._directory)
        complete_bytes = text.rfind(b"\n") + 1
        if complete_bytes < len(text):
            try:
                os.ftruncate(self._file, complete_bytes)
            except OSError as exc:
                raise not_stored(self._directory, exc) from exc
        return len(text) - complete_bytes


def read_events(directory: Path) -> Sequence[Mapping[str, Any]]:
    """Return all events of a campaign, oldest first, without locking; empty if there is no journal yet.

    Raises:
        JournalError: a line is damaged, doubled or missing, the format is a newer one, or the journal is not
            a regular file.
    """
    path = directory / FILE
    events: list[Mapping[str, Any]] = []
    must_be_sealed = False
    for number, text in enumerate(BytesIO(content(directory)), start=1):
        if not text.endswith(b"\n"):
            if len(text) > 1 and _SEAL.search(text[:-1]):
                raise _damaged(path, number, "is damaged: its end is")
            break
        text = text[:-1]
        try:
            line = opened(text)
        except ValueError as exc:
            raise _damaged(path, number, f"is damaged: {exc}") from exc
        if number == 1:
            version = line.event.get("version", 0)
            if line.event["event"] != "journal" or not isinstance(version, int) or version > VERSION:
                raise JournalError(
                    f"{path} is not a journal of version {VERSION} or older: it begins with {text[:80]!r}",
                    "it may have been written by a newer autotune",
                )
            must_be_sealed = version > 1
        if line.number is None and must_be_sealed:
            raise _damaged(path, number, "is damaged: it has no checksum")
        if line.number not in (None, number):
            is_missing = line.number is None or line.number > number
            raise _damaged(
                path, number, f"is not there: {line.number} follows" if is_missing else "is there twice"
            )
        must_be_sealed |= line.number is not None
        events.append(line.event)
    return tuple(events)


def content(directory: Path, name: str = FILE) -> bytes:
    """Return the bytes of the journal, or of another file of a campaign; empty if the file does not exist.

    Raises:
        JournalError: the file is a link or a device, cannot be read, or is larger than 1 GiB.
    """
    path = directory / name
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    except OSError as exc:
        raise _no_file(path, exc) from exc
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise JournalError(f"{path} is no file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            if len(text := file.read(_MOST_BYTES + 1) or b"") > _MOST_BYTES:
                raise JournalError(f"{path} cannot be read: it has more than {_MOST_BYTES >> 20} MiB")
            return text
    except OSError as exc:
        raise JournalError(f"{path} cannot be read: {exc.strerror}") from exc
    finally:
        os.close(descriptor)


def locked(directory: Path, name: str = FILE) -> int:
    """Open and lock the journal or another file for appending, creating it if missing; return its descriptor.

    Raises:
        LockedError: another process has locked the file.
        JournalError: somebody else could have written the file, or a link is in its place.
        StorageError: the directory cannot be written.
    """
    try:
        refuse_links(directory / name)
        directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700, exist_ok=True)
        check_ours(directory)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(directory / name, flags, 0o600)
    except OSError as exc:
        if isinstance(exc, FileExistsError | NotADirectoryError) or (directory / name).is_symlink():
            raise _no_file(directory / name, exc) from exc
        raise not_stored(directory, exc) from exc
    try:
        _lock(descriptor)
        moved = os.fstat(descriptor).st_ino != (directory / name).stat().st_ino
    except OSError:
        moved = True
    if moved:
        os.close(descriptor)
        raise LockedError(
            f"{directory} is being written by another process", "wait for it, or use another campaign.dir"
        )
    return descriptor


def is_locked(directory: Path, name: str = FILE) -> bool:
    """Whether a process is writing the campaign; the kernel removes the lock however that process ends."""
    try:
        descriptor = os.open(directory / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as exc:
        return isinstance(exc, BlockingIOError)
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    """Lock a journal; try twice, because ``is_locked`` in another process may lock it for a moment."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(0.05)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _integer(text: str) -> float:
    """Return an int, or a float if the number has more than 64 bits, as this program never writes."""
    number = int(text) if len(text) < 20 else 1 << 63
    return number if -(1 << 63) <= number < 1 << 63 else float(text)


def _damaged(path: Path, number: int, fault: str) -> JournalError:
    return JournalError(
        f"{path}, line {number} {fault}",
        f"autotune status {path.parent} --repair   keeps everything that can be read",
    )


def _no_file(path: Path, exc: OSError) -> JournalError:
    if path.is_symlink():
        return JournalError(f"{path} is a link", "a campaign's journal is a file of its own")
    return JournalError(f"{path} cannot be opened: {exc.strerror}")


def not_stored(directory: Path, exc: OSError) -> StorageError:
    """Return the error for a disk that is full or read-only."""
    return StorageError(
        f"{directory} cannot be written: {exc.strerror}",
        "nothing that was measured is lost; make room, and the same command continues",
    )
