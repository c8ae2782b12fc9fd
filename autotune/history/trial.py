"""What is tried and what was seen: trials, observations and the history (steps 4 and 7 of the flow).

Notation: a *cell* is one (collective, communicator size, message size, call-level choice); an observation
has one estimate for each cell that its launch measured.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.space import Point, Space


class Status(StrEnum):
    """How a launch, or a single cell of it, ended. Names are only ever added: journals keep them."""

    OK = "ok"
    """Measured, and everything that was asked for was applied."""
    INVALID = "invalid"
    """The request could not be measured: bad request, wrong library, too few ranks."""
    WRONG_RESULT = "wrong_result"
    """The collective gave a wrong answer."""
    NOT_APPLIED = "not_applied"
    """A setting was not what was asked for."""
    TIMEOUT = "timeout"
    """Ended by us after ``timeout_s``."""
    CRASHED = "crashed"
    """The launch ended without a result."""
    LOST = "lost"
    """Neither result nor exit status: a node, a daemon, or ourselves died."""


class Phase(StrEnum):
    """Why a trial is run. Names are only ever added: journals keep them."""

    BASELINE = "baseline"
    DISCOVERY = "discovery"
    SCREENING = "screening"
    SEARCH = "search"
    VERIFY = "verify"


class Subject(StrEnum):
    """What a launch is made of."""

    SWEEP = "sweep"
    """A point, with every call-level choice swept inside."""
    UNTOUCHED = "untouched"
    """Nothing set: the stack's own defaults decide."""
    DEPLOYED = "deployed"
    """A point together with the files that a user would install."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a per-size table: from ``min_bytes`` on, up to the next row, use this choice."""

    collective: str
    """MPI's name without the prefix, lower case."""
    comm_size: int
    """Ranks of the communicator for which it was found."""
    min_bytes: int
    """The first message size that it covers, counted as in ``Cell``; the first row of a table has 0."""
    choice: Point
    """The per-size values; empty: leave it to the stack."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One launch to be made."""

    number: int
    """From 1, unique in its campaign."""
    phase: Phase
    """Why it is run."""
    point: Point
    """The job-wide values."""
    subject: Subject = Subject.SWEEP
    """What the launch is made of."""
    block: int = 0
    """Trials of one block share what drifts slowly: the node placement, the boot setting."""
    seed: int = 0
    """Of everything random inside the launch."""
    note: str = ""
    """Why this point: the row of the design, or the proposer's words."""
    rules: tuple[Rule, ...] = ()
    """Of a ``deployed`` subject: the per-size table that its files hold."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What one estimate is about."""

    collective: str
    """MPI's name without the prefix, lower case."""
    comm_size: int
    """Ranks of the communicator."""
    message_bytes: int
    """As the OSU benchmarks count: per rank for allreduce, bcast and reduce, per block for the others."""
    choice: Point = Point()
    """Call-level values; empty: whatever the stack decides."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The location of one cell's samples."""

    cell: Cell
    """What was measured."""
    median_s: float
    """The location, a median unless the scenario names another estimator; NaN where not ``ok``."""
    sem_s: float
    """Its standard error within this launch."""
    n: int
    """Samples behind it."""
    status: Status = Status.OK
    """Whether the cell may be used."""
    low_s: float = math.nan
    """Lower end of the confidence interval of the location."""
    high_s: float = math.nan
    """Upper end of it."""
    outliers: int = 0
    """Samples far outside, kept and counted."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further figures of the cell, by name with unit suffix."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What one trial showed."""

    trial: Trial
    """What was run."""
    status: Status
    """How the launch as a whole ended; cells of an ``ok`` launch can still be unusable."""
    estimates: tuple[Estimate, ...] = ()
    """One for each cell; empty unless something was measured."""
    reason: str = ""
    """In words, where the status is not ``ok``."""
    duration_s: float = 0.0
    """Of the launch, without the queue."""
    queue_s: float = 0.0
    """Waiting for a scheduler."""
    hosts: tuple[str, ...] = ()
    """Where it ran."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Launch-wide figures by name with unit suffix, e.g. ``memory_bytes``."""
    notes: tuple[str, ...] = ()
    """What the probe reported beside the figures, e.g. how calls were timed."""

    @property
    def ok(self) -> bool:
        """Whether the launch may be used."""
        return self.status is Status.OK

    @property
    def usable(self) -> Iterator[Estimate]:
        """The estimates that may be used."""
        return (e for e in self.estimates if e.status is Status.OK) if self.ok else iter(())


@dataclass(frozen=True)
class History:
    """All observations of a campaign, in the order in which they were made."""

    observations: tuple[Observation, ...] = ()
    """In order."""

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    def of(self, *phases: Phase) -> "History":
        """Only the observations of these phases."""
        return History(tuple(o for o in self.observations if o.trial.phase in phases))

    @property
    def sweeps(self) -> "History":
        """Only the launches that swept a point: what proposers and recommendations learn from."""
        return History(tuple(o for o in self.observations if o.trial.subject is Subject.SWEEP))

    @property
    def untouched(self) -> "History":
        """Only the launches of the stack's own defaults."""
        return History(tuple(o for o in self.observations if o.trial.subject is Subject.UNTOUCHED))

    def of_points(self, space: Space) -> "History":
        """The launches that tell about points of a space.

        Those of sweeps; and, where nothing is swept inside a launch, those of the untouched stack, which are
        then launches of the default point.
        """
        subjects = {Subject.SWEEP} if space.call else {Subject.SWEEP, Subject.UNTOUCHED}
        return History(tuple(o for o in self.observations if o.trial.subject in subjects))

    def plus(self, observations: Iterable[Observation]) -> "History":
        """This history, longer."""
        return History((*self.observations, *observations))
