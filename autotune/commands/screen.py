"""``screen``: a design for a person to carry out, and the analysis of what came out."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.importers.table import read_rows
from autotune.screening.by_hand import Layout as Layout  # for who calls this verb
from autotune.screening.by_hand import factors_in, sensitivity
from autotune.screening.follow_up import follow_up
from autotune.screening.table import Table, known_scale, named_responses, screen
from autotune.views.documents import csv_text, follow_up_document, json_text, screening_document
from autotune.views.screening import follow_up_text, screening_text, sensitivity_text


def analyse_table(
    path: Path | None, factors: str, responses: str, block: str | None, scale: str, as_json: bool
) -> None:
    """Print the effects of some columns (words between commas) on others (the same, each with its goal)."""
    table, wanted = _table(path), named_responses(_words(responses), "--responses")
    result = screen(table, _words(factors), wanted, block, known_scale(scale))
    _print(screening_text(result), screening_document(result), as_json)


def fit_surface(
    path: Path | None, factors: str, responses: str, desirability: str, scale: str, as_json: bool
) -> None:
    """Print the response surfaces over some columns, and the point that suits all responses.

    Raises:
        UserError: neither or both of responses and desirability, or what the table does not allow.
    """
    if bool(responses) == bool(desirability):
        raise UserError("--surface takes either --responses or --desirability", "--responses latency:min")
    option = "--desirability" if desirability else "--responses"
    wanted = named_responses(_words(desirability or responses), option)
    result = follow_up(_table(path), _words(factors), wanted, known_scale(scale), bool(desirability))
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
    """Write the run table as CSV, with empty columns for the responses, and say what it can see.

    The power goes to standard error where the table goes to standard output.

    Raises:
        UserError: no factors, an effect without the scatter of a run, or a file that cannot be written.
    """
    if not factors:
        raise UserError("a design needs its factors", "--factors FILE, a CSV with factor,low,high")
    if effect is not None and sigma is None:
        raise UserError("--effect needs the standard deviation of a run", "--effect 0.05 --sigma 0.03")
    path = Path(factors)
    design = layout.design(factors_in(path.name, *read_rows(path, "needed: factor, low, high")))
    seen = None if sigma is None else sensitivity(design, sigma, effect)
    measured = [its.name for its in named_responses(_words(responses), "--responses")] if responses else []
    rows = [
        {"run": number, "block": int(block) + 1, **point, **dict.fromkeys(measured, "")}
        for number, (block, point) in enumerate(zip(design.blocks, design.points(), strict=True), start=1)
    ]
    text = csv_text(rows, list(rows[0]))
    table, said = text, "" if seen is None else sensitivity_text(seen)
    if as_json:
        table = said = ""
        document = {"runs": rows, "sensitivity": None if seen is None else asdict(seen)}
        sys.stdout.write(json_text(document))
    if out is None:
        sys.stdout.write(table)
        sys.stderr.write(said)
        return
    write_files({out: text})
    sys.stdout.write(said if as_json else f"{out}\n{said}")


def _table(path: Path | None) -> Table:
    if path is None:
        raise UserError("no table is named", "screen TABLE --factors a,b --responses y:min, or --design N")
    return Table(path.name, *read_rows(path, "needed: factors and responses"))


def _print(text: str, document: dict[str, object], as_json: bool) -> None:
    sys.stdout.write(json_text(document) if as_json else text)


def _words(text: str) -> Sequence[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
