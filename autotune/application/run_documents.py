"""Types and readers of the documents that ``run`` writes: ``run.json`` and the file of ``--learn``.

Both documents are checked when they are read, because anybody may have written them.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import TableError
from autotune.resources import user_text
from autotune.structure import Document, document_in

RUN, LEARNED = "autotune-run-1", "autotune-learned-1"
"""Values of the key ``format`` in the two documents."""
_MOST_BITS = 64
"""Number of bits of a message size; its binary logarithm is less than this number."""


@dataclass(frozen=True, slots=True)
class RunCell:
    """The calls of one collective, communicator size and bin of message sizes, for the page of a run.

    A bin contains the message sizes from a power of two up to the next one.
    """

    collective: str
    algorithm: str
    """The algorithm that was selected for these calls, or ``default``."""
    speedup: float
    """Time of a call by default, divided by the time of a call with the selected algorithm."""
    saved_s: float
    """Seconds that the run saved by this selection."""
    lowest_bytes: int
    """Smallest message size in bytes."""
    ranks: int
    settled_at: int | None
    """Number of calls before the algorithm was selected; None: none was selected yet."""
    speedup_95: tuple[float | None, float | None]
    """The 95 % interval of ``speedup``; an end is None if the speed-up is not bounded on that side."""

    def __post_init__(self) -> None:
        """Raise an error unless the speed-up, its interval, the message size and the ranks are in range.

        Raises:
            ValueError: a speed-up, a message size or a number of ranks is one that no run can have.
        """
        ends = (end for end in self.speedup_95 if end is not None)
        if not (self.speedup > 0 and all(end >= 0 for end in ends)):
            raise ValueError(f"a speed-up of {self.speedup} with interval {self.speedup_95}")
        if not (0 <= self.lowest_bytes < 1 << _MOST_BITS and self.ranks > 0):
            raise ValueError(f"calls of {self.lowest_bytes} bytes on {self.ranks} ranks")


@dataclass(frozen=True, slots=True)
class RunDocument:
    """The result of a job that tuned itself, as its page shows it."""

    command: tuple[str, ...]
    run_s: float  # Duration of the run in seconds.
    spent_s: float  # Seconds that trying algorithms cost.
    saved_s: float  # Seconds that the selected algorithms saved.
    cells: tuple[RunCell, ...]


@dataclass(frozen=True, slots=True)
class LearnedCell:
    """The algorithm that an earlier run selected for calls of one kind."""

    stack: str
    """Implementation and version of the MPI library."""
    collective: str
    bin: int
    """Binary logarithm of the message size in bytes, rounded down."""
    ranks: int
    algorithm: str

    def __post_init__(self) -> None:
        """Raise an error unless a message size can have this bin and a communicator this number of ranks.

        Raises:
            ValueError: the bin or the number of ranks is out of range.
        """
        if not (0 <= self.bin < _MOST_BITS and 0 < self.ranks < 1 << 31):
            raise ValueError(f"bin={self.bin}, ranks={self.ranks}")


@dataclass(frozen=True, slots=True)
class Learned:
    """The contents of a file of ``--learn``: the algorithms that earlier runs selected."""

    cells: tuple[LearnedCell, ...]


def run_in(path: Path) -> Mapping[str, Any]:
    """Return those parts of a file ``run.json`` that the page of a run shows, as JSON values.

    Raises:
        TableError: the file is of another kind, or damaged.
    """
    document = document_in(user_text(path), str(path), (RUN,), "document of a run", "run -- …")
    checked = Document(f"{path}: a value is damaged: the document", TableError, newer=True)
    return asdict(checked.structured(RunDocument, document))


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
        learned = Document(str(path), TableError).structured(Learned, document)
    except TableError as exc:
        hint = "remove the file; the next run writes it anew"
        raise TableError(f"{path}: a cell is damaged: {exc.message}", hint) from exc
    return {(c.stack, c.collective, c.bin, c.ranks): c.algorithm for c in learned.cells}
