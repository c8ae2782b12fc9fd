"""Verbs that show or export the findings in a campaign's directory."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from autotune.cli.app import Dir, Json, Out, cli
from autotune.errors import UserError


@cli.command()
def status(directory: Dir, as_json: Json = False) -> None:
    """Say how far a campaign is: state, phase, launches, trials by status, best so far."""
    from autotune.commands.kept_status import JOBS, is_site, kept

    if is_site(directory):
        from autotune.commands.site import site_status

        site_status(directory, as_json)
        return
    if not (directory / JOBS).is_dir() and (now := kept(directory)) is not None:
        sys.stdout.write(now.json if as_json else now.text)
        return
    from autotune.commands import status as verb

    verb.status(directory, as_json)


@cli.command()
def watch(directory: Dir) -> None:
    """Show how far a campaign is until it ends; nothing of it is touched."""
    from autotune.commands import watch as verb

    verb.watch(directory)


@cli.command()
def repair(directory: Dir) -> None:
    """Write a damaged journal anew with all that can be read, keep the old one, and say what was lost."""
    from autotune.commands import repair as verb

    verb.repair(directory)


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
    other: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="a second campaign: a page that compares the two")
    ] = None,
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
) -> None:
    """Write a page that shows what was found and why (default: DIR/report.html, TABLE.html)."""
    from autotune.commands import report as verb
    from autotune.commands.kept_status import is_site

    if is_site(directory):
        from autotune.commands.site import site_report

        site_report(directory, out)
        return
    asked = bool(ranks or nodes or sizes)
    if calls is not None and asked:
        raise UserError("--calls with --ranks, --nodes or --sizes", "the recording says them: leave them out")
    given = asked or calls is not None or ran is not None
    job = verb.PlannedJob(ranks, nodes, sizes, calls, ran) if given else None
    if other is not None:
        if figures or follow or collective or job:
            raise UserError(
                "--figures, --follow, --collective and a job", "leave them out where two are compared"
            )
        verb.report_two(directory, other, out)
    else:
        verb.report(directory, out, figures, follow, collective, job)


@cli.command()
def space(
    directory: Annotated[Path, typer.Option("--from", metavar="DIR", help="a campaign with space=discover")],
) -> None:
    """Print what a campaign discovered as a search-space file, so that the next one starts there."""
    from autotune.commands import space as verb

    verb.space(directory)


@cli.command()
def compare(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR…|LOG1 LOG2", help="campaigns, or two logs")],
    as_json: Json = False,
    comm_size: Annotated[int | None, typer.Option(help="ranks, where a log does not say", min=1)] = None,
) -> None:
    """Lay campaigns beside each other: stacks, sizes, states, gains; or two logs, call by call."""
    from autotune.commands import compare as verb

    if any(path.is_file() or str(path) == "-" for path in paths):
        verb.compare_logs(paths, as_json, comm_size)
    else:
        verb.compare(paths, as_json)


@cli.command()
def winners(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR…", help="campaigns, as of several numbers of nodes")
    ],
    out: Annotated[Path | None, typer.Option(help="write the table as CSV")] = None,
    plot: Annotated[Path | None, typer.Option(help="draw it on an HTML page")] = None,
    as_json: Json = False,
) -> None:
    """Print the best algorithm by message size, communicator size and nodes, with ties and gains."""
    from autotune.commands import winners as verb

    verb.winners(directories, out, plot, as_json)


@cli.command()
def export(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="directories of campaigns, merged")
    ] = None,
    formats: Annotated[list[str] | None, typer.Option("--format", help="a format, or several")] = None,
    out: Out = None,
    choice: Annotated[
        Literal["recommended", "overall", "profile"],
        typer.Option(help="what to write: what holds, the best overall, the best for objective.weights"),
    ] = "recommended",
    prefix: Annotated[
        Path | None, typer.Option(help="write a tree for a site there: module files, guarded by version")
    ] = None,
    mpi_module: Annotated[
        str, typer.Option(help="with --prefix: the site's module of Open MPI; '': it has none")
    ] = "openmpi",
    listing: Annotated[bool, typer.Option("--list", help="list the formats")] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="with --prefix: also what is unverified or replaces what is verified"),
    ] = False,
) -> None:
    """Write the recommendation as parameter files (default: DIR/export); several campaigns as one."""
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
    from autotune.commands.verify_application import verify_application

    if against:
        raise UserError("--app compares with the defaults", "leave --against out")
    return verify_application(directory, command or [], launches, figure, more_is_better, as_json)


@cli.command()
def worth(
    directory: Dir,
    calls: Annotated[Path, typer.Option(help="what a rank calls in a run: sizes and counts, or a profile")],
    application_s: Annotated[
        float | None, typer.Option(help="wall time of the run, where the profile does not say")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say what a recommendation saves an application, and when the campaign is paid back."""
    from autotune.commands import worth as verb

    verb.worth(directory, calls, application_s, as_json)


_Site = Annotated[bool, typer.Option("--site", help="the files for all users of the MPI that is found")]


@cli.command()
def install(
    directory: Dir,
    site: _Site = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="also what is simulated or unverified, without a question")
    ] = False,
) -> None:
    """Merge the recommendation into your own ~/.openmpi/mca-params.conf, with a dated backup."""
    from autotune.commands import install as verb

    verb.install(directory, yes, site)


@cli.command()
def uninstall(site: _Site = False) -> None:
    """Take the recommendation out of ~/.openmpi/mca-params.conf again; the file is as it was before."""
    from autotune.commands import install as verb

    verb.uninstall(site)
