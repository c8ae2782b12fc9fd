"""Verbs that take a scenario; Hydra composes it."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.app import Out, Words, composed
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
        sys.stdout.write(context.get_help() + "\n")  # with conf=NAME Hydra shows the composed configuration
        return ExitCode.WELL
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.tune import tune as task
    from autotune.site.verb import tune_site

    if quiet and verbose:
        raise UserError("--quiet and --verbose", "give one of them")
    site_task = partial(tune_site, quiet=quiet)
    return run_task(
        partial(task, quiet=quiet, verbose=verbose), words or (), launches=True, site_task=site_task
    )


@composed()
def plan(
    words: Words = None,
    listing: Annotated[
        bool, typer.Option("--list", help="list the scenarios and search spaces that are here")
    ] = False,
) -> int:
    """Say what a campaign would do and cost in launches and node-hours, and run nothing."""
    if listing:
        from autotune.commands import listing as verb

        if words:
            raise UserError(f"plan --list {' '.join(words)}", "--list stands alone")
        verb.listing()
        return ExitCode.WELL
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
    from autotune.site.plan import measure_site

    measure_point = partial(task, points=tuple(point or ()), out=out)
    return run_task(measure_point, words or (), launches=True, site_task=measure_site)


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
    from autotune.simulate import verb

    files = [Path(word) for word in words or () if "=" not in word]
    if files:
        return verb.from_files(files, base, out)
    from autotune.commands.hydra_bridge import run_task

    names_scenario = any(word.startswith("conf=") for word in words or ())
    scenario = () if names_scenario else ("conf=calibrate",)
    return run_task(partial(verb.from_here, base=base, out=out), [*scenario, *(words or ())])
