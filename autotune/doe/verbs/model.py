"""``model``: fit a least-squares model to any table, and show problems that the coefficients do not show."""

import sys
from pathlib import Path

from autotune.doe.regression import Formula, fit
from autotune.doe.regression_text import regression_document, regression_page, regression_text
from autotune.doe.table import Table
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.text_table import read_rows
from autotune.views.documents import json_text


def formula(response: str, terms: str, log2: str, intercept: bool) -> Formula:
    """Return the model that the options describe.

    Args:
        response: The column that was measured.
        terms: The columns that explain the response, separated by commas.
        log2: The columns whose binary logarithm is used, separated by commas.
        intercept: Whether the model has a constant.

    Raises:
        UserError: there is no term, or ``log2`` names a column that is not in the model.
    """
    return Formula(response.strip(), tuple(_words(terms)), frozenset(_words(log2)), intercept)


def model(
    path: Path, equation: Formula, conditions: tuple[str, ...], plot: Path | None, as_json: bool
) -> None:
    """Print the fit of a model to a table.

    Args:
        path: The table's file.
        equation: The model.
        conditions: Conditions ``COLUMN=VALUE`` for the rows to be fitted; empty: all rows are fitted.
        plot: File for an HTML page with the fit; None: no page is written.
        as_json: Whether to print JSON.

    Raises:
        UserError: a condition has no value, a column is named twice, or the page cannot be written.
        TableError: the table cannot be read or fitted.
    """
    table = Table(path.name, *read_rows(path, f"needed: {', '.join((equation.response, *equation.terms))}"))
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not equals:
            raise UserError(f"--where {condition} names no value", "--where algorithm=ring")
        table = table.where(column.strip(), value.strip())
    fitted = fit(table, equation)
    if plot is not None:
        write_files({plot: regression_page(fitted)})
    sys.stdout.write(json_text(regression_document(fitted)) if as_json else regression_text(fitted))
    if plot is not None:
        sys.stderr.write(f"{plot}\n")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
