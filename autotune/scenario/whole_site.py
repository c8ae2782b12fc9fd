"""The wishes of ``conf=site``: the jobs of a site, and the memory that their calls take of a node."""

from dataclasses import dataclass

from autotune.collectives import COLLECTIVES, MEASURED, Pattern, Size
from autotune.errors import ScenarioError, allowed

Job = tuple[int, int]  # Nodes, and ranks on each.
Slot = tuple[str, int, int, int]
"""Collective, nodes, ranks on a node, bytes."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """Collectives, job sizes and message sizes to tune."""

    collectives: tuple[str, ...]
    nodes: tuple[int, ...]
    ppn: tuple[int, ...]
    memory_gib: float | None  # Of a node; None: as much as the machine that asks has.
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check what the types do not say.

        Raises:
            ScenarioError: an unknown collective, or no number above zero.
        """
        for name in self.collectives:
            if name not in MEASURED:
                raise ScenarioError(f"site.collectives={name}", allowed(name, MEASURED))
        for key in ("collectives", "nodes", "ppn"):
            values = getattr(self, key)
            if not values or any(isinstance(v, int) and v < 1 for v in values):
                raise ScenarioError(f"site.{key}={list(values)}", "expected one at least, numbers above zero")
        if not self.jobs:
            raise ScenarioError("site.nodes and site.ppn make no job of two ranks", "a collective needs two")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """(nodes, ppn) of each, small ones first."""
        return tuple(sorted({(n, p) for n in self.nodes for p in self.ppn if n * p > 1}))

    def slots(self, job: Job) -> list[Slot]:
        """Slots that a job measures."""
        return [(c, *job, size) for c in self.collectives for size in self.sizes]

    def check_memory(self, here_bytes: float) -> None:
        """Refuse a call that no node has memory for.

        Args:
            here_bytes: memory of the machine that asks.

        Raises:
            ScenarioError: there is one.
        """
        room = here_bytes if self.memory_gib is None else self.memory_gib * 2**30
        worst = max(
            (slot for job in self.jobs for slot in self.slots(job)), key=lambda slot: node_bytes(*slot)
        )
        if (needed := node_bytes(*worst)) <= room:
            return
        collective, nodes, ppn, size = worst
        fit = [b for b in self.sizes if node_bytes(collective, nodes, ppn, b) <= room]
        raise ScenarioError(
            f"{collective} of {size} bytes on {nodes * ppn} ranks takes {needed / 2**30:.3g} GiB of a node, "
            f"which has {room / 2**30:.3g}",
            f"sizes up to {max(fit)} fit there" if fit else "no size fits there: fewer nodes or ppn",
        )


def node_bytes(collective: str, nodes: int, ppn: int, message_bytes: int) -> int:
    """Bytes of the buffers of one call on the node that has most: that of the root, where there is one."""
    known, m, p = COLLECTIVES[collective], message_bytes, nodes * ppn
    if known.size is Size.PEER:
        return ppn * 2 * m * p
    if known.size is Size.BLOCK:
        whole = ppn if known.pattern is Pattern.ALL_TO_ALL else 1
        return ppn * m + whole * m * p
    return ppn * 2 * m
