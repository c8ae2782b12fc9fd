"""The best times of a machine for a recording, kept beside it; see `diagnose`."""

import hashlib
import math
from dataclasses import asdict, replace
from pathlib import Path

from autotune.errors import TableError
from autotune.exporters.writing import write_files
from autotune.recommend.floor import Floor
from autotune.resources import user_bytes, user_text
from autotune.structure import Document, document_in
from autotune.views.documents import json_text

FORMAT = "autotune floor 1"  # How such a document names itself.
_DOCUMENT = Document("the floor", TableError, own=True)


def keep_floor(floor: Floor, calls: Path) -> None:
    """Write it beside its recording."""
    own = replace(floor, calls=_fingerprint(calls))
    write_files({floor_path(calls): json_text({"format": FORMAT, **asdict(own)})}, links=False)


def floor_path(calls: Path) -> Path:
    """Where the floor of a recording is kept."""
    return calls.with_name(f"{calls.stem}.floor.json")


def kept_floor(calls: Path) -> Floor | None:
    """The floor measured for a recording; None: there is none, or it is for another one."""
    path = floor_path(calls)
    if not path.is_file():
        return None
    floor = read_floor(user_text(path), str(path))
    return floor if floor.calls == _fingerprint(calls) else None


def _fingerprint(calls: Path) -> str:
    """By which a floor knows its recording."""
    return hashlib.sha256(user_bytes(calls)).hexdigest()[:16]


def read_floor(text: str, name: str) -> Floor:
    """The floor in a document.

    Raises:
        TableError: it is none, or damaged.
    """
    document = document_in(text, name, (FORMAT,), "floor", "autotune diagnose calls.json")
    del document["format"]
    found: Floor = _DOCUMENT.structured(Floor, document)
    for gain in found.gains:
        times = (gain.tuned_s, gain.default_s, gain.tuned_sem_s, gain.default_sem_s)
        if not (min(times[:2]) > 0 and min(times) >= 0 and max(times) < math.inf):
            raise TableError(f"{name}: a damaged floor: times of {gain.slot}")
    if len(found.best) != len(found.gains):
        raise TableError(f"{name}: a damaged floor: {len(found.best)} choices for {len(found.gains)} slots")
    return found
