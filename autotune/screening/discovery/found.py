"""Findings of a discovery: the changes that should be confirmed, and the effects after the confirmation.

``runs`` defines the terms change, arm and run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from autotune.measure.location import normal_scale
from autotune.screening.discovery.fit import Floats, JointFit, false_discovery_set, sparse_fit
from autotune.screening.discovery.runs import RULE, Arm, Change, Run, set_aside


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """The effect of one change on the time at each message size."""

    arm: int  # Index of the arm in which the change was made.
    change: Change  # Factor and level.
    log_ratio: tuple[float, ...]
    """Logarithm of the ratio of the time with the change to the default's time, at each size; a value below
    zero means faster."""
    error: tuple[float, ...]  # Standard error of the logarithm at each size.
    confirmed: bool
    """Whether the estimate comes from fresh launches that made this change alone; otherwise it comes from the
    screening."""

    @property
    def slower(self) -> bool:
        """Return whether the change is significantly slower at some size."""
        return any(e > RULE.sure * s for e, s in zip(self.log_ratio, self.error, strict=True))


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery: the changes that help, that harm, and that remain inconclusive."""

    active: tuple[ChangeEffect, ...]  # Changes that fresh launches confirmed to be faster at some size.
    unconfirmed: tuple[ChangeEffect, ...]
    """Changes that are faster according to the screening, but had too few launches to be confirmed."""
    harmful: tuple[ChangeEffect, ...]
    """Changes that are slower, according to the screening or the confirmation."""
    set_aside: tuple[tuple[int, Change], ...]  # Changes that make launches fail, as (arm, change).
    inconclusive: tuple[tuple[int, Change], ...]
    """Changes whose suspected effect was not confirmed, and changes that were not measured, as (arm,
    change)."""
    arms: tuple[tuple[float, ...], ...]
    """Logarithm of the time of each arm without changes, at each size; empty for an arm that was not
    measured."""
    rate: float  # Rate of false discoveries: accepted share of reported effects that do not exist.
    names: tuple[str, ...] = ()  # Names of the arms.
    factors: int = 0  # Number of factors that at least one arm can change.


def candidates(
    arms: Sequence[Arm], screened: tuple[Run, ...], rate: float, seed: int, losses: bool = False
) -> tuple[tuple[int, Change], ...]:
    """Return the changes that may be faster at some size as (arm, change), the most significant first.

    With ``losses`` the result contains instead the changes that may be slower and are not expected to be
    faster.
    """
    suspected = []
    fits = [_fitted(arm, number, screened, seed) for number, arm in enumerate(arms)]
    for number, (arm, fit) in enumerate(zip(arms, fits, strict=True)):
        if fit is None:
            continue
        helping = _may_help(fit, rate, fits[0])
        selected, p, sign = helping, np.minimum(fit.p_faster, _p_in_losses(fit, fits[0])), 1
        if losses:
            selected, p, sign = _suspected(fit, 1, fit.p_any, rate) & ~helping, fit.p_any, -1
        indices = np.flatnonzero(selected)
        suspected += [(p[i], np.nanmin(sign * fit.effect[i]), (number, arm.changes[i])) for i in indices]
    return tuple(change for *_, change in sorted(suspected, key=lambda candidate: candidate[:2]))


def _may_help(fit: JointFit, rate: float, default: JointFit | None) -> NDArray[np.bool_]:
    """Return which changes of an arm, (n_changes,), may be a gain and should therefore be confirmed."""
    return _suspected(fit, -1, fit.p_faster, rate) | (_p_in_losses(fit, default) < RULE.arm_loss)


def _p_in_losses(fit: JointFit, default: JointFit | None) -> Floats:
    """Return for each change the p-value of a gain at the sizes at which the arm loses.

    The p-value is 1 if the arm loses nowhere, or if the arm is not faster on average.
    """
    log_ratio = fit.level - default.level if default is not None else 0.0 * fit.level
    losing = log_ratio > RULE.won if log_ratio.mean() < RULE.won else np.zeros(len(log_ratio), dtype=bool)
    gains = np.nan_to_num(-fit.effect / fit.error)[:, losing]
    return np.array([_p_above(z) if len(z) else 1.0 for z in gains])


def _suspected(fit: JointFit, sign: int, p: Floats, rate: float) -> NDArray[np.bool_]:
    """Return which changes, (n_changes,), may be faster (``sign`` -1) or slower (1) at some size."""
    plain: NDArray[np.bool_] = np.nan_to_num(sign * fit.effect / fit.error).max(axis=1) > RULE.plain
    return plain | false_discovery_set(p, RULE.relaxed * rate)


def established(arm: Arm, number: int, screened: Sequence[Run], rate: float, seed: int) -> frozenset[Change]:
    """Return the changes of an arm with a significant effect in the runs ``screened`` of the screening."""
    fit = _fitted(arm, number, screened, seed)
    if fit is None:
        return frozenset()
    return frozenset(arm.changes[i] for i in np.flatnonzero(false_discovery_set(fit.p_any, rate)))


def doubts(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> Mapping[Change, float]:
    """Return each change's priority for further launches: −log₂ of the p-value of its effect."""
    fit = _fitted(arm, number, screened, seed)
    return {} if fit is None else dict(zip(arm.changes, -np.log2(fit.p_any), strict=True))


def found(arms: Sequence[Arm], runs: Sequence[Run], rate: float, seed: int) -> DiscoveryResult:
    """Return the findings from all runs of the screening and the confirmation.

    ``rate`` is the rate of false discoveries.
    """
    screened = tuple(run for run in runs if run.block == 0)
    active: list[ChangeEffect] = []
    unconfirmed: list[ChangeEffect] = []
    harmful: list[ChangeEffect] = []
    aside: list[tuple[int, Change]] = []
    inconclusive: list[tuple[int, Change]] = []
    curves, names = [], tuple(arm.name for arm in arms)
    fits = [_fitted(arm, number, screened, seed) for number, arm in enumerate(arms)]
    for number, (arm, fit) in enumerate(zip(arms, fits, strict=True)):
        guilty = set_aside(runs, number)
        aside += [(number, change) for change in arm.changes if change in guilty]
        curves.append(tuple(fit.level) if fit else ())
        if fit is None:
            inconclusive += [(number, change) for change in arm.changes if change not in guilty]
            continue
        suspected, faster = _may_help(fit, rate, fits[0]), false_discovery_set(fit.p_faster, rate)
        moving = false_discovery_set(fit.p_any, rate)
        gains = [change for i, change in enumerate(arm.changes) if suspected[i]]
        alone = _alone(arm, runs, number, fit)
        confirmed = _confirmed(number, {c: e for c, e in alone.items() if c in gains}, -1, rate)
        slower = _confirmed(number, {c: e for c, e in alone.items() if c not in gains}, 1, rate)
        lose = {c for c, (e, error) in alone.items() if (e > RULE.sure * error).any()}
        active += [effect for effect in confirmed.values() if effect is not None]
        harmful += [effect for effect in slower.values() if effect is not None]
        for i, change in enumerate(arm.changes):
            measured = not np.isnan(fit.effect[i]).any()
            effect = ChangeEffect(number, change, tuple(fit.effect[i]), tuple(fit.error[i]), False)
            loses = measured and moving[i] and effect.slower
            if change in guilty or confirmed.get(change) or slower.get(change):
                continue
            if measured and faster[i] and change not in confirmed:
                unconfirmed.append(effect)
            elif loses and (change in lose if suspected[i] else change not in slower):
                harmful.append(effect)
            elif not measured or suspected[i] or change in slower:
                inconclusive.append((number, change))
    return DiscoveryResult(
        tuple(active),
        tuple(unconfirmed),
        tuple(harmful),
        tuple(aside),
        tuple(inconclusive),
        tuple(curves),
        rate,
        names,
        len({factor for arm in arms for factor, _ in arm.changes}),
    )


@lru_cache(maxsize=8)
def _cached_fit(changes: tuple[Change, ...], runs: tuple[Run, ...], seed: int) -> JointFit | None:
    if len(runs) < RULE.fewest:
        return None
    x = np.array([[float(change in run.changes) for change in changes] for run in runs])
    curves, rng = np.array([run.curve for run in runs]), np.random.default_rng([seed, 2])
    return sparse_fit(x, curves, rng)


def _fitted(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> JointFit | None:
    return _cached_fit(arm.changes, tuple(r for r in screened if r.arm == number and r.ok), seed)


def _alone(arm: Arm, runs: Sequence[Run], number: int, fit: JointFit) -> dict[Change, tuple[Floats, Floats]]:
    """Return the effect and the standard error of each change that at least two rounds measured alone.

    Both have the shape (n_sizes,).
    """
    rounds = [r for r in runs if r.block and r.arm == number]
    launched = {run.changes for run in rounds}
    measured: dict[Change, tuple[Floats, float]] = {}
    for change in arm.changes:
        together = arm.complete(frozenset([change]))
        # The launches for comparison also make the changes that this change needs, because those may cause
        # the whole gain.
        without = arm.needed(change)
        reference = without if without in launched else frozenset()
        differences, factor = _differences(together, reference, rounds)
        if len(differences) > 1:
            measured[change] = differences, factor
    spread = _spread([differences for differences, _ in measured.values()])
    return {
        change: (_middle(d, fit.sigma), np.maximum(fit.sigma * factor, spread / len(d) ** 0.5))
        for change, (d, factor) in measured.items()
    }


def _spread(differences: Sequence[Floats]) -> Floats | float:
    """Return a robust standard deviation, (n_sizes,), of the difference that one round measures for a change.

    ``differences`` contains, for each change, its differences from the reference, (n_rounds, n_sizes). The
    standard deviation is common to all changes. The screening's is not used, because launches of a
    confirmation may scatter more, and because all changes of a round are compared with the same launches of
    the default.
    """
    residuals = [(d - np.median(d, axis=0)) * math.sqrt(len(d) / (len(d) - 1)) for d in differences]
    return normal_scale(np.abs(np.concatenate(residuals))) if residuals else 0.0


def _middle(differences: Floats, sigma: Floats) -> Floats:
    """Return the mean, (n_sizes,), of ``differences`` after values far from the median were clipped."""
    middle, reach = np.median(differences, axis=0), RULE.clip * sigma
    return np.asarray(np.mean(np.clip(differences, middle - reach, middle + reach), axis=0))


def _confirmed(
    number: int, measured: Mapping[Change, tuple[Floats, Floats]], sign: int, rate: float
) -> dict[Change, ChangeEffect | None]:
    """Return each measured change with its effect if it is significantly faster or slower, else with None.

    ``sign`` is −1 to find faster changes and 1 to find slower changes.
    """
    p = np.array([_p_above(sign * effect / error) for effect, error in measured.values()])
    significant = dict(zip(measured, false_discovery_set(p, rate), strict=True))
    return {
        change: ChangeEffect(number, change, tuple(effect), tuple(error), True)
        if significant[change]
        else None
        for change, (effect, error) in measured.items()
    }


def _differences(
    changes: frozenset[Change], reference: frozenset[Change], rounds: Sequence[Run]
) -> tuple[Floats, float]:
    """Return the effect of changes relative to a reference in each round, (n_rounds, n_sizes), and a factor.

    The factor is the standard error of the mean effect, over the rounds, if a launch has a standard deviation
    of 1.
    """

    def curves(combination: frozenset[Change], block: int) -> list[Floats]:
        successful = (r for r in rounds if r.block == block and r.ok and r.changes == combination)
        return [np.asarray(r.curve) for r in successful]

    differences, errors = [], []
    for block in sorted({run.block for run in rounds}):
        changed, default = curves(changes, block), curves(reference, block)
        if changed and default:
            # Medians are used because all changes are compared with the same launches of the reference: with
            # means, a single disturbed launch of the reference would make each change look faster.
            differences.append(np.median(changed, axis=0) - np.median(default, axis=0))
            errors.append(sum(math.pi / 2 / n if n > 2 else 1 / n for n in (len(changed), len(default))))
    return np.array(differences), math.sqrt(sum(errors)) / max(len(errors), 1)


def _p_above(z: Floats) -> float:
    """Return the p-value of the largest value of ``z``, (n_sizes,), for independent normal values."""
    tail = 0.5 * math.erfc(float(z.max()) / math.sqrt(2))
    return -math.expm1(len(z) * math.log1p(-min(tail, 1 - 1e-12)))
