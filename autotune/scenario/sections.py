"""The types of a scenario's sections (step 1 of the data flow: the user's request).

``conf/config.yaml`` and the groups next to it document each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """On how many nodes and ranks launches run, and on which nodes."""

    nodes: int
    ppn: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    hostfile: str | None
    comm_sizes: tuple[int, ...]
    oversubscribe: bool


@dataclass(frozen=True, slots=True)
class Mpi:
    """Which MPI is used, and the settings that every launch has, including those of the baseline."""

    stack: str
    origin: str = field(metadata={"key": "from"})
    mpirun: str | None
    mca: Mapping[str, Any]
    env: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """The range of message sizes, in bytes, for which one objective counts."""

    min_bytes: int
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Weighing:
    """The range of message sizes of each objective, and a profile with the weights of sizes."""

    latency: Limits
    bandwidth: Limits
    memory: Limits
    message_rate: Limits
    overlap: Limits
    weights: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a campaign's launches and time.

    ``launches`` and ``seconds`` exclude the discovery of knobs before the search and the verification of
    settings after it.
    """

    launches: int
    total_launches: int | None
    seconds: float | None
    total_seconds: float | None
    node_hours: float | None
    until: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """How often the MPI's defaults are measured."""

    launches: int


@dataclass(frozen=True, slots=True)
class Screening:
    """Options of the screening: a Plackett–Burman design that finds the parameters with an effect."""

    enabled: bool
    runs: int
    foldover: bool
    replicates: int
    centre_points: int


@dataclass(frozen=True, slots=True)
class Discover:
    """Options of the discovery, which (``space=discover``) finds the knobs that matter before the search."""

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
    """The proposer (the algorithm that chooses the next launch) and its options."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """When the search ends before its budget is used up."""

    min_gain: float


@dataclass(frozen=True, slots=True)
class Confirm:
    """Options of the end of the search, in which its best settings are launched again."""

    share: float


@dataclass(frozen=True, slots=True)
class Verify:
    """Options of the verification, which compares baseline and recommendation in new launches."""

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
    """Options of the probe, which measures inside each launch."""

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
    """The program that ``probe=command`` runs; its keys are those of ``probe.options``."""

    run: tuple[str, ...]  # Words of the program's command; no shell interprets them.
    way: str = field(default="arguments", metadata={"key": "pass"})
    """How parameters are passed to the program: ``arguments``, ``environment`` or ``template``."""
    answer: str = "json"
    """Form of the program's results: ``json`` or ``patterns``.

    ``json`` is an object on the last line of the output or in ``file``. ``patterns`` are regular expressions
    that find the results in the text."""
    file: str | None = None
    """Path of the file with the results; ``{directory}`` in it is replaced by the folder of the launch.

    None: the results are on standard output."""
    patterns: Mapping[str, str] = field(default_factory=dict)  # Response → regular expression with one group.


@dataclass(frozen=True, slots=True)
class Launch:
    """Options of a launch: one run of ``mpirun`` or ``srun``."""

    timeout_s: float | None
    queue_timeout_s: float
    first_node: int | None
    tool: str = field(metadata={"key": "with"})
    heats: bool


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """The campaign's directory, whether to start it afresh, and whom to notify."""

    dir: str
    fresh: bool
    notify: tuple[str, ...]
