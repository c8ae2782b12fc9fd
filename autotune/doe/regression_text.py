"""Show a least-squares model of a table as text, as a JSON document or as an HTML page.

Place in the flow of ``autotune/__init__.py``: step 12, export.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from autotune.doe.regression import Regression
from autotune.screening.cost_terms import Vector
from autotune.structure import plain
from autotune.views.documents import fields_of
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY
from autotune.views.text import aligned, p_text

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_MAX_POINTS = 20_000  # Largest number of rows that are drawn in a figure.


def regression_text(fitted: Regression) -> str:
    """Return the coefficients as statsmodels prints them, and problems that the coefficients do not show."""
    formula = fitted.formula
    terms = [*(["1"] if formula.intercept else []), *map(formula.label, formula.terms)]
    dropped = f", {fitted.left_out} incomplete left out" if fitted.left_out else ""
    model = f"{formula.label(formula.response)} ~ {' + '.join(terms)}"
    lines = [f"{fitted.table}: {model}; {fitted.n} rows{dropped}", ""]
    rows = [("term", "coef", "std err", "t", "P>|t|", "[0.025", "0.975]", "robust std err")]
    for name, term in fitted.coefficients.items():
        low, high, robust = (f"{value:.6g}" for value in (term.ci_low, term.ci_high, term.robust_std_err))
        test = (f"{term.coef:.6g}", f"{term.std_err:.4g}", f"{term.t:.3f}", p_text(term.p))
        rows.append((formula.label(name), *test, low, high, robust))
    lines += aligned(rows)
    kind = "R²" if formula.intercept else "R² (uncentred)"
    lines.append(
        f"  {kind} {fitted.r2:.4f}, adjusted {fitted.adjusted_r2:.4f}; AIC {fitted.aic:.1f}, "
        f"BIC {fitted.bic:.1f}; a row scatters by {fitted.std_dev:.4g} on {fitted.df} degrees of freedom"
    )
    return "\n".join([*lines, "", *_hidden(fitted)]) + "\n"


def regression_document(fitted: Regression) -> dict[str, Any]:
    """Return the JSON document of ``model --json``; unknown numbers are null.

    In it, ``coefficients`` maps the name of each term to ``coef``, ``std_err``, ``t``, ``p``, ``ci_low``,
    ``ci_high`` and more. It also contains ``r2``, ``aic`` and ``n``; ``heteroscedasticity``, ``steps`` and
    ``loggp`` describe problems that the coefficients do not show.
    """
    formula, cost = fitted.formula, fitted.cost
    document = {
        "table": fitted.table,
        **fields_of(formula, "response", "terms"),
        "log2": [name for name in (formula.response, *formula.terms) if name in formula.log2],
        "intercept": formula.intercept,
        **fields_of(fitted, "n", "left_out", "coefficients", "r2", "adjusted_r2", "aic", "bic"),
        **fields_of(fitted, "std_dev", "df"),
        "heteroscedasticity": {
            "test": "Breusch-Pagan",
            "p": fitted.breusch_pagan_p,
            "found": fitted.heteroscedastic,
        },
        "steps": fitted.steps,
        "loggp": cost
        and {**fields_of(cost, "form", "start", "message", "byte", "aic"), "better": cost.aic < fitted.aic},
    }
    return dict(plain(document))


def regression_page(fitted: Regression) -> str:
    """Return a self-contained HTML page: measured over fitted values, and residuals along each term."""
    from plotly.subplots import make_subplots

    formula = fitted.formula
    sample = np.linspace(0, fitted.n - 1, min(fitted.n, _MAX_POINTS)).astype(int)
    panels = ["fitted", *formula.terms]
    figure: Figure = make_subplots(
        rows=len(panels),
        cols=1,
        subplot_titles=["measured against fitted", *(f"residuals along {escape(t)}" for t in formula.terms)],
        vertical_spacing=0.25 / len(panels),
    )
    measured = fitted.fitted + fitted.residuals
    _dots(figure, 1, fitted.fitted[sample], measured[sample], "least squares", BLUE)
    if (cost := fitted.cost) is not None:
        _dots(figure, 1, cost.fitted[sample], measured[sample], f"LogGP: {cost.form}", AMBER)
    ends, dotted = [float(measured.min()), float(measured.max())], {"color": GREY, "dash": "dot"}
    figure.add_scatter(x=ends, y=ends, mode="lines", name="as measured", line=dotted, row=1, col=1)
    response = escape(formula.label(formula.response))
    figure.update_xaxes(title_text=f"fitted {response}", row=1, col=1)
    figure.update_yaxes(title_text=f"measured {response}", row=1, col=1)
    for row, term in enumerate(formula.terms, start=2):
        along = fitted.columns[term]
        _dots(figure, row, along[sample], fitted.residuals[sample], "", BLUE)
        figure.add_hline(y=0, line=dotted, row=row, col=1)
        for step in (s for s in fitted.steps if s.term == term):
            below, above = step.below, step.above
            middle = math.sqrt(below * above) if below > 0 else (below + above) / 2
            figure.add_vline(x=middle, line={"color": AMBER}, row=row, col=1)
        wide = bool(np.all(along > 0) and along.max() > 20 * along.min())
        figure.update_xaxes(title_text=escape(term), type="log" if wide else "linear", row=row, col=1)
        figure.update_yaxes(title_text="residual", row=row, col=1)
    title = escape(f"{fitted.table}: {response}")
    figure.update_layout(template="plotly_white", height=380 * len(panels), title=title)
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def _hidden(fitted: Regression) -> list[str]:
    """Return lines on problems that coefficients do not show: unequal errors, steps, a better LogGP model."""
    formula = fitted.formula
    if math.isnan(fitted.breusch_pagan_p):
        return ["What it hides: nothing, it fits every row exactly"]
    scatter = f"Breusch-Pagan p = {p_text(fitted.breusch_pagan_p)}".replace("= <", "< ")
    warning = "rows scatter differently: trust the robust standard errors" if fitted.heteroscedastic else ""
    lines = ["What it hides:", f"  scatter: {warning or 'no sign that rows scatter differently'} ({scatter})"]
    for step in fitted.steps:
        jump = f"× {2**step.jump:.3g}" if formula.response in formula.log2 else f"{step.jump:+.4g}"
        place = f"between {step.term} {step.below:.12g} and {step.above:.12g}"
        p = f"p = {p_text(step.p)}".replace("= <", "< ")
        lines.append(f"  step: {place} the model breaks, {formula.response} {jump} there ({p})")
    if not fitted.steps:
        lines.append("  step: none is seen along the terms")
    if (cost := fitted.cost) is not None:
        parts = f"{cost.start:.4g} + {cost.message:.4g} a message + {cost.byte:.4g} a byte"
        better = "better" if cost.aic < fitted.aic else "worse"
        lines.append(f"  LogGP, {cost.form}: {parts}; AIC {cost.aic:.1f}, {better} than {fitted.aic:.1f}")
    else:
        lines.append("  LogGP: needs ranks from 1 on and sizes among the columns, and a response above 0")
    return lines


def _dots(figure: Figure, row: int, x: Vector, y: Vector, name: str, colour: str) -> None:
    style = axes.dots(color=colour, size=5, opacity=0.7)
    figure.add_scatter(x=x.tolist(), y=y.tolist(), name=name, showlegend=bool(name), **style, **axes.at(row))
