"""Types of a scenario's sections (step 1 of the data flow: the user's request).

``conf/config.yaml`` and the groups next to it document each key.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cluster:
    """Number of nodes and ranks of the launches, and the nodes that they use."""

    nodes: int
    ppn: int | None
    ranks: int | None
    hosts: tuple[str, ...]
    hostfile: str | None
    comm_sizes: tuple[int, ...]
    oversubscribe: bool


@dataclass(frozen=True, slots=True)
class Mpi:
    """The MPI that is used, and settings that all launches have, including those of the baseline."""

    stack: str
    origin: str = field(metadata={"key": "from"})
    mpirun: str | None
    mca: Mapping[str, Any]
    env: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Limits:
    """Range of message sizes, in bytes, for which one objective counts."""

    min_bytes: int
    max_bytes: int | None


@dataclass(frozen=True, slots=True)
class Weighing:
    """Range of message sizes for each objective, and a profile with weights of sizes."""

    latency: Limits
    bandwidth: Limits
    memory: Limits
    message_rate: Limits
    overlap: Limits
    weights: str | None


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the launches and the time of a campaign.

    ``launches`` and ``seconds`` do not include the discovery of knobs before the search and the verification
    of settings after the search.
    """

    launches: int
    total_launches: int | None
    seconds: float | None
    total_seconds: float | None
    node_hours: float | None
    until: str | None


@dataclass(frozen=True, slots=True)
class Baseline:
    """Number of measurements of the MPI's defaults."""

    launches: int


@dataclass(frozen=True, slots=True)
class Screening:
    """Options of the screening, a Plackett–Burman design that finds the parameters with an effect."""

    enabled: bool
    runs: int
    foldover: bool
    replicates: int
    centre_points: int


@dataclass(frozen=True, slots=True)
class Discover:
    """Options of the discovery (``space=discover``), which finds the knobs that matter before the search."""

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
    """Conditions under which the search ends before its budget is used up."""

    min_gain: float


@dataclass(frozen=True, slots=True)
class Confirm:
    """Options of the end of the search, when its best settings are launched again."""

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
    """The program that ``probe=command`` runs; the fields are the keys of ``probe.options``."""

    run: tuple[str, ...]  # Words of the program's command; they are not interpreted by a shell.
    way: str = field(default="arguments", metadata={"key": "pass"})
    """How parameters are passed to the program: ``arguments``, ``environment`` or ``template``."""
    answer: str = "json"
    """Form in which the program gives its results: ``json`` or ``patterns``.

    ``json`` means an object on the last line of the output or in ``file``. ``patterns`` means that regular
    expressions find the results in the text."""
    file: str | None = None
    """Path of the file with the results, in which ``{directory}`` is replaced by the folder of the launch.

    None means that the results are on standard output."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Maps the name of each response to a regular expression with one group."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Options of a launch, which is one run of ``mpirun`` or ``srun``."""

    timeout_s: float | None
    queue_timeout_s: float
    first_node: int | None
    tool: str = field(metadata={"key": "with"})
    heats: bool


@dataclass(frozen=True, slots=True)
class CampaignPlace:
    """The directory of the campaign, whether to start it afresh, and whom to notify."""

    dir: str
    fresh: bool
    notify: tuple[str, ...]
