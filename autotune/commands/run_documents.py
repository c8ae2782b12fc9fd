"""Documents of ``run``, ``run.json`` and the file of ``--learn``, as types: both can be anybody's files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import TableError
from autotune.resources import user_text
from autotune.structure import Document, document_in

RUN, LEARNED = "autotune-run-1", "autotune-learned-1"
"""Names of the formats in the documents themselves."""
_MOST_BITS = 64
"""Bits of a message size, whose number of digits is its bin."""


@dataclass(frozen=True, slots=True)
class RunCell:
    """Calls alike of a run, as far as its page shows them."""

    collective: str
    algorithm: str
    """The one that was decided on, or ``default``."""
    speedup: float
    """Time of a call, default / decided algorithm."""
    saved_s: float
    lowest_bytes: int
    ranks: int
    settled_at: int | None
    """Call at which it was decided; None: it was not."""
    speedup_95: tuple[float | None, float | None]
    """Interval (95 %) of ``speedup``; None at an end: none."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: numbers that no run has.
        """
        ends = (end for end in self.speedup_95 if end is not None)
        if not (self.speedup > 0 and all(end >= 0 for end in ends)):
            raise ValueError(f"a speed-up of {self.speedup} with interval {self.speedup_95}")
        if not (0 <= self.lowest_bytes < 1 << _MOST_BITS and self.ranks > 0):
            raise ValueError(f"calls of {self.lowest_bytes} bytes on {self.ranks} ranks")


@dataclass(frozen=True, slots=True)
class RunDocument:
    """One run, as far as its page shows it."""

    command: tuple[str, ...]
    run_s: float
    spent_s: float
    saved_s: float
    cells: tuple[RunCell, ...]


@dataclass(frozen=True, slots=True)
class LearnedCell:
    """One decision of a former run."""

    stack: str
    """Implementation and version."""
    collective: str
    bin: int
    """Number of binary digits of the message size, less one."""
    ranks: int
    algorithm: str

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: numbers that no message size, or no communicator, has.
        """
        if not (0 <= self.bin < _MOST_BITS and 0 < self.ranks < 1 << 31):
            raise ValueError(f"bin={self.bin}, ranks={self.ranks}")


@dataclass(frozen=True, slots=True)
class Learned:
    """Everything in a file of ``--learn``."""

    cells: tuple[LearnedCell, ...]


def run_in(path: Path) -> Mapping[str, Any]:
    """The part of a ``run.json`` that the page of a run shows.

    Raises:
        TableError: it is none, or damaged.
    """
    document = document_in(user_text(path), str(path), (RUN,), "document of a run", "run -- …")
    checked = Document(f"{path}: a value is damaged: the document", TableError, newer=True)
    return asdict(checked.structured(RunDocument, document))


def learned_cells(path: Path | None) -> dict[tuple[str, str, int, int], str]:
    """All decisions in a file of ``--learn``: stack, collective, bin, ranks → algorithm; no file: none.

    Raises:
        TableError: it is another file, or damaged.
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
