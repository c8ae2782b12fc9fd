"""The documents of ``run`` as types: ``run.json`` and the file of ``--learn``.

Both are checked when they are read, because anybody may have written them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import TableError
from autotune.resources import user_text
from autotune.structure import Document, document_in

RUN, LEARNED = "autotune-run-1", "autotune-learned-1"
"""The names of the formats, as the documents have them."""
_MOST_BITS = 64
"""Bits of the largest message size; bins are smaller than this number."""


@dataclass(frozen=True, slots=True)
class RunCell:
    """The calls of one collective, communicator size and bin of message sizes, as the page shows them.

    A bin is a power of two up to the next one.
    """

    collective: str
    algorithm: str
    """The algorithm that was decided on, or ``default``."""
    speedup: float
    """Time of a call by the default, divided by that by the decided algorithm."""
    saved_s: float
    """Seconds that the decision saved."""
    lowest_bytes: int
    """Smallest message size in bytes."""
    ranks: int
    settled_at: int | None
    """Number of calls before the decision; None: it is not decided."""
    speedup_95: tuple[float | None, float | None]
    """The 95 % interval of ``speedup``; None: the interval has no such end."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: a speed-up, a message size or a number of ranks that no run can have.
        """
        ends = (end for end in self.speedup_95 if end is not None)
        if not (self.speedup > 0 and all(end >= 0 for end in ends)):
            raise ValueError(f"a speed-up of {self.speedup} with interval {self.speedup_95}")
        if not (0 <= self.lowest_bytes < 1 << _MOST_BITS and self.ranks > 0):
            raise ValueError(f"calls of {self.lowest_bytes} bytes on {self.ranks} ranks")


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The result of a run, as its page shows it."""

    command: tuple[str, ...]
    run_s: float  # Duration of the run.
    spent_s: float  # Seconds that trying algorithms cost.
    saved_s: float  # Seconds that the decisions saved.
    cells: tuple[RunCell, ...]


@dataclass(frozen=True, slots=True)
class LearnedCell:
    """A decision of a former run."""

    stack: str
    """Implementation and version of the MPI."""
    collective: str
    bin: int
    """Binary logarithm of the message size in bytes, rounded down."""
    ranks: int
    algorithm: str

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: a bin that no message size has, or a number of ranks that no communicator has.
        """
        if not (0 <= self.bin < _MOST_BITS and 0 < self.ranks < 1 << 31):
            raise ValueError(f"bin={self.bin}, ranks={self.ranks}")


@dataclass(frozen=True, slots=True)
class Learned:
    """The decisions in a file of ``--learn``."""

    cells: tuple[LearnedCell, ...]


def run_in(path: Path) -> Mapping[str, Any]:
    """Return the part of a ``run.json`` that the page of a run shows, as JSON values.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    document = document_in(user_text(path), str(path), (RUN,), "document of a run", "run -- …")
    checked = Document(f"{path}: a value is damaged: the document", TableError, newer=True)
    return asdict(checked.structured(RunDocument, document))


def learned_cells(path: Path | None) -> dict[tuple[str, str, int, int], str]:
    """Return the decisions in a file of ``--learn``: (stack, collective, bin, ranks) → algorithm.

    The mapping is empty if ``path`` is None or the file does not exist.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    if path is None or not path.exists():
        return {}
    text = user_text(path, hint="name another file: `run --learn` writes it")
    document = document_in(text, str(path), (LEARNED,), "file of --learn", "run --learn FILE -- …")
    del document["format"]
    try:
        learned = Document(str(path), TableError).structured(Learned, document)
    except TableError as exc:
        hint = "remove the file; the next run writes it anew"
        raise TableError(f"{path}: a cell is damaged: {exc.message}", hint) from exc
    return {(c.stack, c.collective, c.bin, c.ranks): c.algorithm for c in learned.cells}
