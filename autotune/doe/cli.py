"""Verbs for experiments of anybody's: ``screen`` and ``model``."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import Json, Out

verbs = typer.Typer()


@verbs.command()
def screen(
    table: Annotated[
        Path | None, typer.Argument(metavar="TABLE", help="CSV or Parquet, a row for each run")
    ] = None,
    factors: Annotated[
        str, typer.Option(help="columns that were set, between commas; with --design: a CSV factor,low,high")
    ] = "",
    responses: Annotated[
        str, typer.Option(help="columns that were measured: latency:min,bandwidth:max")
    ] = "",
    block: Annotated[str | None, typer.Option(help="column of replicates, days or sites")] = None,
    scale: Annotated[str, typer.Option(help="linear: differences, log: ratios")] = "linear",
    surface: Annotated[str, typer.Option(help="columns of numbers: fit a quadratic over them instead")] = "",
    desirability: Annotated[
        str, typer.Option(help="responses to weigh on it: latency:min:1,bandwidth:max:1.5")
    ] = "",
    design: Annotated[
        int | None, typer.Option(min=4, help="write a run table of so many runs a block instead")
    ] = None,
    blocks: Annotated[int, typer.Option(min=1, help="replicates of the design")] = 1,
    centre_points: Annotated[int, typer.Option(min=0, help="of each block")] = 0,
    seed: Annotated[int, typer.Option(min=0, help="of the run order")] = 0,
    effect: Annotated[float | None, typer.Option(help="say how likely the design shows it")] = None,
    sigma: Annotated[float | None, typer.Option(help="standard deviation of a run")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Say which factors of a two-level experiment matter, from anybody's table; or design one (--design)."""
    from autotune.doe import verbs as verb
    from autotune.doe.by_hand import Layout

    if design is not None:
        layout = Layout(design, blocks, centre_points, seed)
        verb.write_design(factors, responses, layout, effect, sigma, out, as_json)
    elif surface or desirability:
        verb.fit_surface(table, surface, responses, desirability, scale, as_json)
    else:
        verb.analyse_table(table, factors, responses, block, scale, as_json)


@verbs.command()
def model(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="CSV or Parquet, a row for each measurement")
    ],
    response: Annotated[str, typer.Option(help="column that was measured")],
    terms: Annotated[str, typer.Option(help="columns that explain it, between commas")],
    log2: Annotated[
        str, typer.Option(help="columns, the response among them, whose logarithm is taken")
    ] = "",
    intercept: Annotated[
        bool, typer.Option("--intercept/--no-intercept", help="a constant beside the terms")
    ] = True,
    where: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN=VALUE", help="only these rows; or several")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="write an HTML page with measured, fitted, residuals")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a table by least squares, and say what the fit hides: unequal scatter, steps, LogGP's terms."""
    from autotune.doe import verbs as verb

    verb.model(table, verb.formula(response, terms, log2, intercept), tuple(where or ()), plot, as_json)


companion = Companion(verbs)
