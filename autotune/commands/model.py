"""``model``: a least-squares model of anybody's table, with what such a fit hides."""

import sys
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.importers.table import read_rows
from autotune.screening.regression import Formula, fit
from autotune.screening.table import Table
from autotune.views.documents import json_text
from autotune.views.regression import regression_document, regression_page, regression_text


def formula(response: str, terms: str, log2: str, intercept: bool) -> Formula:
    """The model that the options name; columns stand between commas.

    Raises:
        UserError: no term, or a logarithm of a column that is not in the model.
    """
    return Formula(response.strip(), tuple(_words(terms)), frozenset(_words(log2)), intercept)


def model(path: Path, wanted: Formula, where: tuple[str, ...], plot: Path | None, as_json: bool) -> None:
    """Print the fit of a table, or of the rows that have these values; the page goes to ``plot``.

    Raises:
        UserError: a condition without a value, a column named twice, or a file that cannot be written.
        TableError: a table that cannot be read or fitted.
    """
    table = Table(path.name, *read_rows(path, f"needed: {', '.join((wanted.response, *wanted.terms))}"))
    for condition in where:
        column, equals, value = condition.partition("=")
        if not equals:
            raise UserError(f"--where {condition} names no value", "--where algorithm=ring")
        table = table.where(column.strip(), value.strip())
    fitted = fit(table, wanted)
    if plot is not None:
        write_files({plot: regression_page(fitted)})
    sys.stdout.write(json_text(regression_document(fitted)) if as_json else regression_text(fitted))
    if plot is not None:
        sys.stderr.write(f"{plot}\n")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
