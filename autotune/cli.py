"""The command line: every verb, the campaign itself among them.

Only declarations stand here; each verb imports what it needs when it is called, so that ``--help`` costs
nothing.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from autotune import __version__
from autotune.errors import AutotuneError, ExitCode

_EPILOG = f"""Run a campaign: autotune conf=allreduce_local [KEY=VALUE]…, which is the verb tune.
\b Exit codes: {" · ".join(f"{code:d} {code.meaning}" for code in ExitCode)}."""


class _Verbs(TyperGroup):
    """Words that begin with no verb are a campaign's, ``conf=NAME`` or an option of Hydra's above all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the verb in front that goes without saying."""
        ours = args[:1] in (["--version"], ["--help"], ["-h"]) and not any("=" in word for word in args)
        campaign = bool(args) and not ours and (args[0][0] in "-+~" or "=" in args[0])
        return super().parse_args(ctx, ["tune", *args] if campaign else args)


class _Composed(TyperCommand):
    """A verb that takes a scenario: its help lists the scenario's keys."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Every key, with what ``config.yaml`` says of it."""
        from autotune.commands.keys import explained

        with formatter.section("KEY=VALUE, nested keys with dots (budget.launches=20)"):
            formatter.write_dl(explained())
        super().format_epilog(ctx, formatter)


cli = typer.Typer(
    name="autotune",
    cls=_Verbs,
    epilog=_EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_composed = partial(
    cli.command,
    cls=_Composed,
    context_settings={"ignore_unknown_options": True},
    epilog="Hydra's own options: -m: a campaign for each combination of KEY=A,B; --cfg job: keys and values; "
    "--config-dir DIR: scenarios of your own; --hydra-help: all options.",
)
"""Declares a verb that takes a scenario: what it does not know is for Hydra."""

Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="conf=NAME KEY=VALUE", help="a scenario, and what is changed in it"),
]
Dir = Annotated[Path, typer.Argument(metavar="DIR", help="directory of a campaign")]
Json = Annotated[bool, typer.Option("--json", help="print JSON")]
Out = Annotated[Path | None, typer.Option("--out", help="where to write; default: see above")]


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"autotune {__version__}\n")
        raise typer.Exit


@cli.callback(help="An adaptive autotuner for MPI collectives.")
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Take the options of the program itself."""


@_composed(add_help_option=False)
def tune(context: typer.Context, words: Words = None) -> int:
    """Run a campaign, or what is left of it."""
    if {"-h", "--help"} & set(words or ()) and not any(word.startswith("conf=") for word in words or ()):
        sys.stdout.write(context.get_help() + "\n")  # with conf=NAME Hydra shows what it composes
        return ExitCode.WELL
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.tune import tune as task

    return run_task(task, words or (), launches=True)


@_composed()
def plan(words: Words = None) -> int:
    """Say what a campaign would do and cost in launches and node-hours, and run nothing."""
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.plan import plan as task

    return run_task(task, words or ())


@_composed()
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

    return run_task(partial(task, points=tuple(point or ()), out=out), words or (), launches=True)


@cli.command()
def status(directory: Dir, as_json: Json = False) -> None:
    """Say how far a campaign is: state, phase, launches, trials by status, best so far."""
    from autotune.commands import status as verb

    verb.status(directory, as_json)


@cli.command()
def history(
    directory: Dir,
    table_format: Annotated[str, typer.Option("--format", help="csv or parquet")] = "csv",
    out: Out = None,
) -> None:
    """Print all measurements as a table, a row for each trial and cell (CSV to stdout by default)."""
    from autotune.commands import history as verb

    verb.history(directory, table_format, out)


@cli.command()
def export(
    directories: Annotated[
        list[Path] | None, typer.Argument(metavar="DIR", help="directories of campaigns, merged")
    ] = None,
    formats: Annotated[list[str] | None, typer.Option("--format", help="a format, or several")] = None,
    out: Out = None,
    listing: Annotated[bool, typer.Option("--list", help="list the formats")] = False,
) -> None:
    """Write the recommendation as parameter files (default: DIR/export); several campaigns as one."""
    from autotune.commands import export as verb

    if listing or not directories:
        verb.formats()
    else:
        verb.export(tuple(directories), tuple(formats or ()), out)


@cli.command()
def verify(
    directory: Dir,
    launches: Annotated[int | None, typer.Option(help="fresh ones, both sides together", min=4)] = None,
    against: Annotated[
        list[Path] | None, typer.Option(help="another campaign, or parameter files, in place of the defaults")
    ] = None,
    as_json: Json = False,
) -> int:
    """Compare a recommendation with the defaults again: still better, no longer, or cannot tell."""
    from autotune.commands import verify as verb

    return verb.verify(directory, launches, tuple(against or ()), as_json)


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


@cli.command()
def lint(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="MCA, rules, tune, ucx.conf files, scripts")
    ],
    mpi: Annotated[str, typer.Option(help="openmpi4, openmpi5 or openmpi6")] = "openmpi5",
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="of the jobs that use the files; else as the files say, or several"),
    ] = None,
) -> int:
    """Say what the MPI stack would silently ignore or misread in anybody's parameter files."""
    from autotune.commands import lint as verb

    return verb.lint(tuple(files), mpi, nodes)


@cli.command()
def install(directory: Dir) -> None:
    """Merge the recommendation into your own ~/.openmpi/mca-params.conf, with a dated backup."""
    from autotune.commands import install as verb

    verb.install(directory)


@cli.command()
def uninstall() -> None:
    """Take the recommendation out of ~/.openmpi/mca-params.conf again; everything else stays."""
    from autotune.commands import install as verb

    verb.uninstall()


@cli.command()
def compare(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR…", help="directories of campaigns")],
    as_json: Json = False,
) -> None:
    """Lay campaigns beside each other: stacks, sizes, states, gains, recommendations."""
    from autotune.commands import compare as verb

    verb.compare(directories, as_json)


@cli.command()
def report(directory: Dir, out: Out = None) -> None:
    """Write a page that shows what was found and why (default: DIR/report.html)."""
    from autotune.commands import report as verb

    verb.report(directory, out)


@cli.command()
def doctor(
    as_json: Json = False,
    mpirun: Annotated[str | None, typer.Option(help="path of an mpirun")] = None,
    space: Annotated[str | None, typer.Option(help="also say what of this search space is available")] = None,
) -> None:
    """Say which MPI, UCX, transports and components are here, and whether a launch works."""
    from autotune.commands import doctor as verb

    verb.doctor(as_json, mpirun, space)


@cli.command()
def knobs(
    stack: Annotated[
        list[str] | None, typer.Option(help="openmpi, ucx, ucc, libfabric or mpich; or several")
    ] = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="print CSV")] = False,
    everything: Annotated[bool, typer.Option("--all", help="of every class, not performance alone")] = False,
    mpirun: Annotated[str | None, typer.Option(help="path of an mpirun")] = None,
    sizes: Annotated[
        str, typer.Option(help="message sizes, at which thresholds get levels")
    ] = "8,64,512,4k,32k,256k,1m",
) -> None:
    """List the variables that MPI, UCX, UCC and libfabric declare here: class, default, levels, reason."""
    from autotune.commands import knobs as verb

    verb.knobs(tuple(stack or ()), as_json, as_csv, everything, mpirun, sizes)


@cli.command("import")
def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="logs and tables; - is standard input")],
    out: Out = None,
    comm_size: Annotated[int | None, typer.Option(help="ranks, where a file does not say", min=1)] = None,
    collective: Annotated[str | None, typer.Option(help="operation, where a file does not say")] = None,
) -> None:
    """Read logs of OSU, Intel MPI Benchmarks and ReproMPI, or tables, into one table (default: to stdout)."""
    from autotune.commands import import_ as verb

    verb.import_files(files, out, comm_size, collective)


@cli.command()
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
    from autotune.commands import screen as verb
    from autotune.screening.by_hand import Layout

    if design is not None:
        layout = Layout(design, blocks, centre_points, seed)
        verb.write_design(factors, responses, layout, effect, sigma, out, as_json)
    elif surface or desirability:
        verb.fit_surface(table, surface, responses, desirability, scale, as_json)
    else:
        verb.analyse_table(table, factors, responses, block, scale, as_json)


@cli.command()
def benchmark(
    tables: Annotated[Path, typer.Option(help="folder of recorded tables, or one of them")],
    proposers: Annotated[
        str, typer.Option(help="names, each with options if wanted: curve,optuna:sampler=gp")
    ] = "curve,ax,optuna,smac,random,ofat",
    launches: Annotated[str, typer.Option(help="budgets")] = "4,8,12,16",
    seeds: Annotated[int, typer.Option(help="contests of each proposer on each table")] = 5,
    out: Annotated[
        Path | None, typer.Option(help="CSV of all results; the plot goes beside it as .html")
    ] = None,
    call_level: Annotated[str, typer.Option(help="parameters swept inside each launch")] = "",
    per_job: Annotated[str, typer.Option(help="parameters that a job must fix")] = "",
    jobs: Annotated[int, typer.Option(help="processes")] = 1,
) -> None:
    """Let proposers compete on recorded tables: who comes how close to the best in how few launches."""
    from autotune.commands import benchmark as verb

    verb.benchmark(
        tables,
        _words(proposers),
        verb.budgets(launches),
        seeds,
        out,
        _words(call_level),
        _words(per_job),
        jobs,
    )


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


@_composed()
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


def main(words: list[str]) -> int:
    """Run a verb; the exit code."""
    try:
        code = cli(args=words, standalone_mode=False)
    except AutotuneError as error:
        sys.stderr.write(f"autotune: {error}\n")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as exc:
        usage = getattr(exc, "format_message", None)
        if usage is None:
            raise
        sys.stderr.write(f"autotune: {usage()}\n  see: python -m autotune --help\n")
        return ExitCode.MISTAKE
    return code if isinstance(code, int) else ExitCode.WELL
