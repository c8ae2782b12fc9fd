"""Findings of a discovery: candidates after the screening, effects after the confirmation."""

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
    """Effect of one change on the curve."""

    arm: int  # In which arm.
    change: Change  # Factor and level.
    log_ratio: tuple[float, ...]  # Logarithm of its time over the default's, at each size; below zero: faster
    error: tuple[float, ...]  # Standard errors of these.
    confirmed: bool  # Whether by fresh launches of it alone, else by the screening.

    @property
    def slower(self) -> bool:
        """Whether some size loses by more than chance."""
        return any(e > RULE.sure * s for e, s in zip(self.log_ratio, self.error, strict=True))


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The result of a discovery."""

    active: tuple[ChangeEffect, ...]  # What helps at some size, confirmed one at a time.
    unconfirmed: tuple[ChangeEffect, ...]  # What helps by the screening, and time ended before its own runs.
    harmful: tuple[ChangeEffect, ...]  # What only slows down: by the screening, or confirmed as well.
    set_aside: tuple[tuple[int, Change], ...]  # (arm, change) that make launches fail.
    inconclusive: tuple[tuple[int, Change], ...]  # Suspected and not confirmed, or never measured.
    arms: tuple[tuple[float, ...], ...]  # ln of the time of each arm at each size; empty: not measured.
    rate: float  # Of false discoveries.
    names: tuple[str, ...] = ()  # Of the arms.
    factors: int = 0  # How many had levels to be screened, in any arm.


def candidates(
    arms: Sequence[Arm], screened: tuple[Run, ...], rate: float, seed: int, losses: bool = False
) -> tuple[tuple[int, Change], ...]:
    """Changes that may help at some size, the surest first; or else those that may only slow down."""
    suspected = []
    fits = [_fitted(arm, number, screened, seed) for number, arm in enumerate(arms)]
    for number, (arm, fit) in enumerate(zip(arms, fits, strict=True)):
        if fit is None:
            continue
        helping = _may_help(fit, rate, fits[0])
        wanted, p, towards = helping, np.minimum(fit.p_faster, _p_there(fit, fits[0])), 1
        if losses:
            wanted, p, towards = _suspected(fit, 1, fit.p_any, rate) & ~helping, fit.p_any, -1
        at = np.flatnonzero(wanted)
        suspected += [(p[i], np.nanmin(towards * fit.effect[i]), (number, arm.changes[i])) for i in at]
    return tuple(change for *_, change in sorted(suspected, key=lambda s: s[:2]))


def _may_help(fit: JointFit, rate: float, default: JointFit | None) -> NDArray[np.bool_]:
    """Changes that are worth fresh launches for what they may gain, in an arm beside the default one."""
    return _suspected(fit, -1, fit.p_faster, rate) | (_p_there(fit, default) < RULE.there)


def _p_there(fit: JointFit, default: JointFit | None) -> Floats:
    """Probability of a gain as large where the arm does not gain itself, (n_changes,), if nothing did any."""
    apart = fit.level - default.level if default is not None else 0.0 * fit.level
    lost = apart > RULE.won if apart.mean() < RULE.won else np.zeros(len(apart), dtype=bool)
    gains = np.nan_to_num(-fit.effect / fit.error)[:, lost]
    return np.array([_p_above(of) if len(of) else 1.0 for of in gains])


def _suspected(fit: JointFit, sign: int, p: Floats, rate: float) -> NDArray[np.bool_]:
    """Changes that plainly move some size that way (-1: faster), or may move one by their probabilities."""
    plain: NDArray[np.bool_] = np.nan_to_num(sign * fit.effect / fit.error).max(axis=1) > RULE.plain
    return plain | false_discovery_set(p, RULE.relaxed * rate)


def established(arm: Arm, number: int, screened: Sequence[Run], rate: float, seed: int) -> frozenset[Change]:
    """Changes with a significant effect, by the screening so far."""
    fit = _fitted(arm, number, screened, seed)
    if fit is None:
        return frozenset()
    return frozenset(arm.changes[i] for i in np.flatnonzero(false_discovery_set(fit.p_any, rate)))


def doubts(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> Mapping[Change, float]:
    """How many further launches each change is worth before others: bits of surprise at what it did."""
    fit = _fitted(arm, number, screened, seed)
    return {} if fit is None else dict(zip(arm.changes, -np.log2(fit.p_any), strict=True))


def found(arms: Sequence[Arm], runs: Sequence[Run], rate: float, seed: int) -> DiscoveryResult:
    """Findings of all runs of the screening and the confirmation, at a rate of false discoveries."""
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
        confirmed = _confirmed(number, {c: of for c, of in alone.items() if c in gains}, -1, rate)
        slower = _confirmed(number, {c: of for c, of in alone.items() if c not in gains}, 1, rate)
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
    return sparse_fit(x, curves, rng, _cores(runs))


def _cores(runs: Sequence[Run]) -> Floats:
    """Figures of the cores of each run, (n_runs, n_figures); the median where they are not known."""
    most = max(len(run.cores) for run in runs)
    usual = np.median([run.cores for run in runs if len(run.cores) == most], axis=0)
    return np.array([run.cores if len(run.cores) == most else usual for run in runs])


def _fitted(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> JointFit | None:
    return _cached_fit(arm.changes, tuple(r for r in screened if r.arm == number and r.telling), seed)


def _alone(arm: Arm, runs: Sequence[Run], number: int, fit: JointFit) -> dict[Change, tuple[Floats, Floats]]:
    """Effects, and their errors, of the changes that the confirmation launched often enough."""
    rounds = [r for r in runs if r.block and r.arm == number]
    made = {run.changes for run in rounds}
    seen: dict[Change, tuple[Floats, float]] = {}
    for change in arm.changes:
        together = arm.complete(frozenset([change]))
        without = arm.needed(change)  # what it is worth beside what it needs, which may be worth all of it
        reference = without if without in made else frozenset()
        differences, factor = _differences(together, reference, rounds, fit)
        if len(differences) > 1:
            seen[change] = differences, factor
    spread = _spread([differences for differences, _ in seen.values()])
    return {
        change: (_middle(d, fit.sigma), np.maximum(fit.sigma * factor, spread / len(d) ** 0.5))
        for change, (d, factor) in seen.items()
    }


def _spread(seen: Sequence[Floats]) -> Floats | float:
    """Standard deviation of the differences of a round, common to all changes, (n_sizes,); robust.

    Launches of a confirmation may lie further apart than those of the screening did, and all changes of a
    round share its defaults.
    """
    left = [(of - np.median(of, axis=0)) * math.sqrt(len(of) / (len(of) - 1)) for of in seen]
    return normal_scale(np.abs(np.concatenate(left))) if left else 0.0


def _middle(differences: Floats, sigma: Floats) -> Floats:
    """Their mean without what lies far out."""
    middle, reach = np.median(differences, axis=0), RULE.clip * sigma
    return np.asarray(np.mean(np.clip(differences, middle - reach, middle + reach), axis=0))


def _confirmed(
    number: int, seen: Mapping[Change, tuple[Floats, Floats]], sign: int, rate: float
) -> dict[Change, ChangeEffect | None]:
    """Changes that act in that direction (-1: faster) at some size; None where it was not seen again."""
    p = np.array([_p_above(sign * effect / error) for effect, error in seen.values()])
    real = dict(zip(seen, false_discovery_set(p, rate), strict=True))
    return {
        change: ChangeEffect(number, change, tuple(effect), tuple(error), True) if real[change] else None
        for change, (effect, error) in seen.items()
    }


def _differences(
    changes: frozenset[Change], reference: frozenset[Change], rounds: Sequence[Run], fit: JointFit
) -> tuple[Floats, float]:
    """Effect against others in each round, (n_rounds, n_sizes); the mean's error for a spread of 1."""

    def made(wanted: frozenset[Change], block: int) -> list[Floats]:
        good = (r for r in rounds if r.block == block and r.telling and r.changes == wanted)
        return [fit.steadied(r.curve, r.cores) for r in good]

    differences, errors = [], []
    for block in sorted({run.block for run in rounds}):
        mine, default = made(changes, block), made(reference, block)
        if mine and default:
            # All changes share these launches: of disturbed ones among them each would look faster.
            differences.append(np.median(mine, axis=0) - np.median(default, axis=0))
            errors.append(sum(math.pi / 2 / n if n > 2 else 1 / n for n in (len(mine), len(default))))
    return np.array(differences), math.sqrt(sum(errors)) / max(len(errors), 1)


def _p_above(z: Floats) -> float:
    """Probability of an effect as high at any size where there is none; sizes as if independent."""
    tail = 0.5 * math.erfc(float(z.max()) / math.sqrt(2))
    return -math.expm1(len(z) * math.log1p(-min(tail, 1 - 1e-12)))
