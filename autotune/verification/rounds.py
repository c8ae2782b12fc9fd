"""Run the verification: what to launch next, and its verdict, as functions of the history.

The search's recommendations compete (see ``race``) on fresh launches, made after the search. Settings that
surely lose by the search's evidence are never launched again.

An exported setting failed no more often than the untouched stack (the MPI's own defaults) beside it. At every
size its launches exclude a loss of more than ``margin``. No size is *doubtful* (see ``comparison``): seen
slower by more than ``max_loss``, and by so much more that chance hardly explains it. ``Verdict.hidden`` is
the largest loss at any size that the launches do not exclude; ``benchmarks/error_rates.py`` measures how
often a setting with a true loss is exported.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.history.memory import latest
from autotune.history.objectives import Objective, envelope, ratio_of
from autotune.history.trial import BlockMember, History, Observation, Phase, Subject, Trial
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point, Space
from autotune.verification.comparison import overall
from autotune.verification.course import Course
from autotune.verification.deployed import same_calls
from autotune.verification.one_round import VerificationRound
from autotune.verification.orders import drawn
from autotune.verification.race import Race, closed
from autotune.verification.searched import Searched
from autotune.verification.sequential import SequentialDesign
from autotune.verification.verdict import Verdict


@dataclass(frozen=True)
class Verifier:
    """Choose the launches of the verification, and return its verdict."""

    space: Space  # The space of settings.
    objectives: tuple[Objective, ...]  # The quantities by which settings are compared.
    design: SequentialDesign  # Number of launches of a round, and error rates.
    seed: int = 0  # Random seed of the order within blocks.
    one_row: Collection[str] = field(default=(), hash=False)
    """Collectives for which the stack's files have one row for all sizes."""
    other_loop: str = ""  # Name of the probe's other loop, if launches measure it too; else empty.
    both_count: bool = False  # Whether a loss in either of the probe's two loops counts.
    confirmed: tuple[Point, ...] = ()
    """Settings that are verified even if the search sees them gain nothing, or lose within the noise: a
    discovery confirmed them by launches made at the same moment."""
    whole: Space | None = None  # The space in which a discovery chose its settings; None: there is none.

    def next_trial(self, history: History, in_time: float = math.inf) -> Trial | None:
        """Return the next launch; None if everything is decided, or there is nothing to verify."""
        return next(self.due(history, in_time), None)

    def due(self, history: History, in_time: float = math.inf) -> Iterator[Trial]:
        """Yield the remaining launches of the block under way, or those of the next one.

        ``in_time`` is the number of launches that could end before time is up.
        """
        race, number = _race(self, history), history.next_number
        if race.proving is not None and (not race.blocks or closed(race.blocks[-1])):
            yield self._start(race.proving, number)
            return
        open_block = race.blocks[-1] if race.blocks and not closed(race.blocks[-1]) else ()
        order = open_block[0].trial.block_members if open_block else ()
        due = _remaining(order, open_block, race)
        if not due:
            settings = race.next_settings(in_time)
            rng = np.random.default_rng([self.seed, 3, number])
            members = [self._member(setting) for setting in (None, *settings)]
            order = drawn(members, self.design.each, rng) if settings else ()
            due, open_block = order, ()
        block = open_block[0].trial.block if open_block else number
        for position, member in enumerate(due, start=len(order) - len(due) + 1):
            yield Trial(
                number,
                Phase.VERIFY,
                member.point,
                member.subject,
                block=block,
                seed=int(np.random.default_rng([self.seed, 4, number]).integers(2**31)),
                note=f"launch {position} of {len(order)} in its block of {len(set(order))} sides",
                rules=member.rules,
                each=self.design.each,
                heat=block if self.design.heats else 0,
                block_members=order if number == block else (),
            )
            number += 1

    def _member(self, setting: Recommendation | None) -> BlockMember:
        """Return the member of a block for a setting, or for the stack's own defaults (None)."""
        if setting is None:
            return BlockMember(self.space.default, Subject.UNTOUCHED)
        return BlockMember(setting.point, Subject.DEPLOYED, setting.rules)

    def _start(self, course: Course, number: int) -> Trial:
        """Return a launch of a setting that only starts and checks results, to count failures."""
        setting = course.proving or course.rounds[-1].setting
        return Trial(
            number,
            Phase.STARTS,
            setting.point,
            Subject.DEPLOYED,
            seed=int(np.random.default_rng([self.seed, 4, number]).integers(2**31)),
            note=f"start {len(course.starts) + 1}: failures alone are counted",
            rules=setting.rules,
        )

    def wants(self, history: History) -> bool:
        """Whether there is a setting to verify, or to launch further."""
        race = _race(self, history)
        return race.proving is not None or bool(race.next_settings())

    def holds(self, history: History) -> bool:
        """Whether any setting was verified so far."""
        return _race(self, history).best_verified is not None

    def launches_left(self, history: History) -> int:
        """Return the largest number of launches that may follow; 0 if there is nothing to verify."""
        race = _race(self, history)
        if race.proving is not None:
            return max(race.proving.rounds[-1].failures.starts_to_exclude(self.design.max_failures), 1)
        unfinished = self.next_trial(history) is not None
        return (
            max(self.design.most - race.launches, 2 * self.design.each * self.design.timed)
            if unfinished
            else 0
        )

    def verdict(self, history: History) -> Verdict | None:
        """Return the verdict after the launches so far; None if there is no setting to verify."""
        race = _race(self, history)
        best_course = race.best_verified
        verified = best_course.verified if best_course else None
        waits = verified is None and self.next_trial(history) is not None
        if not race.courses and not waits:
            return None
        if best_course is None or verified is None:
            rounds = tuple(r for c in race.courses.values() for r in c.rounds if r.launches)
            proving = race.proving.proving if race.proving is not None else None
            lead = proving or next(iter(race.next_settings()), None)
            course = race.courses.get(lead.point) if lead else None
            if lead and course and course.rounds[-1].compared:
                fresh = freshly_measured(self.space, lead, course.rounds[-1])
                lead = fresh if fresh.gains else lead  # what fresh launches show counts
            lead = lead or Recommendation(self.space.untouched, ())
            return Verdict(lead, rounds, not waits, design=self.design, other_loop=self.other_loop)
        harmless = race.harmless
        harmless_verdict = (
            self._verified(race, harmless) if harmless is not None and harmless is not best_course else None
        )
        return replace(self._verified(race, best_course), harmless=harmless_verdict)

    def _verified(self, race: Race, course: Course) -> Verdict:
        setting = course.verified or Recommendation(self.space.untouched, ())
        other_courses = (c for c in race.courses.values() if c is not course)
        rounds = tuple(r for c in (*other_courses, course) for r in c.rounds if r.launches)
        last = course.rounds[-1]
        unchanged = same_calls(self.space, setting, (c.slot for c in last.comparisons))
        hidden = max(
            (-c.at_least for c in last.counting if c.slot not in unchanged or c.overhead), default=0.0
        )
        fresh = replace(freshly_measured(self.space, setting, last), others=course.other_calls)
        return Verdict(fresh, rounds, True, -math.expm1(-hidden), self.design, self.other_loop)

    def searched(self, history: History) -> Searched:
        """Return what the launches before the verification showed."""
        search_history = history.of(*(phase for phase in Phase if phase not in (Phase.VERIFY, Phase.STARTS)))
        return _searched(self, search_history)

    def best(self, history: History) -> Recommendation | None:
        """Return the first setting to verify: the best that does not lose anywhere by the search's evidence.

        If no such setting is left, return the defaults; return None before any setting was measured
        completely.
        """
        return next(iter(self.searched(history).recommended), None)


def _remaining(
    order: Sequence[BlockMember], launches: Collection[Observation], race: Race
) -> tuple[BlockMember, ...]:
    """Return the launches that a block still needs, in its order.

    The result is empty if all settings of the block were refused, since the block shows nothing more then.
    """
    missing = list(order)
    for trial in (o.trial for o in launches):
        with suppress(ValueError):
            missing.remove(BlockMember(trial.point, trial.subject, trial.rules))
    courses = race.courses.items()
    refused = {point for point, course in courses if not course.under_way and course.verified is None}
    due = tuple(s for s in missing if s.subject is Subject.UNTOUCHED or s.point not in refused)
    return due if any(s.subject is Subject.DEPLOYED and s.point not in refused for s in order) else ()


@latest
def _searched(verifier: Verifier, search_history: History) -> Searched:
    v = verifier
    details = (v.space, v.objectives, v.design, v.one_row, v.confirmed, v.whole)
    return Searched(*details, search_history)


@latest
def _race(verifier: Verifier, history: History) -> Race:
    """Return the state of the competing settings after all launches so far."""
    launches = history.of(Phase.VERIFY, Phase.STARTS).observations
    return Race(verifier.searched(history), launches, verifier.both_count)


def freshly_measured(space: Space, setting: Recommendation, last: VerificationRound) -> Recommendation:
    """Return a setting with the gains that fresh launches showed, by size and on the whole.

    Gains are shrunk towards their mean (see ``comparison``), and each interval is centred on its gain. The
    setting may have fewer rules than in the last round: where it makes the stack's own calls, its gain is 0.
    """
    reference, tuned = (
        envelope(space, [o for o in last.launches if o.trial.subject is side])
        for side in (Subject.UNTOUCHED, Subject.DEPLOYED)
    )
    unchanged = same_calls(space, setting, reference)
    in_other_loop = {c.slot: c for c in last.other_comparisons if c.slot not in unchanged}
    gains = []
    for c in last.comparisons:
        if c.slot not in tuned or c.slot not in reference:
            continue  # a round under way may reuse blocks before its own launches have measured all slots
        tuned_winner, default, o = tuned[c.slot], reference[c.slot], in_other_loop.get(c.slot)
        other_ratio = (ratio_of(o.gain), ratio_of(o.low), ratio_of(o.high)) if o else None
        gain, half = 0.0 if c.slot in unchanged else c.shrunk, (c.high - c.low) / 2
        compared = (ratio_of(gain), ratio_of(gain - half), ratio_of(gain + half))
        times = (tuned_winner.median_s, tuned_winner.sem_s, default.median_s, default.sem_s)
        gains.append(Gain(c.slot, *times, other_ratio, compared))
    differing = frozenset(c.slot for c in last.comparisons) - unchanged
    total = overall(last.blocks, differing)
    if not total.launches:
        return replace(setting, gains=tuple(gains))
    share = len(differing) / len(last.comparisons)  # in all other slots ln of the speed-up is 0
    average = (ratio_of(share * total.gain), ratio_of(share * total.low), ratio_of(share * total.high))
    return replace(setting, gains=tuple(gains), average=average)
