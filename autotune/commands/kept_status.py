"""What ``status`` said of a long campaign that nobody writes, kept beside its journal.

Concluding thousands of launches takes seconds; a journal that is as it was says what it said. Heavy modules
are not imported here.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from autotune.errors import JournalError
from autotune.history.journal import FILE, check_ours, is_locked

KEPT = ".status.json"
"""Its name in a campaign's directory."""
LONG = 200
"""Launches from which on it is worth a file."""


def kept(directory: Path, as_json: bool) -> str | None:
    """What was said of this very journal; None where nothing was, or it is being written."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads((directory / KEPT).read_text())
        if document["of"] == _of(directory) and not is_locked(directory):
            return str(document["json" if as_json else "text"])
    return None


def keep(directory: Path, text: str, as_json: str) -> None:
    """Remember what is said of a journal, if the directory is the user's own and can be written."""
    with suppress(OSError, JournalError):
        check_ours(directory)
        document = {"of": _of(directory), "text": text, "json": as_json}
        new = directory / f"{KEPT}.{os.getpid()}"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file)
        new.replace(directory / KEPT)


def _of(directory: Path) -> list[Any]:
    """What tells a journal from any other, and from what it was before."""
    found = (directory / FILE).stat()
    return [str(directory), found.st_ino, found.st_size, found.st_mtime_ns]
