"""A least-squares model of anybody's table, with what such a fit hides (beside the flow).

::

    Table + Formula → fit → Regression: coefficients · heteroscedasticity · steps · LogGP's terms beside it

The fit is ``statsmodels``' ordinary least squares. A column under a logarithm is compared by factors of two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.errors import TableError, UserError, allowed, needing
from autotune.importers.delimited import meaning
from autotune.screening.cost_terms import CostModel, Vector, cheapest
from autotune.screening.model import RULE
from autotune.screening.table import Table

Columns = Mapping[str, Vector]  # Column → (n,) the table's numbers.

INTERCEPT = "Intercept"  # Name of the constant among the terms.


@dataclass(frozen=True, slots=True)
class StepRule:
    """Where a model is searched for steps."""

    most: int = 3  # Steps that are named: each takes two coefficients.
    min_side: int = 2  # Distinct values of a term on each side of a step: a line takes so many.


STEPS = StepRule()


@dataclass(frozen=True, slots=True)
class Formula:
    """A response and the terms that explain it."""

    response: str  # Column that was measured.
    terms: tuple[str, ...]  # Columns that explain it.
    log2: frozenset[str] = frozenset()  # Those of all these whose binary logarithm is in the model.
    intercept: bool = True  # Whether there is a constant.

    def __post_init__(self) -> None:
        if not self.terms:
            raise UserError("no term is named", "--terms Processes,Size")
        columns = (self.response, *self.terms)
        for name in sorted(self.log2 - set(columns)):
            raise UserError(f"--log2 {name} is neither the response nor a term", allowed(name, columns))

    def label(self, column: str) -> str:
        """A column's name in the model: ``log2(Size)``."""
        return f"log2({column})" if column in self.log2 else column


@dataclass(frozen=True, slots=True)
class TermEstimate:
    """One coefficient, as ``statsmodels`` prints it."""

    coef: float  # In units of the response (its logarithm, if so) by unit of the term.
    std_err: float  # Standard error, were all rows to scatter alike.
    t: float  # ``coef / std_err``.
    p: float  # Of a two-sided t-test.
    ci_low: float  # Lower end of the 95 % interval.
    ci_high: float  # Upper end.
    robust_std_err: float  # HC3: holds also where rows scatter differently.


@dataclass(frozen=True, slots=True)
class Breakpoint:
    """Where the response jumps or changes its slope along a term."""

    term: str  # The column.
    below: float  # Last value before it, in the table's numbers.
    above: float  # First value behind it.
    jump: float  # Of the response at ``above``, on the model's scale.
    p: float  # Of an F-test of jump and slope, times the places that were looked at.


@dataclass(frozen=True, slots=True)
class Regression:
    """A fitted model."""

    table: str  # Name of the file.
    formula: Formula  # What was fitted.
    n: int  # Rows that took part.
    left_out: int  # Rows with an empty field.
    coefficients: Mapping[str, TermEstimate]  # Term → estimate; the constant is called ``Intercept``.
    r2: float  # Share of the variance that is explained; without a constant, of the sum of squares.
    adjusted_r2: float  # The same, adjusted for the number of terms.
    aic: float  # Akaike's criterion; smaller is better, among models of one response.
    bic: float  # Schwarz's.
    std_dev: float  # Of the residuals, on the model's scale.
    df: int  # Degrees of freedom of the residuals.
    breusch_pagan_p: float  # That rows scatter alike: small where they do not.
    steps: tuple[Breakpoint, ...]  # Where residuals show that the model changes.
    cost: CostModel | None  # The best of LogGP's forms on the same rows; None: no ranks and sizes.
    columns: Columns
    fitted: Vector  # (n,) the model's response on its scale.

    @property
    def residuals(self) -> Vector:
        """(n,) measured minus fitted, on the model's scale."""
        return _scaled(self.formula, self.formula.response, self.columns) - self.fitted

    @property
    def heteroscedastic(self) -> bool:
        """Whether rows surely scatter differently, so that ``std_err`` does not hold."""
        return self.breusch_pagan_p < RULE.alpha


def fit(table: Table, formula: Formula) -> Regression:
    """The least-squares fit of a table.

    Rows with an empty field in one of the columns are left out.

    Raises:
        TableError: an unknown column, a field that is not a finite number, one that is not above 0 under a
            logarithm, too few rows, or terms that these rows cannot separate.
        UserError: a column named twice, or ``statsmodels`` is not installed.
    """
    with needing("studies", "model"):
        from statsmodels.regression.linear_model import OLS
        from statsmodels.stats.diagnostic import het_breuschpagan

    columns, left_out = _numbers(table, formula)
    y = _scaled(formula, formula.response, columns)
    design, names = _design(table.name, formula, columns)
    result: Any = OLS(y, design).fit()
    # With as many rows as terms plus one, a leverage of 1 leaves HC3 undefined: then it is not a number.
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
    """The columns of a model and of LogGP's forms in rows that are complete, and how many are not."""
    table.check(formula.terms, [formula.response], None)
    wanted = dict.fromkeys((formula.response, *formula.terms))
    others = [name for name in table.columns if name not in wanted and meaning(name) in _COST_COLUMNS]
    values = {name: table.numbers(name, positive=name in formula.log2) for name in wanted}
    whole = np.all([np.isfinite(column) for column in values.values()], axis=0)
    for name in others:  # ranks and sizes that are not terms are needed by LogGP's forms alone
        try:
            column = table.numbers(name)
        except TableError:
            continue
        if np.isfinite(column[whole]).all():
            values[name] = column
    n, needed = int(whole.sum()), len(formula.terms) + formula.intercept + 1
    if n < needed:
        raise TableError(
            f"{table.name}: {n} complete rows for {needed - 1} coefficients",
            f"at least {needed} rows with {', '.join(wanted)} are needed",
        )
    return {name: column[whole] for name, column in values.items()}, int((~whole).sum())


def _scaled(formula: Formula, column: str, columns: Columns) -> Vector:
    return np.log2(columns[column]) if column in formula.log2 else columns[column]


def _design(name: str, formula: Formula, columns: Columns) -> tuple[Vector, tuple[str, ...]]:
    """(n_rows, n_terms) regressors and their names; no column is a combination of those before it."""
    names = ((INTERCEPT,) if formula.intercept else ()) + formula.terms
    n = len(columns[formula.response])
    design = np.column_stack([
        np.ones(n) if term == INTERCEPT and formula.intercept and i == 0 else _scaled(formula, term, columns)
        for i, term in enumerate(names)
    ])  # fmt: skip
    lengths = np.linalg.norm(design, axis=0)
    for i, term in enumerate(names):
        before = design[:, : i + 1] / np.where(lengths[: i + 1] > 0, lengths[: i + 1], 1)
        if lengths[i] and np.linalg.matrix_rank(before, tol=1e-10 * math.sqrt(n)) == i + 1:
            continue
        values = columns[term]
        if np.ptp(values) == 0:
            raise TableError(f"{name}, column {term}: all {n} rows have {values[0]:g}", "leave the term out")
        others = " and ".join(formula.label(its) for its in names[:i])
        raise TableError(
            f"{name}: {formula.label(term)} follows from {others} in every row",
            "leave one of these terms out",
        )
    return design, names


def _steps(formula: Formula, columns: Columns, y: Vector, design: Vector) -> tuple[Breakpoint, ...]:
    """Steps that residuals show, the clearest first.

    Each candidate is a jump and a change of slope between two neighbouring values of a term; the clearest is
    taken into the model before the next is looked for. Its F-test is corrected for the number of places.
    """
    from scipy.stats import f as f_distribution

    side, values = STEPS.min_side, {term: np.unique(columns[term]) for term in formula.terms}
    places = [
        (term, float(below), float(above))
        for term, its in values.items()
        for below, above in zip(its[side - 1 : -side], its[side : len(its) - side + 1], strict=True)
    ]
    found: list[Breakpoint] = []
    while places and len(found) < STEPS.most:
        rest, _, rank = _least_squares(design, y)
        candidates = []
        for place in places:
            wider = np.column_stack([design, *_broken(formula, columns, place)])
            its_rest, beta, its_rank = _least_squares(wider, y)
            df = len(y) - its_rank
            if its_rank > rank and df > 0 and its_rest > 0:
                ratio = (rest - its_rest) / (its_rank - rank) / (its_rest / df)
                p = float(f_distribution.sf(ratio, its_rank - rank, df)) * len(places)
                candidates.append((p, -ratio, place, float(beta[design.shape[1]])))
        p, _, place, jump = min(candidates, default=(1.0, 0.0, ("", 0.0, 0.0), 0.0))
        if p >= RULE.alpha:
            break
        found.append(Breakpoint(*place, jump, p))
        design = np.column_stack([design, *_broken(formula, columns, place)])
        places.remove(place)
    return tuple(found)


def _broken(formula: Formula, columns: Columns, place: tuple[str, float, float]) -> tuple[Vector, Vector]:
    """Regressors of a jump at a place, and of another slope from there on."""
    term, _, above = place
    behind = (columns[term] >= above).astype(float)
    start = math.log2(above) if term in formula.log2 else above
    return behind, behind * (_scaled(formula, term, columns) - start)


def _least_squares(design: Vector, y: Vector) -> tuple[float, Vector, int]:
    """Residual sum of squares, coefficients, rank; columns are brought to one length first."""
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1
    beta, _, rank, _ = np.linalg.lstsq(design / lengths, y, rcond=1e-10)
    beta = beta / lengths
    return float(np.sum((y - design @ beta) ** 2)), beta, int(rank)


_COST_COLUMNS = ("comm_size", "message_bytes")


def _cost(formula: Formula, columns: Columns) -> CostModel | None:
    found = {meaning(name): column for name, column in columns.items() if name != formula.response}
    ranks, sizes = (found.get(name) for name in _COST_COLUMNS)
    if ranks is None or sizes is None:
        return None
    return cheapest(ranks, sizes, columns[formula.response], log=formula.response in formula.log2)
