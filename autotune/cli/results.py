"""Declare the verbs that show or export the findings in a campaign's directory."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from autotune.cli.app import cli
from autotune.commands.companions import recordings, sites
from autotune.commands.options import Dir, Json, Out, belonging, only_one
from autotune.errors import UserError


@cli.command()
def status(
    directory: Dir,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", help="again and again, until it ends")] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="write a damaged journal anew with all that can be read, keep the old"),
    ] = False,
) -> None:
    """Say how far a campaign is: state, phase, launches, trials by status, best so far."""
    only_one(("--json", as_json), ("--watch", watch), ("--repair", repair))
    from autotune.commands.kept_status import JOBS, is_site, stored_status

    if watch:
        from autotune.commands.status import watch as watch_status

        watch_status(directory)
    elif repair:
        from autotune.commands import repair as repairing

        repairing.repair(directory)
    elif is_site(directory):
        sites().status(directory, as_json)
    elif not (directory / JOBS).is_dir() and (progress := stored_status(directory)) is not None:
        sys.stdout.write(progress.json if as_json else progress.text)
    else:
        from autotune.commands import status as verb

        verb.status(directory, as_json)


@cli.command()
def history(
    directory: Dir,
    table_format: Annotated[
        str, typer.Option("--format", help="csv or parquet; default: as --out ends")
    ] = "",
    out: Out = None,
    everything: Annotated[
        bool, typer.Option("--all", help="with parameters that no launch changed from their default")
    ] = False,
) -> None:
    """Print all measurements as a table, a row for each trial and cell (CSV to stdout by default)."""
    from autotune.commands import history as verb

    verb.history(directory, table_format, out, everything)


@cli.command()
def report(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR|TABLE", help="a campaign, a recording, or a recorded or imported table"),
    ],
    out: Out = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="also write each figure there, as PNG and SVG")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="write it again while the campaign goes on, until it ends")
    ] = False,
    collective: Annotated[str | None, typer.Option(help="which one, of a table that holds several")] = None,
    ranks: Annotated[int | None, typer.Option(min=1, help="of your job: is it covered?")] = None,
    nodes: Annotated[int | None, typer.Option(min=1, help="of your job")] = None,
    sizes: Annotated[str, typer.Option(help="message sizes of your job: 8..64k or 8,4k")] = "",
    calls: Annotated[Path | None, typer.Option(help="a recording of your job, in place of these")] = None,
    ran: Annotated[
        Path | None, typer.Option("--run", metavar="run.json", help="of a job that tuned itself: a figure")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="first tune a simulated cluster in DIR, which takes seconds")
    ] = False,
    worth: Annotated[
        Path | None,
        typer.Option(
            metavar="CALLS", help="no page: what it saves a run that makes these calls, or a profile"
        ),
    ] = None,
    application_s: Annotated[
        float | None, typer.Option(help="with --worth: wall time of the run, where the profile does not say")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="with --worth: print JSON")] = False,
) -> None:
    """Write a page that shows what was found and why (default: DIR/report.html, TABLE.html)."""
    if worth is not None:
        if any((out, figures, follow, collective, ranks, nodes, sizes, calls, ran, demo)):
            raise UserError("--worth writes no page", "give --application-s and --json alone with it")
        recordings().print_worth(directory, worth, application_s, as_json)
        return
    belonging("--application-s and --json", "--worth CALLS", application_s is not None, as_json)
    from autotune.commands import report as verb
    from autotune.commands.kept_status import is_site

    if demo:
        verb.demonstrate(directory)
    if is_site(directory):
        sites().report(directory, out)
        return
    describes_job = bool(ranks or nodes or sizes)
    if calls is not None and describes_job:
        raise UserError("--calls with --ranks, --nodes or --sizes", "the recording says them: leave them out")
    job = verb.PlannedJob(ranks, nodes, sizes, calls, ran) if describes_job or calls or ran else None
    verb.report(directory, out, figures, follow, collective, job)


@cli.command()
def export(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="directories of campaigns, merged")
    ] = None,
    formats: Annotated[list[str] | None, typer.Option("--format", help="a format, or several")] = None,
    out: Out = None,
    choice: Annotated[
        Literal["recommended", "harmless", "overall", "profile"] | None,
        typer.Option(
            help="what holds (default), what also slows no other call (with --prefix: default), "
            "the best overall, the best for objective.weights"
        ),
    ] = None,
    prefix: Annotated[
        Path | None, typer.Option(help="write a tree for a site there: module files, guarded by version")
    ] = None,
    mpi_module: Annotated[
        str, typer.Option(help="with --prefix: the site's module of Open MPI; '': it has none")
    ] = "openmpi",
    listing: Annotated[bool, typer.Option("--list", help="list the formats")] = False,
    space: Annotated[
        bool, typer.Option("--space", help="no files: print what it discovered as a search-space file")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes", help="also what is unverified or replaces what is verified, without a question"
        ),
    ] = False,
) -> None:
    """Write the recommendation as parameter files (default: DIR/export); several campaigns as one."""
    if space:
        from autotune.commands import space as discovered

        if not directories or len(directories) > 1 or formats or out or choice or prefix or listing:
            raise UserError(
                "--space takes one campaign and no other option", "export DIR --space > FILE.yaml"
            )
        discovered.space(directories[0])
        return
    from autotune.commands import export as verb

    if listing or not directories:
        verb.list_formats()
    else:
        verb.export(tuple(directories), tuple(formats or ()), out, choice, prefix, mpi_module, yes)


@cli.command()
def verify(
    directory: Dir,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND …", help="with --app: as you start it")
    ] = None,
    launches: Annotated[int | None, typer.Option(help="fresh ones, both sides together", min=4)] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="another campaign, or parameter files, in place of the defaults")
    ] = None,
    app: Annotated[bool, typer.Option("--app", help="on an application itself, by its run time")] = False,
    figure: Annotated[
        str | None, typer.Option(help="with --app: a pattern of a figure in its output, one group")
    ] = None,
    more_is_better: Annotated[
        bool, typer.Option("--more-is-better", help="of the figure; else less is")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="start what the journal names without a question, whoever ran it")
    ] = False,
    as_json: Json = False,
) -> int:
    """Compare a recommendation with the defaults again, by benchmark or on an application of yours."""
    if not app:
        from autotune.commands import verify as verb

        if command or figure or more_is_better:
            raise UserError("an application, or a figure of it, was given", "add --app")
        return verb.verify(directory, launches, tuple(against or ()), as_json, yes)
    if against:
        raise UserError("--app compares with the defaults", "leave --against out")
    return recordings().verify(directory, command or [], launches, figure, more_is_better, as_json)


_Site = Annotated[bool, typer.Option("--site", help="the files for all users of the MPI that is found")]


@cli.command()
def install(
    directory: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="directory of a campaign; none with --remove")
    ] = None,
    site: _Site = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="also what is simulated or unverified, without a question")
    ] = False,
    choice: Annotated[
        Literal["harmless", "recommended"],
        typer.Option(help="harmless: the best that slows no other call; recommended: the best"),
    ] = "harmless",
    remove: Annotated[
        bool, typer.Option("--remove", help="take it out again; the file is as it was before")
    ] = False,
) -> None:
    """Merge the recommendation into your own ~/.openmpi/mca-params.conf, with a dated backup."""
    from autotune.commands import install as verb

    if remove:
        if directory is not None or yes:
            raise UserError("--remove takes --site alone", "install --remove [--site]")
        verb.uninstall(site)
    elif directory is None:
        raise UserError("install of nothing", "name a campaign's directory, or --remove")
    else:
        verb.install(directory, yes, site, choice)
