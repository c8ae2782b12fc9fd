"""Write and read floors: files, next to a recording, with a machine's best times for the recorded calls."""

import hashlib
import math
from dataclasses import asdict, replace
from pathlib import Path

from autotune.application.floor import Floor
from autotune.errors import TableError
from autotune.exporters.writing import write_files
from autotune.resources import user_bytes, user_text
from autotune.structure import Document, document_in
from autotune.views.documents import json_text

FORMAT = "autotune floor 1"  # Value of the key ``format`` in the document of a floor.
_DOCUMENT = Document("the floor", TableError, own=True)


def keep_floor(floor: Floor, calls: Path) -> None:
    """Write a floor to a file next to its recording, together with a hash of the recording's content."""
    identified = replace(floor, calls=_fingerprint(calls))
    write_files({floor_path(calls): json_text({"format": FORMAT, **asdict(identified)})}, links=False)


def floor_path(calls: Path) -> Path:
    """Return the path of the file with the floor (best times) of a recording."""
    return calls.with_name(f"{calls.stem}.floor.json")


def kept_floor(calls: Path) -> Floor | None:
    """Return the floor (best times) that was measured for a recording.

    None means that no floor was measured, or that the recording's file has other content since.

    Raises:
        TableError: the file contains no floor, or is damaged.
    """
    path = floor_path(calls)
    if not path.is_file():
        return None
    floor = read_floor(user_text(path), str(path))
    return floor if floor.calls == _fingerprint(calls) else None


def _fingerprint(calls: Path) -> str:
    """Return a hash of a recording's content, which shows whether a floor belongs to the recording."""
    return hashlib.sha256(user_bytes(calls)).hexdigest()[:16]


def read_floor(text: str, name: str) -> Floor:
    """Return the floor (best times) in the text of a document; ``name`` names the document in messages.

    Raises:
        TableError: the text contains no floor, or is damaged.
    """
    document = document_in(text, name, (FORMAT,), "floor", "autotune diagnose calls.json")
    del document["format"]
    floor: Floor = _DOCUMENT.structured(Floor, document)
    for gain in floor.gains:
        times = (gain.tuned_s, gain.default_s, gain.tuned_sem_s, gain.default_sem_s)
        if not (min(times[:2]) > 0 and min(times) >= 0 and max(times) < math.inf):
            raise TableError(f"{name}: a damaged floor: times of {gain.slot}")
    if len(floor.best) != len(floor.gains):
        raise TableError(f"{name}: a damaged floor: {len(floor.best)} choices for {len(floor.gains)} slots")
    return floor
