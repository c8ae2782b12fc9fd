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
    """The thresholds that the analysis of a screening assumes."""

    alpha: float = 0.05  # Significance level of all tests.
    tolerance: float = 1e-7
    """A column of which a smaller share than this is orthogonal to the other columns depends on them."""
    min_residual_df: int = 3
    """Residual degrees of freedom below which residuals are no yardstick (t quantiles lie beyond 4)."""
    tiny: float = 1e-100  # A smaller error counts as zero, because its square underflows to zero.
    most_left_out: int = 200
    """Number of runs up to which each is left out in turn; among more runs a single one hides nothing."""
    leading: float = 1.28
    """Number of standard errors beyond which an effect may matter; one inert effect in five is beyond it."""
    hiding: float = 0.5
    """Smallest alias coefficient with which an interaction of two active factors may hide a main effect."""
    listed: float = 0.05  # Smallest alias coefficient listed; unbalanced tables have many smaller ones.
    min_results: int = 3  # A factor is fixed only if each of its levels has at least so many results.
    negligible: float = 0.01  # The relative change of a response that nobody would tune for.
    power: float = 0.8  # An effect that is called active with this probability counts as detectable.
    simulated: int = 4000
    """Sets of contrasts that are simulated for the power of Lenth's method, which gives it to within 0.01."""


RULE = ScreeningRule()


@dataclass(frozen=True, slots=True)
class Fit:
    """Least-squares estimates of the main effects, each half an effect (the change per unit of code)."""

    nuisance: Matrix  # Whitened nuisance columns, (n_runs, n_nuisance).
    main: Matrix  # Whitened columns of the factors, (n_runs, n_factors).
    y: Matrix  # Whitened responses, (n_runs,).
    estimable: NDArray[np.bool_]
    """Whether each factor's column is linearly independent of the nuisance columns, (n_factors,)."""
    joint: bool  # Whether all factors were estimated together; else each without a correction for the others.
    beta: Matrix  # Estimates of the factors, (n_factors,), nan where not estimable.
    unit_variance: Matrix  # Variance of these estimates for noise of variance 1, (n_factors,).
    nuisance_beta: Matrix  # Estimates of the nuisance columns, (n_nuisance,).
    nuisance_covariance: Matrix  # Their covariance for noise of variance 1, (n_nuisance, n_nuisance).
    residual: Matrix  # Whitened residuals, (n_runs,); zeros without a meaning where the fit is not joint.
    residual_df: int  # Number of runs minus number of parameters; 0 where the fit is not joint.

    @property
    def matrix(self) -> Matrix:
        """Return the whitened model matrix, (n_runs, n_nuisance + n_estimable)."""
        return np.hstack([self.nuisance, self.main[:, self.estimable]])


def nuisances(design: ScreeningDesign) -> tuple[Matrix, int]:
    """Return the columns of everything but the factors that differs between runs.

    The first result is (n_runs, n_nuisance): a column for the mean, one for the deviation of each block but
    the last, and behind these one for the centre points where they are not confounded with blocks. The second
    result is the number of columns without that of the centre points.
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
    """Return columns for differences between whole plots that blocks and whole-plot factors do not explain.

    Two reboots into the same setting need not behave alike. With these columns in the model, that difference
    is kept out of the residuals of the runs, and is the noise of the whole-plot factors. The result is
    (n_runs, n_extra); n_extra is 0 where there is no whole-plot factor or no such difference.
    """
    boot = [column for column, factor in enumerate(design.factors) if factor.whole_plot]
    if not boot:
        return np.zeros((design.n_runs, 0))
    plots = sorted(set(design.whole_plots))
    indicators = np.array([[float(plot == run_plot) for plot in plots] for run_plot in design.whole_plots])
    free = free_of(np.column_stack([nuisance, design.coded[:, boot]]), indicators)
    basis, size, _ = np.linalg.svd(free, full_matrices=False)
    return np.asarray(basis[:, size > RULE.tolerance], dtype=np.float64)


def tied_factors(nuisance: Matrix, main: Matrix) -> NDArray[np.bool_]:
    """Return which factors, (n_factors,), change together so that no number of such runs can separate them.

    No factor counts as tied where there are simply fewer runs than parameters: then ``fit`` estimates every
    factor by itself.
    """
    columns = free_of(nuisance, main)
    sizes, free = np.linalg.norm(main, axis=0), np.linalg.norm(columns, axis=0)
    varying = np.flatnonzero(free > RULE.tolerance * sizes)
    tied = np.zeros(main.shape[1], dtype=bool)
    if len(main) < nuisance.shape[1] + len(varying) or not len(varying):
        return tied
    _, singular, rows = np.linalg.svd(columns[:, varying] / free[varying], full_matrices=False)
    tied[varying] = np.linalg.norm(rows[singular <= RULE.tolerance], axis=0) > math.sqrt(RULE.tolerance)
    return tied


def fit(nuisance: Matrix, main: Matrix, y: Matrix) -> Fit:
    """Estimate all main effects together, or each by itself where there are fewer runs than parameters."""
    orthogonal = free_of(nuisance, main)
    estimable = np.linalg.norm(orthogonal, axis=0) > RULE.tolerance * np.linalg.norm(main, axis=0)
    columns = orthogonal[:, estimable]
    joint = rank(columns) == columns.shape[1]
    inverse = dispersion(columns) if joint else np.diag(1 / np.sum(columns**2, axis=0))
    free_y = free_of(nuisance, y[:, None])[:, 0]
    beta, unit_variance = np.full((2, main.shape[1]), math.nan)
    beta[estimable] = inverse @ columns.T @ free_y
    unit_variance[estimable] = np.diag(inverse)
    model_matrix = np.hstack([nuisance, main[:, estimable]]) if joint else nuisance
    covariance = dispersion(model_matrix)
    n_nuisance = nuisance.shape[1]
    return Fit(
        nuisance,
        main,
        y,
        estimable,
        joint,
        beta,
        unit_variance,
        nuisance_beta=(covariance @ model_matrix.T @ y)[:n_nuisance],
        nuisance_covariance=covariance[:n_nuisance, :n_nuisance],
        residual=free_y - columns @ beta[estimable] if joint else np.zeros(len(y)),
        residual_df=len(y) - n_nuisance - columns.shape[1] if joint else 0,
    )


def rank(columns: Matrix, scale: Matrix | None = None) -> int:
    """Return the rank of columns (n_rows, n_columns), to within the rule's tolerance.

    ``scale`` holds the lengths (n_columns,) that the tolerance refers to: those of the columns before other
    columns were projected out of them. None stands for their lengths as they are.
    """
    sizes = np.linalg.norm(columns, axis=0) if scale is None else scale
    sound = columns[:, sizes > 0] / sizes[sizes > 0]
    return int(np.sum(np.linalg.svd(sound, compute_uv=False) > RULE.tolerance)) if sound.size else 0


def independent(columns: Matrix) -> Matrix:
    """Return the columns that are not linear combinations of earlier columns."""
    basis = columns[:, :0]
    for column in columns.T:
        longer = np.column_stack([basis, column])
        basis = longer if rank(longer) > basis.shape[1] else basis
    return basis


def dispersion(columns: Matrix) -> Matrix:
    """Return (XᵀX)⁻¹, computed from the singular values of X with its columns scaled to length one."""
    sizes = np.linalg.norm(columns, axis=0)
    _, singular, rows = np.linalg.svd(columns / sizes, full_matrices=False)
    half = rows.T / singular
    return np.asarray(half @ half.T / np.outer(sizes, sizes), dtype=np.float64)


def free_of(nuisance: Matrix, columns: Matrix) -> Matrix:
    """Return the part of columns that is orthogonal to the nuisance columns."""
    sizes = np.linalg.norm(nuisance, axis=0)
    basis, singular, _ = np.linalg.svd(nuisance[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    basis = basis[:, singular > RULE.tolerance]
    projected = columns - basis @ (basis.T @ columns)
    return np.asarray(projected - basis @ (basis.T @ projected))  # Twice is enough against rounding.
