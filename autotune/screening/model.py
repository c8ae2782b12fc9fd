"""Least squares for a screening: what can be estimated from the runs that there are.

Notation: ``y`` is (n_runs,); the model matrix is [nuisance | main], nuisance being the mean, the blocks and
the centre points. All is *whitened*: rows are divided by the standard deviation that is known for a run
(up to a factor), so that ordinary least squares applies.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.screening.design import Matrix, ScreeningDesign


@dataclass(frozen=True, slots=True)
class ScreeningRule:
    """An analysis's assumptions about a screening."""

    alpha: float = 0.05  # Level of all tests.
    tolerance: float = 1e-7  # A column of which less than this share is its own belongs to the others.
    min_residual_df: int = 3  # Below this the residuals say too little (t quantiles beyond 4).
    tiny: float = 1e-100  # Smaller errors are zero: their squares are.
    most_left_out: int = 200  # Runs up to which each is left out in turn: of more, one hides nothing.
    leading: float = 1.28  # Standard errors beyond which an effect may matter: one inert in five is.
    hiding: float = 0.5  # Alias coefficient from which on two active factors may hide a main effect.
    listed: float = 0.05  # Alias coefficients below are not listed; unbalanced tables have many.
    min_results: int = 3  # Results of a level without which no factor is fixed.
    negligible: float = 0.01  # The relative change of a response that nobody would tune for.
    power: float = 0.8  # Probability with which an effect is called active that counts as detectable.
    simulated: int = 4000  # Sets of contrasts for the power of Lenth's method: known to 0.01.


RULE = ScreeningRule()


@dataclass(frozen=True, slots=True)
class Fit:
    """Least-squares estimates of the main effects, half an effect each (per unit of code)."""

    nuisance: Matrix  # (n_runs, n_nuisance) whitened.
    main: Matrix  # (n_runs, n_factors) whitened.
    y: Matrix  # (n_runs,) whitened.
    estimable: NDArray[np.bool_]  # (n_factors,) whether the factor's column is free of the nuisance columns.
    joint: bool  # Whether all were estimated together; else each alone, others not being corrected for.
    beta: Matrix  # (n_factors,) estimates, nan where not estimable.
    unit_variance: Matrix  # (n_factors,) variance of the estimates for noise of variance 1.
    nuisance_beta: Matrix  # (n_nuisance,) estimates.
    nuisance_covariance: Matrix  # (n_nuisance, n_nuisance) for noise of variance 1.
    residual: Matrix  # (n_runs,) whitened; empty of meaning where not joint.
    residual_df: int  # Runs minus parameters; 0 where not joint.

    @property
    def matrix(self) -> Matrix:
        """(n_runs, n_nuisance + n_estimable): the whitened model matrix."""
        return np.hstack([self.nuisance, self.main[:, self.estimable]])


def nuisances(design: ScreeningDesign) -> tuple[Matrix, int]:
    """(n_runs, n_nuisance) columns for everything else that differs between runs, and how many come first.

    The mean, the deviations of all blocks but the last, and behind these one for the centre points, where
    they are not confounded with blocks.
    """
    columns = [np.ones(design.n_runs)]
    names = list(dict.fromkeys(design.blocks))
    blocks = np.array([names.index(block) for block in design.blocks], dtype=int)
    columns += [(blocks == i).astype(float) - (blocks == len(names) - 1) for i in range(len(names) - 1)]
    matrix = np.column_stack(columns)
    widened = np.column_stack([matrix, np.array(design.centre, dtype=float)])
    full = rank(widened) == widened.shape[1]
    return widened if full else matrix, matrix.shape[1]


def plot_columns(design: ScreeningDesign, nuisance: Matrix) -> Matrix:
    """(n_runs, n_extra): how whole plots can differ beyond blocks and whole-plot factors; often nothing.

    Two reboots into the same setting need not behave alike. With these columns in the model, that difference
    is kept out of the residuals of the runs, and is the noise of the whole-plot factors.
    """
    boot = [column for column, factor in enumerate(design.factors) if factor.whole_plot]
    if not boot:
        return np.zeros((design.n_runs, 0))
    plots = sorted(set(design.whole_plots))
    indicators = np.array([[float(plot == its) for plot in plots] for its in design.whole_plots])
    free = free_of(np.column_stack([nuisance, design.coded[:, boot]]), indicators)
    basis, size, _ = np.linalg.svd(free, full_matrices=False)
    return np.asarray(basis[:, size > RULE.tolerance], dtype=np.float64)


def tied_factors(nuisance: Matrix, main: Matrix) -> NDArray[np.bool_]:
    """(n_factors,) factors that change together, so that no number of such runs can separate them.

    None where there are simply fewer runs than parameters: then ``fit`` takes every factor by itself.
    """
    columns = free_of(nuisance, main)
    sizes, free = np.linalg.norm(main, axis=0), np.linalg.norm(columns, axis=0)
    alive = np.flatnonzero(free > RULE.tolerance * sizes)
    tied = np.zeros(main.shape[1], dtype=bool)
    if len(main) < nuisance.shape[1] + len(alive) or not len(alive):
        return tied
    _, singular, rows = np.linalg.svd(columns[:, alive] / free[alive], full_matrices=False)
    tied[alive] = np.linalg.norm(rows[singular <= RULE.tolerance], axis=0) > math.sqrt(RULE.tolerance)
    return tied


def fit(nuisance: Matrix, main: Matrix, y: Matrix) -> Fit:
    """Estimate all main effects together, or each alone where there are fewer runs than parameters."""
    rest = free_of(nuisance, main)
    estimable = np.linalg.norm(rest, axis=0) > RULE.tolerance * np.linalg.norm(main, axis=0)
    columns = rest[:, estimable]
    joint = rank(columns) == columns.shape[1]
    inverse = dispersion(columns) if joint else np.diag(1 / np.sum(columns**2, axis=0))
    free_y = free_of(nuisance, y[:, None])[:, 0]
    beta, unit_variance = np.full((2, main.shape[1]), math.nan)
    beta[estimable] = inverse @ columns.T @ free_y
    unit_variance[estimable] = np.diag(inverse)
    whole = np.hstack([nuisance, main[:, estimable]]) if joint else nuisance
    covariance = dispersion(whole)
    n_nuisance = nuisance.shape[1]
    return Fit(
        nuisance,
        main,
        y,
        estimable,
        joint,
        beta,
        unit_variance,
        nuisance_beta=(covariance @ whole.T @ y)[:n_nuisance],
        nuisance_covariance=covariance[:n_nuisance, :n_nuisance],
        residual=free_y - columns @ beta[estimable] if joint else np.zeros(len(y)),
        residual_df=len(y) - n_nuisance - columns.shape[1] if joint else 0,
    )


def rank(columns: Matrix, scale: Matrix | None = None) -> int:
    """Number of columns that are not made of others; ``scale``: their sizes before anything was taken off."""
    sizes = np.linalg.norm(columns, axis=0) if scale is None else scale
    sound = columns[:, sizes > 0] / sizes[sizes > 0]
    return int(np.sum(np.linalg.svd(sound, compute_uv=False) > RULE.tolerance)) if sound.size else 0


def independent(columns: Matrix) -> Matrix:
    """The columns without those that are made of earlier ones."""
    kept = columns[:, :0]
    for column in columns.T:
        longer = np.column_stack([kept, column])
        kept = longer if rank(longer) > kept.shape[1] else kept
    return kept


def dispersion(columns: Matrix) -> Matrix:
    """(XᵀX)⁻¹, from the singular values of X with columns of length one."""
    sizes = np.linalg.norm(columns, axis=0)
    _, singular, rows = np.linalg.svd(columns / sizes, full_matrices=False)
    half = rows.T / singular
    return np.asarray(half @ half.T / np.outer(sizes, sizes), dtype=np.float64)


def free_of(nuisance: Matrix, columns: Matrix) -> Matrix:
    """The part of columns that is orthogonal to the nuisance columns."""
    sizes = np.linalg.norm(nuisance, axis=0)
    basis, singular, _ = np.linalg.svd(nuisance[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    basis = basis[:, singular > RULE.tolerance]
    once = columns - basis @ (basis.T @ columns)
    return np.asarray(once - basis @ (basis.T @ once))  # twice is enough against rounding
