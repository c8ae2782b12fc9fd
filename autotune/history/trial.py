"""Trials, observations and the history (steps 4 and 7 of the flow).

Notation: a *cell* is one (collective, communicator size, message size, call-level choice); an observation
has one estimate for each cell that its launch measured.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from autotune.collectives import COLLECTIVES
from autotune.measure.machine import far_apart
from autotune.space import Point, Space

_SHORTEST_S, _LONGEST_S = 1e-9, 1e7
"""A call's time can be: not less than a clock's step, not more than months."""
_LEAST, _MOST = 1e-100, 1e100  # A program's response can be: anything whose ratios and products are numbers.
PLAIN_MEAN, CUT_MEAN = "plain_mean_s", "mean_s"
"""Further figures of a cell: the plain mean of its calls; that of earlier versions, in which no call counted
for more than ten medians."""
_WILD = 100.0  # A standard error of so many times its value says that nothing is known.


class Status(StrEnum):
    """How a launch, or a single cell of it, ended. Names are only ever added: journals keep them."""

    OK = "ok"  # Measured, and everything that was asked for was applied.
    INVALID = "invalid"  # The request could not be measured: bad request, wrong library, too few ranks.
    WRONG_RESULT = "wrong_result"  # The collective gave a wrong answer.
    NOT_APPLIED = "not_applied"  # A setting was not what was asked for.
    TIMEOUT = "timeout"  # Ended by us after ``timeout_s``.
    CRASHED = "crashed"  # The launch ended without a result.
    LOST = "lost"  # Ended from outside: its job, a node, a daemon, or ourselves; it says nothing by itself.

    @property
    def may_pass(self) -> bool:
        """Whether the machine may have been at fault, so that the same launch may go well."""
        return self in (Status.CRASHED, Status.LOST, Status.TIMEOUT)


def status_of(word: str, reason: str) -> tuple[Status, str]:
    """The status that a result calls so, and its reason; one that nobody knows is a damaged result."""
    if word in list(Status):
        return Status(word), reason
    return Status.INVALID, f"damaged result: unknown status {word!r}"


class Phase(StrEnum):
    """Why a trial is run. Names are only ever added: journals keep them."""

    BASELINE = "baseline"
    DISCOVERY = "discovery"
    SCREENING = "screening"
    SEARCH = "search"
    VERIFY = "verify"


class Subject(StrEnum):
    """The content of a launch."""

    SWEEP = "sweep"  # A point, with every call-level choice swept inside.
    UNTOUCHED = "untouched"  # Nothing set: the stack's own defaults decide.
    DEPLOYED = "deployed"  # A point together with the files that a user would install.


LOST_BEFORE = "lost_before"  # Key of ``Observation.extra``: attempts that were lost before this one.
_OWN = ("", 0, "0", "default", "auto")  # Values that leave it to the stack.


def left_to_the_stack(value: object) -> bool:
    """Whether a per-size value leaves its sizes as the stack has them."""
    return value in _OWN


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a per-size table: from ``min_bytes`` on, up to the next row, use this choice."""

    collective: str  # MPI's name without the prefix, lower case.
    comm_size: int  # Ranks of the communicator for which it was found.
    min_bytes: int  # The first message size that it covers; below the first rule the stack decides.
    choice: Point  # The per-size values; empty: leave it to the stack.

    @property
    def sets(self) -> bool:
        """Whether it sets anything, so that a file has it."""
        return not all(map(left_to_the_stack, self.choice.values()))


@dataclass(frozen=True, slots=True)
class Trial:
    """One launch to be made."""

    number: int  # From 1, unique in its campaign.
    phase: Phase  # Why it is run.
    point: Point  # The job-wide values.
    subject: Subject = Subject.SWEEP  # What the launch is made of.
    block: int = 0  # Trials of one block share what drifts slowly: the node placement, the boot setting.
    seed: int = 0  # Of everything random inside the launch.
    note: str = ""  # Why this point: the row of the design, or the proposer's words.
    rules: tuple[Rule, ...] = ()  # Of a ``deployed`` subject: the per-size table that its files hold.
    timeout_s: float = 0.0  # After which it is ended; 0: as every launch of the campaign.
    repeats: int = 0  # Number of the trial that failed and is made once more; 0: none.
    each: int = 0  # Of a verification: launches of each side in a block; 0: two, of earlier versions.
    heat: bool = False  # Whether it is launched at once with the others of its block, in turns with them.


@dataclass(frozen=True, slots=True)
class Cell:
    """The key of one estimate."""

    collective: str  # MPI's name without the prefix, lower case.
    comm_size: int  # Ranks of the communicator.
    message_bytes: int  # As OSU counts: per rank for allreduce, bcast, reduce, per block for the others.
    choice: Point = Point()  # Call-level values; empty: whatever the stack decides.


@dataclass(frozen=True, slots=True)
class Estimate:
    """The location of one cell's samples."""

    cell: Cell  # What was measured.
    median_s: float  # The location, a median unless the scenario says otherwise; NaN where not ``ok``.
    sem_s: float  # Its standard error within this launch.
    n: int  # Samples behind it.
    status: Status = Status.OK  # Whether the cell may be used.
    low_s: float = math.nan  # Lower end of the confidence interval of the location.
    high_s: float = math.nan  # Upper end of it.
    outliers: int = 0  # Samples far outside, kept and counted.
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further figures of the cell, by name with unit suffix."""
    reason: str = ""  # In words, where the status is not ``ok``.

    @property
    def other_loop_s(self) -> float:
        """The location in the probe's other loop; NaN where it was not measured, or is no time."""
        seconds = self.extra.get("other_loop_s", math.nan)
        return seconds if _SHORTEST_S <= seconds <= _LONGEST_S else math.nan

    @property
    def mean_s(self) -> float:
        """The plain mean of the calls, where a launch of the verification has it; else their location.

        Journals of earlier versions have a mean in which the slowest calls were cut.
        """
        seconds = self.extra.get(PLAIN_MEAN, self.extra.get(CUT_MEAN, math.nan))
        return seconds if _SHORTEST_S <= seconds <= _LONGEST_S else self.median_s

    @property
    def flaw(self) -> str:
        """Why these cannot be figures of a measurement; empty: they can."""
        low, high = (_SHORTEST_S, _LONGEST_S) if self.cell.collective in COLLECTIVES else (_LEAST, _MOST)
        if not low <= self.median_s <= high:
            return f"{self.median_s:g} s is no time that a call can take"
        if not 0 <= self.sem_s <= _WILD * self.median_s:
            return f"a standard error of {self.sem_s:g} s beside {self.median_s:g} s: nothing is known"
        return "" if self.n > 0 else "no samples"

    def believed(self) -> "Estimate":
        """The estimate, ``invalid`` where its figures cannot be those of a measurement."""
        if self.status is not Status.OK or not (flaw := self.flaw):
            return self
        return Estimate(self.cell, math.nan, math.nan, self.n, Status.INVALID, reason=flaw)


@dataclass(frozen=True, slots=True)
class Observation:
    """The result of one trial."""

    trial: Trial  # What was run.
    status: Status  # How the launch as a whole ended; cells of an ``ok`` launch can still be unusable.
    estimates: tuple[Estimate, ...] = ()  # One for each cell; empty unless something was measured.
    reason: str = ""  # In words, where the status is not ``ok``.
    duration_s: float = 0.0  # Of the launch, without the queue.
    queue_s: float = 0.0  # Waiting for a scheduler.
    hosts: tuple[str, ...] = ()  # Where it ran.
    extra: Mapping[str, float] = field(default_factory=dict)
    """Launch-wide figures by name with unit suffix, e.g. ``memory_bytes``."""
    notes: tuple[str, ...] = ()  # What the probe reported beside the figures, e.g. how calls were timed.

    def __hash__(self) -> int:
        return hash((self.trial.number, self.trial.seed, self.status))

    @property
    def ok(self) -> bool:
        """Whether the launch may be used."""
        return self.status is Status.OK

    @property
    def apart(self) -> bool:
        """Whether its cores were further apart than usual, which it says itself."""
        return far_apart(self.extra)

    @property
    def disturbed(self) -> bool:
        """Whether it was lost for that."""
        return self.status is Status.LOST and self.apart

    @property
    def never_ran(self) -> bool:
        """Whether its job never started, so that it says nothing of its point."""
        return self.status is Status.LOST and self.queue_s > 0 and not self.duration_s

    @property
    def lost_before(self) -> int:
        """Number of attempts at the launch that were lost before this one."""
        return int(self.extra.get(LOST_BEFORE, 0))

    @property
    def usable(self) -> Iterator[Estimate]:
        """The estimates that may be used."""
        return (e for e in self.estimates if e.status is Status.OK) if self.ok else iter(())

    def believed(self) -> "Observation":
        """The observation with implausible estimates left out.

        Cells with a time that cannot be are ``invalid``, and so is the whole where no cell is left; other
        figures that cannot be are left out. Every observation passes here, fresh or out of a
        journal, so that whatever reads a history finds positive and finite times alone.
        """
        estimates = tuple(estimate.believed() for estimate in self.estimates)
        status, reason = self.status, self.reason
        if status is Status.OK and not any(e.status is Status.OK for e in estimates):
            worst = next((e for e in estimates if e.status is not Status.OK), None)
            status = worst.status if worst else Status.INVALID
            reason = (worst.reason if worst else "") or reason or "nothing was measured"
        return replace(
            self,
            status=status,
            reason=reason,
            estimates=estimates,
            duration_s=_span(self.duration_s),
            queue_s=_span(self.queue_s),
            extra={name: value for name, value in self.extra.items() if 0 <= value < _MOST},
        )


def _span(seconds: float) -> float:
    return seconds if 0 <= seconds < _LONGEST_S else 0.0


@dataclass(frozen=True)
class History:
    """All observations of a campaign, in the order in which they were made."""

    observations: tuple[Observation, ...] = ()  # In order.

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def next_number(self) -> int:
        """Number of the trial that comes after all of these."""
        return max((o.trial.number for o in self.observations), default=0) + 1

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
        """The launches that are evidence about points of a space.

        Those of sweeps; and, where nothing is swept inside a launch, those of the untouched stack, which are
        then launches of the default point, unless the scenario fixes something there.
        """
        alike = not space.call and all(p.held_from is None for p in space.job)
        subjects = {Subject.SWEEP, Subject.UNTOUCHED} if alike else {Subject.SWEEP}
        kept = (o for o in self.observations if o.trial.subject in subjects)
        return History(tuple(_of_default(o, space) for o in kept))

    def plus(self, observations: Iterable[Observation]) -> "History":
        """This history, longer."""
        return History((*self.observations, *observations))


def _of_default(observation: Observation, space: Space) -> Observation:
    """An untouched launch as one of a space's default, which a discovery may have narrowed since."""
    trial = observation.trial
    if trial.subject is not Subject.UNTOUCHED or trial.point == space.default:
        return observation
    return replace(observation, trial=replace(trial, point=space.default))
