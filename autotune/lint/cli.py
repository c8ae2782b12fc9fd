"""Commands ``lint``, which checks anybody's parameter files, and ``doctor``, which checks this machine."""

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Annotated

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import Json, Mpirun, belonging, only_one
from autotune.errors import ExitCode, UserError

_SIZES = "8,64,512,4k,32k,256k,1m"

verbs = typer.Typer()


def _formats() -> list[str]:
    from autotune.lint.output import FORMATS

    return [*FORMATS]


def _stacks() -> list[str]:
    from autotune.lint.finding import STACKS

    return [*STACKS]


@verbs.command()
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
    belonging("--stack, --csv, --all and --sizes", "--knobs", stack, as_csv, everything, sizes)
    from autotune.lint.verbs import doctor as verb

    return verb.doctor(as_json, mpirun, space, nodes)


@verbs.command()
def lint(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE", help="MCA, rules, tune, ucx.conf files, scripts; - is stdin"),
    ],
    mpi: Annotated[
        str,
        typer.Option(help="openmpi4, openmpi5 or openmpi6; else what a script loads", autocompletion=_stacks),
    ] = "",
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
    form: Annotated[
        str,
        typer.Option("--format", help="text, json, sarif or github [text]", autocompletion=_formats),
    ] = "",
    select: Annotated[
        list[str] | None, typer.Option(help="only these codes, or what begins so: MPI1,MPI301; several")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option(help="not these codes; the longer beginning decides")
    ] = None,
    stdin_filename: Annotated[
        str, typer.Option(help="with -: name of the file, by which its kind is known")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="same as --format json")] = False,
) -> int:
    """Say what the MPI stack would silently ignore or misread in anybody's parameter files."""
    only_one(("--json", as_json), (f"--format {form}", form not in ("", "json")))
    form = "json" if as_json else form or "text"
    if not explain:
        belonging("--ranks, --bytes, --collective and --ppn", "--explain", ranks, size, collective, ppn)
        from autotune.lint.verbs import lint as verb

        asked = verb.Asked(mpi, nodes, everything, tuple(select or ()), tuple(ignore or ()))
        return verb.lint(tuple(files), asked, form, stdin_filename)
    from autotune.lint.verbs import explain as explanation

    if len(files) > 1 or nodes or everything or select or ignore or stdin_filename:
        raise UserError("--explain takes one file, and no option for findings", "lint FILE --explain …")
    if form not in ("text", "json"):
        raise UserError(f"--format {form} is for findings", "--explain has text and json")
    if ranks is None or size is None:
        raise UserError("--explain lacks --ranks or --bytes", "lint FILE --explain --ranks 64 --bytes 4k")
    return explanation.explain(files[0], ranks, size, collective, ppn, mpi or "openmpi5", form == "json")


@dataclass(frozen=True)
class _Lint(Companion):
    """Reads parameter files for commands of the core that verify such files."""

    def environment_of(self, path: PurePath, text: str) -> dict[str, str] | None:
        from autotune.lint.files import environment_of, kind_of
        from autotune.lint.kinds import UNREAD

        return None if kind_of(path, text) in UNREAD else environment_of(path, text)


companion = _Lint(verbs)
