"""The sections of a scenario, as types (step 1 of the flow)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes and ranks."""

    nodes: int
    ppn: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    hostfile: str | None
    comm_sizes: tuple[int, ...]
    oversubscribe: bool


@dataclass(frozen=True, slots=True)
class Mpi:
    """Which MPI, and what is fixed for every launch of it, the baseline too."""

    stack: str
    origin: str = field(metadata={"key": "from"})
    mpirun: str | None
    mca: Mapping[str, Any]
    env: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The message sizes that one objective is judged on."""

    min_bytes: int
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Weighing:
    """Limits of each objective, and a profile that weighs the sizes."""

    latency: Limits
    bandwidth: Limits
    memory: Limits
    message_rate: Limits
    overlap: Limits
    weights: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a campaign: ``launches`` and ``seconds`` without discovery, verification."""

    launches: int
    total_launches: int | None
    seconds: float | None
    total_seconds: float | None
    node_hours: float | None
    until: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """How the stack's own defaults are measured."""

    launches: int
    every: int


@dataclass(frozen=True, slots=True)
class Screening:
    """The Plackett–Burman step."""

    enabled: bool
    runs: int
    foldover: bool
    replicates: int
    centre_points: int


@dataclass(frozen=True, slots=True)
class Discover:
    """The discovery before the search, with ``space=discover``."""

    space: str
    launches: int
    seconds: float | None
    probe_s: float
    share: float
    levels: int
    rounds: int
    rate: float
    include: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProposerChoice:
    """Which proposer, with its own options."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """When the search ends before its budget."""

    min_gain: float


@dataclass(frozen=True, slots=True)
class Confirm:
    """The end of the search, in which its leaders are launched again."""

    share: float


@dataclass(frozen=True, slots=True)
class Verify:
    """Baseline against recommendation on fresh launches."""

    enabled: bool
    launches: int
    max_loss: float
    margin: float
    error_rate: float
    heats: bool
    other_loop: str
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """The measuring instrument."""

    kind: str
    budget_s: float
    precision: float
    min_samples: int
    max_samples: int
    timing: str
    sync: str
    check: bool
    estimator: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Program:
    """``probe.options`` of ``probe=command``."""

    run: tuple[str, ...]  # Words of the program; none is read by a shell.
    way: str = field(default="arguments", metadata={"key": "pass"})
    """How the parameters reach it: ``arguments``, ``environment`` or ``template``."""
    answer: str = "json"  # ``json``: an object on the last line of its output or in ``file``; ``patterns``.
    file: str | None = None
    """Where the answer is, if not on stdout; ``{directory}`` is the folder of the launch."""
    patterns: Mapping[str, str] = field(default_factory=dict)  # Response → regular expression with one group.


@dataclass(frozen=True, slots=True)
class Launch:
    """One MPI run."""

    timeout_s: float | None
    queue_timeout_s: float
    patience_s: float
    first_node: int | None
    tool: str = field(metadata={"key": "with"})


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """Where the campaign lives."""

    dir: str
    fresh: bool
    notify: tuple[str, ...]
