"""Read the documents of the application verbs: recordings, floors, ``run.json`` and the file of ``--learn``.

All documents are checked when they are read, because anybody may have written them. A *floor* is the best
times of a machine for the calls of a recording; its file is next to that of the recording.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from autotune.application.floor import Floor
from autotune.application.recording import Recording, read_recording
from autotune.errors import TableError
from autotune.exporters.writing import write_files
from autotune.resources import user_bytes, user_text
from autotune.structure import Document, document_in
from autotune.views.documents import json_text

FLOOR, RUN, LEARNED = "autotune floor 1", "autotune-run-1", "autotune-learned-1"
"""Values of the key ``format`` in the documents of a floor, of a run and of ``--learn``."""
_MOST_BITS = 64  # Largest number of bits of a message size; its binary logarithm is smaller than this.


def read_calls(path: Path) -> Recording:
    """Read the recording in a file.

    Raises:
        TableError: the file cannot be read, or holds no recording.
    """
    return read_recording(user_text(path, hint="autotune record writes one"), str(path))


def keep_floor(floor: Floor, calls: Path) -> None:
    """Write a floor to a file next to its recording, together with a hash of the recording's content."""
    identified = replace(floor, calls=_fingerprint(calls))
    write_files({_floor_path(calls): json_text({"format": FLOOR, **asdict(identified)})}, links=False)


def kept_floor(calls: Path) -> Floor | None:
    """Return the floor that was measured for a recording.

    None means that no floor was measured, or that the recording's file has changed since.

    Raises:
        TableError: the file contains no floor, or is damaged.
    """
    path = _floor_path(calls)
    floor = read_floor(user_text(path), str(path)) if path.is_file() else None
    return floor if floor is not None and floor.calls == _fingerprint(calls) else None


def _floor_path(calls: Path) -> Path:
    return calls.with_name(f"{calls.stem}.floor.json")


def _fingerprint(calls: Path) -> str:
    return hashlib.sha256(user_bytes(calls)).hexdigest()[:16]


def read_floor(text: str, name: str) -> Floor:
    """Return the floor in the text of a document; ``name`` names the document in messages.

    Raises:
        TableError: the text contains no floor, or is damaged.
    """
    document = document_in(text, name, (FLOOR,), "floor", "autotune diagnose calls.json")
    del document["format"]
    floor: Floor = Document("the floor", TableError, own=True).structured(Floor, document)
    for gain in floor.gains:
        times = (gain.tuned_s, gain.default_s, gain.tuned_sem_s, gain.default_sem_s)
        if not (min(times[:2]) > 0 and min(times) >= 0 and max(times) < math.inf):
            raise TableError(f"{name}: a damaged floor: times of {gain.slot}")
    if len(floor.best) != len(floor.gains):
        raise TableError(f"{name}: a damaged floor: {len(floor.best)} choices for {len(floor.gains)} slots")
    return floor


@dataclass(frozen=True, slots=True)
class _RunCell:
    """Calls of one collective and communicator size, with message sizes of ``lowest_bytes`` to twice that."""

    collective: str
    algorithm: str  # The algorithm that was selected for these calls, or ``default``.
    speedup: float
    saved_s: float
    lowest_bytes: int
    ranks: int
    settled_at: int | None  # Number of calls before the algorithm was selected; None: not selected yet.
    speedup_95: tuple[float | None, float | None]  # An end is None where the speed-up is not bounded.

    def __post_init__(self) -> None:
        if not (self.speedup > 0 and all(end is None or end >= 0 for end in self.speedup_95)):
            raise ValueError(f"a speed-up of {self.speedup} with interval {self.speedup_95}")
        if not (0 <= self.lowest_bytes < 1 << _MOST_BITS and self.ranks > 0):
            raise ValueError(f"calls of {self.lowest_bytes} bytes on {self.ranks} ranks")


@dataclass(frozen=True, slots=True)
class _Run:
    command: tuple[str, ...]
    run_s: float
    spent_s: float
    saved_s: float
    cells: tuple[_RunCell, ...]


@dataclass(frozen=True, slots=True)
class _LearnedCell:
    stack: str  # Implementation and version of the MPI library.
    collective: str
    bin: int  # Binary logarithm of the message size in bytes, rounded down.
    ranks: int
    algorithm: str

    def __post_init__(self) -> None:
        if not (0 <= self.bin < _MOST_BITS and 0 < self.ranks < 1 << 31):
            raise ValueError(f"bin={self.bin}, ranks={self.ranks}")


@dataclass(frozen=True, slots=True)
class _Learned:
    cells: tuple[_LearnedCell, ...]


def run_in(path: Path) -> Mapping[str, Any]:
    """Return those parts of a file ``run.json`` that the page of a run shows, as JSON values.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    document = document_in(user_text(path), str(path), (RUN,), "document of a run", "run -- …")
    checked = Document(f"{path}: a value is damaged: the document", TableError, newer=True)
    return asdict(checked.structured(_Run, document))


def learned_cells(path: Path | None) -> dict[tuple[str, str, int, int], str]:
    """Return the algorithms that earlier runs selected, from a file of ``--learn``.

    Returns:
        A mapping from (stack, collective, bin, ranks) to the algorithm, where the bin is the binary logarithm
        of the message size in bytes, rounded down. It is empty if ``path`` is None or no such file exists.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    if path is None or not path.exists():
        return {}
    text = user_text(path, hint="name another file: `run --learn` writes it")
    document = document_in(text, str(path), (LEARNED,), "file of --learn", "run --learn FILE -- …")
    del document["format"]
    try:
        learned = Document(str(path), TableError).structured(_Learned, document)
    except TableError as exc:
        hint = "remove the file; the next run writes it anew"
        raise TableError(f"{path}: a cell is damaged: {exc.message}", hint) from exc
    return {(c.stack, c.collective, c.bin, c.ranks): c.algorithm for c in learned.cells}
