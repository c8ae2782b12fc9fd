"""What a discovery has found: candidates after the screening, effects after the confirmation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from autotune.screening.discovery.fit import Fit, Floats, false_discovery_set, sparse_fit
from autotune.screening.discovery.runs import Arm, Change, Run, set_aside

_RELAXED = 4
"""What is confirmed on fresh launches may be suspected at so many times the rate of false discoveries."""
_FEWEST = 8
"""Good runs of an arm without which nothing is fitted."""
_SURE = 2.5
"""Standard errors by which a size counts as faster or slower."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one change does to the curve."""

    arm: int
    """In which arm."""
    change: Change
    """Factor and level."""
    log_ratio: tuple[float, ...]
    """Logarithm of its time over the default's, at each size; below zero: faster."""
    error: tuple[float, ...]
    """Standard errors of these."""
    confirmed: bool
    """Whether by fresh launches of it alone, else by the screening."""

    @property
    def slower(self) -> bool:
        """Whether some size loses by more than chance."""
        return any(e > _SURE * s for e, s in zip(self.log_ratio, self.error, strict=True))


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a discovery."""

    active: tuple[Effect, ...]
    """What helps at some size, confirmed one at a time."""
    unconfirmed: tuple[Effect, ...]
    """What helps by the screening, at the same rate, and was never run alone: time or launches were up."""
    harmful: tuple[Effect, ...]
    """What only slows down: by the screening, or confirmed as well."""
    set_aside: tuple[tuple[int, Change], ...]
    """(arm, change) that make launches fail."""
    untold: tuple[tuple[int, Change], ...]
    """Suspected and not confirmed, at a rate that fresh launches would have lowered, or never measured."""
    arms: tuple[tuple[float, ...], ...]
    """Logarithm of the time of each arm at each size; empty where nothing could be measured."""
    rate: float
    """Of false discoveries."""
    names: tuple[str, ...] = ()
    """Of the arms."""
    factors: int = 0
    """How many had levels to be screened, in any arm."""


def candidates(
    arms: Sequence[Arm], screened: tuple[Run, ...], rate: float, seed: int, losses: bool = False
) -> tuple[tuple[int, Change], ...]:
    """What may help at some size, the surest first; then, if wanted, what else may do something."""
    suspected = []
    for number, arm in enumerate(arms):
        fit = _fitted(arm, number, screened, seed)
        if fit is None:
            continue
        helping = false_discovery_set(fit.p_faster, _RELAXED * rate)
        wanted = helping | false_discovery_set(fit.p_any, _RELAXED * rate) if losses else helping
        suspected += [
            (
                not helping[i],
                fit.p_faster[i] if helping[i] else fit.p_any[i],
                np.nanmin(fit.effect[i]),
                (number, arm.changes[i]),
            )
            for i in np.flatnonzero(wanted)
        ]
    return tuple(change for *_, change in sorted(suspected, key=lambda s: s[:3]))


def told(arm: Arm, number: int, screened: Sequence[Run], rate: float, seed: int) -> frozenset[Change]:
    """What surely does something, by the screening so far."""
    fit = _fitted(arm, number, screened, seed)
    if fit is None:
        return frozenset()
    sure = false_discovery_set(fit.p_any, rate)
    return frozenset(change for i, change in enumerate(arm.changes) if sure[i])


def doubts(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> Mapping[Change, float]:
    """How many further launches each change is worth before others: bits of surprise at what it did."""
    fit = _fitted(arm, number, screened, seed)
    return {} if fit is None else dict(zip(arm.changes, -np.log2(fit.p_any), strict=True))


def found(arms: Sequence[Arm], runs: Sequence[Run], rate: float, seed: int) -> Found:
    """What all runs of the screening and of the confirmation say, at a rate of false discoveries."""
    screened = tuple(run for run in runs if run.block == 0)
    active: list[Effect] = []
    unconfirmed: list[Effect] = []
    harmful: list[Effect] = []
    aside: list[tuple[int, Change]] = []
    untold: list[tuple[int, Change]] = []
    curves, names = [], tuple(arm.name for arm in arms)
    for number, arm in enumerate(arms):
        guilty = set_aside(runs, number)
        aside += [(number, change) for change in arm.changes if change in guilty]
        fit = _fitted(arm, number, screened, seed)
        curves.append(tuple(fit.level) if fit else ())
        if fit is None:
            untold += [(number, change) for change in arm.changes if change not in guilty]
            continue
        suspected, faster = (false_discovery_set(fit.p_faster, r) for r in (_RELAXED * rate, rate))
        moving = false_discovery_set(fit.p_any, rate)
        gains = [change for i, change in enumerate(arm.changes) if suspected[i]]
        alone = _launched_alone(arm, runs, number, fit)
        confirmed = _confirmed(number, {c: of for c, of in alone.items() if c in gains}, -1, rate)
        slower = _confirmed(number, {c: of for c, of in alone.items() if c not in gains}, 1, rate)
        active += [effect for effect in confirmed.values() if effect is not None]
        harmful += [effect for effect in slower.values() if effect is not None]
        for i, change in enumerate(arm.changes):
            measured = not np.isnan(fit.effect[i]).any()
            effect = Effect(number, change, tuple(fit.effect[i]), tuple(fit.error[i]), False)
            loses = measured and moving[i] and effect.slower
            if change in guilty or confirmed.get(change) or slower.get(change):
                continue
            if measured and faster[i] and change not in confirmed:
                unconfirmed.append(effect)
            elif loses and (change in confirmed if suspected[i] else change not in slower):
                harmful.append(effect)
            elif not measured or suspected[i] or change in slower:
                untold.append((number, change))
    return Found(
        tuple(active),
        tuple(unconfirmed),
        tuple(harmful),
        tuple(aside),
        tuple(untold),
        tuple(curves),
        rate,
        names,
        len({factor for arm in arms for factor, _ in arm.changes}),
    )


@lru_cache(maxsize=8)
def _cached_fit(changes: tuple[Change, ...], runs: tuple[Run, ...], seed: int) -> Fit | None:
    if len(runs) < _FEWEST:
        return None
    x = np.array([[float(change in run.changes) for change in changes] for run in runs])
    curves, rng = np.array([run.curve for run in runs]), np.random.default_rng([seed, 2])
    return sparse_fit(x, curves, rng, _cores(runs))


def _cores(runs: Sequence[Run]) -> Floats:
    """What is known of the cores of each run, (n_runs, n_figures); the median where it is not."""
    most = max(len(run.cores) for run in runs)
    usual = np.median([run.cores for run in runs if len(run.cores) == most], axis=0)
    return np.array([run.cores if len(run.cores) == most else usual for run in runs])


def _fitted(arm: Arm, number: int, screened: Sequence[Run], seed: int) -> Fit | None:
    """The fit of the screening's good runs in one arm; None with too few."""
    return _cached_fit(arm.changes, tuple(r for r in screened if r.arm == number and r.told), seed)


def _launched_alone(
    arm: Arm, runs: Sequence[Run], number: int, fit: Fit
) -> dict[Change, tuple[Floats, Floats]]:
    """Effects, and their errors, of the changes that the confirmation launched often enough."""
    rounds = [r for r in runs if r.block and r.arm == number]
    made = {run.changes for run in rounds}
    seen: dict[Change, tuple[Floats, Floats]] = {}
    for change in arm.changes:
        together = arm.complete(frozenset([change]))
        without = arm.needed(change)  # what it is worth beside what it needs, which may be worth all of it
        reference = without if without in made else frozenset()
        if together in made and (pair := _difference(together, reference, rounds, fit)) is not None:
            seen[change] = pair
    return seen


def _confirmed(
    number: int, seen: Mapping[Change, tuple[Floats, Floats]], sign: int, rate: float
) -> dict[Change, Effect | None]:
    """What moves that way (-1: faster) at some size; None for changes of which it was not seen again."""
    p = np.array([_p_above(sign * effect / error) for effect, error in seen.values()])
    real = dict(zip(seen, false_discovery_set(p, rate), strict=True))
    return {
        change: Effect(number, change, tuple(effect), tuple(error), True) if real[change] else None
        for change, (effect, error) in seen.items()
    }


def _difference(
    changes: frozenset[Change], reference: frozenset[Change], rounds: Sequence[Run], fit: Fit
) -> tuple[Floats, Floats] | None:
    """Effect of changes against others in the same rounds, and its error; None where they all failed."""

    def made(wanted: frozenset[Change], block: int) -> list[Floats]:
        good = (r for r in rounds if r.block == block and r.told and r.changes == wanted)
        return [fit.steadied(r.curve, r.cores) for r in good]

    differences, errors, sigma = [], [], fit.sigma
    for block in sorted({run.block for run in rounds}):
        mine, default = made(changes, block), made(reference, block)
        if mine and default:
            # All changes share these launches: of disturbed ones among them each would look faster.
            differences.append(np.median(mine, axis=0) - np.median(default, axis=0))
            errors.append(sum(math.pi / 2 / n if n > 2 else 1 / n for n in (len(mine), len(default))))
    if len(differences) < 2:
        return None
    middle = np.median(differences, axis=0)
    error = sigma * math.sqrt(sum(errors)) / len(errors)
    effect: Floats = np.mean(np.clip(differences, middle - 3 * sigma, middle + 3 * sigma), axis=0)
    return effect, error


def _p_above(z: Floats) -> float:
    """Probability of an effect as high at any size where there is none; sizes as if independent."""
    tail = 0.5 * math.erfc(float(z.max()) / math.sqrt(2))
    return -math.expm1(len(z) * math.log1p(-min(tail, 1 - 1e-12)))
