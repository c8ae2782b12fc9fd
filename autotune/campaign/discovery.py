"""The discovery of a campaign: its next trial and its result, as functions of the history (steps 3 and 4).

A launch of it sets one point, leaves every call to the stack, and is short; what it costs is apart from the
budget of the search.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from autotune.campaign.failures import enough_s
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import History, Observation, Phase, Subject, Trial
from autotune.measure.machine import cores_in, often_apart
from autotune.scenario.sections import Discover
from autotune.screening.discovery import (
    RULE,
    Arm,
    Change,
    ChangeEffect,
    DiscoveryDesign,
    DiscoveryResult,
    Run,
    Stage,
    cycle,
    found,
)
from autotune.screening.discovery.fit import Floats
from autotune.space import Parameter, Point, Space, Value
from autotune.space.joined import narrowed

_CROWD = 8
"""Parameters that one value of another puts into effect from which on it is an arm of its own."""
_ADDS = 0.005
"""Mean of ln over the sizes from which on another level is expected to add to those before it."""
_RESOLVED = 0.05
"""Mean of ln over the sizes; less may be inconclusive: a verification aims at half of its margin."""


@dataclass(frozen=True)
class Discovery:
    """Which of many parameters matter."""

    space: Space  # All of them.
    wanted: Discover  # What it may cost.
    seed: int  # Of everything random.
    named: frozenset[str] = frozenset()
    """Parameters that experts named for what is tuned: they go first, and are in the search in any case."""

    @cached_property
    def settings(self) -> tuple[Mapping[str, Value], ...]:
        """Settings that select each arm; the first one is the default."""
        crowded = [
            {p.name: value}
            for p in self.space.job
            for value in p.values
            if value != p.default and sum(self._waits(q, p, value) for q in self.space.job) >= _CROWD
        ]
        return ({}, *crowded)

    @cached_property
    def bases(self) -> tuple[Point, ...]:
        """The default of each arm."""
        return tuple(self.space.complete(dict(setting)) for setting in self.settings)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Changes possible in each."""
        gates = {name for setting in self.settings for name in setting}
        return tuple(self._arm(*of, gates) for of in zip(self.settings, self.bases, strict=True))

    @cached_property
    def design(self) -> DiscoveryDesign:
        """The plan."""
        wanted = self.wanted
        strong = {p.name: 1 for p in self.space.job if p.strong}
        tiers = {**strong, **dict.fromkeys(self.named, 0)}
        limits = (wanted.launches, wanted.share, wanted.rounds, wanted.rate)
        return DiscoveryDesign(self.arms, *limits, self.seed, tiers)

    def next_trial(self, history: History, seed: int, time: TimeLeft = PLENTY) -> Trial | None:
        """The next trial; None when it is complete. Some launches of the untouched stack are good by now."""
        made = history.of(Phase.DISCOVERY).observations
        if made and history.observations[-1].trial.phase is not Phase.DISCOVERY:
            return None  # it was followed by what comes after it, whatever time there is by now
        planned = self._planned_run(history, made, time)
        if planned is None:
            return None
        run, stage = planned
        baseline_s = [o.duration_s for o in history.of(Phase.BASELINE) if o.ok]
        return Trial(
            history.next_number,
            Phase.DISCOVERY,
            self.point(run),
            Subject.DEPLOYED,
            block=run.block,
            seed=seed,
            note=str(stage),
            timeout_s=enough_s(min(baseline_s, default=0.0)),
        )

    def _planned_run(
        self, history: History, made: Sequence[Observation], time: TimeLeft
    ) -> tuple[Run, Stage] | None:
        """The next run of this cycle; more than one while nothing is confirmed that gains without a loss."""
        if not made:
            return self.design.next_run(())
        runs = self.runs(history)
        spent_s, now_s = _spent_s(made)
        limit_s = self._limit_s(spent_s, time.all_s + now_s)
        enough, over = now_s >= limit_s * (1 - RULE.confirming), now_s >= limit_s
        planned = self.design.next_run(runs, enough, over)
        if planned is not None:
            return planned
        left_s = self._limit_s(spent_s + now_s, time.all_s)
        if left_s < RULE.look_every * (spent_s + now_s) / len(made) or self._promising(history):
            return None
        return self.design.next_run(runs, enough=True) or self.design.next_run(runs, go_on=True)

    def left_s(self, history: History, time: TimeLeft) -> float:
        """Time that its present cycle may still take; infinite where nothing limits it."""
        spent_s, now_s = _spent_s(history.of(Phase.DISCOVERY).observations)
        return max(0.0, self._limit_s(spent_s, time.all_s + now_s) - now_s)

    def _limit_s(self, spent_s: float, left_s: float) -> float:
        """Time limit of a cycle: half of what is left, since the search needs as much."""
        own_s = math.inf if self.wanted.seconds is None else self.wanted.seconds - spent_s
        return min(own_s, left_s / 2)

    def _promising(self, history: History) -> bool:
        """Whether something was confirmed that gains more than a verification can miss, without a loss.

        Or an arm gains as much on the whole, with the best level that was confirmed in it: whether its losses
        at single sizes can be avoided is for the search to find out, with rules and experts' settings.
        """
        found = self.found(history)
        gains = [float(np.mean(e.log_ratio)) for e in self._harmless(found)]
        for arm in range(1, len(found.arms)):
            if behind := _behind(found, arm):
                levels = (float(np.mean(e.log_ratio)) for e in _active(found, arm))
                gains.append(float(np.mean(behind)) + min(levels, default=0.0))
        return min(gains, default=0.0) < -_RESOLVED

    def found(self, history: History) -> DiscoveryResult:
        """Findings of the launches so far."""
        return found(self.arms, self.runs(history), self.wanted.rate, self.seed)

    def runs(self, history: History) -> tuple[Run, ...]:
        """The launches of the discovery, in its own words."""
        made = history.of(Phase.DISCOVERY).observations
        sizes = max((sum(1 for _ in o.usable) for o in made), default=0)
        often = often_apart([o.extra for o in made])
        return tuple(self._run(o, sizes, often) for o in made)

    def point(self, run: Run) -> Point:
        """The setting of a run."""
        return self.space.complete({**self.settings[run.arm], **dict(run.changes)})

    def searched(self, found: DiscoveryResult) -> Space:
        """The space left to search: levels that help, finer ones between, named settings, those of arms."""
        levels: dict[str, set[Value]] = {}
        for effect in (*found.active, *found.unconfirmed):
            for name, value in self.arms[effect.arm].complete(frozenset([effect.change])):
                levels.setdefault(name, set()).add(value)
        gates = {name for setting in self.settings for name in setting}
        failing = {change for _, change in found.set_aside}
        return narrowed(self.space, levels, gates | self.named, failing)

    def suggested(self, found: DiscoveryResult, space: Space) -> tuple[Point, ...]:
        """The points to search first.

        What is free; in each arm the best active level of each factor, all together; of these what adds up,
        and what gains most by itself, since levels that do the same add nothing to each other or exclude
        each other; and beside these each level that there was no time to confirm.
        """
        points, more = [], []
        for arm, setting in enumerate(self.settings):
            active = _active(found, arm)
            best = {e.change[0]: e.change for e in active}
            needs = self.arms[arm].needs
            adding = adding_up([e for e in active if e.change not in needs], _behind(found, arm))
            together = dict(self.arms[arm].complete(frozenset(best.values())))
            first = (dict(adding), dict(adding[:1]), together)
            points += [space.complete({**setting, **changes}) for changes in first]
            for effect in found.unconfirmed:
                if effect.arm == arm:
                    also = dict(self.arms[arm].complete(frozenset([effect.change])))
                    more.append(space.complete({**setting, **together, **also}))
        every = (*self.free(found, space), *points, *more)
        return tuple(dict.fromkeys(p for p in every if p != space.default))

    def free(self, found: DiscoveryResult, space: Space) -> tuple[Point, ...]:
        """In the default arm the best active levels by which no size was seen to lose, together."""
        point = space.complete(dict(e.change for e in self._harmless(found)))
        return (point,) if point != space.default else ()

    def _harmless(self, found: DiscoveryResult) -> tuple[ChangeEffect, ...]:
        """In the default arm the best level of each factor that no size was seen to lose by."""
        best = {e.change[0]: e for e in _active(found, 0) if not e.slower}
        alone, needs = {e.change for e in best.values()}, self.arms[0].needs
        return tuple(e for e in best.values() if needs.get(e.change, frozenset()) <= alone)

    def _waits(self, parameter: Parameter, parent: Parameter, value: Value) -> bool:
        wanted = parameter.when.get(parent.name, ())
        return value in wanted and parent.default not in wanted

    def _arm(self, setting: Mapping[str, Value], base: Point, gates: set[str]) -> Arm:
        changes: list[Change] = []
        needs: dict[Change, frozenset[Change]] = {}
        for parameter in self.space.job:
            own = frozenset(self._needs(parameter, base))
            if parameter.name in gates or any(name in gates for name, _ in own):
                continue  # of another arm
            for value in _tried(parameter, self.wanted.levels):
                changes.append((parameter.name, value))
                if own:
                    needs[parameter.name, value] = own
        name = ", ".join(f"{n}={v}" for n, v in setting.items())
        return Arm(name, tuple(changes), needs)

    def _needs(self, parameter: Parameter, base: Point) -> set[Change]:
        """Changes without which a parameter has no effect."""
        unmet = {parent: of for parent, of in parameter.when.items() if base.get(parent) not in of}
        missing = {(parent, next(v for v in of if v is not None)) for parent, of in unmet.items()}
        return missing.union(*(self._needs(self.space[parent], base) for parent, _ in missing))

    def _run(self, observation: Observation, sizes: int, often: bool) -> Run:
        trial = observation.trial
        point = trial.point
        fits = [i for i, setting in enumerate(self.settings) if setting.items() <= dict(point).items()]
        base = self.bases[fits[-1]]
        defaults = {p.name: p.default for p in self.space.job} | dict(base)
        changes = frozenset((name, value) for name, value in point.items() if value != defaults[name])
        if not observation.ok:  # a message that names the culprit saves looking for it
            named = frozenset(c for c in changes if re.search(rf"\b{re.escape(c[0])}\b", observation.reason))
            changes = named if len(named) == 1 else changes
        curve = curve_in(observation)
        whole, apart = curve if len(curve) == sizes else (), observation.apart and not often
        return Run(fits[-1], changes, trial.block, whole, cores_in(observation.extra), apart)


def _spent_s(made: Sequence[Observation]) -> tuple[float, float]:
    """Seconds that launches of a discovery took in the cycles before, and in the present one."""
    begin = cycle([o.trial.block for o in made])
    before, now = (sum(o.duration_s for o in part) for part in (made[:begin], made[begin:]))
    return before, now


def _behind(found: DiscoveryResult, arm: int) -> list[float]:
    """Logarithm of an arm's time over the default's, at each size; empty where neither was measured."""
    return [a - b for a, b in zip(found.arms[arm], found.arms[0], strict=False)]


def _active(found: DiscoveryResult, arm: int) -> list[ChangeEffect]:
    return sorted((e for e in found.active if e.arm == arm), key=lambda e: -float(np.mean(e.log_ratio)))


def adding_up(effects: Sequence[ChangeEffect], behind: Sequence[float] = ()) -> tuple[Change, ...]:
    """The level of an arm that gains most over all sizes, then what gains where those before it do not.

    Of levels that act at the same size the one that does more is expected to count, of gains and of losses.
    What is lost at the worst size counts as much as what is gained on the whole, as it may undo that;
    ``behind``: ln of the arm's time over the default's at each size.
    """
    chosen: dict[str, Change] = {}
    base = np.array(behind or [0.0] * max((len(e.log_ratio) for e in effects), default=1))
    gain = loss = 0.0 * base

    def cost(gain: Floats, loss: Floats) -> float:
        total = base + gain + loss
        return float(total.mean() + max(total.max(), 0.0))

    while True:
        left = [e for e in effects if e.change[0] not in chosen]
        curves = [np.where(np.abs(e.log_ratio) > 2 * np.array(e.error), e.log_ratio, 0.0) for e in left]
        costs = [cost(np.minimum(gain, of), np.maximum(loss, of)) for of in curves]
        if not left or min(costs) > cost(gain, loss) - _ADDS:
            return tuple(chosen.values())
        i = int(np.argmin(costs))
        chosen[left[i].change[0]] = left[i].change
        gain, loss = np.minimum(gain, curves[i]), np.maximum(loss, curves[i])


def _tried(parameter: Parameter, most: int) -> tuple[Value, ...]:
    """The levels of a parameter that are screened, far apart; the others are the search's."""
    others = [v for v in parameter.values if v != parameter.default]
    if len(others) <= most:
        return tuple(others)
    at = np.linspace(0, len(others) - 1, most).round().astype(int)
    return tuple(others[i] for i in at)


def curve_in(observation: Observation) -> tuple[float, ...]:
    """Logarithms of the times that a launch measured: by collective, communicator and message size."""
    usable = sorted(observation.usable, key=lambda e: slot_of(e.cell))
    return tuple(float(np.log(e.median_s)) for e in usable)


def slots_of(history: History) -> tuple[Slot, ...]:
    """Slots of the curves of a discovery, in the order of its effects."""
    made = chain.from_iterable(o.usable for o in history.of(Phase.DISCOVERY))
    return tuple(sorted({slot_of(estimate.cell) for estimate in made}))
