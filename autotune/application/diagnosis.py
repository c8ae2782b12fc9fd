"""Diagnose where an application's run spends time in MPI, why, and how much of this time tuning can save.

A diagnosis is computed from a recording and from the *floor*: the best times of this machine for the recorded
calls, among the default and a few settings. The floor is measured in minutes, in place of a campaign.

Tuning does not remove the waiting for late ranks. Where collectives take T seconds without waiting, and a
call takes t_d by default and t_b at best, tuning saves T (1 − t_b / t_d) (see `reach`). In transfers between
two ranks, waiting cannot be separated from the transfer. Tuning is expected to save the same share there, but
only of the time that the benchmark probe measures for such transfers. The interval of this saving begins at
zero, for the case that all recorded time is waiting or overlapped, and ends at the share of all recorded
time, for the case that all of it is transfer.

The upper bound of the saving must be valid whatever made the calls slow. If the cause was a setting that was
not in effect when the floor was measured, tuning would save T − n t_b in n calls. The part of T − n t_b
beyond the end of the interval is *unexplained*: it is included in the bound but not in the expected saving.
The bound includes the waiting for late ranks as well, because MPI's own calls make ranks late, too (after a
slow reduction its root is late for the next broadcast); it excludes waiting that is known to be caused
outside of MPI. A second that a rank spends in MPI delays each of the p - 1 other ranks by a second at most;
therefore the included waiting is at most p - 1 times the remaining part of the bound.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from autotune.application.floor import Floor
from autotune.application.reach import BOTHER, UNLIKE, Ends, met, near, predicted, savings
from autotune.application.recorded_time import PROBED, LateRank, OtherCalls
from autotune.application.recording import RecordedCalls, Recording
from autotune.recommend.recommendation import Gain

COLLECTIVE, PAIRS, ONE_SIDED = "collectives", "point-to-point", "one-sided"
"""Families of calls whose duration depends on MPI's settings."""
_MOST_LATE = 3  # Largest number of late ranks that a diagnosis names.
_MOSTLY = 0.8  # Late ranks are named until the named ones have caused this share of the waiting.


class Advice(StrEnum):
    """Says whether a campaign is worthwhile."""

    TUNE = "tune"  # Tuning saves a share of the run that matters (``BOTHER``), with 95 % confidence.
    INCONCLUSIVE = "inconclusive"  # Tuning may save a share that matters.
    UNMEASURED = "not measured"  # Tuning may save a share that matters; no floor was measured.
    LEAVE = "do not bother"  # Tuning cannot save a share that matters.


@dataclass(frozen=True, slots=True)
class Late:
    """Says which ranks other ranks waited for in one collective."""

    pattern: str  # Which ranks come late, one of ``recorded_time.PATTERNS``.
    period_s: float | None  # Period of the late arrivals in seconds; None where they are not periodic.
    outside: float | None  # Share of the waiting that is caused outside of MPI; None: not known.
    ranks: tuple[LateRank, ...]  # The ranks that caused most of the waiting, at most ``_MOST_LATE``.


@dataclass(frozen=True, slots=True)
class Loss:
    """The time that a mean rank spends in calls of one kind, or waits for late ranks in such calls."""

    family: str  # Family of the calls, as in the recording.
    name: str  # The collective; in other families of calls the operation with most of the time.
    waiting: bool  # Whether the time is waiting for late ranks.
    seconds: float  # Seconds that a mean rank spends in a run.
    message_bytes: float | None  # Mean size of the calls with most of the time; None: no data.
    within: str = ""
    """Operation, such as ``waitall``, that completes these calls, if most of their time passes in it."""
    times: float | None = None  # Time of the calls divided by the best measured time; None: not measured.
    unlike: bool = False  # Whether most of the time must have a cause that the measured calls lacked.
    win_s: Ends | None = None
    """Seconds that tuning can save, with their interval; None: not known, or no setting can save any."""
    unexplained_s: float = 0.0
    """Seconds by which the calls take longer than the best measured time, beyond the interval of ``win_s``;
    their cause is not known. For waiting, the seconds that MPI itself may have caused."""
    derived: float = 0.0  # Share of the calls whose datatype the program has defined.
    touched: bool = True  # Whether settings of MPI could change the time.
    late: Late | None = None  # The ranks that others waited for; None: no waiting, or not known.


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Says how much time one run spends in MPI, and how much of it tuning can save."""

    run_s: float  # Wall time of the run in seconds.
    mpi_s: Ends  # Seconds of a mean rank in MPI, summed over its threads, with their interval.
    losses: tuple[Loss, ...]  # The time in MPI by kind of call; the kind with most time comes first.
    verdict: Advice  # Whether a campaign is worthwhile.
    win: Ends | None  # Share of the run's time that tuning can save, with its interval; None: no floor.
    most: float  # Upper bound of the share of the run's time that tuning can save.
    unexplained: float  # Part of ``most`` whose cause is not known; see the module's description.
    threads: int  # Largest number of threads of a rank that called MPI.
    unseen: tuple[str, ...]  # Other ways, such as NCCL, by which the run communicated; not recorded.
    all_of_mpi: bool  # Whether all of MPI was recorded; otherwise only collectives were.

    def share(self, loss: Loss) -> float:
        """Return the time of a loss as a share of the run's wall time."""
        return loss.seconds / self.run_s

    @property
    def waiting_s(self) -> float:
        """Return the seconds that a mean rank waits for late ranks."""
        return math.fsum(loss.seconds for loss in self.losses if loss.waiting)


def diagnose(recorded: Recording, floor: Floor | None = None) -> Diagnosis:
    """Return where a recorded run spends time in MPI and, given a floor, how much of it tuning can save."""
    gains = floor.gains if floor else ()
    losses = _passed_on([*_in_collectives(recorded, gains), *_in_others(recorded, gains)], recorded.ranks)
    # The ends of the intervals are summed, as if all errors had one sign.
    wins = [loss.win_s for loss in losses if loss.win_s is not None]
    win = tuple(math.fsum(win_s[k] for win_s in wins) / recorded.run_s for k in range(3))
    open_s = math.fsum(loss.seconds for loss in losses if loss.touched and loss.win_s is None)
    unexplained = math.fsum(loss.unexplained_s for loss in losses) / recorded.run_s
    bound = min(win[2] + open_s / recorded.run_s + unexplained, 1.0)
    if bound < BOTHER:
        verdict = Advice.LEAVE
    elif not wins:
        verdict = Advice.UNMEASURED
    else:
        verdict = Advice.TUNE if win[1] >= BOTHER else Advice.INCONCLUSIVE
    return Diagnosis(
        run_s=recorded.run_s,
        mpi_s=_in_mpi(recorded),
        losses=tuple(sorted(losses, key=lambda loss: -loss.seconds)),
        verdict=verdict,
        win=(win[0], win[1], win[2]) if wins else None,
        most=bound,
        unexplained=unexplained,
        threads=recorded.threads,
        unseen=recorded.unseen,
        all_of_mpi=recorded.timed_all_of_mpi,
    )


def _passed_on(losses: Sequence[Loss], ranks: int) -> list[Loss]:
    """Return the losses, in which waiting that MPI itself may have caused is entered as unexplained."""
    touched = [loss for loss in losses if loss.touched]
    inside_s = math.fsum(x.unexplained_s + (x.win_s[2] if x.win_s else x.seconds) for x in touched)
    suspect_s = {
        id(loss): loss.seconds * (1.0 - ((loss.late.outside or 0.0) if loss.late else 0.0))
        for loss in losses
        if loss.waiting
    }
    total_s = math.fsum(suspect_s.values())
    part = min((ranks - 1) * inside_s / total_s, 1.0) if total_s else 0.0
    return [
        replace(loss, unexplained_s=suspect_s[id(loss)] * part) if loss.waiting else loss for loss in losses
    ]


def _in_mpi(recorded: Recording) -> Ends:
    """Return the seconds of a mean rank in MPI, with their interval.

    The resolution of the clock causes errors of the same sign in all calls, so the ends of the calls'
    intervals are summed.
    """
    total = low = high = math.fsum(recorded.families_s.values())
    rows: Iterable[RecordedCalls | OtherCalls] = (*recorded.calls, *recorded.other)
    for row in rows:
        if row.seconds_low is not None and row.seconds_high is not None:
            # The time of waiting for requests counts in the calls that began the requests, and so does its
            # part of the intervals.
            part = row.own_s / (row.seconds or 1.0) if isinstance(row, OtherCalls) else 1.0
            low -= part * max(row.seconds - row.seconds_low, 0.0)
            high += part * max(row.seconds_high - row.seconds, 0.0)
    return total, max(low, 0.0), high


def _in_collectives(recorded: Recording, gains: Sequence[Gain]) -> Iterable[Loss]:
    """Yield the losses of each collective: its waiting for late ranks, and its remaining time."""
    groups: dict[str, list[RecordedCalls]] = defaultdict(list)
    for row in recorded.calls:
        groups[row.collective].append(row)
    for name, rows in groups.items():
        waiting_s = math.fsum(row.waiting_s for row in rows)
        if waiting_s > 0:
            top = max(rows, key=attrgetter("waiting_s"))
            yield Loss(COLLECTIVE, name, True, waiting_s, _size(top), touched=False, late=_late(rows))
        busy_s = math.fsum(row.busy_s for row in rows)
        if busy_s > 0:
            top = max(rows, key=attrgetter("busy_s"))
            touched = any(row.comm_size > 1 for row in rows)
            loss = Loss(COLLECTIVE, name, False, busy_s, _size(top), touched=touched, derived=_derived(rows))
            yield _with_win(loss, recorded, rows, gains)


def _derived(rows: Sequence[RecordedCalls | OtherCalls]) -> float:
    return sum(row.derived for row in rows) / max(sum(row.calls for row in rows), 1)


def _size(row: RecordedCalls) -> float | None:
    return row.message_bytes if row.sized else None


def _with_win(loss: Loss, recorded: Recording, rows: Sequence[RecordedCalls], gains: Sequence[Gain]) -> Loss:
    """Return the loss in a collective's calls ``rows``, with the seconds added that tuning can save."""
    measured = list(met(rows, gains))
    covered_s = math.fsum(row.busy_s for row, _ in measured)
    if covered_s <= 0:
        return loss
    saving = savings(replace(recorded, calls=tuple(rows)), gains)
    ends = predicted(saving.seconds, saving.draw_s)
    best_s = hidden_s = 0.0
    for row, near_gains in measured:
        best_s += row.calls_per_rank * math.fsum(share * gain.tuned_s for gain, share in near_gains)
        part = math.fsum(share * max(gain.saved[0], 0.0) for gain, share in near_gains)
        hidden_s += part * max((row.seconds_high or row.seconds) - row.seconds, 0.0)
    # Calls that were not measured are assumed to save the same share as the others of their collective.
    scale = loss.seconds / covered_s
    value, low, high = (max(end, 0.0) * scale for end in ends)
    high = value + math.hypot(high - value, hidden_s)
    return replace(
        loss,
        win_s=(value, low, high),
        times=covered_s / best_s,
        unlike=saving.unlike_s > covered_s / 2,
        unexplained_s=max(scale * (covered_s - best_s) - high, 0.0),
    )


def _late(rows: Sequence[RecordedCalls]) -> Late | None:
    """Return which ranks the others waited for in a collective, with the pattern of most of the waiting."""
    late = [row.lateness for row in rows if row.lateness is not None and row.lateness.ranks]
    if not late:
        return None
    sums: dict[int, list[LateRank]] = defaultdict(list)
    for lateness in late:
        for rank in lateness.ranks:
            sums[rank.rank].append(rank)

    def summed(rank: int, parts: Sequence[LateRank]) -> LateRank:
        caused_s, waited_s = (math.fsum(map(attrgetter(name), parts)) for name in ("caused_s", "waited_s"))
        return LateRank(rank, max(part.last for part in parts), caused_s, waited_s)

    ranks = sorted((summed(*parts) for parts in sums.items()), key=lambda rank: -rank.caused_s)
    total = math.fsum(rank.caused_s for rank in ranks)
    listed: list[LateRank] = []
    for rank in ranks[:_MOST_LATE]:
        if math.fsum(r.caused_s for r in listed) < _MOSTLY * total:
            listed.append(rank)
    leading = max(late, key=lambda lateness: math.fsum(rank.caused_s for rank in lateness.ranks))
    shares = [(row.waiting_s, row.lateness.outside) for row in rows if row.lateness is not None]
    outside_s = [waiting_s * share for waiting_s, share in shares if share is not None]
    waiting_s = math.fsum(row.waiting_s for row in rows)
    outside = math.fsum(outside_s) / waiting_s if outside_s and waiting_s else None
    return Late(leading.pattern, leading.period_s, outside, tuple(listed))


def _in_others(recorded: Recording, gains: Sequence[Gain]) -> Iterable[Loss]:
    """Yield the time in each family of calls that are no collectives, as a loss."""
    families: dict[str, list[OtherCalls]] = defaultdict(list)
    for row in recorded.other:
        families[row.family].append(row)
    completions = [row for row in families["completion"] if row.completing_s > 0]
    completion = max(completions, key=attrgetter("completing_s"), default=None)
    for family, rows in families.items():
        total_s = math.fsum(row.own_s for row in rows)
        if total_s <= 0:
            continue
        top = max(rows, key=attrgetter("own_s"))
        inside = family != "completion" and 2 * top.completing_s > top.seconds
        within = completion.operation if inside and completion is not None else ""
        size, touched, derived = top.message_bytes or None, family in (PAIRS, ONE_SIDED), _derived(rows)
        loss = Loss(family, top.operation, False, total_s, size, within, touched=touched, derived=derived)
        yield _transfers(loss, rows, gains) if touched else loss


def _transfers(loss: Loss, rows: Sequence[OtherCalls], gains: Sequence[Gain]) -> Loss:
    """Return a loss in transfers between two ranks, with the seconds added that tuning can save, if known."""
    default_s = best_s = saved_s = high_s = 0.0
    for row in rows:
        name = PROBED.get(row.operation, "")
        for gain, share in near(gains, name, None, row.message_bytes):
            probed_s = row.calls_per_rank * share * gain.default_s
            default_s += probed_s
            best_s += row.calls_per_rank * share * gain.tuned_s
            saved_s += probed_s * max(gain.saved[0], 0.0)
            high_s += probed_s * max(gain.saved[2], 0.0)
    if default_s <= 0:
        return loss
    high_s = min(loss.seconds, UNLIKE * default_s) * (high_s / default_s)
    return replace(
        loss,
        win_s=(min(loss.seconds, default_s) * (saved_s / default_s), 0.0, high_s),
        times=loss.seconds / best_s,
        unlike=loss.seconds > UNLIKE * default_s,
        unexplained_s=max(loss.seconds - best_s - high_s, 0.0),
    )
