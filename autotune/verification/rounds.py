"""The verification phase: what it launches next, and what it says, as functions of the history (step 11).

What the search recommends is raced (see ``race``) on fresh launches. Settings of which the search is sure
that they lose are never launched again.

An exported setting failed no more often than the untouched stack beside it; at every size launches exclude a
loss of more than ``margin``, and none was seen slower by more than ``max_loss``, beyond what some size shows
by chance in two comparisons of five. ``Verdict.hidden`` says which loss they exclude; how often a true loss
passes ``benchmarks/error_rates.py`` measures.
"""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from autotune.history.memory import latest
from autotune.history.objectives import Objective, envelope, ratio_of
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point, Space
from autotune.verification.beside import beside
from autotune.verification.comparison import overall
from autotune.verification.deployed import same_calls
from autotune.verification.one_round import VerificationRound
from autotune.verification.race import Race, closed, side_of, sides
from autotune.verification.searched import Searched
from autotune.verification.sequential import SequentialDesign
from autotune.verification.verdict import Verdict


@dataclass(frozen=True)
class Verifier:
    """Which launch the verification makes next."""

    space: Space  # The space of parameters.
    objectives: tuple[Objective, ...]  # The objectives.
    design: SequentialDesign  # How many launches a round has and when it is looked at.
    seed: int = 0  # Random seed of the order within blocks.
    one_row: Collection[str] = field(default=(), hash=False)
    """Collectives for which the stack's files have one row for all sizes."""
    other_loop: str = ""  # Name of the probe's other loop, where launches measure it too.
    both_count: bool = False  # Whether what loses in either loop loses.
    confirmed: tuple[Point, ...] = ()
    """Settings that are verified even where the search sees no gain of theirs, or a loss that may be noise: a
    discovery confirmed them, one launch beside the other."""

    def next_trial(self, history: History, in_time: float = math.inf) -> Trial | None:
        """The next launch; None when everything is decided, or nothing was found that could be verified.

        ``in_time``: launches that could end before time is up.
        """
        return next(self._due(history, in_time), None)

    def next_heat(self, history: History, in_time: float = math.inf) -> tuple[Trial, ...]:
        """The next launch, and those of its block that are made at once with it."""
        due = tuple(self._due(history, in_time))
        return due if self.design.heats else due[:1]

    def _due(self, history: History, in_time: float) -> Iterator[Trial]:
        """The launches that are left of the block under way, or of the next one."""
        race, number = _race(self, history), history.next_number
        begun = race.blocks[-1] if race.blocks and not closed(race.blocks[-1]) else ()
        # A block that was begun goes on as it was, with as many settings as there was time for by then.
        went_on = ((begun, left) for left in (in_time, math.inf, 0.0) if begun)
        for block, left in (*went_on, ((), in_time)):
            first = block[0].trial.number if block else number
            before = _race(self, self._without(history, block)) if block else race
            settings = before.next_settings(left + len(block))
            order = sides(settings, self.design.each, np.random.default_rng([self.seed, 3, first]))
            made = [side_of(o.trial) for o in block]
            if not settings or made != [s and s.point for s in order[: len(made)]]:
                continue  # it was begun by an earlier version
            due = 0
            for position, setting in enumerate(order[len(made) :], start=len(made) + 1):
                course = race.courses.get(setting.point) if setting else None
                if course is not None and block and not course.under_way:
                    continue  # refused within the block
                yield Trial(
                    number + due,
                    Phase.VERIFY,
                    setting.point if setting else self.space.default,
                    Subject.DEPLOYED if setting else Subject.UNTOUCHED,
                    block=first,
                    seed=int(np.random.default_rng([self.seed, 4, number + due]).integers(2**31)),
                    note=f"launch {position} of {len(order)} in its block of {len(settings) + 1} sides",
                    rules=setting.rules if setting else (),
                    each=self.design.each,
                    heat=self.design.heats,
                )
                due += 1
            if due:
                return

    def wants(self, history: History) -> bool:
        """Whether there is something that may be verified, or verified further."""
        return bool(_race(self, history).next_settings())

    def holds(self, history: History) -> bool:
        """Whether a setting was verified."""
        return _race(self, history).held is not None

    @staticmethod
    def _without(history: History, block: Collection[Observation]) -> History:
        first = min(o.trial.number for o in block)
        return History(
            tuple(o for o in history if o.trial.phase is not Phase.VERIFY or o.trial.block < first)
        )

    def launches_left(self, history: History) -> int:
        """How many more there may be; none where there is nothing to verify."""
        race = _race(self, history)
        more = self.next_trial(history) is not None
        return max(self.design.most - race.launches, 2 * self.design.each * self.design.timed) if more else 0

    def verdict(self, history: History) -> Verdict | None:
        """The verdict of the launches so far; None where there is nothing that could be verified."""
        race = _race(self, history)
        held = race.held
        found = held.held if held else None
        waits = found is None and self.next_trial(history) is not None
        if not race.courses and not waits:
            return None
        others = [c for c in race.courses.values() if c is not held]
        rounds = tuple(r for c in (*others, *([held] if held else [])) for r in c.rounds if r.launches)
        if held is None or found is None:
            leads = (*race.next_settings(), Recommendation(self.space.untouched, ()))
            return Verdict(leads[0], rounds, not waits, design=self.design, other_loop=self.other_loop)
        last = held.rounds[-1]
        alike = same_calls(self.space, found, (c.slot for c in last.judged))
        hidden = max((-c.at_least for c in last.counting if c.slot not in alike or c.overhead), default=0.0)
        fresh = freshly_measured(self.space, found, last)
        also = beside(o for r in held.rounds for o in r.launches) if self.space.says(found.point) else ()
        return Verdict(fresh, rounds, True, -math.expm1(-hidden), self.design, self.other_loop, also)

    def searched(self, history: History) -> Searched:
        """Findings of the launches before the verification."""
        before = history.of(*(phase for phase in Phase if phase is not Phase.VERIFY))
        return _searched(self, before)

    def best(self, history: History) -> Recommendation | None:
        """The first setting to verify: the best that does not lose anywhere by the search's evidence.

        The defaults, where that leaves nothing; None before any setting was measured completely.
        """
        return next(iter(self.searched(history).recommended), None)


@latest
def _searched(verifier: Verifier, before: History) -> Searched:
    about = (verifier.space, verifier.objectives, verifier.design, verifier.one_row, verifier.confirmed)
    return Searched(*about, before)


@latest
def _race(verifier: Verifier, history: History) -> Race:
    """The race after all launches so far."""
    launches = history.of(Phase.VERIFY).observations
    return Race(verifier.searched(history), launches, verifier.both_count)


def freshly_measured(space: Space, setting: Recommendation, last: VerificationRound) -> Recommendation:
    """A setting with what fresh launches showed: its gains by size and on the whole.

    Gains are shrunken, and so are their intervals. Where the setting, that of the last round or what is left
    of it, makes the stack's own calls, there is nothing to gain.
    """
    reference, tuned = (
        envelope(space, [o for o in last.launches if o.trial.subject is side])
        for side in (Subject.UNTOUCHED, Subject.DEPLOYED)
    )
    alike = same_calls(space, setting, reference)
    otherwise = {c.slot: c for c in last.judged_otherwise if c.slot not in alike}
    gains = []
    for c in last.judged:
        ours, default, o = tuned[c.slot], reference[c.slot], otherwise.get(c.slot)
        other = (ratio_of(o.gain), ratio_of(o.low), ratio_of(o.high)) if o else None
        shown, half = 0.0 if c.slot in alike else c.shrunk, (c.high - c.low) / 2
        compared = (ratio_of(shown), ratio_of(shown - half), ratio_of(shown + half))
        times = (ours.median_s, ours.sem_s, default.median_s, default.sem_s)
        gains.append(Gain(c.slot, *times, other, compared))
    differing = frozenset(c.slot for c in last.judged) - alike
    total = overall(last.blocks, differing)
    if not total.launches:
        return replace(setting, gains=tuple(gains))
    share = len(differing) / len(last.judged)  # the others are no different
    average = (ratio_of(share * total.gain), ratio_of(share * total.low), ratio_of(share * total.high))
    return replace(setting, gains=tuple(gains), average=average)
