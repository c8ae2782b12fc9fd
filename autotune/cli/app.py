"""The program: what all verbs share.

This folder has declarations only; each verb imports what it needs when it is called, so that ``--help``
costs nothing.
"""

import sys
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from autotune import __version__
from autotune.errors import ExitCode, UserError

_EPILOG = f"""Run a campaign: autotune conf=allreduce_local [KEY=VALUE]…, which is the verb tune.

Exit codes: {" · ".join(f"{code:d} {code.meaning}" for code in ExitCode)}."""


class _Verbs(TyperGroup):
    """Words that begin with no verb are a campaign's, ``conf=NAME`` or an option of Hydra's above all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the verb ``tune`` where it was omitted."""
        ours = args[:1] in (["--version"], ["--help"], ["-h"]) and not any("=" in word for word in args)
        campaign = bool(args) and not ours and (args[0][0] in "-+~" or "=" in args[0])
        return super().parse_args(ctx, ["tune", *args] if campaign else args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb, or for a scenario without its key and for a misspelt word what was meant.

        Raises:
            UserError: there is no such verb.
        """
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            from autotune.commands.keys import groups

            scenarios = [f"conf={name}" for name in groups()["conf"]]
            known = [*self.list_commands(ctx), *scenarios]
            meant = [f"conf={word}"] if f"conf={word}" in scenarios else get_close_matches(word, known, 1)
            hint = (
                f"did you mean {meant[0]}?"
                if meant
                else "`autotune --help` lists the verbs, `list` the scenarios"
            )
            raise UserError(f"there is no verb {word!r}", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Every verb with its whole summary: Click would cut it off."""
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, " ".join((verb.help or "").split())) for name, verb in verbs if verb is not None]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


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
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
composed = partial(
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
Mpirun = Annotated[str | None, typer.Option(help="path of an mpirun")]
CommSize = Annotated[int | None, typer.Option(help="ranks, where a file does not say", min=1)]
Collective = Annotated[str | None, typer.Option(help="operation, where a file does not say")]
Command = Annotated[
    list[str] | None, typer.Argument(metavar="-- COMMAND …", help="as you start it, behind --")
]


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
