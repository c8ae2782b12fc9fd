"""Settings raced against the untouched stack and each other on fresh launches (step 11 of the flow).

A block launches the untouched stack and each setting of the race equally often, in an order drawn at random
of all there are. The launches of the untouched stack are those of all, and each setting is judged against
them by a ``Course`` of its own: whatever the places of others, launches of these two come in any order with
the same chance. What the next block races follows from all launches before it:

- the setting of which most is to be expected, what it gains times the chance that its launches will leave no
  loss doubtful, for each launch that it still wants;
- the one with the best such chance, where that is another one; first of all what a discovery has confirmed.

A setting under way leaves its place to a more promising one, with its launches kept. Once a setting
holds, only those that promise more than it gains go on, and new ones while there is time to verify one; the
best that holds is exported.

The settings may spend 3/8, 3/8, 1/8, 1/16, 1/32, … of the campaign's error rate, in the order in which they
were first launched, so that by the union bound all claims hold together, however many are raced.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain, groupby
from statistics import median, median_low

import numpy as np

from autotune.history.objectives import Slot
from autotune.history.trial import Observation, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point, Space
from autotune.verification.comparison import Comparison
from autotune.verification.course import Course
from autotune.verification.failed import Failures
from autotune.verification.searched import Searched
from autotune.verification.shared_failures import FailingSetting, levels_of, suspicions

_EACH_BEFORE = 2
"""Launches of each side in a block of earlier versions."""


class Race:
    """State of a verification's settings after its launches, and the next to be raced."""

    def __init__(self, searched: Searched, launches: Sequence[Observation], both_count: bool) -> None:
        """``launches``: of the verification; ``both_count``: what loses in either loop of the probe loses."""
        self._design, self._settings = searched.design, searched.deployable
        self.blocks = [tuple(group) for _, group in groupby(launches, key=lambda o: o.trial.block)]
        """Launches by blocks, in order; the last one may be begun only."""
        last = self.blocks[-1] if self.blocks else ()
        begun = last[0].trial.block if last and not closed(last) else None
        promised = {s.point: s for s in self._settings}
        beside = [o for o in launches if o.trial.subject is Subject.UNTOUCHED]
        tried = _tried(searched.space, launches, beside)
        self.courses: dict[Point, Course] = {}
        """By setting, in the order of their first launches."""
        for trial in (o.trial for o in launches if o.trial.subject is Subject.DEPLOYED):
            if trial.point in self.courses:
                continue
            share = 3 / 8 if len(self.courses) < 2 else 0.5 ** (1 + len(self.courses))
            mine = (_of(block, trial.point) for block in self.blocks)
            fresh = [block for block in mine if any(o.trial.subject is Subject.DEPLOYED for o in block)]
            others = suspicions(one for point, one in tried.items() if point != trial.point)
            course = Course(searched, searched.design.share(share), fresh, both_count, begun, beside, others)
            setting = promised.get(trial.point, Recommendation(trial.point, ()))
            course.verify(replace(setting, rules=trial.rules))
            self.courses[trial.point] = course
        shown = [(point, c.rounds[-1].judged) for point, c in self.courses.items()]
        self._spread = _spread(judged for _, judged in shown)
        # Wild launches of some settings make the noise of the search too large, or that of the courses.
        sd = median(self._spread.values()) / math.sqrt(2) if self._spread else math.inf
        counting = [(point, list(map(_counting, judged))) for point, judged in shown]
        known = searched.known
        self._known = replace(known, noise=known.noise.at_most(sd)).after(counting)
        self._confirmed = set(searched.confirmed) - set(self.courses)

    @property
    def launches(self) -> int:
        """Made so far."""
        return sum(map(len, self.blocks))

    @property
    def held(self) -> Course | None:
        """The best of what holds; None: nothing does, or not yet."""
        holding = [course for course in self.courses.values() if course.held is not None]
        return max(holding, key=_gain, default=None)

    def next_settings(self, in_time: float = math.inf) -> tuple[Recommendation, ...]:
        """The settings in the next block, with the rules that are left; empty: no more launches are wanted.

        The most promising setting runs alone where too few launches could end before time is up to verify
        it with another one beside it.
        """
        under_way = [c.rounds[-1].setting for c in self.courses.values() if c.under_way]
        not_worth = max((c.not_worth for c in self.courses.values()), default=0.0)
        fresh = [s for s in self._settings if s.point not in self.courses and s.speedup > not_worth]
        raced = [*under_way, *fresh]
        if (held := self.held) is not None:
            # The time of a campaign is there to be used; launches cost what they cost.
            late = not self._design.timed or in_time < self._design.launches
            raced = [s for s in (under_way if late else raced) if self._expected(s) > _gain(held)]
        if not raced:
            return ()
        leads = max(raced, key=self._promise)
        safest = max(raced, key=self._safety)
        alone = safest is leads or in_time < 3 * max(self._wanted(leads), self._design.each)
        racing = (leads,) if alone else (leads, safest)
        left = self._design.room(self.launches) / self._design.each - 1
        return tuple(setting for place, setting in enumerate(racing, start=1) if place <= left)

    def _wanted(self, setting: Recommendation) -> float:
        """Launches of its own that are left before a setting may be exported, if all is as believed.

        Infinite where it is believed to lose more than may stay hidden. Repeatability is the machine's, so
        that the course in the middle says it of all, unless its own launches differ by more.
        """
        course = self.courses.get(setting.point)
        last = course.rounds[-1] if course else None
        if last and (last.failures.doubtful or last.lost):
            return math.inf
        believed = self._known.believed.get(setting.point, ({}, 0.0))[0]
        own = _spread([last.judged] if last else ())
        above = {slot: gain - self._design.hidden for slot, gain in believed.items() if slot in self._spread}
        needed = [
            self._design.launches_to_exclude(distance, max(self._spread[slot], own.get(slot, 0.0)))
            for slot, distance in above.items()
        ]
        return max([self._design.own, *needed]) - (last.failures.n_deployed if last else 0)

    def _promise(self, setting: Recommendation) -> tuple[float, float]:
        """Expected gain of a setting for each launch that it still wants.

        So a nearly decided setting is not left for another one that promises as much; a doubtful one is.
        """
        expected = self._expected(setting)
        return expected / max(self._wanted(setting), self._design.each), expected

    def _safety(self, setting: Recommendation) -> tuple[bool, float, bool, float]:
        """How sure it is that a setting loses nowhere; to a per cent, as what gains more is then as safe.

        What fresh launches beside the default have confirmed is safer than what the search believes.
        """
        confirmed = setting.point in self._confirmed
        return self._keeps(setting), round(self._chance(setting), 2), confirmed, self._expected(setting)

    def _keeps(self, setting: Recommendation) -> bool:
        """Whether a setting that was begun has not had its launches, and nothing speaks against it."""
        course = self.courses.get(setting.point)
        return course is not None and not course.doubtful and 0 < self._wanted(setting) < math.inf

    def _chance(self, setting: Recommendation) -> float:
        """Probability that it will not be doubtful when it has had its launches."""
        if setting.point in self._confirmed:
            return 1.0
        course = self.courses.get(setting.point)
        if course is None:
            return self._known.chance(setting.point)
        last = course.rounds[-1]
        return self._known.chance(
            setting.point, {c.slot: c.gain for c in last.judged}, last.failures.n_deployed
        )

    def _expected(self, setting: Recommendation) -> float:
        """The gain that is to be expected of a setting, which a loss may undo."""
        course = self.courses.get(setting.point)
        compared = course is not None and course.rounds[-1].compared
        gain = _gain(course) if course and compared else math.log(max(1.0, setting.speedup))
        return self._chance(setting) * max(gain, 0.0)


def _tried(
    space: Space, launches: Sequence[Observation], untouched: Sequence[Observation]
) -> dict[Point, FailingSetting]:
    """The settings that were launched, with the failures among all their launches."""
    deployed: dict[Point, list[Observation]] = defaultdict(list)
    for one in launches:
        if one.trial.subject is Subject.DEPLOYED:
            deployed[one.trial.point].append(one)
    return {
        point: FailingSetting(
            levels_of(space, point, chain.from_iterable(o.trial.rules for o in made)),
            Failures.between(made, untouched),
        )
        for point, made in deployed.items()
    }


def _counting(seen: Comparison) -> Comparison:
    """A slot as seen, at most what the bound rests on: the gain of means, a standard error up."""
    most = seen.mean_gain + seen.mean_sem
    return replace(seen, gain=min(seen.gain, most)) if math.isfinite(most) else seen


def _spread(courses: Iterable[Sequence[Comparison]]) -> dict[Slot, float]:
    """Standard error of the gain of a slot after one launch of each side, in the course in the middle."""
    each: dict[Slot, list[float]] = defaultdict(list)
    for c in chain.from_iterable(courses):
        if math.isfinite(c.mean_sem):
            each[c.slot].append(c.mean_sem * math.sqrt(c.launches))
    return {slot: median_low(of) for slot, of in each.items()}


def sides(
    settings: Sequence[Recommendation], each: int, rng: np.random.Generator
) -> tuple[Recommendation | None, ...]:
    """The order of a block: settings and the untouched stack (None), each so often, in any order."""
    every = (None, *settings) * each
    return tuple(every[i] for i in rng.permutation(len(every)))


def closed(block: Sequence[Observation]) -> bool:
    """Whether a block has all its launches."""
    made = Counter(side_of(o.trial) for o in block)
    return None in made and len(made) > 1 and set(made.values()) == {block[0].trial.each or _EACH_BEFORE}


def side_of(trial: Trial) -> Point | None:
    """The setting's job-wide values; None: the untouched stack."""
    return trial.point if trial.subject is Subject.DEPLOYED else None


def _of(block: Sequence[Observation], point: Point) -> tuple[Observation, ...]:
    """The launches of a setting in a block, and those of the untouched stack."""
    return tuple(o for o in block if side_of(o.trial) in (None, point))


def _gain(course: Course) -> float:
    """Ln of the speed-up on the whole, as its launches show it."""
    whole = course.rounds[-1].total
    return whole.gain if whole is not None else 0.0
