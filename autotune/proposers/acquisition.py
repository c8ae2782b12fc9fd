"""The state of a search as arrays, and the value of a further launch of each candidate.

A *slot* is a collective with a communicator size and a message size. The *envelope* of a job-wide setting is
the setting's best time in each slot over the per-size choices; a launch is valuable if it lowers an envelope.
On the logarithmic scale an objective is a weighted sum over slots, so a single matrix turns curves into
costs.

Notation: m slots, o objectives, S random curves for each of q candidates. A *cost* is the logarithm of a
score, and less is better: cost = weights @ ln t + constant, where ``weights`` has the shape ``(o, m)``.
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
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.measure.location import usual_variance
from autotune.proposers.curve_model import CurveModel, Curves, Prediction
from autotune.recommend.front import curve_of
from autotune.recommend.posterior import expected_improvement
from autotune.recommend.priors import Floats
from autotune.recommend.repeats import optimism
from autotune.space import Point, Space


@dataclass(frozen=True, slots=True)
class SearchRule:
    """Assumptions of a search about noise, and limits of its computations."""

    promising: int = 96
    """Number of candidates whose hypervolume improvement is computed; they are those with the largest
    expected gain."""
    slack: float = 0.03
    """Losses up to this, on the log scale, may be noise and do not count as losses of a setting."""
    sure: float = 0.1
    """A setting with a larger measured loss than this, on the log scale, is no rival of others, because noise
    is never so large."""
    surely: float = 1.0
    """A setting is no rival of others if the model predicts that it is slower than allowed by more than this
    number of standard deviations."""
    hope: float = 0.002
    """Lower bound on the probability that a setting is slower than allowed in no slot, because the model may
    be wrong."""
    trusted: int = 4
    """Weight of the usual variance in the estimated variance of one setting, as a number of launches."""


RULE = SearchRule()
MEMORY: Slot = ("memory", 0, 0)
"""Slot of the peak memory, which is treated like one more time of the curve. Of several launches of a
setting, the largest value counts."""


@dataclass(frozen=True)
class SearchState:
    """State of a search after some launches, as arrays."""

    space: Space
    slots: tuple[Slot, ...]  # The m slots that have a weight in at least one objective.
    weights: Floats  # Weight of each slot in each objective, shape ``(o, m)``.
    curves: Curves  # Curves of the launches that succeeded.
    envelopes: dict[Point, Floats]
    """Maps each job-wide setting to ln t of its envelope, shape ``(m,)``; infinite in slots that were not
    measured."""
    limit: Floats  # ln t that no launch should exceed, shape ``(m,)``; infinite in slots without a limit.
    untouched: Floats
    """ln t of the MPI stack's defaults, from which the limit follows, shape ``(m,)``; infinite in slots where
    it is unknown."""
    losers: frozenset[Point]  # Settings that exceed the limit in some slot by more than noise can explain.

    @classmethod
    def of(
        cls, problem: Problem, observations: Sequence[Observation], untouched: Sequence[Observation] = ()
    ) -> SearchState:
        """Return the state after launches of points, and after launches of the stack's defaults.

        ``untouched`` are launches of the defaults that are not among ``observations``. If ``observations``
        contain no launch of the defaults, because each of them measured all per-size choices, ``untouched``
        are added as launches of the default point, which is at least as fast. The curves contain the
        problem's earlier launches too, but no setting has an envelope by these alone.
        """
        good = [o for o in observations if o.ok]
        groups = by_setting(problem.known, good)
        has_untouched = any(o.trial.subject is Subject.UNTOUCHED for o in good)
        launches = [(o.trial.point, o) for o in (*problem.earlier, *good)]
        launches += [(problem.known.default, o) for o in untouched if o.ok and not has_untouched]
        launch_curves = [curve_of(problem.known, (o,)) for _, o in launches]
        joint = {setting: curve_of(problem.known, tuple(group)) for setting, group in groups.items()}
        measured = sorted({slot for curve in launch_curves for slot in curve})
        slots = tuple(s for s in measured if any(o.covers(s) for o in problem.objectives))
        if any(o.name == "memory" for o in problem.objectives):
            slots = (*slots, MEMORY)
        arrays = [_arrays(c, [o], slots) for c, (_, o) in zip(launch_curves, launches, strict=True)]
        logs, sems = np.array(arrays).reshape(len(launches), 2, len(slots)).swapaxes(0, 1)
        has_data = ~np.isnan(logs).all(axis=1) if slots else np.zeros(len(launches), bool)
        points = [launches[i][0] for i in np.flatnonzero(has_data)]
        rows = {setting: _arrays(joint[setting], group, slots)[0] for setting, group in groups.items()}
        envelopes = {setting: np.where(np.isnan(row), np.inf, row) for setting, row in rows.items()}
        limit, default = _limit(problem, untouched, observations, slots)
        return cls(
            problem.known,
            slots,
            _weights(problem, slots),
            Curves(
                points, logs[has_data], sems[has_data], _launch_sds(points, logs[has_data], sems[has_data])
            ),
            envelopes,
            limit,
            default,
            frozenset(s for s, curve in envelopes.items() if (curve > limit + RULE.sure).any()),
        )

    def believed(self, model: CurveModel) -> SearchState:
        """Return the state with envelopes that the model predicts, instead of measured envelopes.

        If there is only one setting, the state is returned unchanged.
        """
        if len(self.envelopes) == 1:
            return self
        points = list(self._rows_of_searched)
        means: dict[Point, Floats] = {}
        lower_bound: dict[Point, Floats] = {}
        predicted = model.predict(points)
        for point, mean, sd in zip(points, predicted.mean, predicted.sd, strict=True):
            setting = job_setting(self.space, point)
            means[setting] = np.minimum(means.get(setting, mean), mean)
            lower_bound[setting] = np.minimum(lower_bound.get(setting, mean), mean - RULE.surely * sd)
        timed = np.array([slot != MEMORY for slot in self.slots])
        envelopes = {
            setting: np.where(timed & np.isfinite(curve), means.get(setting, curve), curve)
            for setting, curve in self.envelopes.items()
        }
        losers = frozenset(s for s, curve in lower_bound.items() if (timed & (curve > self.limit)).any())
        return replace(self, envelopes=envelopes, losers=losers)

    @property
    def _rows_of_searched(self) -> dict[Point, list[int]]:
        """Return the rows of ``curves`` of each point whose setting the search launched."""
        rows_of = _rows_of_points(self.curves.points)
        return {p: rows for p, rows in rows_of.items() if job_setting(self.space, p) in self.envelopes}

    def leaders(self, n: int = 3) -> list[Point]:
        """Return the n launched points with the lowest mean of ln t; their neighbours are good candidates."""
        if not len(self.curves.points):
            return []
        order = np.argsort(np.nanmean(self.curves.logs, axis=1), kind="stable")
        return list(dict.fromkeys(self.curves.points[i] for i in order))[:n]

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Return whether each launch was slower than allowed in some slot, shape ``(n,)``."""
        return np.asarray(np.any(self.curves.logs > self.limit + RULE.slack, axis=1))

    def gains(
        self, points: Sequence[Point], predicted: Prediction, samples: int, seed: int, likely: Floats
    ) -> tuple[Floats, Floats]:
        """Return the rank and the expected gain of launching each of q points; the highest rank is launched.

        With one objective, both are the expected improvement of the cost of the best setting. With several
        objectives, the rank is the expected hypervolume improvement, and the gain is the largest expected
        improvement of any objective or of the mean of all objectives. Gains are relative: 0.01 is one
        percent.

        Args:
            points: The candidates.
            predicted: The predicted curves of the candidates.
            samples: Number of curves that are drawn for each candidate.
            seed: Random seed of these draws.
            likely: Probability of each candidate, estimated from similar points, that it is slower than
                allowed in no slot, shape ``(q,)``.
        """
        settings = [job_setting(self.space, p) for p in points]
        if MEMORY not in self.slots and len(self.envelopes) == 1 and set(settings) == set(self.envelopes):
            # With a single job-wide setting, each slot gets its own choice, so the improvements in all slots
            # add up.
            [best] = self.envelopes.values()
            current = np.where(np.isfinite(best), best, predicted.mean.max(axis=0))
            gain = expected_improvement(current, predicted.mean, predicted.sd) @ self.weights.mean(axis=0)
            return gain, gain
        costs_after = self._cost(self._joined(settings, predicted.draw(samples, seed)))
        probability = np.minimum(likely, self._chance_to_lose_nowhere(settings, predicted, samples, seed))
        costs_now = self._costs()
        if not len(costs_now):
            promise = -costs_after.mean(axis=0).mean(axis=-1)
            return (promise - promise.min() + 1e-3) * probability, np.full(len(points), math.inf)
        mean, sd = costs_after.mean(axis=0), costs_after.std(axis=0) + 1e-9
        each = expected_improvement(costs_now.min(axis=0), mean, sd)
        if len(self.weights) == 1:
            return each[:, 0] * probability, each[:, 0] * probability
        joint_mean, joint_sd = (
            costs_after.mean(axis=2).mean(axis=0),
            costs_after.mean(axis=2).std(axis=0) + 1e-9,
        )
        jointly = expected_improvement(costs_now.mean(axis=1).min(), joint_mean, joint_sd)
        gain = np.maximum(each.max(axis=1), jointly) * probability
        promising = np.argsort(-gain, kind="stable")[: RULE.promising]
        # All points whose drawn curves do not improve the Pareto front would have the same rank; the joint
        # improvement ranks them.
        rank = 1e-6 * jointly * probability
        rank[promising] += _hypervolume_gain(costs_now, costs_after[:, promising]) * probability[promising]
        return rank, gain

    def worth_of_repeating(self) -> dict[Point, float]:
        """Map each point that the search launched to the expected gain from launching it again.

        If noise leaves open which of two points is better in a slot, another launch may change the decision.
        The value of this launch is the expected gain from such a change (Frazier, Powell, Dayanik, eq. 14).
        The noise includes differences between launches, which exceed the spread of samples within a launch
        (``launch_variances``).
        """
        share = self.weights.mean(axis=0)
        by_point = self._rows_of_searched
        if len(by_point) < 2:
            return {}
        errors = np.nan_to_num(self.curves.sems)
        launches = [(self.curves.logs[rows], errors[rows]) for rows in by_point.values()]
        between = launch_variances(launches, LAUNCH_SPREAD.largest_sd**2)
        means, shifts = [], []
        for (logs, sems), variance in zip(launches, between, strict=True):
            precision = np.where(np.isnan(logs), 0.0, 1 / (sems**2 + variance))
            with np.errstate(invalid="ignore", divide="ignore"):
                means.append(np.nansum(precision * logs, axis=0) / precision.sum(axis=0))
                # Standard deviation of the change of the mean that another launch of the usual precision
                # would cause.
                another = 1 / (np.median(sems, axis=0) ** 2 + variance)
                shifts.append(np.sqrt(1 / precision.sum(axis=0) - 1 / (precision.sum(axis=0) + another)))
        mean, worth = np.array(means), dict[Point, float]()
        for i, point in enumerate(by_point):
            rival = np.nanmin(np.delete(mean, i, axis=0), axis=0)
            turn = expected_improvement(-np.abs(mean[i] - rival), np.zeros(1), shifts[i])
            worth[point] = float(np.nansum(share * turn))
        return worth

    def _chance_to_lose_nowhere(
        self, settings: Sequence[Point], predicted: Prediction, samples: int, seed: int
    ) -> Floats:
        """Return the probability, ``(q,)``, that a candidate's setting is slower than allowed in no slot.

        Only the smooth part of the drawn curves is used: deviations at single sizes cannot be predicted and
        would rule out all settings in the same way.
        """
        if np.isinf(self.limit).all():
            return np.ones(len(settings))
        smooth = replace(predicted, residual_sd=np.zeros_like(predicted.residual_sd))
        loses = (self._joined(settings, smooth.draw(samples, seed)) > self.limit + RULE.slack).any(axis=-1)
        return np.asarray(np.maximum(1.0 - loses.mean(axis=0), RULE.hope))

    def _costs(self) -> Floats:
        """Return the costs, (n_settings, o), of the defaults and of complete settings except ``losers``."""
        rivals = [curve for setting, curve in self.envelopes.items() if setting not in self.losers]
        costs = [self._cost(curve) for curve in (self.untouched, *rivals)]
        complete = [c for c in costs if np.isfinite(c).all()]
        return np.array(complete).reshape(len(complete), len(self.weights))

    def _cost(self, curves: Floats) -> Floats:
        """Return the costs, (…, o), of curves, (…, m); curves may be infinite in slots without a weight."""
        counted = np.where((self.weights > 0).any(axis=0), curves, 0.0)
        return np.stack([counted[..., w > 0] @ w[w > 0] for w in self.weights], axis=-1)

    def _joined(self, settings: Sequence[Point], draws: Floats) -> Floats:
        """Return the envelope of each candidate's setting if a launch measured the drawn curve, (S, q, m)."""
        nothing = np.full(len(self.slots), np.inf)
        envelopes = np.array([self.envelopes.get(setting, nothing) for setting in settings])
        joined: Floats = np.minimum(envelopes, draws)
        if MEMORY in self.slots:
            j = self.slots.index(MEMORY)
            joined[..., j] = np.where(
                np.isfinite(envelopes[:, j]), np.maximum(envelopes[:, j], draws[..., j]), draws[..., j]
            )
        return joined


def _rows_of_points(points: Sequence[Point]) -> dict[Point, list[int]]:
    """Return the indices of each point's launches."""
    rows_of: dict[Point, list[int]] = {}
    for i, point in enumerate(points):
        rows_of.setdefault(point, []).append(i)
    return rows_of


def launch_variances(launches: Sequence[tuple[Floats, Floats]], prior: float) -> Floats:
    """Return the variance of ln t between launches of each of k settings, shape ``(k,)``.

    This variance is in addition to that of the standard errors. A setting's own variance is shrunk towards
    the usual variance of all settings, which has the weight of ``RULE.trusted`` launches: the result is the
    mean of the posterior with a scaled inverse χ² prior (Gelman et al., Bayesian Data Analysis, 3rd ed.,
    section 3.2). Launches with larger standard errors have less weight.

    ``launches`` contains for each setting ln t of its launches and their standard errors, both ``(n, m)``.
    ``prior`` is the usual variance that is assumed before any setting was launched again.
    """
    squares, freedom = np.zeros(len(launches)), np.array([len(logs) - 1 for logs, _ in launches])
    between = LAUNCH_SPREAD.largest_sd**2
    for i, (logs, sems) in enumerate(launches):
        if len(logs) > 1:
            weights = np.where(np.isnan(logs), 0.0, between / (between + sems**2))
            with np.errstate(invalid="ignore"):
                mean = np.nansum(weights * logs, axis=0) / weights.sum(axis=0)
            squares[i] = np.nansum(weights * (logs - mean) ** 2) / logs.shape[1]
    repeats = int(freedom.sum())
    usual = RULE.trusted * prior + repeats * usual_variance(squares, freedom)
    usual /= RULE.trusted + repeats
    return np.asarray((RULE.trusted * usual + squares) / (RULE.trusted + freedom))


def _launch_sds(points: Sequence[Point], logs: Floats, sems: Floats) -> Floats:
    """Return for each launch, ``(n,)``, the standard deviation between whole launches of its setting.

    The model uses it to trust a setting whose launches differ widely, as over TCP on one node, less than
    others. It is 0 until a setting was launched again, because the model has its own prior.
    """
    rows_of = _rows_of_points(points)
    n_slots = np.maximum((~np.isnan(logs)).sum(axis=1, keepdims=True), 1)
    means = np.nansum(logs, axis=1, keepdims=True) / n_slots
    errors = np.sqrt(np.nansum(sems**2, axis=1, keepdims=True)) / n_slots
    variances = launch_variances([(means[rows], errors[rows]) for rows in rows_of.values()], 0.0)
    sds = np.zeros(len(points))
    for rows, variance in zip(rows_of.values(), variances, strict=True):
        sds[rows] = math.sqrt(variance)
    return sds


def _hypervolume_gain(costs_now: Floats, costs_after: Floats) -> Floats:
    """Return the mean growth of the hypervolume, (q,), over the drawn costs of candidates.

    ``costs_now``, (n, o), are the costs of the settings so far, and ``costs_after``, (S, q, o), the drawn
    costs.
    """
    import torch
    from botorch.utils.multi_objective.box_decompositions.non_dominated import FastNondominatedPartitioning

    worst = costs_now.max(axis=0) + 0.1
    cells = FastNondominatedPartitioning(
        torch.as_tensor(-worst), torch.as_tensor(-costs_now)
    ).hypercell_bounds
    gains = torch.zeros(costs_after.shape[:2], dtype=torch.float64)
    gained = torch.as_tensor(-costs_after)
    for low, high in zip(*cells, strict=True):
        gains += (torch.minimum(gained, high) - low).clamp_min(0).prod(-1)
    return np.asarray(gains.mean(0).numpy())


def _limit(
    problem: Problem,
    untouched: Sequence[Observation],
    observations: Sequence[Observation],
    slots: Sequence[Slot],
) -> tuple[Floats, Floats]:
    """Return the limit of ln t in each slot, and ln t of the stack's defaults, each of shape ``(m,)``.

    The limit allows for the loss ``max_loss``. It is lowered by the amount by which the best choice of a
    launch looks faster than it really is, because it was selected (``repeats.optimism``). Memory has no
    limit.
    """
    nowhere = np.full(len(slots), np.inf)
    good = [o for o in untouched if o.ok]
    if problem.max_loss is None or not good:
        return nowhere, nowhere
    times, _ = _arrays(curve_of(problem.known, tuple(good)), [], slots)
    default_times = np.where(np.isnan(times), np.inf, times)
    lucky = optimism(problem.known, [*good, *(o for o in observations if o.ok)])
    allowance = np.array([lucky.get(slot, 0.0) for slot in slots])
    return default_times - allowance - math.log1p(-problem.max_loss), default_times


def _arrays(curve: Envelope, group: Sequence[Observation], slots: Sequence[Slot]) -> tuple[Floats, Floats]:
    """Return ln t of an envelope and its standard errors, each (m,); NaN where missing.

    The peak memory in the result is the largest of the launches ``group``.
    """
    logs, sems = np.full(len(slots), np.nan), np.full(len(slots), np.nan)
    memory = [o.extra["memory_bytes"] for o in group if o.extra.get("memory_bytes", 0) > 0]
    for j, slot in enumerate(slots):
        if slot in curve:
            logs[j] = math.log(curve[slot].median_s)
            if curve[slot].n > 1:  # a single sample has no standard error
                # This is the standard deviation of ln t of a log-normal time with this coefficient of
                # variation.
                sems[j] = math.sqrt(math.log1p((curve[slot].sem_s / curve[slot].median_s) ** 2))
        elif slot == MEMORY and memory:
            logs[j] = math.log(max(memory))
    return logs, sems


def _weights(problem: Problem, slots: Sequence[Slot]) -> Floats:
    """Return the weights of the slots in each objective, ``(o, m)``, which add up to 1 for each objective."""
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
