"""Verbs for this machine, and for anybody's files and tables."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.app import Collective, Command, CommSize, Json, Mpirun, Out, cli
from autotune.errors import ExitCode, UserError

_SIZES = "8,64,512,4k,32k,256k,1m"


@cli.command()
def doctor(
    as_json: Json = False,
    mpirun: Mpirun = None,
    space: Annotated[str | None, typer.Option(help="also say what of this search space is available")] = None,
    nodes: Annotated[int, typer.Option(min=1, help="as a campaign on so many nodes finds it")] = 1,
    knobs: Annotated[
        bool,
        typer.Option("--knobs", help="list the variables that the libraries declare: class, default, levels"),
    ] = False,
    stack: Annotated[
        list[str] | None,
        typer.Option(help="with --knobs: openmpi, ucx, ucc, libfabric, mpich, intelmpi; several"),
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="with --knobs: print CSV")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="with --knobs: of every class, not performance alone")
    ] = False,
    sizes: Annotated[
        str | None, typer.Option(help=f"with --knobs: sizes at which thresholds get levels [{_SIZES}]")
    ] = None,
) -> int:
    """Say which MPI, UCX, transports and components are here, and whether a launch works."""
    if knobs:
        from autotune.commands import knobs as declared

        if space or nodes > 1:
            raise UserError("--space and --nodes say nothing of --knobs", "leave them out")
        declared.knobs(tuple(stack or ()), as_json, as_csv, everything, mpirun, sizes or _SIZES)
        return ExitCode.WELL
    if stack or as_csv or everything or sizes:
        raise UserError("--stack, --csv, --all and --sizes belong to --knobs", "add it, or leave them out")
    from autotune.lint.verbs import doctor as verb

    return verb.doctor(as_json, mpirun, space, nodes)


@cli.command()
def lint(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="MCA, rules, tune, ucx.conf files, scripts")
    ],
    mpi: Annotated[str, typer.Option(help="openmpi4, openmpi5 or openmpi6; else what a script loads")] = "",
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help="of the jobs that use the files; else as the files say, or several"),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="notes too: what depends on more than the files say")
    ] = False,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="of one file: which line decides a call of --ranks and --bytes, and why"
        ),
    ] = False,
    ranks: Annotated[int | None, typer.Option(min=1, help="with --explain: of the communicator")] = None,
    size: Annotated[
        str | None, typer.Option("--bytes", help="with --explain: size, counted as OSU does: 4096, 64k")
    ] = None,
    collective: Annotated[
        str | None, typer.Option(help="with --explain: which one; else all of which the file says something")
    ] = None,
    ppn: Annotated[
        int | None, typer.Option(min=1, help="with --explain: ranks of a node; else all are on one")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="with --explain: print JSON")] = False,
) -> int:
    """Say what the MPI stack would silently ignore or misread in anybody's parameter files."""
    if not explain:
        if ranks or size or collective or ppn or as_json:
            options = "--ranks, --bytes, --collective, --ppn and --json"
            raise UserError(f"{options} belong to --explain", "add it, or leave them out")
        from autotune.lint.verbs import lint as verb

        return verb.lint(tuple(files), mpi, nodes, everything)
    from autotune.lint.verbs import explain as explanation

    if len(files) > 1 or nodes or everything:
        raise UserError("--explain takes one file, and neither --nodes nor --all", "lint FILE --explain …")
    if ranks is None or size is None:
        raise UserError("--explain lacks --ranks or --bytes", "lint FILE --explain --ranks 64 --bytes 4k")
    return explanation.explain(files[0], ranks, size, collective, ppn, mpi or "openmpi5", as_json)


@cli.command("import")
def import_(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE", help="logs and tables, or folders; - is standard input")
    ],
    out: Out = None,
    comm_size: CommSize = None,
    collective: Collective = None,
    from_name: Annotated[
        str, typer.Option(help="what names of files say: 'bcast_{algorithm}_{ranks}.out'")
    ] = "",
) -> None:
    """Read results of OSU, IMB, ReproMPI, nccl-tests, ReFrame, or tables, into one table."""
    from autotune.tables.verbs import import_ as verb

    verb.import_files(files, out, comm_size, collective, from_name)


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
    from autotune.doe.verbs import screen as verb

    if design is not None:
        layout = verb.Layout(design, blocks, centre_points, seed)
        verb.write_design(factors, responses, layout, effect, sigma, out, as_json)
    elif surface or desirability:
        verb.fit_surface(table, surface, responses, desirability, scale, as_json)
    else:
        verb.analyse_table(table, factors, responses, block, scale, as_json)


@cli.command()
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
    from autotune.doe.verbs import model as verb

    verb.model(table, verb.formula(response, terms, log2, intercept), tuple(where or ()), plot, as_json)


@cli.command()
def record(
    command: Command = None,
    out: Annotated[Path, typer.Option(help="where to write")] = Path("calls.json"),
    campaign: Annotated[
        Path | None, typer.Option(help="a campaign: how much of the time is in tuning's reach")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(min=1, help="run it so often (1); of several it is known how runs differ")
    ] = None,
    trace: Annotated[
        list[Path] | None,
        typer.Option(help="run nothing: read traces.otf2 or profile.cubex of Score-P; once for each run"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Record what an application calls: each collective by size and communicator, its time, and waiting."""
    from autotune.application.verbs import record as verb

    if trace:
        return verb.of_traces(trace, command or [], runs, out, campaign, as_json)
    return verb.record(command or [], runs or 1, out, campaign, as_json)


@cli.command()
def run(
    command: Command = None,
    reductions: Annotated[
        bool, typer.Option("--reductions", help="reductions too: the last bits of sums may change")
    ] = False,
    budget: Annotated[str, typer.Option(help="what trying may cost, of the run's time")] = "0.5%",
    learn: Annotated[
        Path | None, typer.Option(metavar="FILE", help="begin with what it holds, and add what is decided")
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="switch nothing: measure what would be tried")] = False,
    out: Annotated[Path, typer.Option(help="where to write")] = Path("run.json"),
    as_json: Json = False,
) -> int:
    """Run an application that tunes its collectives while it runs."""
    from autotune.application.verbs import run as verb

    return verb.run_job(command or [], reductions, budget, learn, dry, out, as_json)


@cli.command()
def diagnose(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="calls.json | -- COMMAND …", help="a recording, or what to record"),
    ] = None,
    conf: Annotated[
        list[Path] | None,
        typer.Option(help="settings to try: a parameter file, a campaign, a search space; or several"),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="to measure what this machine does at its best; 0: not")
    ] = 120.0,
    out: Annotated[Path, typer.Option(help="where a command is recorded")] = Path("calls.json"),
    composed: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="of conf=application, by which is measured"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Say what a job loses in MPI, to whom, and whether tuning can help, from one run of it."""
    from autotune.application.verbs import diagnose as verb

    return verb.diagnose(words or [], conf or (), seconds, out, composed or (), as_json)
