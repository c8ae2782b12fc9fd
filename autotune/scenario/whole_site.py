"""The request of ``conf=site``: the jobs of a site to tune, and the memory that their MPI calls need."""

from collections.abc import Collection
from dataclasses import dataclass, field, fields

from autotune.collectives import COLLECTIVES, MEASURED, Pattern, Size
from autotune.errors import ScenarioError, allowed

Job = tuple[int, int]  # A job, as (nodes, ranks on each node).
Slot = tuple[str, int, int, int]  # A slot, as (collective, nodes, ranks on each node, message size in bytes).
SETTINGS = ("harmless", "best")
"""Values of ``Wishes.setting``, which say which settings may be in files for all users."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The user's request for a site: the collectives, job sizes and message sizes to tune, and options."""

    collectives: tuple[str, ...]
    nodes: tuple[int, ...]  # Number of nodes of each job.
    ppn: tuple[int, ...]  # Numbers of ranks on each node that the jobs have.
    memory_gib: float | None  # Memory of a node in GiB; None stands for the memory of this machine.
    sizes: tuple[int, ...]  # Message sizes in bytes.
    split_gain: float = 0.05
    """Smallest mean gain, as a share of the run time, for which a job gets its own setting.

    The gain is that of the job's best setting over the setting that all jobs have in common, averaged over
    slots (collective, nodes, ranks on each node, message size)."""
    under_load: str = ""
    """Shell command that loads the nodes while settings are compared again; empty if there is none."""
    within: bool = False  # Whether jobs also measure communicators that contain only a part of their ranks.
    predicted: bool = field(default=False, compare=False)
    """Whether exported files also contain predicted rules."""
    setting: str = field(default="harmless", compare=False)
    """Which settings are exported: ``harmless`` means settings that make no other call slower, ``best`` any
    setting."""
    at_once: int = field(default=1, compare=False)
    """Number of jobs that run at the same time; it may change when tuning is resumed."""

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
        if self.setting not in SETTINGS:
            raise ScenarioError(f"site.setting={self.setting}", allowed(self.setting, SETTINGS))
        if self.at_once < 1:
            raise ScenarioError(f"site.at_once={self.at_once}", "expected a number above zero")
        if not self.jobs:
            raise ScenarioError("site.nodes and site.ppn make no job of two ranks", "a collective needs two")

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs to tune, as (nodes, ranks on each node), small jobs first."""
        return tuple(sorted({(n, p) for n in self.nodes for p in self.ppn if n * p > 1}))

    def without(self, new_wishes: "Wishes") -> list[str]:
        """Return the names of the fields whose new values make earlier measurements useless.

        Additional numbers of nodes, and of ranks on a node, do not make them useless: the jobs with these
        numbers are measured in addition.

        Args:
            new_wishes: The user's present request.
        """
        grows = {
            name for name in ("nodes", "ppn") if set(getattr(self, name)) <= set(getattr(new_wishes, name))
        }
        return [
            f.name
            for f in fields(self)
            if f.compare and f.name not in grows and getattr(self, f.name) != getattr(new_wishes, f.name)
        ]

    def added_to(self, earlier: "Wishes") -> tuple[Job, ...]:
        """Return the jobs to tune that are not in an earlier request."""
        return tuple(job for job in self.jobs if job not in earlier.jobs)

    def slots(self, job: Job) -> list[Slot]:
        """Return the slots (collective, nodes, ranks on each node, message size) that a job measures."""
        return [(c, *job, size) for c in self.collectives for size in self.sizes]

    def check_memory(self, here_bytes: float) -> None:
        """Raise an error if a call to tune needs more memory than a node has.

        Args:
            here_bytes: Memory of this machine in bytes, which is also assumed for the nodes if ``memory_gib``
                is None.

        Raises:
            ScenarioError: a call needs too much memory; the message says which message sizes fit.
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
    """Return the communicator sizes, in ranks, that a job measures.

    These are all ranks of the job, a half of them, a quarter of them, and so on, except sizes for which
    results of a smaller job in ``jobs`` are used. Results of a job are used for fewer than twice its number
    of ranks.
    """
    ranks = job[0] * job[1]
    below = max((n * p for n, p in jobs if n * p < ranks), default=1)
    halves = (ranks >> k for k in range(1, ranks.bit_length()))
    return ranks, *(half for half in halves if half >= 2 * below)


def node_bytes(collective: str, nodes: int, ppn: int, message_bytes: int) -> int:
    """Return the memory in bytes for the buffers of one call, on the node that needs most memory.

    If the collective has a root, this is the node of the root.
    """
    collective_entry, m, p = COLLECTIVES[collective], message_bytes, nodes * ppn
    if collective_entry.size is Size.PEER:
        return ppn * 2 * m * p
    if collective_entry.size is Size.BLOCK:
        receiving_ranks = ppn if collective_entry.pattern is Pattern.ALL_TO_ALL else 1
        return ppn * m + receiving_ranks * m * p
    return ppn * 2 * m
