"""``screen``: design a two-level experiment for a person to carry out, and analyse its results."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from autotune.doe.by_hand import Layout as Layout  # for the callers of this verb
from autotune.doe.by_hand import factors_in, sensitivity
from autotune.doe.documents import follow_up_document, screening_document
from autotune.doe.follow_up import follow_up
from autotune.doe.screening_text import follow_up_text, screening_text, sensitivity_text
from autotune.doe.table import Table, known_scale, named_responses, screen
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.text_table import read_rows
from autotune.views.documents import csv_text, json_text


def analyse_table(
    path: Path | None, factors: str, responses: str, block: str | None, scale: str, as_json: bool
) -> None:
    """Print the effects of some columns of a table on others.

    Args:
        path: The table's file.
        factors: The columns that were set, separated by commas.
        responses: The columns that were measured, separated by commas, each with its goal: ``latency:min``.
        block: The column of replicates, days or sites; None: there is none.
        scale: ``linear`` for effects as differences, ``log`` for effects as ratios.
        as_json: Whether to print JSON.

    Raises:
        UserError: no table is named, an option is malformed, or the table has no column of some name.
        TableError: the table cannot be read or analysed.
    """
    table, goals = _table(path), named_responses(_words(responses), "--responses")
    result = screen(table, _words(factors), goals, block, known_scale(scale))
    _print(screening_text(result), screening_document(result), as_json)


def fit_surface(
    path: Path | None, factors: str, responses: str, desirability: str, scale: str, as_json: bool
) -> None:
    """Print the response surfaces over some columns of a table, and the point that suits all responses.

    Args:
        path: The table's file.
        factors: The columns of numbers of which a quadratic function is fitted, separated by commas.
        responses: The columns that were measured, as in ``analyse_table``; empty if ``desirability`` is
            given.
        desirability: The responses for which a common best point is sought, with goal and weight:
            ``latency:min:1``.
        scale: As in ``analyse_table``.
        as_json: Whether to print JSON.

    Raises:
        UserError: not exactly one of responses and desirability is given, no table is named, or the table
            does not allow the fit.
        TableError: the table cannot be read or fitted.
    """
    if bool(responses) == bool(desirability):
        raise UserError("--surface takes either --responses or --desirability", "--responses latency:min")
    option = "--desirability" if desirability else "--responses"
    goals = named_responses(_words(desirability or responses), option)
    result = follow_up(_table(path), _words(factors), goals, known_scale(scale), bool(desirability))
    _print(follow_up_text(result), follow_up_document(result), as_json)


def write_design(
    factors: str,
    responses: str,
    layout: Layout,
    effect: float | None,
    sigma: float | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the run table of a design as CSV, and print the effects that the design can detect.

    The table has empty columns for the responses. If the table goes to standard output, the effects are
    printed on standard error.

    Args:
        factors: A CSV file with the columns factor, low and high.
        responses: The responses, as in ``analyse_table``.
        layout: Number of runs, of blocks and of centre points, and the seed of the run order.
        effect: An effect whose power is computed; None: no power is computed.
        sigma: Standard deviation of a run; None: unknown, so that no effects are computed.
        out: The table's file; None: standard output.
        as_json: Whether to print JSON.

    Raises:
        UserError: no factors are named, an effect is given without the standard deviation of a run, or the
            file cannot be written.
        TableError: the file of factors cannot be read.
    """
    if not factors:
        raise UserError("a design needs its factors", "--factors FILE, a CSV with factor,low,high")
    if effect is not None and sigma is None:
        raise UserError("--effect needs the standard deviation of a run", "--effect 0.05 --sigma 0.03")
    path = Path(factors)
    design = layout.design(factors_in(path.name, *read_rows(path, "needed: factor, low, high")))
    power = None if sigma is None else sensitivity(design, sigma, effect)
    measured = (
        [response.name for response in named_responses(_words(responses), "--responses")] if responses else []
    )
    rows = [
        {"run": number, "block": int(block) + 1, **point, **dict.fromkeys(measured, "")}
        for number, (block, point) in enumerate(zip(design.blocks, design.points(), strict=True), start=1)
    ]
    text = csv_text(rows, list(rows[0]))
    table, power_text = text, "" if power is None else sensitivity_text(power)
    if as_json:
        table = power_text = ""
        document = {"runs": rows, "sensitivity": None if power is None else asdict(power)}
        sys.stdout.write(json_text(document))
    if out is None:
        sys.stdout.write(table)
        sys.stderr.write(power_text)
        return
    write_files({out: text})
    sys.stdout.write(power_text if as_json else f"{out}\n{power_text}")


def _table(path: Path | None) -> Table:
    if path is None:
        raise UserError("no table is named", "screen TABLE --factors a,b --responses y:min, or --design N")
    return Table(path.name, *read_rows(path, "needed: factors and responses"))


def _print(text: str, document: dict[str, object], as_json: bool) -> None:
    sys.stdout.write(json_text(document) if as_json else text)


def _words(text: str) -> Sequence[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
