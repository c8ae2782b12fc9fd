"""Verbs that take a scenario; Hydra composes it."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.app import Out, Words, cli, composed
from autotune.errors import ExitCode, UserError


@composed(add_help_option=False)
def tune(
    context: typer.Context,
    words: Words = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="print the result alone")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="print the figures and the interference of each launch too")
    ] = False,
) -> int:
    """Run a campaign, or what is left of it."""
    if {"-h", "--help"} & set(words or ()) and not any(word.startswith("conf=") for word in words or ()):
        sys.stdout.write(context.get_help() + "\n")  # with conf=NAME Hydra shows what it composes
        return ExitCode.WELL
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.site import tune_site
    from autotune.commands.tune import tune as task

    if quiet and verbose:
        raise UserError("--quiet and --verbose", "give one of them")
    whole = partial(tune_site, quiet=quiet)
    return run_task(partial(task, quiet=quiet, verbose=verbose), words or (), launches=True, whole=whole)


@cli.command("list")
def listing() -> None:
    """List the scenarios and search spaces that are here, a sentence each."""
    from autotune.commands import listing as verb

    verb.listing()


@composed()
def plan(words: Words = None) -> int:
    """Say what a campaign would do and cost in launches and node-hours, and run nothing."""
    from autotune.commands.plan import plan_all

    return plan_all(words or ())


@composed()
def measure(
    words: Words = None,
    point: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="a value of the point, or several")
    ] = None,
    out: Out = None,
) -> int:
    """Launch one point once, by default the stack's own defaults, and print it like history (to stdout)."""
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.measure import measure as task
    from autotune.commands.site_plan import measure_site

    one = partial(task, points=tuple(point or ()), out=out)
    return run_task(one, words or (), launches=True, whole=measure_site)


@composed()
def calibrate(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE | KEY=VALUE]…", help="logs, or keys of conf=calibrate"),
    ] = None,
    base: Annotated[str, typer.Option(help="machine to start from")] = "bm_optimized3_36",
    out: Out = None,
) -> int:
    """Measure this machine, or read FILE… (osu_latency, IMB PingPong), and write it as a simulated one."""
    from autotune.commands import calibrate as verb

    files = [Path(word) for word in words or () if "=" not in word]
    if files:
        return verb.from_files(files, base, out)
    from autotune.commands.hydra_bridge import run_task

    named = any(word.startswith("conf=") for word in words or ())
    scenario = () if named else ("conf=calibrate",)
    return run_task(partial(verb.from_here, base=base, out=out), [*scenario, *(words or ())])
