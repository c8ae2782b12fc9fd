"""Fit a least-squares model to a user's table, with checks for problems that coefficients do not show.

The fit is ``statsmodels``' ordinary least squares. The coefficient of a column whose logarithm is used is the
change of the response for each doubling of the column. A *step* is a place along a term where the response
jumps, or where its slope changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from autotune.doe.table import Table
from autotune.errors import TableError, UserError, allowed, needing
from autotune.screening.cost_terms import CostModel, Vector, cheapest
from autotune.screening.model import RULE
from autotune.tables.importers.delimited import meaning

Columns = Mapping[str, Vector]  # Maps the name of each column to its numbers, (n,).

_INTERCEPT = "Intercept"  # Name of the constant term.
_MAX_STEPS = 3  # Largest number of steps that are reported; each step adds two coefficients to the model.
_MIN_SIDE = 2  # Smallest number of distinct values on each side of a step, since a line needs two.
_COST_COLUMNS = ("comm_size", "message_bytes")  # Quantities that LogGP models need, named as in ``meaning``.


@dataclass(frozen=True, slots=True)
class Formula:
    """A response, and the terms that explain the response."""

    response: str  # Name of the column with the response.
    terms: tuple[str, ...]  # Names of the columns that explain the response.
    log2: frozenset[str] = frozenset()
    """Names of the columns, among terms and response, whose binary logarithm is used."""
    intercept: bool = True  # Whether the model has a constant term.

    def __post_init__(self) -> None:
        if not self.terms:
            raise UserError("no term is named", "--terms Processes,Size")
        columns = (self.response, *self.terms)
        for name in sorted(self.log2 - set(columns)):
            raise UserError(f"--log2 {name} is neither the response nor a term", allowed(name, columns))

    def label(self, column: str) -> str:
        """Return the name of a column in the model, such as ``log2(Size)`` or ``Size``."""
        return f"log2({column})" if column in self.log2 else column


@dataclass(frozen=True, slots=True)
class TermEstimate:
    """One coefficient with its test, as ``statsmodels`` prints them."""

    coef: float  # Change of the response, or of its logarithm, per unit of the term.
    std_err: float  # Standard error if all rows have errors of the same size.
    t: float  # Test statistic ``coef / std_err``.
    p: float  # Two-sided p-value of the t-test.
    ci_low: float  # Lower end of the 95 % confidence interval.
    ci_high: float  # Upper end of the 95 % confidence interval.
    robust_std_err: float
    """HC3 standard error, which is also valid if some rows have larger errors than others."""


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A step along a term of the model."""

    term: str
    below: float  # Largest value of the column below the step.
    above: float  # Smallest value of the column above the step.
    jump: float  # Jump of the response at ``above``, on the model's scale.
    p: float  # p-value of the F-test of jump and slope, multiplied by the number of tested places.


@dataclass(frozen=True, slots=True)
class Regression:
    """Fit of a formula to a table, with the results of checks for problems that coefficients do not show."""

    table: str  # Name of the table's file.
    formula: Formula
    n: int  # Number of rows that were used.
    left_out: int  # Number of rows that were left out because of an empty field.
    coefficients: Mapping[str, TermEstimate]
    """Coefficients by term; the constant term is called ``Intercept``."""
    r2: float  # Share of the variance that is explained; without a constant, share of the sum of squares.
    adjusted_r2: float  # R² adjusted for the number of terms.
    aic: float  # Akaike's criterion, by which models of the same response are compared; smaller is better.
    bic: float  # Schwarz's criterion, by which models of the same response are compared; smaller is better.
    std_dev: float  # Standard deviation of the residuals, on the model's scale.
    df: int  # Degrees of freedom of the residuals.
    breusch_pagan_p: float
    """p-value of the Breusch–Pagan test, which is small if some rows have larger errors than others; nan for
    an exact fit."""
    steps: tuple[Breakpoint, ...]  # Steps that the residuals show, the most significant first.
    cost: CostModel | None  # Best LogGP model; None if the table does not have both ranks and sizes.
    columns: Columns  # Numbers of the used rows, by column.
    fitted: Vector  # Fitted values of the response, (n,), on the model's scale.

    @property
    def residuals(self) -> Vector:
        """Return the measured minus the fitted response, (n,), on the model's scale."""
        return _scaled(self.formula, self.formula.response, self.columns) - self.fitted

    @property
    def heteroscedastic(self) -> bool:
        """Return whether errors differ significantly between rows, so that ``std_err`` is wrong."""
        return self.breusch_pagan_p < RULE.alpha


def fit(table: Table, formula: Formula) -> Regression:
    """Fit a formula to a table by least squares; rows with an empty field are left out.

    Raises:
        UserError: a column is unknown or named twice, a field is not a finite number (or, under a logarithm,
            not above 0), there are too few rows, the rows cannot separate the terms, or ``statsmodels`` is
            not installed.
    """
    with needing("studies", "model"):
        from statsmodels.regression.linear_model import OLS
        from statsmodels.stats.diagnostic import het_breuschpagan

    columns, left_out = _numbers(table, formula)
    y = _scaled(formula, formula.response, columns)
    design, names = _design(table.name, formula, columns)
    result: Any = OLS(y, design).fit()
    # If there is only one row more than terms, a leverage may be 1. Then HC3 is not defined, and the result
    # is nan.
    with np.errstate(divide="ignore", invalid="ignore"):
        robust = np.sqrt(np.diag(result.cov_HC3))
    interval = result.conf_int(RULE.alpha)
    figures = np.column_stack([result.params, result.bse, result.tvalues, result.pvalues, interval, robust])
    estimates = {name: TermEstimate(*row) for name, row in zip(names, figures.tolist(), strict=True)}
    auxiliary = design if formula.intercept else np.column_stack([np.ones(len(y)), design])
    exact = np.allclose(result.resid, 0, atol=1e-12 * float(np.abs(y).max()))
    return Regression(
        table=table.name,
        formula=formula,
        n=len(y),
        left_out=left_out,
        coefficients=estimates,
        r2=float(result.rsquared),
        adjusted_r2=float(result.rsquared_adj),
        aic=float(result.aic),
        bic=float(result.bic),
        std_dev=math.sqrt(max(float(result.mse_resid), 0.0)),
        df=int(result.df_resid),
        breusch_pagan_p=math.nan if exact else float(het_breuschpagan(result.resid, auxiliary)[1]),
        steps=() if exact else _steps(formula, columns, y, design),
        cost=_cost(formula, columns),
        columns=columns,
        fitted=np.asarray(result.fittedvalues, dtype=float),
    )


def _numbers(table: Table, formula: Formula) -> tuple[dict[str, Vector], int]:
    """Return the numbers of the complete rows by column, and the number of incomplete rows.

    The columns that LogGP models need are included if they are complete.
    """
    table.check(formula.terms, [formula.response], None)
    needed = dict.fromkeys((formula.response, *formula.terms))
    cost_columns = [name for name in table.columns if name not in needed and meaning(name) in _COST_COLUMNS]
    values = {name: table.numbers(name, positive=name in formula.log2) for name in needed}
    complete = np.all([np.isfinite(column) for column in values.values()], axis=0)
    # Ranks and sizes that are not terms of the formula are needed only for LogGP models.
    for name in cost_columns:
        try:
            column = table.numbers(name)
        except TableError:
            continue
        if np.isfinite(column[complete]).all():
            values[name] = column
    n, min_rows = int(complete.sum()), len(formula.terms) + formula.intercept + 1
    if n < min_rows:
        problem = f"{table.name}: {n} complete rows for {min_rows - 1} coefficients"
        raise TableError(problem, f"at least {min_rows} rows with {', '.join(needed)} are needed")
    return {name: column[complete] for name, column in values.items()}, int((~complete).sum())


def _scaled(formula: Formula, column: str, columns: Columns) -> Vector:
    return np.log2(columns[column]) if column in formula.log2 else columns[column]


def _design(name: str, formula: Formula, columns: Columns) -> tuple[Vector, tuple[str, ...]]:
    """Return the regressors, (n_rows, n_terms), and their names.

    A ``TableError`` is raised if a term is constant or follows from the terms before it.
    """
    n, constant = len(columns[formula.response]), formula.intercept
    names = (*([_INTERCEPT] if constant else []), *formula.terms)
    terms = [_scaled(formula, term, columns) for term in formula.terms]
    design = np.column_stack([*([np.ones(n)] if constant else []), *terms])
    lengths = np.linalg.norm(design, axis=0)
    for i, term in enumerate(names):
        leading = design[:, : i + 1] / np.where(lengths[: i + 1] > 0, lengths[: i + 1], 1)
        if lengths[i] and np.linalg.matrix_rank(leading, tol=1e-10 * math.sqrt(n)) == i + 1:
            continue
        values = columns[term]
        if np.ptp(values) == 0:
            raise TableError(f"{name}, column {term}: all {n} rows have {values[0]:g}", "leave the term out")
        earlier = " and ".join(map(formula.label, names[:i]))
        problem = f"{name}: {formula.label(term)} follows from {earlier} in every row"
        raise TableError(problem, "leave one of these terms out")
    return design, names


def _steps(formula: Formula, columns: Columns, y: Vector, design: Vector) -> tuple[Breakpoint, ...]:
    """Return the steps that residuals show, the most significant first.

    A candidate is a jump together with a change of slope, between two neighbouring values of a term. The most
    significant candidate is added to the model before the next candidate is searched. The F-test of a
    candidate is corrected for the number of tested places.
    """
    from scipy.stats import f as f_distribution

    places = [
        (term, float(below), float(above))
        for term in formula.terms
        for below, above in list(pairwise(np.unique(columns[term])))[_MIN_SIDE - 1 : 1 - _MIN_SIDE]
    ]
    steps: list[Breakpoint] = []
    while places and len(steps) < _MAX_STEPS:
        rss, _, rank = _least_squares(design, y)
        candidates = []
        for place in places:
            wider = np.column_stack([design, *_step_terms(formula, columns, place)])
            wider_rss, beta, wider_rank = _least_squares(wider, y)
            df = len(y) - wider_rank
            if wider_rank > rank and df > 0 and wider_rss > 0:
                ratio = (rss - wider_rss) / (wider_rank - rank) / (wider_rss / df)
                p = float(f_distribution.sf(ratio, wider_rank - rank, df)) * len(places)
                candidates.append((p, -ratio, place, float(beta[design.shape[1]])))
        p, _, place, jump = min(candidates, default=(1.0, 0.0, ("", 0.0, 0.0), 0.0))
        if p >= RULE.alpha:
            break
        steps.append(Breakpoint(*place, jump, p))
        design = np.column_stack([design, *_step_terms(formula, columns, place)])
        places.remove(place)
    return tuple(steps)


def _step_terms(formula: Formula, columns: Columns, place: tuple[str, float, float]) -> tuple[Vector, Vector]:
    """Return the regressors, (n,) each, of a jump at a place and of a change of slope from this place on."""
    term, _, above = place
    beyond = (columns[term] >= above).astype(float)
    start = math.log2(above) if term in formula.log2 else above
    return beyond, beyond * (_scaled(formula, term, columns) - start)


def _least_squares(design: Vector, y: Vector) -> tuple[float, Vector, int]:
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1
    beta, _, rank, _ = np.linalg.lstsq(design / lengths, y, rcond=1e-10)
    beta = beta / lengths
    return float(np.sum((y - design @ beta) ** 2)), beta, int(rank)


def _cost(formula: Formula, columns: Columns) -> CostModel | None:
    """Return the LogGP model that fits the response best; None if the table lacks ranks or sizes."""
    by_meaning = {meaning(name): column for name, column in columns.items() if name != formula.response}
    ranks, sizes = (by_meaning.get(name) for name in _COST_COLUMNS)
    if ranks is None or sizes is None:
        return None
    return cheapest(ranks, sizes, columns[formula.response], log=formula.response in formula.log2)
