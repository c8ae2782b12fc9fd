"""Where a campaign stands, as arrays: what was measured, and the envelope that a next launch must improve.

On the logarithmic scale an objective is a weighted sum over slots: one matrix turns curves into costs.

Notation: m slots, o objectives, S samples of q candidates' curves; a *cost* is the logarithm of a score, less
is better: cost = weights @ ln t + constant. ``weights`` has shape ``(o, m)``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from autotune.campaign.ports import Problem
from autotune.history.objectives import Envelope, Slot, by_setting, job_setting
from autotune.history.trial import Observation, Subject
from autotune.proposers.curve_model import CurveModel, Curves, Prediction
from autotune.proposers.priors import Floats
from autotune.recommend.front import curve_of
from autotune.recommend.repeats import optimism
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class SearchRule:
    """A search's assumptions about noise, and its limits on computation."""

    promising: int = 96  # Candidates whose hypervolume is computed: the best of any one objective.
    slack: float = 0.03  # Loss on the log scale left to noise when asked whether a setting loses.
    sure: float = 0.1  # Measured loss, log scale, beyond which a setting is no rival: no noise is so large.
    surely: float = 1.0  # Standard deviations of belief by which a setting must lose to be no rival.
    hope: float = 0.002  # Least chance of a setting to lose nowhere: the model may be wrong.
    launches: float = 0.05  # Prior standard deviation between launches of one point (recorded: 2 to 5 %).
    trusted: float = 4.0  # Launches that this prior counts as.


RULE = SearchRule()
MEMORY: Slot = ("memory", 0, 0)
"""Peak memory is one more slot of the curve; of several launches the largest counts."""


@dataclass(frozen=True)
class SearchState:
    """Where a campaign stands."""

    space: Space  # Of the campaign.
    slots: tuple[Slot, ...]  # Those that some objective counts.
    weights: Floats  # Share of each slot in each objective, shape ``(o, m)``.
    curves: Curves  # Of the launches that succeeded.
    envelopes: dict[Point, Floats]
    """Job-wide setting → ln t of its envelope, shape ``(m,)``; infinite where nothing was measured."""
    limit: Floats  # ln t that no launch may exceed, shape ``(m,)``; infinite where none is known
    untouched: Floats
    """ln t of the stack's own defaults, which the limit is made of, shape ``(m,)``; infinite as there."""
    losers: frozenset[Point]  # Settings that are sure to lose somewhere.

    @classmethod
    def of(
        cls, problem: Problem, seen: Sequence[Observation], untouched: Sequence[Observation] = ()
    ) -> SearchState:
        """The standing after these launches of points, and these of the stack's own defaults.

        Where points sweep choices the defaults are none; the default point takes what they take at most.
        """
        good = [o for o in seen if o.ok]
        groups = by_setting(problem.known, good)
        own = [curve_of(problem.known, (o,)) for o in good]
        joint = {j: curve_of(problem.known, tuple(group)) for j, group in groups.items()}
        measured = sorted({slot for curve in own for slot in curve})
        slots = tuple(s for s in measured if any(o.covers(s) for o in problem.objectives))
        if any(o.name == "memory" for o in problem.objectives):
            slots = (*slots, MEMORY)
        among = any(o.trial.subject is Subject.UNTOUCHED for o in good)
        beside = [] if among else [o for o in untouched if o.ok]
        own += [curve_of(problem.known, (o,)) for o in beside]
        arrays = [_arrays(curve, [o], slots) for curve, o in zip(own, [*good, *beside], strict=True)]
        logs, sems = (np.array(a).reshape(len(own), len(slots)) for a in zip(*arrays, strict=True))
        some = ~np.isnan(logs).all(axis=1) if slots else np.zeros(len(own), bool)
        shown = [*(o.trial.point for o in good), *([problem.known.default] * len(beside))]
        points = [point for point, kept in zip(shown, some, strict=True) if kept]
        joined = {setting: _arrays(joint[setting], group, slots)[0] for setting, group in groups.items()}
        envelopes = {setting: np.where(np.isnan(row), np.inf, row) for setting, row in joined.items()}
        limit, default = _limit(problem, untouched, seen, slots)
        apart = _apart(problem.known, [*good, *beside])
        return cls(
            problem.known,
            slots,
            _weights(problem, slots),
            Curves(points, logs[some], sems[some], apart=apart),
            envelopes,
            limit,
            default,
            frozenset(s for s, curve in envelopes.items() if (curve > limit + RULE.sure).any()),
        )

    def believed(self, model: CurveModel) -> SearchState:
        """The same with what the model believes of several settings, not what single launches showed."""
        if len(self.envelopes) == 1:
            return self
        points = list(dict.fromkeys(self.curves.points))
        means: dict[Point, Floats] = {}
        least: dict[Point, Floats] = {}
        predicted = model.predict(points)
        for point, mean, sd in zip(points, predicted.mean, predicted.sd, strict=True):
            setting = job_setting(self.space, point)
            means[setting] = np.minimum(means.get(setting, mean), mean)
            least[setting] = np.minimum(least.get(setting, mean), mean - RULE.surely * sd)
        timed = np.array([slot != MEMORY for slot in self.slots])
        envelopes = {
            setting: np.where(timed & np.isfinite(curve), means.get(setting, curve), curve)
            for setting, curve in self.envelopes.items()
        }
        losers = frozenset(s for s, curve in least.items() if (timed & (curve > self.limit)).any())
        return replace(self, envelopes=envelopes, losers=losers)

    def leaders(self, n: int = 3) -> list[Point]:
        """The points of the launches with the lowest mean costs, around which to look."""
        if not len(self.curves.points):
            return []
        order = np.argsort(np.nanmean(self.curves.logs, axis=1), kind="stable")
        return list(dict.fromkeys(self.curves.points[i] for i in order))[:n]

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Whether each launch was slower somewhere than is allowed, shape ``(n,)``."""
        return np.asarray(np.any(self.curves.logs > self.limit + RULE.slack, axis=1))

    def gains(
        self, points: Sequence[Point], predicted: Prediction, samples: int, seed: int, likely: Floats
    ) -> tuple[Floats, Floats]:
        """Value of a launch of each of q points: the rank by which to choose, and the relative gain expected.

        For one objective both are the expected improvement of the best setting's cost. For several the rank
        is the expected hypervolume improvement, and the gain the largest expected improvement of any
        objective or of their mean. ``samples`` curves are drawn of each; ``likely``, ``(q,)``: its chance to
        lose nowhere by whether others like it did.
        """
        settings = [job_setting(self.space, p) for p in points]
        if MEMORY not in self.slots and len(self.envelopes) == 1 and set(settings) == set(self.envelopes):
            # Every choice is open at every size, so objectives do not compete and improvements add up.
            [best] = self.envelopes.values()
            known = np.where(np.isfinite(best), best, predicted.mean.max(axis=0))
            gain = expected_improvement(known, predicted.mean, predicted.sd) @ self.weights.mean(axis=0)
            return gain, gain
        after = self._cost(self._joined(settings, predicted.draw(samples, seed)))
        allowed = np.minimum(likely, self._chance_to_lose_nowhere(settings, predicted, samples, seed))
        now = self._costs()
        if not len(now):
            promise = -after.mean(axis=0).mean(axis=-1)
            return (promise - promise.min() + 1e-3) * allowed, np.full(len(points), math.inf)
        mean, sd = after.mean(axis=0), after.std(axis=0) + 1e-9
        each = expected_improvement(now.min(axis=0), mean, sd)
        if len(self.weights) == 1:
            return each[:, 0] * allowed, each[:, 0] * allowed
        joint_mean, joint_sd = after.mean(axis=2).mean(axis=0), after.mean(axis=2).std(axis=0) + 1e-9
        jointly = expected_improvement(now.mean(axis=1).min(), joint_mean, joint_sd)
        gain = np.maximum(each.max(axis=1), jointly) * allowed
        promising = np.argsort(-gain, kind="stable")[: RULE.promising]
        # The closed form breaks ties among points whose samples never reach the front.
        rank = 1e-6 * jointly * allowed
        rank[promising] += _hypervolume_gain(now, after[:, promising]) * allowed[promising]
        return rank, gain

    def worth_of_repeating(self) -> dict[Point, float]:
        """Value of another launch of a point already measured, by point: a better-founded choice.

        Where noise leaves open which of two points is better in a slot, a further launch can turn the
        decision; its value is the expected gain from that (Frazier, Powell, Dayanik, eq. 14). Launches differ
        by more than their samples say: by ``RULE.launches``, drawn to what repeated launches show.
        """
        share = self.weights.mean(axis=0)
        by_point: dict[Point, list[int]] = {}
        for i, point in enumerate(self.curves.points):
            by_point.setdefault(point, []).append(i)
        if len(by_point) < 2:
            return {}
        groups = [(self.curves.logs[rows], self.curves.sems[rows]) for rows in by_point.values()]
        with np.errstate(invalid="ignore"):
            mean = np.array([np.nanmean(logs, axis=0) for logs, _ in groups])
            within = np.array([np.nanmean(np.nan_to_num(sems), axis=0) for _, sems in groups])
        again = [logs - logs.mean(axis=0) for logs, _ in groups if len(logs) > 1]
        behind = sum(len(rows) - 1 for rows in again)
        squares = sum(float(np.nanmean(rows**2, axis=1).sum()) for rows in again)
        between = (RULE.trusted * RULE.launches**2 + squares) / (RULE.trusted + behind)
        once = np.sqrt(np.maximum(within**2, between))
        n = np.array([len(rows) for rows in by_point.values()])[:, None]
        shift = once / np.sqrt(n * (n + 1))  # how far one more launch is expected to move a mean
        worth: dict[Point, float] = {}
        for i, point in enumerate(by_point):
            rival = np.nanmin(np.delete(mean, i, axis=0), axis=0)
            turn = expected_improvement(-np.abs(mean[i] - rival), np.zeros(1), shift[i])
            worth[point] = float(np.nansum(share * turn))
        return worth

    def _chance_to_lose_nowhere(
        self, settings: Sequence[Point], predicted: Prediction, samples: int, seed: int
    ) -> Floats:
        """Probability for each candidate's setting, shape ``(q,)``, by the smooth part of drawn curves.

        What curves do at single sizes cannot be predicted and would rule out everything alike.
        """
        if np.isinf(self.limit).all():
            return np.ones(len(settings))
        smooth = replace(predicted, residual_sd=np.zeros_like(predicted.residual_sd))
        loses = (self._joined(settings, smooth.draw(samples, seed)) > self.limit + RULE.slack).any(axis=-1)
        return np.asarray(np.maximum(1.0 - loses.mean(axis=0), RULE.hope))

    def _costs(self) -> Floats:
        """Costs ``(n_settings, o)`` of complete settings not sure to lose, the stack's defaults too."""
        rivals = [curve for setting, curve in self.envelopes.items() if setting not in self.losers]
        costs = [self._cost(curve) for curve in (self.untouched, *rivals)]
        complete = [c for c in costs if np.isfinite(c).all()]
        return np.array(complete).reshape(len(complete), len(self.weights))

    def _cost(self, curves: Floats) -> Floats:
        """Costs of curves, shape ``(…, o)`` from ``(…, m)``; slots without weight may be infinite."""
        counted = np.where((self.weights > 0).any(axis=0), curves, 0.0)
        return np.stack([counted[..., w > 0] @ w[w > 0] for w in self.weights], axis=-1)

    def _joined(self, settings: Sequence[Point], draws: Floats) -> Floats:
        """Each candidate's setting once the candidate shows a drawn curve, shape ``(S, q, m)``."""
        nothing = np.full(len(self.slots), np.inf)
        before = np.array([self.envelopes.get(setting, nothing) for setting in settings])
        joined: Floats = np.minimum(before, draws)
        if MEMORY in self.slots:
            j = self.slots.index(MEMORY)
            joined[..., j] = np.where(
                np.isfinite(before[:, j]), np.maximum(before[:, j], draws[..., j]), draws[..., j]
            )
        return joined


def expected_improvement(best: Floats, mean: Floats, sd: Floats) -> Floats:
    """E[(best − y)₊] for y ~ N(mean, sd²), elementwise."""
    from scipy.special import ndtr

    with np.errstate(divide="ignore", invalid="ignore"):
        z = (best - mean) / sd
        improvement: Floats = sd * (z * ndtr(z) + np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))
    return improvement


def _hypervolume_gain(now: Floats, after: Floats) -> Floats:
    """Mean gain of dominated hypervolume ``(q,)``: costs ``now (n, o)``, sampled ones ``after (S, q, o)``."""
    import torch
    from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning

    worst = now.max(axis=0) + 0.1
    cells = FastNondominatedPartitioning(torch.as_tensor(-worst), torch.as_tensor(-now)).hypercell_bounds
    gains = torch.zeros(after.shape[:2], dtype=torch.float64)
    gained = torch.as_tensor(-after)
    for low, high in zip(*cells, strict=True):
        gains += (torch.minimum(gained, high) - low).clamp_min(0).prod(-1)
    return np.asarray(gains.mean(0).numpy())


def _limit(
    problem: Problem, untouched: Sequence[Observation], seen: Sequence[Observation], slots: Sequence[Slot]
) -> tuple[Floats, Floats]:
    """The limit on a launch's times in each slot, and the untouched stack's times; memory has no limit.

    By as much as the best of a launch's choices looks better than it is, a launch has to be faster.
    """
    nowhere = np.full(len(slots), np.inf)
    good = [o for o in untouched if o.ok]
    if problem.max_loss is None or not good:
        return nowhere, nowhere
    times, _ = _arrays(curve_of(problem.known, tuple(good)), [], slots)
    known = np.where(np.isnan(times), np.inf, times)
    lucky = optimism(problem.known, [*good, *(o for o in seen if o.ok)])
    least = np.array([lucky.get(slot, 0.0) for slot in slots])
    return known - least - math.log1p(-problem.max_loss), known


def _apart(space: Space, launches: Sequence[Observation]) -> float:
    """How far whole launches of one setting lie apart, on the log scale; 0 as long as none was repeated."""
    means: dict[tuple[Subject, Point], list[float]] = {}
    for o in launches:
        times = [math.log(e.median_s) for e in curve_of(space, (o,)).values()] if o.ok else []
        if times:
            means.setdefault((o.trial.subject, o.trial.point), []).append(sum(times) / len(times))
    squares = sum(float(np.var(of)) * len(of) for of in means.values())
    return math.sqrt(squares / (RULE.trusted + sum(len(of) - 1 for of in means.values())))


def _arrays(curve: Envelope, group: Sequence[Observation], slots: Sequence[Slot]) -> tuple[Floats, Floats]:
    """The envelope of these launches: ln t and its standard error, each of shape ``(m,)``; NaN = missing."""
    logs, sems = np.full(len(slots), np.nan), np.full(len(slots), np.nan)
    memory = [o.extra["memory_bytes"] for o in group if o.extra.get("memory_bytes", 0) > 0]
    for j, slot in enumerate(slots):
        if slot in curve:
            logs[j] = math.log(curve[slot].median_s)
            if curve[slot].n > 1:  # a single sample says nothing about its error
                sems[j] = curve[slot].sem_s / curve[slot].median_s
        elif slot == MEMORY and memory:
            logs[j] = math.log(max(memory))
    return logs, sems


def _weights(problem: Problem, slots: Sequence[Slot]) -> Floats:
    """The share of each slot in each objective, shape ``(o, m)``."""
    rows = []
    for objective in problem.objectives:
        if objective.name == "memory":
            row = np.array([float(slot == MEMORY) for slot in slots])
        else:
            counts = [
                s != MEMORY and objective.covers(s) and (s[2] > 0 or not objective.maximise) for s in slots
            ]
            share = [objective.weights.get(s, 1.0) if objective.weights else 1.0 for s in slots]
            row = np.array(counts) * np.array(share)
        rows.append(row / row.sum() if row.sum() else row)
    return np.array(rows).reshape(len(problem.objectives), len(slots))
