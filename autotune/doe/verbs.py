"""``screen`` and ``model``: write designs to carry out by hand, and analyse any user's table.

The arguments of these functions are the options of the commands, which ``cli`` describes.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from autotune.doe.by_hand import Layout, factors_in, sensitivity
from autotune.doe.follow_up import follow_up
from autotune.doe.regression import Formula, fit
from autotune.doe.screening_text import (
    follow_up_document,
    follow_up_text,
    screening_document,
    screening_text,
    sensitivity_text,
)
from autotune.doe.table import Table, known_scale, named_responses, screen
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.text_table import read_rows
from autotune.views.documents import answer_text, csv_text


def analyse_table(
    path: Path | None, factors: str, responses: str, block: str | None, scale: str, as_json: bool
) -> None:
    """Print the effects of some columns of a table on other columns.

    Raises:
        UserError: no table is given, an option is malformed, or the table cannot be read or analysed.
    """
    table, goals = _table(path), named_responses(_words(responses), "--responses")
    result = screen(table, _words(factors), goals, block, known_scale(scale))
    text = answer_text("screen", screening_document(result)) if as_json else screening_text(result)
    sys.stdout.write(text)


def fit_surface(
    path: Path | None, factors: str, responses: str, desirability: str, scale: str, as_json: bool
) -> None:
    """Print response surfaces over some columns of numbers, and the point that suits all responses best.

    Raises:
        UserError: not exactly one of ``responses`` and ``desirability`` is given, no table is given, or the
            table cannot be read or fitted.
    """
    if bool(responses) == bool(desirability):
        raise UserError("--surface takes either --responses or --desirability", "--responses latency:min")
    option = "--desirability" if desirability else "--responses"
    goals = named_responses(_words(desirability or responses), option)
    result = follow_up(_table(path), _words(factors), goals, known_scale(scale), bool(desirability))
    text = answer_text("screen-surface", follow_up_document(result)) if as_json else follow_up_text(result)
    sys.stdout.write(text)


def write_design(
    factors: str,
    responses: str,
    layout: Layout,
    effect: float | None,
    sigma: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the runs of a design as a CSV table, and print the effects that the design can detect.

    The table has an empty column for each response. If the table goes to standard output (``out`` is None),
    the effects are printed on standard error.

    Raises:
        UserError: no factors are given or they cannot be read, an effect is given without the standard
            deviation of a run, or the file cannot be written.
    """
    if not factors:
        raise UserError("a design needs its factors", "--factors FILE, a CSV with factor,low,high")
    if effect is not None and sigma is None:
        raise UserError("--effect needs the standard deviation of a run", "--effect 0.05 --sigma 0.03")
    path = Path(factors)
    design = layout.design(factors_in(path.name, *read_rows(path, "needed: factor, low, high")))
    power = None if sigma is None else sensitivity(design, sigma, effect)
    goals = named_responses(_words(responses), "--responses") if responses else ()
    measured = {response.name: "" for response in goals}
    rows = [
        {"run": number, "block": int(block) + 1, **point, **measured}
        for number, (block, point) in enumerate(zip(design.blocks, design.points(), strict=True), start=1)
    ]
    table, power_text = csv_text(rows, list(rows[0])), "" if power is None else sensitivity_text(power)
    if out is not None:
        write_files({out: table})
    if as_json:
        document = {"runs": rows, "sensitivity": None if power is None else asdict(power)}
        sys.stdout.write(answer_text("screen-design", document))
    elif out is None:
        sys.stdout.write(table)
        sys.stderr.write(power_text)
    else:
        sys.stdout.write(f"{out}\n{power_text}")


def model(
    path: Path, equation: Formula, conditions: tuple[str, ...], plot: Path | None, as_json: bool
) -> None:
    """Print the fit of a model to the rows of a table that meet all conditions ``COLUMN=VALUE``.

    Raises:
        UserError: a condition has no value, the table cannot be read or fitted, or the page ``plot`` cannot
            be written.
    """
    from autotune.doe.regression_text import regression_document, regression_page, regression_text

    table = Table(path.name, *read_rows(path, f"needed: {', '.join((equation.response, *equation.terms))}"))
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not equals:
            raise UserError(f"--where {condition} names no value", "--where algorithm=ring")
        table = table.where(column.strip(), value.strip())
    fitted = fit(table, equation)
    if plot is not None:
        write_files({plot: regression_page(fitted)})
    text = answer_text("model", regression_document(fitted)) if as_json else regression_text(fitted)
    sys.stdout.write(text)
    if plot is not None:
        sys.stderr.write(f"{plot}\n")


def formula(response: str, terms: str, log2: str, intercept: bool) -> Formula:
    """Return the formula of a response; ``terms`` and ``log2`` contain names of columns between commas."""
    return Formula(response.strip(), tuple(_words(terms)), frozenset(_words(log2)), intercept)


def _table(path: Path | None) -> Table:
    if path is None:
        raise UserError("no table is named", "screen TABLE --factors a,b --responses y:min, or --design N")
    return Table(path.name, *read_rows(path, "needed: factors and responses"))


def _words(text: str) -> Sequence[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
