"""The wishes of ``conf=site``: the jobs of a site, and the memory that their calls take of a node."""

from collections.abc import Collection
from dataclasses import dataclass, field, fields

from autotune.collectives import COLLECTIVES, MEASURED, Pattern, Size
from autotune.errors import ScenarioError, allowed

Job = tuple[int, int]  # Nodes, and ranks on each.
Slot = tuple[str, int, int, int]  # Collective, nodes, ranks on a node, bytes.


@dataclass(frozen=True, slots=True)
class Wishes:
    """Collectives, job sizes and message sizes to tune."""

    collectives: tuple[str, ...]
    nodes: tuple[int, ...]
    ppn: tuple[int, ...]
    memory_gib: float | None  # Of a node; None: as much as the machine that asks has.
    sizes: tuple[int, ...]
    split_gain: float = 0.05  # What a job must gain a slot beyond the common setting, to get one of its own.
    under_load: str = ""  # A line of shell beside which settings are compared once more; empty: none.
    within: bool = False  # Whether jobs also measure communicators of a part of their ranks.
    at_once: int = field(default=1, compare=False)  # Jobs beside each other; a resumed site may have others.

    def __post_init__(self) -> None:
        for name in self.collectives:
            if name not in MEASURED:
                raise ScenarioError(f"site.collectives={name}", allowed(name, MEASURED))
        for key in ("collectives", "nodes", "ppn"):
            values = getattr(self, key)
            if not values or any(isinstance(v, int) and v < 1 for v in values):
                raise ScenarioError(f"site.{key}={list(values)}", "expected one at least, numbers above zero")
        if not self.split_gain >= 0:
            raise ScenarioError(f"site.split_gain={self.split_gain}", "expected zero or more; 0.05 is 5 %")
        if self.at_once < 1:
            raise ScenarioError(f"site.at_once={self.at_once}", "expected a number above zero")
        if not self.jobs:
            raise ScenarioError("site.nodes and site.ppn make no job of two ranks", "a collective needs two")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """(nodes, ppn) of each, small ones first."""
        return tuple(sorted({(n, p) for n in self.nodes for p in self.ppn if n * p > 1}))

    def without(self, others: "Wishes") -> list[str]:
        """Names of fields by which what was measured for these wishes is of no use for others.

        Others may have further nodes and ranks on a node: their jobs are made beside those that are there.
        """
        grows = {name for name in ("nodes", "ppn") if set(getattr(self, name)) <= set(getattr(others, name))}
        return [
            f.name
            for f in fields(self)
            if f.compare and f.name not in grows and getattr(self, f.name) != getattr(others, f.name)
        ]

    def added_to(self, others: "Wishes") -> tuple[Job, ...]:
        """Jobs that others do not have."""
        return tuple(job for job in self.jobs if job not in others.jobs)

    def slots(self, job: Job) -> list[Slot]:
        """Slots that a job measures."""
        return [(c, *job, size) for c in self.collectives for size in self.sizes]

    def check_memory(self, here_bytes: float) -> None:
        """Refuse a call that no node has memory for; ``here_bytes``: of the machine that asks.

        Raises:
            ScenarioError: there is one.
        """
        room = here_bytes if self.memory_gib is None else self.memory_gib * 2**30
        worst = max((slot for job in self.jobs for slot in self.slots(job)), key=lambda s: node_bytes(*s))
        if (needed := node_bytes(*worst)) <= room:
            return
        collective, nodes, ppn, size = worst
        fit = [b for b in self.sizes if node_bytes(collective, nodes, ppn, b) <= room]
        raise ScenarioError(
            f"{collective} of {size} bytes on {nodes * ppn} ranks takes {needed / 2**30:.3g} GiB of a node, "
            f"which has {room / 2**30:.3g}",
            f"sizes up to {max(fit)} fit there" if fit else "no size fits there: fewer nodes or ppn",
        )


def communicators(jobs: Collection[Job], job: Job) -> tuple[int, ...]:
    """Ranks of a job, and a half, a quarter … of them as far as no table of a smaller job of these holds.

    A table holds below twice its ranks.
    """
    ranks = job[0] * job[1]
    below = max((n * p for n, p in jobs if n * p < ranks), default=1)
    halves = (ranks >> k for k in range(1, ranks.bit_length()))
    return ranks, *(half for half in halves if half >= 2 * below)


def node_bytes(collective: str, nodes: int, ppn: int, message_bytes: int) -> int:
    """Bytes of the buffers of one call on the node that has most: that of the root, where there is one."""
    known, m, p = COLLECTIVES[collective], message_bytes, nodes * ppn
    if known.size is Size.PEER:
        return ppn * 2 * m * p
    if known.size is Size.BLOCK:
        whole = ppn if known.pattern is Pattern.ALL_TO_ALL else 1
        return ppn * m + whole * m * p
    return ppn * 2 * m
