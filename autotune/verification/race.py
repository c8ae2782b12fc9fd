"""Verify settings against the untouched stack (the MPI's own defaults) on fresh launches.

A block launches the untouched stack and one setting equally often, in an order drawn at random. Each setting
is evaluated by its own ``Course``, and the settings of the next block follow from all launches before it.
Once begun, a setting is launched until it *holds* (is verified), is refused, or the predictive probability
that the remaining launches and time will verify it falls below a tenth. The reason is that launches which are
divided among several settings prove nothing about any of them. The next setting is the one with the largest
expected benefit: its gain times the probability that its launches will leave no loss doubtful. In
simulations, a setting that is 7 % faster competed with a setting that promises more but loses at one size.
With both settings in each heat (launches alive at once), the former was exported in 9 of 10 campaigns, which
took 42 s; with one setting after the other, in 10 of 10 campaigns, which took 36 s (noise of
``benchmarks/error_rates.py``).

Once a setting holds, only settings that promise more than its gain are tried, as long as there is time to
verify one. The best setting that holds is exported. The remaining time is used for more launches of that
setting, which tighten the bound on what it may lose, and reveal rare events.

The settings may spend 2/3, 2/9, 2/27, … of the campaign's error rate, in the order in which they were first
launched. So by the union bound the error rate holds for all claims together, however many settings are tried.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, groupby

from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space
from autotune.verification.comparison import Comparison
from autotune.verification.course import HOPELESS, Course
from autotune.verification.failed import Failures
from autotune.verification.searched import Searched
from autotune.verification.shared_failures import FailingSetting, levels_of, suspicions

_EACH_BEFORE = 2
"""Number of launches of each side in a block in journals of earlier versions."""


class Race:
    """Hold the state of each setting under verification after all launches, and choose the next setting."""

    def __init__(self, searched: Searched, launches: Sequence[Observation], both_count: bool) -> None:
        """Evaluate the settings by all launches of a verification.

        Args:
            searched: What the launches before the verification showed.
            launches: Launches of the verification, with those that only start and check results.
            both_count: Whether a loss in either of the probe's two loops counts.
        """
        self._design, self._settings = searched.design, searched.deployable
        self._space = searched.space
        starts = [o for o in launches if o.trial.phase is Phase.STARTS]
        launches = [o for o in launches if o.trial.phase is Phase.VERIFY]
        self.blocks = [tuple(group) for _, group in groupby(launches, key=lambda o: o.trial.block)]
        """Timed launches by blocks, in order; the last block may be incomplete."""
        last = self.blocks[-1] if self.blocks else ()
        open_block = last[0].trial.block if last and not closed(last) else None
        promised = {s.point: s for s in self._settings}
        untouched = [o for o in launches if o.trial.subject is Subject.UNTOUCHED]
        failing = _tried(searched.space, [*launches, *starts], untouched)
        self.courses: dict[Point, Course] = {}
        """The evaluation of each setting by its point, in the order of their first launches."""
        for trial in (o.trial for o in launches if o.trial.subject is Subject.DEPLOYED):
            if trial.point in self.courses:
                continue
            share = 2 / 3 ** (1 + len(self.courses))
            setting_blocks = (_launches_with(block, trial.point) for block in self.blocks)
            fresh = [
                block for block in setting_blocks if any(o.trial.subject is Subject.DEPLOYED for o in block)
            ]
            suspected = suspicions(setting for point, setting in failing.items() if point != trial.point)
            own_starts = [o for o in starts if o.trial.point == trial.point]
            design = searched.design.share(share)
            course = Course(searched, design, fresh, both_count, open_block, untouched, suspected, own_starts)
            setting = promised.get(trial.point, Recommendation(trial.point, ()))
            course.verify(replace(setting, rules=trial.rules))
            self.courses[trial.point] = course
        last_point = next((o.trial.point for o in reversed(launches) if side_of(o.trial)), None)
        self._last = self.courses.get(last_point) if last_point is not None else None
        compared = [
            (point, list(map(_counting, c.rounds[-1].comparisons))) for point, c in self.courses.items()
        ]
        self._known = searched.known.after(compared)
        self._confirmed = set(searched.confirmed) - set(self.courses)

    @property
    def launches(self) -> int:
        """Return the number of timed launches made so far."""
        return sum(map(len, self.blocks))

    @property
    def best_verified(self) -> Course | None:
        """Return the best verified setting; None if no setting is verified (yet)."""
        holding = [course for course in self.courses.values() if course.verified is not None]
        return max(holding, key=_gain, default=None)

    @property
    def harmless(self) -> Course | None:
        """Return the best verified setting that slows down no call for which it was not tuned.

        Return None if there is none (yet).
        """
        return max((c for c in self.courses.values() if c.harmless), key=_gain, default=None)

    @property
    def proving(self) -> Course | None:
        """Return the best setting whose speed is verified, but whose launches do not exclude failures yet.

        Return None if there is no such setting.
        """
        best, spares = (0.0 if c is None else _gain(c) for c in (self.best_verified, self.harmless))
        threshold = {id(c): best if slower(c.other_calls) else spares for c in self.courses.values()}
        proving = [c for c in self.courses.values() if c.proving is not None and _gain(c) > threshold[id(c)]]
        return max(proving, key=_gain, default=None)

    def next_settings(self, in_time: float = math.inf) -> tuple[Recommendation, ...]:
        """Return the settings of the next block, with their remaining rules; empty if no launch is needed.

        ``in_time`` is the number of launches that could end before time is up.
        """
        room = min(in_time, self._design.room(self.launches)) / (2 * self._design.each)
        if room < 1:
            return ()
        under_way = [c for c in self.courses.values() if c.under_way]
        raced = self._raced(under_way, in_time)
        if not raced:
            return self._further()
        last = self._last
        if last is not None and last.rounds[-1].setting in raced and self._may_hold(last, in_time):
            return (last.rounds[-1].setting,)
        return (max(raced, key=self._expected),)

    def _raced(self, under_way: Sequence[Course], in_time: float) -> list[Recommendation]:
        """Return the settings that may be launched next."""
        not_worth = max((c.not_worth for c in self.courses.values()), default=0.0)
        worth = (s for s in self._settings if s.speedup > not_worth or s.point in self._confirmed)
        fresh = [s for s in worth if s.point not in self.courses]
        continued = [c.rounds[-1].setting for c in under_way if fresh == [] or self._may_hold(c, in_time)]
        if (best_verified := self.best_verified) is None:
            return [*continued, *fresh]
        # After a setting is verified, remaining time is used for further settings, but remaining launches are
        # not. If the best setting slows down other calls, the best setting that does not is looked for, too.
        harmless = self.harmless
        min_gain = 0.0 if harmless is None else _gain(harmless)
        too_late = (harmless is not None and not self._design.timed) or in_time < self._design.launches
        candidates = fresh if harmless is best_verified else self._unlike(best_verified, fresh)
        harms = {p: _gain(best_verified) for p, course in self.courses.items() if slower(course.other_calls)}
        raced = continued if too_late else [*continued, *candidates]
        return [s for s in raced if self._expected(s) > harms.get(s.point, min_gain)]

    def _unlike(self, best_verified: Course, fresh: Sequence[Recommendation]) -> list[Recommendation]:
        """Return the unlaunched settings that share the fewest changes with the best verified setting."""
        changes = set(self._space.changes(best_verified.rounds[-1].setting.point).items())
        shared = {s.point: len(changes & set(self._space.changes(s.point).items())) for s in fresh}
        return [s for s in fresh if shared[s.point] == min(shared.values())]

    def _further(self) -> tuple[Recommendation, ...]:
        """Return the best verified setting, if there is time for more launches of it; else nothing."""
        best_verified = self.best_verified
        if best_verified is None or not self._design.timed or best_verified.n_own >= self._design.longest:
            return ()
        return (best_verified.rounds[-1].setting,)

    def _may_hold(self, course: Course, in_time: float) -> bool:
        """Whether a setting may still be verified by the launches that the remaining time allows."""
        remaining = min(in_time, self._design.room(self.launches)) // 2
        n_total = min(self._design.longest, course.n_own + remaining)
        early = 2 * course.n_own < self._design.setting_launches
        return early or course.chance(course.rounds[-1], course.n_own, n_total) >= HOPELESS

    def _expected(self, setting: Recommendation) -> float:
        """Return the expected gain of a setting, times the probability that it is not refused for a loss."""
        course = self.courses.get(setting.point)
        compared = course is not None and course.rounds[-1].compared
        shown = math.log(max(1.0, setting.speedup)) - self._known.luck(setting.point)
        gain = _gain(course) if course and compared else shown
        return self._chance(setting, course) * max(gain, 0.0)

    def _chance(self, setting: Recommendation, course: Course | None) -> float:
        """Return the probability that a setting will be verified."""
        if course is not None:
            return course.chance(course.rounds[-1], course.n_own, self._design.longest)
        return 1.0 if setting.point in self._confirmed else self._known.chance(setting.point)


def _tried(
    space: Space, launches: Sequence[Observation], untouched: Sequence[Observation]
) -> dict[Point, FailingSetting]:
    """Return the settings launched so far, by point, with the failures among all their launches."""
    deployed: dict[Point, list[Observation]] = defaultdict(list)
    for launch in launches:
        if launch.trial.subject is Subject.DEPLOYED:
            deployed[launch.trial.point].append(launch)
    return {
        point: FailingSetting(
            levels_of(space, point, chain.from_iterable(o.trial.rules for o in setting_launches)),
            Failures.between(setting_launches, untouched),
        )
        for point, setting_launches in deployed.items()
    }


def _counting(comparison: Comparison) -> Comparison:
    """Return a comparison with its gain limited to the gain in mean times plus one standard error."""
    limit = comparison.mean_gain + comparison.mean_sem
    return replace(comparison, gain=min(comparison.gain, limit)) if math.isfinite(limit) else comparison


def closed(block: Sequence[Observation]) -> bool:
    """Whether a block has all its launches."""
    counts = Counter(side_of(o.trial) for o in block)
    return (
        None in counts and len(counts) > 1 and set(counts.values()) == {block[0].trial.each or _EACH_BEFORE}
    )


def side_of(trial: Trial) -> Point | None:
    """Return the job-wide values of a trial's setting; None for the stack's own defaults."""
    return trial.point if trial.subject is Subject.DEPLOYED else None


def _launches_with(block: Sequence[Observation], point: Point) -> tuple[Observation, ...]:
    """Return the launches of a block that are of a setting or of the stack's own defaults."""
    return tuple(o for o in block if side_of(o.trial) in (None, point))


def _gain(course: Course) -> float:
    """Return ln of the speed-up over all sizes in the launches of a setting; 0 if none was compared."""
    total = course.rounds[-1].total
    return total.gain if total is not None else 0.0
