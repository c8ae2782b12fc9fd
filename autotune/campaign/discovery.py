"""Discover which of many parameters matter, by launches that change several at once (data flow: screening).

The next trial and the result are functions of the history. A launch of a discovery sets one point (the
job-wide values), leaves every per-call choice to the stack, and is short. Its cost is not part of the
search's budget.

Notation: a *level* is a value of a parameter, and a *change* is a level other than the parameter's default.
An *arm* is a value that enables a whole group of parameters, such as ``pml=ucx``; these parameters are tried
together with that value. The first arm is the default, which sets nothing.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

import numpy as np

from autotune.campaign.failures import enough_s
from autotune.campaign.spec import Narrowing
from autotune.campaign.time_left import PLENTY, TimeLeft
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import History, Observation, Phase, Subject, Trial
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
"""Least number of parameters that a value of another parameter must enable in order to become an arm."""
_ADDS = 0.005
"""Least mean gain over the sizes, in ln of the time, for which a further level is added to the levels that
are already chosen."""
_RESOLVED = 0.05
"""Mean gain over the sizes, in ln of the time, below which a verification may be inconclusive. It is half of
the default margin of a verification, which is what a verification aims to resolve."""


@dataclass(frozen=True)
class Discovery:
    """Find out which of many parameters matter."""

    space: Space  # All parameters, before any is ruled out.
    options: Discover  # The scenario's limits on launches, time and error rate.
    seed: int  # Random seed of the whole discovery.
    expert_names: frozenset[str] = frozenset()
    """Names of the parameters in the experts' search space (``discover.space``): they are tried first, and
    searched whatever the discovery finds."""

    @cached_property
    def settings(self) -> tuple[Mapping[str, Value], ...]:
        """Return the setting that selects each arm; that of the first arm, the default, is empty."""
        crowded = [
            {p.name: value}
            for p in self.space.job
            for value in p.values
            if value != p.default and sum(self._waits(q, p, value) for q in self.space.job) >= _CROWD
        ]
        return ({}, *crowded)

    @cached_property
    def bases(self) -> tuple[Point, ...]:
        """Return, for each arm, the complete point of a launch without any change."""
        return tuple(self.space.complete(dict(setting)) for setting in self.settings)

    @cached_property
    def arms(self) -> tuple[Arm, ...]:
        """Return the arms, each with its possible changes."""
        gates = {name for setting in self.settings for name in setting}
        return tuple(
            self._arm(setting, base, gates) for setting, base in zip(self.settings, self.bases, strict=True)
        )

    @cached_property
    def design(self) -> DiscoveryDesign:
        """Return the design of the discovery's runs."""
        options = self.options
        strong = {p.name: 1 for p in self.space.job if p.strong}
        tiers = {**strong, **dict.fromkeys(self.expert_names, 0)}
        limits = (options.launches, options.share, options.rounds, options.rate)
        return DiscoveryDesign(self.arms, *limits, self.seed, tiers)

    def next_trial(self, history: History, seed: int, time: TimeLeft = PLENTY) -> Trial | None:
        """Return the next trial; None once the discovery is complete.

        At least one launch with the stack's own defaults must have ended well.
        """
        return next(self.next_trials(history, seed, time), None)

    def next_trials(self, history: History, seed: int, time: TimeLeft = PLENTY) -> Iterator[Trial]:
        """Yield the next trials that may run at once, because none depends on the result of another."""
        observations = history.of(Phase.DISCOVERY).observations
        if observations and history.observations[-1].trial.phase is not Phase.DISCOVERY:
            return  # the campaign has gone on to its next phase, so the discovery is over
        baseline_s = [o.duration_s for o in history.of(Phase.BASELINE) if o.ok]
        timeout_s = enough_s(min(baseline_s, default=0.0))
        runs, planned_runs = list(self.runs(history)), list[Run]()
        looks_so_far = _looks(runs)
        while (planned := self._planned_run(history, observations, runs, time)) is not None:
            run, stage = planned
            confirming = run.block > 0
            if planned_runs and (stage is Stage.BISECT or confirming != (planned_runs[0].block > 0)):
                return
            yield Trial(
                history.next_number + len(planned_runs),
                Phase.DISCOVERY,
                self.point(run),
                Subject.DEPLOYED,
                block=run.block,
                seed=seed,
                note=str(stage),
                timeout_s=timeout_s,
            )
            # This run has no curve (times at all sizes) yet. The design evaluates curves only every few runs,
            # so an earlier curve of the same arm takes its place until then.
            curve = next((r.curve for r in reversed(runs) if r.arm == run.arm and r.ok), ())
            runs.append(replace(run, curve=curve))
            planned_runs.append(run)
            if not curve or stage is Stage.BISECT or _looks(runs) > looks_so_far:
                return

    def _planned_run(
        self, history: History, observations: Sequence[Observation], runs: Sequence[Run], time: TimeLeft
    ) -> tuple[Run, Stage] | None:
        """Return the next run of this cycle and its stage; None when no further runs are worthwhile.

        A cycle is a screening with the confirmation of its findings. It is extended by more runs while no
        confirmed change gains without a loss.
        """
        if not observations:
            return self.design.next_run(())
        spent_s, now_s = _spent_s(observations)
        limit_s = self._limit_s(spent_s, time.all_s + now_s)
        enough, time_up = now_s >= limit_s * (1 - RULE.confirming), now_s >= limit_s
        planned = self.design.next_run(runs, enough, time_up)
        if planned is not None:
            return planned
        remaining_s = self._limit_s(spent_s + now_s, time.all_s)
        if remaining_s < RULE.look_every * (spent_s + now_s) / len(observations) or self._promising(history):
            return None
        return self.design.next_run(runs, enough=True) or self.design.next_run(runs, go_on=True)

    def left_s(self, history: History, time: TimeLeft) -> float:
        """Return the time that the present cycle may still take, in seconds; infinite without a limit."""
        spent_s, now_s = _spent_s(history.of(Phase.DISCOVERY).observations)
        return max(0.0, self._limit_s(spent_s, time.all_s + now_s) - now_s)

    def _limit_s(self, spent_s: float, remaining_s: float) -> float:
        """Return the time limit of a cycle: at most half of the remaining time; the search needs the rest."""
        discovery_s = math.inf if self.options.seconds is None else self.options.seconds - spent_s
        return min(discovery_s, remaining_s / 2)

    def _promising(self, history: History) -> bool:
        """Whether a confirmed change gains more than a verification may miss, and loses at no size.

        An arm counts, too, if it gains as much on the average over the sizes, together with the best level
        that was confirmed in it. An arm may lose at single sizes, since the search can find out, with rules
        and experts' settings, whether these losses are avoidable.
        """
        findings = self.found(history)
        gains = [float(np.mean(e.log_ratio)) for e in self._harmless(findings)]
        for arm in range(1, len(findings.arms)):
            if log_ratios := _behind(findings, arm):
                levels = (float(np.mean(e.log_ratio)) for e in _active(findings, arm))
                gains.append(float(np.mean(log_ratios)) + min(levels, default=0.0))
        return min(gains, default=0.0) < -_RESOLVED

    def found(self, history: History) -> DiscoveryResult:
        """Return the findings of the launches so far."""
        return found(self.arms, self.runs(history), self.options.rate, self.seed)

    def runs(self, history: History) -> tuple[Run, ...]:
        """Return the launches of the discovery as runs of its design."""
        observations = history.of(Phase.DISCOVERY).observations
        sizes = max((sum(1 for _ in o.usable) for o in observations), default=0)
        return tuple(self._run(o, sizes) for o in observations)

    def point(self, run: Run) -> Point:
        """Return the setting of a run."""
        return self.space.complete({**self.settings[run.arm], **dict(run.changes)})

    def narrowing(self, findings: DiscoveryResult) -> Narrowing:
        """Return the space left to search, the points to search first, and those to verify in any case."""
        space = self.searched(findings)
        return Narrowing(space, self.suggested(findings, space), self.free(findings, space))

    def searched(self, findings: DiscoveryResult) -> Space:
        """Return the space left to search.

        It contains the levels that help and the values between them, the parameters that experts named, and
        the parameters that select an arm.
        """
        levels: dict[str, set[Value]] = {}
        for effect in (*findings.active, *findings.unconfirmed):
            for name, value in self.arms[effect.arm].complete(frozenset([effect.change])):
                levels.setdefault(name, set()).add(value)
        gates = {name for setting in self.settings for name in setting}
        failing = {change for _, change in findings.set_aside}
        return narrowed(self.space, levels, gates | self.expert_names, failing)

    def suggested(self, findings: DiscoveryResult, space: Space) -> tuple[Point, ...]:
        """Return the points to search first.

        The first point combines the harmless changes of the default arm. Then each arm has three points: the
        best active (confirmed) levels of those factors whose gains add up, the single level that gains most,
        and the best active levels of all factors. Fewer levels may be better, because levels with the same
        effect add nothing to each other or exclude each other. Each of the last points takes the best levels
        of an arm, and adds one level that there was no time to confirm.
        """
        points, unconfirmed_points = [], []
        for arm, setting in enumerate(self.settings):
            active = _active(findings, arm)
            best = {e.change[0]: e.change for e in active}
            needs = self.arms[arm].needs
            additive = adding_up([e for e in active if e.change not in needs], _behind(findings, arm))
            combined = dict(self.arms[arm].complete(frozenset(best.values())))
            variants = (dict(additive), dict(additive[:1]), combined)
            points += [space.complete({**setting, **changes}) for changes in variants]
            for effect in findings.unconfirmed:
                if effect.arm == arm:
                    level = dict(self.arms[arm].complete(frozenset([effect.change])))
                    unconfirmed_points.append(space.complete({**setting, **combined, **level}))
        candidates = (*self.free(findings, space), *points, *unconfirmed_points)
        return tuple(dict.fromkeys(p for p in candidates if p != space.default))

    def free(self, findings: DiscoveryResult, space: Space) -> tuple[Point, ...]:
        """Return a point of the default arm with each factor's best level that slows down no size.

        The result is empty if there is no such level.
        """
        point = space.complete(dict(e.change for e in self._harmless(findings)))
        return (point,) if point != space.default else ()

    def _harmless(self, findings: DiscoveryResult) -> tuple[ChangeEffect, ...]:
        """Return, for each factor of the default arm, the best of its levels without a finding of a loss."""
        best = {e.change[0]: e for e in _active(findings, 0) if not e.slower}
        chosen_changes, needs = {e.change for e in best.values()}, self.arms[0].needs
        return tuple(e for e in best.values() if needs.get(e.change, frozenset()) <= chosen_changes)

    def _waits(self, parameter: Parameter, parent: Parameter, value: Value) -> bool:
        enabling = parameter.when.get(parent.name, ())
        return value in enabling and parent.default not in enabling

    def _arm(self, setting: Mapping[str, Value], base: Point, gates: set[str]) -> Arm:
        changes: list[Change] = []
        needs: dict[Change, frozenset[Change]] = {}
        for parameter in self.space.job:
            required = frozenset(self._needs(parameter, base))
            if parameter.name in gates or any(name in gates for name, _ in required):
                continue  # the parameter belongs to another arm
            for value in _screened_levels(parameter, self.options.levels):
                changes.append((parameter.name, value))
                if required:
                    needs[parameter.name, value] = required
        name = ", ".join(f"{key}={setting_value}" for key, setting_value in setting.items())
        return Arm(name, tuple(changes), needs)

    def _needs(self, parameter: Parameter, base: Point) -> set[Change]:
        """Return the changes without which a parameter has no effect."""
        unmet = {
            parent: enabling
            for parent, enabling in parameter.when.items()
            if base.get(parent) not in enabling
        }
        missing = {(parent, next(v for v in enabling if v is not None)) for parent, enabling in unmet.items()}
        return missing.union(*(self._needs(self.space[parent], base) for parent, _ in missing))

    def _run(self, observation: Observation, sizes: int) -> Run:
        trial = observation.trial
        point = trial.point
        matching_arms = [
            i for i, setting in enumerate(self.settings) if setting.items() <= dict(point).items()
        ]
        base = self.bases[matching_arms[-1]]
        defaults = {p.name: p.default for p in self.space.job} | dict(base)
        changes = frozenset((name, value) for name, value in point.items() if value != defaults[name])
        if not observation.ok:  # if the error names one of the parameters, only that one is blamed
            blamed = frozenset(c for c in changes if re.search(rf"\b{re.escape(c[0])}\b", observation.reason))
            changes = blamed if len(blamed) == 1 else changes
        curve = curve_in(observation)
        return Run(matching_arms[-1], changes, trial.block, curve if len(curve) == sizes else ())


def _looks(runs: Sequence[Run]) -> int:
    """Return how often all runs of the screening have been evaluated so far."""
    return sum(run.block == 0 for run in runs) // RULE.look_every


def _spent_s(observations: Sequence[Observation]) -> tuple[float, float]:
    """Return the seconds that a discovery's launches took in earlier cycles, and in the present cycle."""
    begin = cycle([o.trial.block for o in observations])
    earlier_s, current_s = (
        sum(o.duration_s for o in part) for part in (observations[:begin], observations[begin:])
    )
    return earlier_s, current_s


def _behind(findings: DiscoveryResult, arm: int) -> list[float]:
    """Return ln of (time of an arm / time of the default) at each size; empty if either is not measured."""
    return [a - b for a, b in zip(findings.arms[arm], findings.arms[0], strict=False)]


def _active(findings: DiscoveryResult, arm: int) -> list[ChangeEffect]:
    return sorted((e for e in findings.active if e.arm == arm), key=lambda e: -float(np.mean(e.log_ratio)))


def adding_up(effects: Sequence[ChangeEffect], arm_log_ratio: Sequence[float] = ()) -> tuple[Change, ...]:
    """Return the level of an arm that gains most over all sizes, then levels that gain at other sizes.

    If several levels act at the same size, only the largest of their gains and the largest of their losses
    are expected to take effect there. Levels are chosen for their mean over all sizes and for the loss at the
    worst size, with equal weight, since that loss may cancel the mean gain.

    Args:
        effects: Confirmed effects of levels of the arm, each with one value for each size.
        arm_log_ratio: ln of the arm's time over the default's at each size; empty means 0 everywhere.
    """
    changes: dict[str, Change] = {}
    base = np.array(arm_log_ratio or [0.0] * max((len(e.log_ratio) for e in effects), default=1))
    gain = loss = 0.0 * base

    def cost(gain: Floats, loss: Floats) -> float:
        total = base + gain + loss
        return float(total.mean() + max(total.max(), 0.0))

    while True:
        remaining = [e for e in effects if e.change[0] not in changes]
        curves = [np.where(np.abs(e.log_ratio) > 2 * np.array(e.error), e.log_ratio, 0.0) for e in remaining]
        costs = [cost(np.minimum(gain, curve), np.maximum(loss, curve)) for curve in curves]
        if not remaining or min(costs) > cost(gain, loss) - _ADDS:
            return tuple(changes.values())
        i = int(np.argmin(costs))
        changes[remaining[i].change[0]] = remaining[i].change
        gain, loss = np.minimum(gain, curves[i]), np.maximum(loss, curves[i])


def _screened_levels(parameter: Parameter, max_levels: int) -> tuple[Value, ...]:
    """Return the levels of a parameter to screen, spread evenly over its values.

    The search may try the other levels.
    """
    alternatives = [v for v in parameter.values if v != parameter.default]
    if len(alternatives) <= max_levels:
        return tuple(alternatives)
    indices = np.linspace(0, len(alternatives) - 1, max_levels).round().astype(int)
    return tuple(alternatives[i] for i in indices)


def curve_in(observation: Observation) -> tuple[float, ...]:
    """Return ln of a launch's times in seconds, sorted by collective, communicator size, message size."""
    usable = sorted(observation.usable, key=lambda e: slot_of(e.cell))
    return tuple(float(np.log(e.median_s)) for e in usable)


def slots_of(history: History) -> tuple[Slot, ...]:
    """Return the slots (collective, communicator size, message size) that a discovery measured, sorted.

    The values of an effect are in this order.
    """
    estimates = chain.from_iterable(o.usable for o in history.of(Phase.DISCOVERY))
    return tuple(sorted({slot_of(estimate.cell) for estimate in estimates}))
