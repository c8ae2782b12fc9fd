"""The types of a scenario's sections (step 1 of the flow).

``conf/config.yaml`` and the groups next to it document each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """Says on how many nodes and ranks launches run, and on which nodes."""

    nodes: int
    ppn: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    hostfile: str | None
    comm_sizes: tuple[int, ...]
    oversubscribe: bool


@dataclass(frozen=True, slots=True)
class Mpi:
    """Says which MPI is used, and what is fixed for every launch of it, the baseline too."""

    stack: str
    origin: str = field(metadata={"key": "from"})
    mpirun: str | None
    mca: Mapping[str, Any]
    env: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Says which message sizes one objective is judged on."""

    min_bytes: int
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Weighing:
    """Holds the limits of each objective, and a profile that weighs the sizes."""

    latency: Limits
    bandwidth: Limits
    memory: Limits
    message_rate: Limits
    overlap: Limits
    weights: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits what a campaign spends; ``launches`` and ``seconds`` exclude discovery and verification."""

    launches: int
    total_launches: int | None
    seconds: float | None
    total_seconds: float | None
    node_hours: float | None
    until: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Says how the stack's own defaults are measured."""

    launches: int


@dataclass(frozen=True, slots=True)
class Screening:
    """Configures the screening by a Plackett–Burman design."""

    enabled: bool
    runs: int
    foldover: bool
    replicates: int
    centre_points: int


@dataclass(frozen=True, slots=True)
class Discover:
    """Configures the discovery in front of the search, with ``space=discover``."""

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
    """Names the proposer, with its own options."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """Says when the search ends before its budget is used up."""

    min_gain: float


@dataclass(frozen=True, slots=True)
class Confirm:
    """Configures the end of the search, in which its best settings are launched again."""

    share: float


@dataclass(frozen=True, slots=True)
class Verify:
    """Configures the verification, which compares baseline and recommendation on fresh launches."""

    enabled: bool
    launches: int
    max_loss: float
    margin: float
    max_failures: float
    error_rate: float
    other_loop: str
    also: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Configures the probe, which measures inside each launch."""

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
    """Holds ``probe.options`` of ``probe=command``."""

    run: tuple[str, ...]  # Words of the program's command, which no shell reads.
    way: str = field(default="arguments", metadata={"key": "pass"})
    """How the parameters reach it: ``arguments``, ``environment`` or ``template``."""
    answer: str = "json"
    """Form of its answer: ``json``, an object on the last line of its output or in ``file``; ``patterns``."""
    file: str | None = None
    """File with the answer; None: standard output has it. ``{directory}`` is the folder of the launch."""
    patterns: Mapping[str, str] = field(default_factory=dict)  # Response → regular expression with one group.


@dataclass(frozen=True, slots=True)
class Launch:
    """Configures one MPI run."""

    timeout_s: float | None
    queue_timeout_s: float
    first_node: int | None
    tool: str = field(metadata={"key": "with"})
    heats: bool


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """Says where the campaign's directory is."""

    dir: str
    fresh: bool
    notify: tuple[str, ...]
