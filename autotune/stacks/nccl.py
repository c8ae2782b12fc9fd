"""The table that NCCL's and RCCL's example tuner reads (used by step 12 and ``lint``).

Read in the sources of NCCL (June 2026: ``plugins/tuner/example``, ``src/enqueue.cc``), never run here. A row:
``collective,min,max,algorithm,protocol,channels,nNodes,nRanks[,numPipeOps[,regBuff]]``, bounds inclusive; the
first row that matches wins. What is misspelt is taken for something else, in silence.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autotune.collectives import COLLECTIVES as _TABLE
from autotune.collectives import Size

COLLECTIVES: Mapping[str, str] = {c.name: c.nccl for c in _TABLE.values() if c.nccl}
"""MPI's name → NCCL's; the plugin knows no others."""

TOTAL = frozenset(c.nccl for c in _TABLE.values() if c.nccl and c.size is Size.BLOCK)
"""Of NCCL's: their sizes are those of all ranks together."""

ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
PROTOCOLS = ("ll", "ll128", "simple")
LARGEST = 2**64 - 1
"""Sizes are 64 bits wide: 4294967295, which the documentation takes for all, ends below 4 GiB."""

_DIGITS = 30
"""More than any size has."""

LONGEST_LINE = 255
"""Bytes; what is longer goes on as a line of its own."""


@dataclass(frozen=True, slots=True)
class NcclRow:
    """One row."""

    line: int
    """Counted from 1."""
    fields: tuple[str, ...]
    """As they stand, without blanks around them."""

    @property
    def collective(self) -> str:
        """NCCL's name."""
        return self.fields[0]

    @property
    def where(self) -> tuple[str, ...]:
        """All that it asks for beside the size: collective, nodes, ranks, operations, registration."""
        return (self.fields[0], *self.fields[6:], *("-1",) * (10 - len(self.fields)))

    def takes(self, where: tuple[str, ...]) -> bool:
        """Whether it is for all calls that another row's ``where`` asks for."""
        return all(mine in ("-1", theirs) for mine, theirs in zip(self.where, where, strict=True))

    @property
    def bounds(self) -> tuple[int, int]:
        """From and to, bytes, inclusive; what is no number counts as 0, as there."""
        low, high = (int(text[:_DIGITS]) if text.isdecimal() else 0 for text in self.fields[1:3])
        return low, high


def rows(text: str) -> Iterator[NcclRow]:
    """The rows of a table, whatever they hold."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line and not line.startswith("#"):
            yield NcclRow(number, tuple(field.strip() for field in line.split(",") if field))


def chosen(text: str, collective: str, message_bytes: int, nodes: int, ranks: int) -> tuple[str, ...]:
    """Algorithm, protocol and channels of a call of NCCL's collective; empty: no row is for it."""
    for row in rows(text):
        if len(row.fields) < 8 or row.collective != collective:
            continue
        low, high = row.bounds
        asked = zip(row.fields[6:8], (nodes, ranks), strict=True)
        if low <= message_bytes <= high and all(text in ("-1", str(number)) for text, number in asked):
            return row.fields[3:6]
    return ()
