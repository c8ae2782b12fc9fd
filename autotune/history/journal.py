"""The campaign's memory: ``journal.jsonl``, one event a line, appended and synced (step 8 of the flow).

One process writes, under a lock; anybody reads. What follows the last line break was cut off by a crash:
readers leave it out, and the next writer cuts it away. A damaged line before it is an error.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autotune.errors import JournalError, LockedError
from autotune.structure import plain

VERSION = 1
"""Of the format."""

FILE = "journal.jsonl"
"""Name of the journal in a campaign's directory."""


class Journal:
    """The journal of one campaign, opened by its only writer."""

    def __init__(self, directory: Path) -> None:
        """Lock and open the journal, creating both if they do not exist.

        Raises:
            LockedError: another process is writing it.
            JournalError: it is damaged or of a newer format.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file = (directory / FILE).open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            self._file.close()
            raise LockedError(
                f"{directory} is being written by another process", "wait for it, or use another campaign.dir"
            ) from exc
        events = read_events(directory)
        self._drop_torn_line()
        if not events:
            self.append({"event": "journal", "version": VERSION})

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one event; when this returns it survives a crash."""
        line = json.dumps(plain(event), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())

    def read(self) -> Sequence[Mapping[str, Any]]:
        """All events so far, oldest first."""
        return read_events(self._directory)

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop_torn_line(self) -> None:
        self._file.seek(0)
        text = self._file.read()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            self._file.truncate(whole)


def read_events(directory: Path) -> Sequence[Mapping[str, Any]]:
    """All events of a campaign, oldest first, without locking; empty where there is none yet.

    Raises:
        JournalError: a damaged line that is not the last one, or a newer format.
    """
    path = directory / FILE
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")
    events = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            event = json.loads(line)
        except ValueError as exc:
            raise JournalError(f"{path}, line {number} is damaged: {exc}") from exc
        if not isinstance(event, dict) or "event" not in event:
            raise JournalError(f"{path}, line {number} is not an event")
        events.append(event)
    if events and (events[0]["event"] != "journal" or events[0].get("version", 0) > VERSION):
        raise JournalError(
            f"{path} is not a journal of version {VERSION} or older: its first line is {lines[0][:80]!r}",
            "it may have been written by a newer autotune",
        )
    return tuple(events)
