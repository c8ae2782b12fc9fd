"""Losses of a run in MPI, their causes, and the gain possible by tuning (beside step 12).

A function of what was recorded and of the *floor*: what this machine does at its best for the recorded calls,
by default and with a few settings, measured in minutes in place of a campaign.

Waiting for late ranks is nobody's to win by tuning. Of collectives T seconds without waiting, which take t_d
by default and t_b at best, T (1 − t_b / t_d) can be won (see `reach`). Of transfers between two ranks
waiting is not separable from transfer, and the same share is won only of the probe's own time for
them: the interval begins at nothing, where all is waiting or overlapped, and ends where all is transfer.

A bound must hold whatever made the calls slow. Were it a setting that was not in effect when the floor was
measured, tuning would win T − n t_b of n calls: what that is more than the interval's end is *unexplained*,
belongs to the bound, and is promised to nobody. So does waiting unless the late rank is known to have
been late outside of MPI: MPI's own calls make ranks late, too (after a slow reduction its root comes late to
the next broadcast). A second that MPI takes a rank delays each of the p - 1 others by a second at most.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from operator import attrgetter

from autotune.importers.recorded_time import PROBED, LateRank, OtherCalls
from autotune.importers.recording import RecordedCalls, Recording
from autotune.recommend.floor import Floor
from autotune.recommend.predicted import predicted
from autotune.recommend.reach import BOTHER, UNLIKE, Ends, met, near, savings
from autotune.recommend.recommendation import Gain

COLLECTIVE, PAIRS, ONE_SIDED = "collectives", "point-to-point", "one-sided"
"""Families of calls that settings of the transport change."""
_MOST_LATE = 3
"""Ranks that are named."""
_MOSTLY = 0.8
"""Share of the waiting after which the ranks that cause the rest are not named."""


class Advice(StrEnum):
    """Whether a campaign is worth it."""

    TUNE = "tune"  # It wins what matters, with 95 %.
    INCONCLUSIVE = "inconclusive"  # It may.
    UNMEASURED = "not measured"  # It may: how fast this machine is at its best was not measured.
    LEAVE = "do not bother"  # It cannot.


@dataclass(frozen=True, slots=True)
class Late:
    """For whom ranks waited in one collective."""

    pattern: str  # See ``recorded_time.PATTERNS``.
    period_s: float | None  # Where they come at a period.
    outside: float | None  # Share of the waiting that comes from outside of MPI; see ``Lateness``.
    ranks: tuple[LateRank, ...]  # Those that caused most of it, at most ``_MOST_LATE``.


@dataclass(frozen=True, slots=True)
class Loss:
    """Time of a mean rank in calls of one kind, or waiting for others in them."""

    family: str  # As in the recording.
    name: str  # The collective; of other families the operation with most of the time.
    waiting: bool  # Whether it is waiting for late ranks.
    seconds: float  # Of a mean rank in a run.
    message_bytes: float | None  # Mean size of the calls with most of the time; None: they carry nothing.
    within: str = ""  # The completion in which most of the time passes; empty: in the calls themselves.
    times: float | None = None  # How many times the best that was measured they take; None: not measured.
    unlike: bool = False
    """Whether they take so much longer than by default on its own that most of it is not theirs."""
    win_s: Ends | None = None  # Of the seconds, what tuning can win; None: not known, or nothing is tuned.
    unexplained_s: float = (
        0.0  # Of the rest, what they take longer than was measured, for no reason that is known.
    )
    derived: float = 0.0  # Share of the calls whose datatype is not one of MPI's own.
    touched: bool = True  # Whether settings could change it.
    late: Late | None = None  # Whom is waited for.


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One run's losses in MPI."""

    run_s: float  # Wall time.
    mpi_s: Ends  # Of it in MPI, of a mean rank over all of its threads, with its interval.
    losses: tuple[Loss, ...]  # The most time first.
    verdict: Advice  # What follows.
    win: Ends | None  # Share of the run that tuning can win; None: not measured.
    most: float  # What it can win at most.
    unexplained: float  # Part of ``most`` in calls that take longer than was measured; see above.
    threads: int  # Most threads of a rank that called MPI.
    unseen: tuple[str, ...]  # What it communicates by that is not in here.
    all_of_mpi: bool  # Whether more than collectives was recorded.

    def share(self, loss: Loss) -> float:
        """Share of the run."""
        return loss.seconds / self.run_s

    @property
    def waiting_s(self) -> float:
        """For late ranks."""
        return math.fsum(loss.seconds for loss in self.losses if loss.waiting)


def diagnose(recorded: Recording, floor: Floor | None = None) -> Diagnosis:
    """The losses of a recorded run, and with a floor the gain possible by tuning."""
    gains = floor.gains if floor else ()
    losses = _passed_on([*_in_collectives(recorded, gains), *_in_others(recorded, gains)], recorded.ranks)
    # As if all erred together.
    wins = [loss.win_s for loss in losses if loss.win_s is not None]
    win = tuple(math.fsum(one[k] for one in wins) / recorded.run_s for k in range(3))
    open_s = math.fsum(loss.seconds for loss in losses if loss.touched and loss.win_s is None)
    unexplained = math.fsum(loss.unexplained_s for loss in losses) / recorded.run_s
    most = min(win[2] + open_s / recorded.run_s + unexplained, 1.0)
    if most < BOTHER:
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
        most=most,
        unexplained=unexplained,
        threads=recorded.threads,
        unseen=recorded.unseen,
        all_of_mpi=recorded.timed_all_of_mpi,
    )


def _passed_on(losses: Sequence[Loss], ranks: int) -> list[Loss]:
    """The losses, those by waiting with what MPI may have caused of it."""
    inside_s = math.fsum(
        loss.unexplained_s + (loss.win_s[2] if loss.win_s else loss.seconds)
        for loss in losses
        if loss.touched
    )
    may_s = {id(one): one.seconds * (1.0 - _outside(one)) for one in losses if one.waiting}
    most_s = math.fsum(may_s.values())
    part = min((ranks - 1) * inside_s / most_s, 1.0) if most_s else 0.0
    return [replace(one, unexplained_s=may_s[id(one)] * part) if one.waiting else one for one in losses]


def _outside(loss: Loss) -> float:
    """Share of the waiting in a loss that is known to come from outside of MPI."""
    return (loss.late.outside or 0.0) if loss.late else 0.0


def _in_mpi(recorded: Recording) -> Ends:
    """Seconds of a mean rank in MPI; what hides between stamps of the clock hides alike: ends add up."""
    total = low = high = math.fsum(recorded.families_s.values())
    every: Iterable[RecordedCalls | OtherCalls] = (*recorded.calls, *recorded.other)
    for one in every:
        if one.seconds_low is not None and one.seconds_high is not None:
            # Of waits that stand with what began the requests, so do the ends.
            part = one.own_s / (one.seconds or 1.0) if isinstance(one, OtherCalls) else 1.0
            low -= part * max(one.seconds - one.seconds_low, 0.0)
            high += part * max(one.seconds_high - one.seconds, 0.0)
    return total, max(low, 0.0), high


def _in_collectives(recorded: Recording, gains: Sequence[Gain]) -> Iterable[Loss]:
    groups: dict[str, list[RecordedCalls]] = defaultdict(list)
    for one in recorded.calls:
        groups[one.collective].append(one)
    for name, rows in groups.items():
        waiting_s = math.fsum(one.waiting_s for one in rows)
        if waiting_s > 0:
            most = max(rows, key=attrgetter("waiting_s"))
            yield Loss(COLLECTIVE, name, True, waiting_s, _size(most), touched=False, late=_late(rows))
        busy_s = math.fsum(one.busy_s for one in rows)
        if busy_s > 0:
            most = max(rows, key=attrgetter("busy_s"))
            touched = any(one.comm_size > 1 for one in rows)
            loss = Loss(COLLECTIVE, name, False, busy_s, _size(most), touched=touched, derived=_derived(rows))
            yield _won(loss, recorded, rows, gains)


def _derived(rows: Sequence[RecordedCalls | OtherCalls]) -> float:
    """Share of calls whose datatype is not one of MPI's own."""
    return sum(one.derived for one in rows) / max(sum(one.calls for one in rows), 1)


def _size(most: RecordedCalls) -> float | None:
    return most.message_bytes if most.sized else None


def _won(loss: Loss, recorded: Recording, rows: Sequence[RecordedCalls], gains: Sequence[Gain]) -> Loss:
    """The loss with what can be won of it, as far as that is known."""
    known = list(met(rows, gains))
    covered_s = math.fsum(one.busy_s for one, _ in known)
    if covered_s <= 0:
        return loss
    found = savings(replace(recorded, calls=tuple(rows)), gains)
    ends = predicted(found.seconds, found.draw_s)
    best_s = hidden_s = 0.0
    for one, beside in known:
        best_s += one.calls_per_rank * math.fsum(share * gain.tuned_s for gain, share in beside)
        part = math.fsum(share * max(gain.saved[0], 0.0) for gain, share in beside)
        hidden_s += part * max((one.seconds_high or one.seconds) - one.seconds, 0.0)
    # What was not measured is taken to be like the rest of its collective.
    scale = loss.seconds / covered_s
    value, low, high = (max(end, 0.0) * scale for end in ends)
    high = value + math.hypot(high - value, hidden_s)
    return replace(
        loss,
        win_s=(value, low, high),
        times=covered_s / best_s,
        unlike=found.unlike_s > covered_s / 2,
        unexplained_s=max(scale * (covered_s - best_s) - high, 0.0),
    )


def _late(rows: Sequence[RecordedCalls]) -> Late | None:
    """Whom ranks waited for in a collective: the pattern is that of the calls in which most was waited."""
    late = [one.lateness for one in rows if one.lateness is not None and one.lateness.ranks]
    if not late:
        return None
    sums: dict[int, list[LateRank]] = defaultdict(list)
    for lateness in late:
        for rank in lateness.ranks:
            sums[rank.rank].append(rank)

    def summed(rank: int, alike: Sequence[LateRank]) -> LateRank:
        caused_s, waited_s = (math.fsum(map(attrgetter(name), alike)) for name in ("caused_s", "waited_s"))
        return LateRank(rank, max(one.last for one in alike), caused_s, waited_s)

    ranks = sorted((summed(*of) for of in sums.items()), key=lambda one: -one.caused_s)
    total = math.fsum(one.caused_s for one in ranks)
    named: list[LateRank] = []
    for one in ranks[:_MOST_LATE]:
        if math.fsum(r.caused_s for r in named) < _MOSTLY * total:
            named.append(one)
    leading = max(late, key=lambda lateness: math.fsum(one.caused_s for one in lateness.ranks))
    shares = [(one.waiting_s, one.lateness.outside) for one in rows if one.lateness is not None]
    known = [waiting_s * share for waiting_s, share in shares if share is not None]
    waiting_s = math.fsum(one.waiting_s for one in rows)
    outside = math.fsum(known) / waiting_s if known and waiting_s else None
    return Late(leading.pattern, leading.period_s, outside, tuple(named))


def _in_others(recorded: Recording, gains: Sequence[Gain]) -> Iterable[Loss]:
    families: dict[str, list[OtherCalls]] = defaultdict(list)
    for one in recorded.other:
        families[one.family].append(one)
    ends = [one for one in families["completion"] if one.completing_s > 0]
    end = max(ends, key=attrgetter("completing_s"), default=None)
    for family, rows in families.items():
        total_s = math.fsum(one.own_s for one in rows)
        if total_s <= 0:
            continue
        most = max(rows, key=attrgetter("own_s"))
        inside = end is not None and family != "completion" and 2 * most.completing_s > most.seconds
        size = most.message_bytes or None
        touched = family in (PAIRS, ONE_SIDED)
        within = end.operation if inside and end is not None else ""
        loss = Loss(
            family, most.operation, False, total_s, size, within, touched=touched, derived=_derived(rows)
        )
        yield _transfers(loss, rows, gains) if touched else loss


def _transfers(loss: Loss, rows: Sequence[OtherCalls], gains: Sequence[Gain]) -> Loss:
    """As ``_won`` of calls between two ranks, by the probe's own."""
    default_s = best_s = 0.0
    ends = [0.0, 0.0, 0.0]
    for one in rows:
        name = PROBED.get(one.operation, "")
        for gain, share in near(gains, name, None, one.message_bytes):
            alone_s = one.calls_per_rank * share * gain.default_s
            default_s += alone_s
            best_s += one.calls_per_rank * share * gain.tuned_s
            for k in range(3):
                ends[k] += alone_s * max(gain.saved[k], 0.0)
    if default_s <= 0:
        return loss
    saved, _, high = (end / default_s for end in ends)
    high_s = min(loss.seconds, UNLIKE * default_s) * high
    return replace(
        loss,
        win_s=(min(loss.seconds, default_s) * saved, 0.0, high_s),
        times=loss.seconds / best_s,
        unlike=loss.seconds > UNLIKE * default_s,
        unexplained_s=max(loss.seconds - best_s - high_s, 0.0),
    )
