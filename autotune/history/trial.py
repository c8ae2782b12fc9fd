"""Define trials, observations and the history of a campaign (data flow: trial and observation).

Notation: a *cell* is one (collective, communicator size, message size, call-level choice); an observation
has one estimate for each cell that its launch measured.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from autotune.collectives import COLLECTIVES
from autotune.history.memory import remembered
from autotune.space import Point, Space

_SHORTEST_S, _LONGEST_S = 1e-9, 1e7
"""Smallest and largest time in seconds that a call can take: a clock's step, and some months."""
_LEAST, _MOST = 1e-100, 1e100  # Bounds of a program's response, within which ratios and products are finite.
PLAIN_MEAN = "plain_mean_s"  # Key of ``Estimate.extra``: the plain mean of the calls.
UNINTERRUPTED_MEAN, UNINTERRUPTED_SEM = "uninterrupted_mean_s", "uninterrupted_sem_s"
"""Keys of ``Estimate.extra``: the mean of the calls that no other work interrupted, and its standard error
within the launch."""
INTERRUPTIONS = "interruptions"  # Key of ``Estimate.extra``: the number of interrupted calls.
UNINTERRUPTED_S = "uninterrupted_s"
"""Key of ``Estimate.extra``: seconds for which the cell was measured, without the interruptions, but with the
calls that synchronise the ranks."""
SLOWEST_STATE = "slowest_state_s"
"""Key of ``Estimate.extra``: the time in the state of the machine, among those it was in, in which the
setting is slowest in relation to the default."""
_WILD = 100.0  # Largest standard error, as a multiple of the value, with which anything is known.


class Status(StrEnum):
    """Says how a launch, or a single cell of it, ended; names never change, since journals contain them."""

    OK = "ok"  # Measured, and all requested settings were applied.
    INVALID = "invalid"  # It could not be measured: bad request, wrong library, too few ranks.
    WRONG_RESULT = "wrong_result"  # The collective gave a wrong answer.
    NOT_APPLIED = "not_applied"  # A requested setting was not applied.
    TIMEOUT = "timeout"  # This program ended it after ``timeout_s``.
    CRASHED = "crashed"  # The launch ended without a result.
    LOST = "lost"  # The launch was ended from outside (job, node, daemon, this program): no evidence.

    @property
    def may_pass(self) -> bool:
        """Whether the machine may have been at fault, so that the same launch may go well next time."""
        return self in (Status.CRASHED, Status.LOST, Status.TIMEOUT)


def status_of(word: str, reason: str) -> tuple[Status, str]:
    """Return the status that a result names, and its reason; ``invalid`` for an unknown name."""
    if word in list(Status):
        return Status(word), reason
    return Status.INVALID, f"damaged result: unknown status {word!r}"


class Phase(StrEnum):
    """Says why a trial is run; names never change, since journals contain them."""

    BASELINE = "baseline"
    DISCOVERY = "discovery"
    SCREENING = "screening"
    SEARCH = "search"
    VERIFY = "verify"
    STARTS = "starts"  # The verification tests whether launches start and end well; times are not used.


class Subject(StrEnum):
    """Says what a launch measures: a sweep of choices, the stack's own defaults, or deployed files."""

    SWEEP = "sweep"  # A point (job-wide values); the launch measures every call-level choice.
    UNTOUCHED = "untouched"  # Nothing set: the stack's own defaults decide.
    DEPLOYED = "deployed"  # A point together with the files that a user would install.


TIMED = "timed_s"  # Key of ``Observation.extra``: seconds in timed calls and in synchronising ranks.
LOST_BEFORE = "lost_before"  # Key of ``Observation.extra``: attempts that were lost before this one.
_OWN = ("", 0, "0", "default", "auto")  # Per-size values that leave the choice to the stack.


def left_to_the_stack(value: object) -> bool:
    """Whether a per-size value leaves the choice to the stack."""
    return value in _OWN


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a per-size table: use ``choice`` from ``min_bytes`` on, up to the next row."""

    collective: str  # MPI's name without the prefix, lower case.
    comm_size: int  # Ranks of the communicator on which the rule was measured.
    min_bytes: int  # Smallest message size that the rule covers; below the first rule the stack decides.
    choice: Point  # The per-size values; empty: the stack decides.

    @property
    def sets(self) -> bool:
        """Whether the rule sets anything, so that a file must contain it."""
        return not all(map(left_to_the_stack, self.choice.values()))


@dataclass(frozen=True, slots=True)
class BlockMember:
    """Describes the settings of one launch in a block of the verification."""

    point: Point  # The job-wide values.
    subject: Subject  # ``untouched`` (the stack's own defaults) or ``deployed``.
    rules: tuple[Rule, ...] = ()  # The per-size table of a ``deployed`` setting.


@dataclass(frozen=True, slots=True)
class Trial:
    """Describes one launch to be made, and the campaign's decisions that led to it.

    Decisions are written with the first launch that follows from them. A campaign that is continued reads
    them from its journal, and never decides differently.
    """

    number: int  # Number of the trial, from 1, unique in its campaign.
    phase: Phase  # Why the trial is run.
    point: Point  # The job-wide values.
    subject: Subject = Subject.SWEEP  # A sweep, the stack's own defaults, or deployed files.
    block: int = 0  # Number of the block; its trials share what drifts slowly: nodes and boot setting.
    seed: int = 0  # Random seed for the launch.
    note: str = ""  # Reason for this point in words: the row of the design, or the proposer's reason.
    rules: tuple[Rule, ...] = ()  # The per-size table in the files of a ``deployed`` subject.
    timeout_s: float = 0.0  # Seconds after which the launch is ended; 0: the campaign's usual limit.
    repeats: int = 0  # Number of the failed trial that this one repeats; 0: none.
    each: int = 0  # Launches of each side in a block of the verification; 0: two, as in earlier versions.
    heat: int = 0
    """Number of the first trial of its heat (launches that are alive at once and measure in turns); 0: the
    trial is launched alone."""
    measured_s: float = 0.0  # Seconds that the launch measures in its turns of a heat; 0: the usual time.
    block_members: tuple[BlockMember, ...] = ()
    """If this launch begins a block of the verification: all launches of the block in their order, this one
    first; else empty."""
    freed: str = ""  # Factor that the screening fixed and this trial tries again; empty: none.


@dataclass(frozen=True, slots=True)
class Cell:
    """Identifies what was measured: one collective, communicator size, message size and choice."""

    collective: str  # MPI's name without the prefix, lower case.
    comm_size: int  # Ranks of the communicator.
    message_bytes: int  # Size as OSU counts it: per rank for allreduce, bcast, reduce, else per block.
    choice: Point = Point()  # Call-level values, such as the algorithm; empty: the stack decides.


@dataclass(frozen=True, slots=True)
class Estimate:
    """Holds the typical time (location) of one cell's samples in one launch."""

    cell: Cell  # What was measured.
    median_s: float  # The location in seconds: the median, or another estimator; NaN where not ``ok``.
    sem_s: float  # Standard error of the location within this launch, in seconds.
    n: int  # Number of samples.
    status: Status = Status.OK  # ``ok`` if the cell may be used, else why not.
    low_s: float = math.nan  # Lower end of the confidence interval of the location, in seconds.
    high_s: float = math.nan  # Upper end of the confidence interval, in seconds.
    outliers: int = 0  # Number of samples far from the others; they are not left out.
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further figures of the cell, by name with unit suffix."""
    reason: str = ""  # Why the status is not ``ok``, in words; empty where it is.

    @property
    def other_loop_s(self) -> float:
        """The location in the probe's other loop, in seconds; NaN if not measured, or if it is impossible."""
        seconds = self.extra.get("other_loop_s", math.nan)
        return seconds if _SHORTEST_S <= seconds <= _LONGEST_S else math.nan

    @property
    def mean_s(self) -> float:
        """The plain mean of the calls in seconds; their location if the launch did not store the mean.

        Only launches of the verification store the mean.
        """
        seconds = self.extra.get(PLAIN_MEAN, math.nan)
        return seconds if _SHORTEST_S <= seconds <= _LONGEST_S else self.median_s

    @property
    def uninterrupted_mean_s(self) -> float:
        """The mean of the calls that no other work interrupted, in seconds; ``mean_s`` if it is unknown."""
        seconds = self.extra.get(UNINTERRUPTED_MEAN, math.nan)
        return seconds if _SHORTEST_S <= seconds <= _LONGEST_S else self.mean_s

    @property
    def flaw(self) -> str:
        """The reason why the figures cannot come from a measurement; empty if they can."""
        low, high = (_SHORTEST_S, _LONGEST_S) if self.cell.collective in COLLECTIVES else (_LEAST, _MOST)
        if not low <= self.median_s <= high:
            return f"{self.median_s:g} s is no time that a call can take"
        if not 0 <= self.sem_s <= _WILD * self.median_s:
            return f"a standard error of {self.sem_s:g} s beside {self.median_s:g} s: nothing is known"
        return "" if self.n > 0 else "no samples"

    def believed(self) -> "Estimate":
        """Return the estimate, or an ``invalid`` one if its figures cannot come from a measurement."""
        if self.status is not Status.OK or not (flaw := self.flaw):
            return self
        return Estimate(self.cell, math.nan, math.nan, self.n, Status.INVALID, reason=flaw)


@dataclass(frozen=True, slots=True)
class Observation:
    """Holds the result of one trial."""

    trial: Trial  # The trial that was launched.
    status: Status  # How the launch as a whole ended; cells of an ``ok`` launch can still be unusable.
    estimates: tuple[Estimate, ...] = ()  # One for each cell; empty unless something was measured.
    reason: str = ""  # Why the status is not ``ok``, in words; empty where it is.
    duration_s: float = 0.0  # Seconds that the launch took, without the time in a queue.
    queue_s: float = 0.0  # Seconds that the launch waited in the queue of a batch system.
    hosts: tuple[str, ...] = ()  # Names of the nodes on which the launch ran.
    extra: Mapping[str, float] = field(default_factory=dict)
    """Launch-wide figures by name with unit suffix, e.g. ``memory_bytes``."""
    notes: tuple[str, ...] = ()  # Further reports of the probe in words, e.g. how calls were timed.

    def __hash__(self) -> int:
        return hash((self.trial.number, self.trial.seed, self.status))

    @property
    def ok(self) -> bool:
        """Whether the results of the launch may be used."""
        return self.status is Status.OK

    @property
    def took_s(self) -> float:
        """Seconds from the request of the launch to its end, with the time in a queue."""
        return self.duration_s + self.queue_s

    @property
    def never_ran(self) -> bool:
        """Whether the job of the launch never started, so that it says nothing about its point."""
        return self.status is Status.LOST and self.queue_s > 0 and not self.duration_s

    @property
    def lost_before(self) -> int:
        """The number of attempts at this launch that were lost before this one."""
        return int(self.extra.get(LOST_BEFORE, 0))

    @property
    def usable(self) -> Iterator[Estimate]:
        """The estimates with status ``ok``; none if the launch has another status."""
        return (e for e in self.estimates if e.status is Status.OK) if self.ok else iter(())

    def believed(self) -> "Observation":
        """Return the observation without figures that no measurement can have given.

        A cell with an impossible time becomes ``invalid``, and so does the observation where no usable cell
        remains; other impossible figures are left out. Every observation, new or read from a journal, goes
        through this method, so that a history contains only positive and finite times.
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
    """Holds observations of a campaign, in the order in which they were made."""

    observations: tuple[Observation, ...] = ()  # The observations, in the order of their launches.
    last_number: int = 0  # Largest number of a trial of the campaign; 0: the largest in ``observations``.

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.observations)

    def __len__(self) -> int:
        return len(self.observations)

    @property
    def next_number(self) -> int:
        """The number of the campaign's next trial."""
        return max((self.last_number, *(o.trial.number for o in self.observations))) + 1

    def of(self, *phases: Phase) -> "History":
        """Return only the observations of these phases."""
        return History(tuple(o for o in self.observations if o.trial.phase in phases))

    @property
    def sweeps(self) -> "History":
        """The observations of launches that swept a point, which proposers and recommendations learn from."""
        return History(tuple(o for o in self.observations if o.trial.subject is Subject.SWEEP))

    @property
    def untouched(self) -> "History":
        """The observations of launches with the stack's own defaults."""
        return History(tuple(o for o in self.observations if o.trial.subject is Subject.UNTOUCHED))

    def of_points(self, space: Space) -> "History":
        """Return the launches that are evidence about points of a space.

        These are the launches that swept a point. If nothing is swept inside a launch and the scenario fixes
        no parameter, launches of the untouched stack count too, as launches of the default point.
        """
        default_is_untouched = not space.call and all(p.held_from is None for p in space.job)
        subjects = {Subject.SWEEP, Subject.UNTOUCHED} if default_is_untouched else {Subject.SWEEP}
        evidence = (o for o in self.observations if o.trial.subject in subjects)
        return History(tuple(_of_default(o, space) for o in evidence))

    def of_discovery(self, whole: Space, space: Space) -> "History":
        """Return the discovery's launches of settings that belong to the space of the search, as its points.

        If launches of the search sweep choices, the result is empty, since a discovery measures one of them.

        Args:
            whole: The space in which the discovery chose its settings.
            space: The space of the search.
        """
        if any(e.cell.choice for o in self.of(Phase.SEARCH) for e in o.usable):
            return History()
        points = ((whole.translated(o.trial.point, space), o) for o in self.of(Phase.DISCOVERY) if o.ok)
        launches = (
            replace(o, trial=replace(o.trial, point=p, subject=Subject.SWEEP)) for p, o in points if p
        )
        return History(tuple(launches))

    @property
    def in_slowest_states(self) -> "History":
        """The observations with the times of the state of the machine in which each setting is slowest."""
        return History(tuple(map(_in_slowest_state, self.observations)))

    def plus(self, observations: Iterable[Observation]) -> "History":
        """Return this history with further observations at its end."""
        return History((*self.observations, *observations))


@remembered
def _in_slowest_state(observation: Observation) -> Observation:
    if not any(SLOWEST_STATE in e.extra for e in observation.estimates):
        return observation
    slowest = ((e, e.extra.get(SLOWEST_STATE, e.median_s) / e.median_s) for e in observation.estimates)
    estimates = (replace(e, median_s=e.median_s * by, sem_s=e.sem_s * by) for e, by in slowest)
    return replace(observation, estimates=tuple(estimates))


def _of_default(observation: Observation, space: Space) -> Observation:
    """Return the observation; a launch of the untouched stack gets the default point of this space.

    A discovery may have changed the default point since that launch.
    """
    trial = observation.trial
    if trial.subject is not Subject.UNTOUCHED or trial.point == space.default:
        return observation
    return replace(observation, trial=replace(trial, point=space.default))
