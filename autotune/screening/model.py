"""Least squares for a screening: estimate all effects that the existing runs allow to estimate.

Notation: ``y``, (n_runs,), contains the responses. The model matrix is [nuisance | main]. Its nuisance
columns are those of the mean, the blocks and the centre points; its main columns are those of the factors.
Everything is *whitened*: the row of each run is divided by the run's standard deviation, which is known up to
a common factor, so that ordinary least squares applies.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.screening.design import Matrix, ScreeningDesign


@dataclass(frozen=True, slots=True)
class ScreeningRule:
    """The thresholds of the analysis of a screening."""

    alpha: float = 0.05  # Significance level of all tests.
    tolerance: float = 1e-7
    """A column counts as a linear combination of other columns if the share of it that is orthogonal to them
    is smaller than this."""
    min_residual_df: int = 3
    """With fewer residual degrees of freedom, effects are not compared with residuals, because the quantiles
    of t would exceed 4."""
    tiny: float = 1e-100  # A smaller error counts as zero, because its square underflows to zero.
    most_left_out: int = 200
    """With more runs than this, the analyses that leave out one run are not made, because a single run then
    hides nothing."""
    leading: float = 1.28
    """Number of standard errors beyond which an effect may matter; one in five factors without an effect is
    beyond it."""
    hiding: float = 0.5
    """An interaction of two active factors may hide a main effect if its alias coefficient is at least
    this."""
    listed: float = 0.05
    """Aliases with a smaller coefficient are not listed; unbalanced tables have many of them."""
    min_results: int = 3  # A factor is fixed only if each of its levels has at least this number of results.
    negligible: float = 0.01  # Relative changes of a response below this are not worth tuning.
    power: float = 0.8
    """An effect counts as detectable if the probability that it is called active is at least this."""
    simulated: int = 4000
    """Number of simulated sets of contrasts from which the power of Lenth's method is computed, with an error
    below 0.01."""


RULE = ScreeningRule()


@dataclass(frozen=True, slots=True)
class Fit:
    """Least-squares estimates of the main effects.

    Each estimate is half of an effect: it is the change of the response per unit of the factor's code, and
    the code goes from −1 to 1.
    """

    nuisance: Matrix  # Whitened nuisance columns, (n_runs, n_nuisance).
    main: Matrix  # Whitened columns of the factors, (n_runs, n_factors).
    y: Matrix  # Whitened responses, (n_runs,).
    estimable: NDArray[np.bool_]
    """Whether the column of each factor is linearly independent of the nuisance columns, (n_factors,)."""
    joint: bool
    """Whether all factors were estimated together; if not, each estimate ignores the other factors."""
    beta: Matrix  # Estimate of each factor, (n_factors,); nan where not estimable.
    unit_variance: Matrix  # Variance of each ``beta`` for noise of variance 1, (n_factors,).
    nuisance_beta: Matrix  # Estimate of each nuisance column, (n_nuisance,).
    nuisance_covariance: Matrix
    """Covariance of ``nuisance_beta`` for noise of variance 1, (n_nuisance, n_nuisance)."""
    residual: Matrix  # Whitened residuals, (n_runs,); all zeros, without a meaning, if the fit is not joint.
    residual_df: int  # Number of runs minus number of parameters; 0 if the fit is not joint.

    @property
    def matrix(self) -> Matrix:
        """Return the whitened model matrix, (n_runs, n_nuisance + n_estimable)."""
        return np.hstack([self.nuisance, self.main[:, self.estimable]])


def nuisances(design: ScreeningDesign) -> tuple[Matrix, int]:
    """Return the columns for all influences on the response other than the factors.

    The first result, (n_runs, n_nuisance), has one column for the mean, one for the deviation of each block
    except the last block, and a last column for the centre points. This last column is missing if centre
    points are confounded with blocks. The second result is the number of columns before the centre points'
    column.
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

    A whole plot is a stretch of runs without a reboot. Two whole plots may differ even if they have the same
    setting. With these columns in the model, such differences are not part of the residuals of the runs; they
    are the noise of the whole-plot factors. The result is (n_runs, n_extra), with n_extra = 0 if there is no
    whole-plot factor or no such difference.
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
    """Return which factors, (n_factors,), always change together and thus have no separable effects.

    If there are fewer runs than parameters, no factor counts as tied, because ``fit`` then estimates each
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
    """Estimate all main effects together or, if there are fewer runs than parameters, each by itself.

    All arguments are whitened: the nuisance columns, the columns of the factors, and the responses.
    """
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
    """Return the rank of columns (n_rows, n_columns), up to ``RULE.tolerance``.

    The tolerance is relative to ``scale``, (n_columns,): the lengths that the columns had before other
    columns were projected out of them. None stands for their present lengths.
    """
    sizes = np.linalg.norm(columns, axis=0) if scale is None else scale
    sound = columns[:, sizes > 0] / sizes[sizes > 0]
    return int(np.sum(np.linalg.svd(sound, compute_uv=False) > RULE.tolerance)) if sound.size else 0


def independent(columns: Matrix) -> Matrix:
    """Return those columns that are not linear combinations of the columns before them."""
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
    """Return the part of ``columns`` that is orthogonal to the nuisance columns."""
    sizes = np.linalg.norm(nuisance, axis=0)
    basis, singular, _ = np.linalg.svd(nuisance[:, sizes > 0] / sizes[sizes > 0], full_matrices=False)
    basis = basis[:, singular > RULE.tolerance]
    projected = columns - basis @ (basis.T @ columns)
    # A second projection removes the rounding errors of the first.
    return np.asarray(projected - basis @ (basis.T @ projected))
