"""Declare the verbs that take a scenario, which Hydra composes."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.app import cli, is_override
from autotune.commands.options import COMPOSED, Json, Out, Words, WordsOrDir, only_one
from autotune.errors import ExitCode, UserError
from autotune.history.folder import is_campaign


@cli.command(**COMPOSED, add_help_option=False)
def tune(
    context: typer.Context,
    words: WordsOrDir = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="print the result alone")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="print the figures and the interference of each launch too")
    ] = False,
) -> int:
    """Run a campaign, or what is left of it; DIR: go on with the one there, with time for a verdict."""
    if {"-h", "--help"} & set(words or ()) and not any(word.startswith("conf=") for word in words or ()):
        sys.stdout.write(context.get_help() + "\n")  # with conf=NAME Hydra shows the composed configuration
        return ExitCode.WELL
    from autotune.commands.companions import sites
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.tune import tune as task

    only_one(("--quiet", quiet), ("--verbose", verbose))
    if words and (is_campaign(words[0]) or not is_override(words[0])):
        from autotune.commands.resume import resume

        changes = [word for word in words[1:] if word != "--yes"]
        return resume(Path(words[0]), changes, quiet, verbose, unasked="--yes" in words)
    return run_task(
        partial(task, quiet=quiet, verbose=verbose),
        words or (),
        launches=True,
        site_task=lambda document, compose: sites().tune(document, compose, quiet),
    )


@cli.command(**COMPOSED)
def plan(
    words: Words = None,
    listing: Annotated[
        bool, typer.Option("--list", help="list the scenarios and search spaces that are here")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say what a campaign would do and cost in launches and node-hours, and run nothing."""
    if listing:
        from autotune.commands.listing import listing as list_names

        if words or as_json:
            raise UserError(f"plan --list {' '.join(words or ('--json',))}", "--list stands alone")
        list_names()
        return ExitCode.WELL
    from autotune.commands.plan import plan_all

    return plan_all(words or (), as_json)


@cli.command(**COMPOSED)
def measure(
    words: Words = None,
    point: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="a value of the point, or several")
    ] = None,
    out: Out = None,
) -> int:
    """Launch one point once, by default the stack's own defaults, and print it like history (to stdout)."""
    from autotune.commands.companions import sites
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.measure import measure as task

    return run_task(
        partial(task, points=tuple(point or ()), out=out),
        words or (),
        launches=True,
        site_task=lambda document, compose: sites().measure(document, compose),
        verb="measure",
    )
