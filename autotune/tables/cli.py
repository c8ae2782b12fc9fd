"""Verbs for logs and tables of other programs, and for campaigns beside each other."""

from pathlib import Path
from typing import Annotated

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import Collective, CommSize, Json, Out, belonging, only_one
from autotune.errors import ExitCode

verbs = typer.Typer()


@verbs.command()
def compare(
    paths: Annotated[
        list[Path], typer.Argument(metavar="DIR…|LOG1 LOG2", help="campaigns, or logs and tables; - is stdin")
    ],
    as_json: Json = False,
    winners: Annotated[
        bool, typer.Option("--winners", help="the best algorithm by size, communicator and nodes, with gains")
    ] = False,
    guidelines: Annotated[
        bool,
        typer.Option(
            "--guidelines",
            help="a campaign, or logs, with itself: a collective slower than others that do it",
        ),
    ] = False,
    comm_size: CommSize = None,
    collective: Annotated[
        str | None, typer.Option(help="with --guidelines: operation, where a file does not say")
    ] = None,
    rate: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="with --guidelines: chance of any false violation")
    ] = 0.05,
    out: Annotated[Path | None, typer.Option(help="with --winners: write the table as CSV")] = None,
    plot: Annotated[Path | None, typer.Option(help="with --winners: draw it on an HTML page")] = None,
) -> int:
    """Lay campaigns beside each other: stacks, sizes, states, gains; or two logs, call by call."""
    only_one(("--winners", winners), ("--guidelines", guidelines))
    if not winners:
        belonging("--out and --plot", "--winners", out, plot)
    if not guidelines:
        belonging("--collective", "--guidelines", collective)
    from autotune.tables.verbs import compare as verb

    if guidelines:
        return verb.guidelines(tuple(paths), as_json, rate, comm_size, collective)
    if winners:
        verb.winners(paths, out, plot, as_json)
    elif any(path.is_file() or str(path) == "-" for path in paths):
        verb.compare_logs(paths, as_json, comm_size)
    else:
        from autotune.commands.compare import compare as compare_campaigns

        compare_campaigns(paths, as_json)
    return ExitCode.WELL


@verbs.command("import")
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


companion = Companion(verbs)
