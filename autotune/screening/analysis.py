"""Analyse a two-level design: estimate the effect of each factor on a response, with its uncertainty.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: as in ``effects`` and ``model``.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError
from autotune.screening.alias import aliases, efficiency
from autotune.screening.design import ScreeningDesign
from autotune.screening.effects import BlockEffect, Effect, Effects, Scale, Suspicion
from autotune.screening.model import RULE, Fit, fit, independent, nuisances, plot_columns, rank, tied_factors
from autotune.screening.noise import (
    NoiseEstimate,
    half_normal_scores,
    lenth,
    noise_of,
    pure_error,
    run_variance,
    smallest_error,
)


def analyse(
    design: ScreeningDesign,
    response: ArrayLike,
    *,
    name: str = "response",
    scale: Scale = "log",
    sem: ArrayLike | None = None,
    alpha: float = 0.05,
) -> Effects:
    """Estimate the main effects of the factors of a two-level design, or of a user's table, on one response.

    Effects are estimated by least squares, corrected for blocks, centre points and each other. If there are
    at least as many factors as runs with a result, this is impossible: then each effect is the plain
    difference of two means, and the other effects that this difference contains are listed among the aliases.
    Interactions are never estimated, because in these designs they are aliased with main effects.

    Standard errors follow from the residuals, from replicates or, where fewer than three degrees of freedom
    remain, from Lenth's pseudo standard error; ``noise.noise_of`` makes the choice. They are never smaller
    than the runs' own standard errors imply. The effect of a whole-plot factor (a factor whose change needs a
    reboot) has either this standard error or the one that follows from differences between whole plots,
    whichever is larger.

    ``response``, (n_runs,), is nan where the run failed. With ``scale="log"`` responses are compared by their
    ratios, and have to be positive. ``sem``, (n_runs,), contains the standard error of each response in the
    response's unit, nan where it is unknown. ``alpha`` is the significance level at which an effect is called
    active.

    Raises:
        UserError: lengths differ, a response is infinite or, on log scale, not positive, or fewer than
            three runs have a result.
    """
    n_planned = design.n_runs
    design, y, errors = _usable(design, response, name, scale, sem)
    middle = float(np.mean(y))
    y = y - middle
    main = design.coded
    nuisance, n_means = nuisances(design)
    n_centre = nuisance.shape[1] - n_means
    tied = tied_factors(nuisance, main)
    nuisance = independent(np.hstack([nuisance, main[:, tied]]))
    plot_differences = plot_columns(design, nuisance)
    nuisance = np.hstack([nuisance, plot_differences])
    weight = np.ones(len(y))
    floor = smallest_error(y, middle) ** 2
    if errors is not None:
        weight = 1 / np.sqrt(run_variance(nuisance, main, y, np.maximum(errors, math.sqrt(floor))))
        floor = 1.0
    fitted = fit(nuisance * weight[:, None], main * weight[:, None], y * weight)
    groups = [(*row, centre) for row, centre in zip(main.tolist(), design.centre, strict=True)]
    noise = noise_of(fitted, groups, floor)
    total = float(np.sum((fitted.y - weight * (weight @ fitted.y) / (weight @ weight)) ** 2))
    tests = _FactorTests(design, fitted, noise, _plot_noise(fitted, plot_differences.shape[1]), total, alpha)
    unexplained = float(fitted.residual @ fitted.residual)
    return Effects(
        response=name,
        scale=scale,
        alpha=alpha,
        mean=middle + float(fitted.nuisance_beta[0]),
        effects=tests.effects(_optimistic(fitted, groups, floor)),
        blocks=tests.blocks(),
        curvature=tests.curvature() if n_centre else None,
        noise=noise,
        lenth=lenth(2 * fitted.beta[fitted.estimable], alpha),
        aliases=aliases(design.names, fitted.nuisance, fitted.main, fitted.estimable, fitted.joint),
        suspicions=_suspicions(
            design.names, fitted, np.sqrt(noise.variance * fitted.unit_variance), floor, alpha
        ),
        efficiency=efficiency(main[:, fitted.estimable]),
        r_squared=1 - unexplained / total if total > 0 and fitted.joint else math.nan,
        n_runs=design.n_runs,
        n_missing=n_planned - design.n_runs,
        notes=tests.notes(tied),
    )


def _usable(
    design: ScreeningDesign, response: ArrayLike, name: str, scale: Scale, sem: ArrayLike | None
) -> tuple[ScreeningDesign, NDArray[np.float64], NDArray[np.float64] | None]:
    """Return the runs with a result, their responses, and their standard errors (None if none is known)."""
    y = np.asarray(response, dtype=float)
    if y.shape != (design.n_runs,):
        count = f"{name}: {y.size} responses for {design.n_runs} runs"
        raise UserError(count, "one per run, nan if it failed")
    if np.any(np.isinf(y)):
        raise UserError(f"{name}: run {int(np.argmax(np.isinf(y)))} is infinite", "a failed run is nan")
    runs = [int(run) for run in np.flatnonzero(np.isfinite(y))]
    if len(runs) < 3:
        raise UserError(f"{name}: {len(runs)} of {design.n_runs} runs have a result", "at least 3 are needed")
    bad = next((run for run in runs if y[run] <= 0), None)
    if scale == "log" and bad is not None:
        raise UserError(f"{name}: run {bad} has {y[bad]:g}", "log scale needs positive numbers")
    errors = None if sem is None else np.asarray(sem, dtype=float)
    if errors is not None:
        if errors.shape != y.shape:
            raise UserError(f"{errors.size} standard errors for {y.size} runs", "one per run, nan if unknown")
        if np.any(errors < 0):
            raise UserError(f"standard error {float(np.nanmin(errors)):g} is negative")
        errors = errors[runs] / y[runs] if scale == "log" else errors[runs]
        finite = np.isfinite(errors)
        errors = np.where(finite, errors, np.median(errors[finite])) if np.any(finite) else None
    return design.subset(runs), np.log(y[runs]) if scale == "log" else y[runs], errors


def _plot_noise(fitted: Fit, n_differences: int) -> NoiseEstimate:
    """Return the variance of a run due to differences between whole plots; 0 degrees of freedom if unknown.

    The last ``n_differences`` nuisance columns of the fit represent these differences.
    """
    if not n_differences or not fitted.joint:
        return NoiseEstimate(math.nan, 0, "none")
    simpler = fit(fitted.nuisance[:, :-n_differences], fitted.main, fitted.y)
    explained = float(simpler.residual @ simpler.residual - fitted.residual @ fitted.residual)
    return NoiseEstimate(max(explained, 0.0) / n_differences, n_differences, "whole plots")


def _p_values(effects: ArrayLike, std_errs: ArrayLike, df: float) -> NDArray[np.float64]:
    """Return the two-sided p-value of each effect for the hypothesis that there is no effect; nan for nan."""
    from scipy import stats

    effects, std_errs = np.asarray(effects), np.asarray(std_errs)
    finite = np.isfinite(effects) & np.isfinite(std_errs)
    ratios = np.abs(effects) / np.maximum(std_errs, np.finfo(float).tiny)
    return np.where(finite, 2 * stats.t.sf(ratios, df), math.nan)


def _optimistic(fitted: Fit, groups: Sequence[Hashable], floor: float) -> list[tuple[float, float]]:
    """Return the smallest p-value of each factor in the alternative analyses, and the effect there.

    The alternative analyses leave out any single run, or take the noise from replicates alone.
    """
    best = [(math.nan, math.nan)] * fitted.main.shape[1]

    def consider(variant: Fit, noise: NoiseEstimate) -> None:
        p_values = _p_values(variant.beta, np.sqrt(noise.variance * variant.unit_variance), noise.df)
        for column, (p_value, beta) in enumerate(zip(p_values.tolist(), variant.beta.tolist(), strict=True)):
            if not best[column][0] <= p_value and math.isfinite(p_value):
                best[column] = (p_value, 2 * beta)

    pure_ss, pure_df = pure_error(fitted, groups)
    if pure_df:
        consider(fitted, NoiseEstimate(max(pure_ss / pure_df, floor), pure_df, "pure error"))
    for left_out in range(len(groups) if len(groups) <= RULE.most_left_out else 0):
        runs = [run for run in range(len(groups)) if run != left_out]
        nuisance = fitted.nuisance[runs]
        if len(runs) < 3 or rank(nuisance) < nuisance.shape[1]:
            continue
        refit = fit(nuisance, fitted.main[runs], fitted.y[runs])
        consider(refit, noise_of(refit, [groups[i] for i in runs], floor))
    return best


def _suspicions(
    names: Sequence[str], fitted: Fit, std_errs: NDArray[np.float64], floor: float, alpha: float
) -> tuple[Suspicion, ...]:
    """Return the interactions that are significant in addition to main effects, most significant first.

    The tested model contains the main effects that may matter, and one interaction at a time. A
    Plackett–Burman design cannot prove an interaction, because each interaction is aliased with several main
    effects. But where few factors matter, an interaction of one of these factors may explain nearly all of
    the residual variation. Then neither of the two interacting factors should be fixed. This is the analysis
    of Hamada & Wu, which is used here only to keep factors in the search.

    ``std_errs``, (n_factors,), are the standard errors of ``fitted.beta``. ``floor`` is the smallest
    plausible variance of a run, in whitened units, and ``alpha`` the significance level for all tested
    interactions together.
    """
    from scipy import stats

    if not fitted.joint:
        return ()
    with np.errstate(invalid="ignore"):
        leading = np.flatnonzero(np.abs(fitted.beta) > RULE.leading * std_errs).tolist()
    pairs = [pair for pair in combinations(range(len(names)), 2) if set(pair) & set(leading)]
    mains = np.hstack([fitted.nuisance, fitted.main[:, leading]])
    striking = []
    for i, j in pairs:
        product = fitted.main[:, i] * fitted.main[:, j] / fitted.nuisance[:, 0]
        refit = fit(mains, product[:, None], fitted.y)
        if not refit.estimable[0] or refit.residual_df < RULE.min_residual_df:
            continue
        variance = float(refit.residual @ refit.residual) / refit.residual_df
        error = math.sqrt(max(variance, floor) * float(refit.unit_variance[0]))
        p_value = len(pairs) * 2 * float(stats.t.sf(abs(float(refit.beta[0])) / error, refit.residual_df))
        if p_value < alpha:
            striking.append(Suspicion((names[i], names[j]), p_value))
    return tuple(sorted(striking, key=lambda suspicion: suspicion.p_value))


@dataclass(frozen=True, slots=True)
class _FactorTests:
    """Tests that compare the estimates of a fit with the noise of runs and the noise of whole plots."""

    design: ScreeningDesign
    fitted: Fit
    noise: NoiseEstimate  # Noise between runs.
    plots: NoiseEstimate  # Noise between whole plots.
    total: float  # Sum of squares of the response about its mean.
    alpha: float  # Significance level at which an effect is called active.

    def effects(self, optimistic: Sequence[tuple[float, float]]) -> tuple[Effect, ...]:
        """Return the main effects; ``optimistic`` is what the function ``_optimistic`` returned."""
        scores = half_normal_scores(self.fitted.beta / np.sqrt(self.fitted.unit_variance))
        return tuple(
            self._effect(
                2 * float(self.fitted.beta[column]),
                4 * float(self.fitted.unit_variance[column]),
                self.plots
                if factor.whole_plot and self.plots.df and self.plots.variance > self.noise.variance
                else self.noise,
                factor=factor.name,
                low=factor.low,
                high=factor.high,
                p_optimistic=optimistic[column][0],
                effect_optimistic=optimistic[column][1],
                half_normal=float(scores[column]),
                n_low=int(np.sum(self.design.coded[:, column] < 0)),
                n_high=int(np.sum(self.design.coded[:, column] > 0)),
            )
            for column, factor in enumerate(self.design.factors)
        )

    def curvature(self) -> Effect:
        """Return the mean of the centre points minus the mean of the corners, as an effect."""
        column, n_centre = len(set(self.design.blocks)), sum(self.design.centre)
        return self._effect(
            float(self.fitted.nuisance_beta[column]),
            float(self.fitted.nuisance_covariance[column, column]),
            self.noise,
            factor="curvature",
            low="corners",
            high="centre",
            **dict.fromkeys(("p_optimistic", "effect_optimistic", "half_normal"), math.nan),
            n_low=self.design.n_runs - n_centre,
            n_high=n_centre,
        )

    def _effect(self, value: float, unit_variance: float, noise: NoiseEstimate, **fields: Any) -> Effect:
        """Return an effect with its test.

        ``unit_variance`` is the variance of its estimate for noise of variance 1.
        """
        std_err = math.sqrt(noise.variance * unit_variance)
        p_value = float(_p_values(value, std_err, noise.df))
        return Effect(
            effect=value,
            std_err=std_err,
            df=noise.df,
            p_value=p_value,
            contribution=100 * value**2 / unit_variance / self.total if self.total > 0 else 0.0,
            active=p_value < self.alpha,
            **fields,
        )

    def blocks(self) -> tuple[BlockEffect, ...]:
        """Return each block's difference from the mean of all blocks; empty if there is only one block."""
        names = list(dict.fromkeys(self.design.blocks))
        n = len(names) - 1
        if n < 1:
            return ()
        codes = np.vstack([np.eye(n), -np.ones(n)])
        effects = codes @ self.fitted.nuisance_beta[1 : n + 1]
        covariance = codes @ self.fitted.nuisance_covariance[1 : n + 1, 1 : n + 1] @ codes.T
        errors = np.sqrt(self.noise.variance * np.diag(covariance))
        return tuple(map(BlockEffect, names, effects.tolist(), errors.tolist()))

    def notes(self, tied: NDArray[np.bool_]) -> tuple[str, ...]:
        """Return sentences for a report on what limits the estimates, such as factors changing together.

        ``tied``, (n_factors,), says which factors always change together.
        """
        design, fitted = self.design, self.fitted
        notes: list[str] = []
        for column, factor in enumerate(design.factors):
            if not fitted.estimable[column] and not tied[column]:
                constant = np.ptp(design.coded[:, column]) == 0
                why = "all runs have the same level" if constant else "it changes only with the blocks"
                notes.append(f"{factor.name}: no effect can be estimated, {why}")
        if np.any(tied):
            together = ", ".join(name for name, is_tied in zip(design.names, tied, strict=True) if is_tied)
            why = "they change together in these runs, so their effects cannot be separated"
            notes.append(f"{together}: {why}")
        if not fitted.joint:
            notes.append(
                "there are too few runs to separate all factors: each effect is a plain difference of means, "
                "and what leaks into it is listed among the aliases"
            )
        if self.noise.source in _SOURCES:
            notes.append(_SOURCES[self.noise.source])
        boot = ", ".join(factor.name for factor in design.factors if factor.whole_plot)
        if boot and not self.plots.df:
            note = "too few reboots to see how much reboots alone differ; errors are those of runs"
            notes.append(f"{boot}: {note}")
        return tuple(notes)


_SOURCES = {
    "lenth": "standard errors are Lenth's: they assume that most factors are inert",
    "lack of fit": "replicates agree better than the model fits: interactions or curvature are present, and "
    "standard errors were widened by what they may add to main effects; a foldover would separate them",
    "pure error": "standard errors are those of replicates alone, which agree better than the other runs can "
    "explain: a significant effect may be that of an interaction aliased with it; a foldover would say",
    "none": "there are too few runs for a standard error",
}
"""Maps the source of the noise to the sentence about it in a report."""
