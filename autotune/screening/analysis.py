"""The analysis of a two-level design: each factor's effect on a response, and how sure that is (step 3).

Notation: as in ``effects`` and ``model``.
"""

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from autotune.errors import UserError
from autotune.screening.alias import aliases, efficiency
from autotune.screening.design import ScreeningDesign
from autotune.screening.effects import BlockEffect, Effect, Effects, Scale
from autotune.screening.lenth import half_normal_scores, lenth
from autotune.screening.model import Fit, fit, independent, nuisance_columns, plot_columns, rank, tied_factors
from autotune.screening.noise import NoiseEstimate, noise_of, pure_error, run_variance, smallest_error
from autotune.screening.suspicion import suspicions

_MAX_LEFT_OUT = 200
"""In larger tables a single run hides nothing, and leaving each one out would take minutes."""


def analyse(
    design: ScreeningDesign,
    response: ArrayLike,
    *,
    name: str = "response",
    scale: Scale = "log",
    sem: ArrayLike | None = None,
    alpha: float = 0.05,
) -> Effects:
    """Main effects of a two-level design (or a table in the form of one) on one response.

    Effects are estimated by least squares, corrected for blocks, centre points and each other. With as
    many factors as runs that is impossible (runs may have failed): then each is the plain difference of
    means, and what leaks into it is listed among the aliases. Two-factor interactions are never estimated:
    in these designs they are aliased with main effects.

    Standard errors come from the residuals or, where fewer than three degrees of freedom are left, from
    Lenth's pseudo standard error; see ``noise.noise_of`` for the choice. They never fall below what the runs'
    own standard errors imply. The effect of a whole-plot factor has the larger of this error and the one
    between whole plots.

    The response is (n_runs,), nan where the run failed, and positive for ``log``, which compares ratios;
    ``sem`` (n_runs,) is the standard error of each number, in its unit, nan where unknown.

    Raises:
        UserError: lengths differ, a response is infinite or, on log scale, not positive, or fewer than
            three runs have a result.
    """
    n_planned = design.n_runs
    design, y, errors = _usable(design, response, name, scale, sem)
    middle = float(np.mean(y))
    y = y - middle
    main = design.coded
    nuisance, n_means = nuisance_columns(design)
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
    plots = _plot_noise(fitted, plot_differences.shape[1])
    optimistic = _optimistic(fitted, groups, floor)
    total = float(np.sum((fitted.y - weight * (weight @ fitted.y) / (weight @ weight)) ** 2))
    unexplained = float(fitted.residual @ fitted.residual)
    return Effects(
        response=name,
        scale=scale,
        alpha=alpha,
        mean=middle + float(fitted.nuisance_beta[0]),
        effects=_effects(design, fitted, noise, plots, optimistic, total, alpha),
        blocks=_block_effects(design, fitted, noise),
        curvature=_curvature(design, fitted, noise, total, alpha) if n_centre else None,
        noise=noise,
        lenth=lenth(2 * fitted.beta[fitted.estimable], alpha),
        aliases=aliases(design.names, fitted.nuisance, fitted.main, fitted.estimable, fitted.joint),
        suspicions=suspicions(
            design.names, fitted, np.sqrt(noise.variance * fitted.unit_variance), floor, alpha
        ),
        efficiency=efficiency(main[:, fitted.estimable]),
        r_squared=1 - unexplained / total if total > 0 and fitted.joint else math.nan,
        n_runs=design.n_runs,
        n_missing=n_planned - design.n_runs,
        notes=_notes(design, fitted, tied, noise, plots),
    )


def _usable(
    design: ScreeningDesign, response: ArrayLike, name: str, scale: Scale, sem: ArrayLike | None
) -> tuple[ScreeningDesign, NDArray[np.float64], NDArray[np.float64] | None]:
    """The runs that have a result, with their responses and standard errors on the scale of the analysis."""
    y = np.asarray(response, dtype=float)
    if y.shape != (design.n_runs,):
        count = f"{name}: {y.size} responses for {design.n_runs} runs"
        raise UserError(count, "one per run, nan if it failed")
    if np.any(np.isinf(y)):
        raise UserError(f"{name}: run {int(np.argmax(np.isinf(y)))} is infinite", "a failed run is nan")
    have = [int(run) for run in np.flatnonzero(np.isfinite(y))]
    if len(have) < 3:
        raise UserError(f"{name}: {len(have)} of {design.n_runs} runs have a result", "at least 3 are needed")
    bad = next((run for run in have if y[run] <= 0), None)
    if scale == "log" and bad is not None:
        raise UserError(f"{name}: run {bad} has {y[bad]:g}", "log scale needs positive numbers")
    errors = None if sem is None else np.asarray(sem, dtype=float)
    if errors is not None:
        if errors.shape != y.shape:
            raise UserError(f"{errors.size} standard errors for {y.size} runs", "one per run, nan if unknown")
        if np.any(errors < 0):
            raise UserError(f"standard error {float(np.nanmin(errors)):g} is negative")
        errors = errors[have] / y[have] if scale == "log" else errors[have]
        known = np.isfinite(errors)
        errors = np.where(known, errors, np.median(errors[known])) if np.any(known) else None
    return design.subset(have), np.log(y[have]) if scale == "log" else y[have], errors


def _plot_noise(fitted: Fit, n_differences: int) -> NoiseEstimate:
    """Noise between whole plots in units of one run: what the differences between plots explain."""
    if not n_differences or not fitted.joint:
        return NoiseEstimate(math.nan, 0, "none")
    simpler = fit(fitted.nuisance[:, :-n_differences], fitted.main, fitted.y)
    explained = float(simpler.residual @ simpler.residual - fitted.residual @ fitted.residual)
    return NoiseEstimate(max(explained, 0.0) / n_differences, n_differences, "whole plots")


def _p_values(effects: ArrayLike, std_errs: ArrayLike, df: float) -> NDArray[np.float64]:
    """Two-sided p-values of no effect, nan where effect or error is unknown; the shape of the effects."""
    from scipy import stats

    effects, std_errs = np.asarray(effects), np.asarray(std_errs)
    known = np.isfinite(effects) & np.isfinite(std_errs)
    ratios = np.abs(effects) / np.maximum(std_errs, np.finfo(float).tiny)
    return np.where(known, 2 * stats.t.sf(ratios, df), math.nan)


def _optimistic(fitted: Fit, groups: Sequence[Hashable], floor: float) -> list[tuple[float, float]]:
    """For each factor the smallest p-value over other readings of the same runs, and its effect there."""
    best = [(math.nan, math.nan)] * fitted.main.shape[1]

    def consider(its: Fit, noise: NoiseEstimate) -> None:
        p_values = _p_values(its.beta, np.sqrt(noise.variance * its.unit_variance), noise.df)
        for column, (p_value, beta) in enumerate(zip(p_values.tolist(), its.beta.tolist(), strict=True)):
            if not best[column][0] <= p_value and math.isfinite(p_value):
                best[column] = (p_value, 2 * beta)

    pure_ss, pure_df = pure_error(fitted, groups)
    if pure_df:
        consider(fitted, NoiseEstimate(max(pure_ss / pure_df, floor), pure_df, "pure error"))
    for left_out in range(len(groups) if len(groups) <= _MAX_LEFT_OUT else 0):
        kept = [run for run in range(len(groups)) if run != left_out]
        nuisance = fitted.nuisance[kept]
        if len(kept) < 3 or rank(nuisance) < nuisance.shape[1]:
            continue
        refit = fit(nuisance, fitted.main[kept], fitted.y[kept])
        consider(refit, noise_of(refit, [groups[i] for i in kept], floor))
    return best


def _effects(
    design: ScreeningDesign,
    fitted: Fit,
    noise: NoiseEstimate,
    plots: NoiseEstimate,
    optimistic: list[tuple[float, float]],
    total: float,
    alpha: float,
) -> tuple[Effect, ...]:
    scores = half_normal_scores(fitted.beta / np.sqrt(fitted.unit_variance))
    effects = []
    for column, factor in enumerate(design.factors):
        beta, unit = float(fitted.beta[column]), float(fitted.unit_variance[column])
        used = noise
        if factor.whole_plot and plots.df and plots.variance > noise.variance:
            used = plots
        std_err = 2 * math.sqrt(used.variance * unit)
        p_value = float(_p_values(2 * beta, std_err, used.df))
        effects.append(
            Effect(
                factor=factor.name,
                low=factor.low,
                high=factor.high,
                effect=2 * beta,
                std_err=std_err,
                df=used.df,
                p_value=p_value,
                p_optimistic=optimistic[column][0],
                effect_optimistic=optimistic[column][1],
                contribution=100 * beta**2 / unit / total if total > 0 else 0.0,
                active=p_value < alpha,
                half_normal=float(scores[column]),
                n_low=int(np.sum(design.coded[:, column] < 0)),
                n_high=int(np.sum(design.coded[:, column] > 0)),
            )
        )
    return tuple(effects)


def _block_effects(design: ScreeningDesign, fitted: Fit, noise: NoiseEstimate) -> tuple[BlockEffect, ...]:
    names = list(dict.fromkeys(design.blocks))
    n = len(names) - 1
    if n < 1:
        return ()
    codes = np.vstack([np.eye(n), -np.ones(n)])
    effects = codes @ fitted.nuisance_beta[1 : n + 1]
    variances = np.einsum("ij,jk,ik->i", codes, fitted.nuisance_covariance[1 : n + 1, 1 : n + 1], codes)
    return tuple(
        BlockEffect(name, float(effect), math.sqrt(noise.variance * variance))
        for name, effect, variance in zip(names, effects, variances, strict=True)
    )


def _curvature(
    design: ScreeningDesign, fitted: Fit, noise: NoiseEstimate, total: float, alpha: float
) -> Effect:
    column = len(set(design.blocks))
    effect, unit = float(fitted.nuisance_beta[column]), float(fitted.nuisance_covariance[column, column])
    std_err = math.sqrt(noise.variance * unit)
    p_value = float(_p_values(effect, std_err, noise.df))
    n_centre = sum(design.centre)
    return Effect(
        factor="curvature",
        low="corners",
        high="centre",
        effect=effect,
        std_err=std_err,
        df=noise.df,
        p_value=p_value,
        p_optimistic=p_value,
        effect_optimistic=effect,
        contribution=100 * effect**2 / unit / total if total > 0 else 0.0,
        active=p_value < alpha,
        half_normal=math.nan,
        n_low=design.n_runs - n_centre,
        n_high=n_centre,
    )


def _notes(
    design: ScreeningDesign, fitted: Fit, tied: NDArray[np.bool_], noise: NoiseEstimate, plots: NoiseEstimate
) -> tuple[str, ...]:
    notes: list[str] = []
    for column, factor in enumerate(design.factors):
        if not fitted.estimable[column] and not tied[column]:
            codes = design.coded[:, column]
            why = "all runs have the same level" if np.ptp(codes) == 0 else "it changes only with the blocks"
            notes.append(f"{factor.name}: no effect can be estimated, {why}")
    if np.any(tied):
        together = ", ".join(factor.name for factor, its in zip(design.factors, tied, strict=True) if its)
        notes.append(f"{together}: they change together in these runs, so their effects cannot be told apart")
    if not fitted.joint:
        notes.append(
            "there are too few runs to separate all factors: each effect is a plain difference of means, "
            "and what leaks into it is listed among the aliases"
        )
    if noise.source == "lenth":
        notes.append("standard errors are Lenth's: they assume that most factors are inert")
    elif noise.source == "lack of fit":
        notes.append(
            "replicates agree better than the model fits: interactions or curvature are present, and "
            "standard errors were widened by what they may add to main effects; "
            "a foldover would separate them"
        )
    elif noise.source == "none":
        notes.append("there are too few runs for a standard error")
    boot = ", ".join(factor.name for factor in design.factors if factor.whole_plot)
    if boot and not plots.df:
        notes.append(
            f"{boot}: too few reboots to see how much reboots alone differ; errors are those of runs"
        )
    return tuple(notes)
