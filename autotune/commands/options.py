"""Declare the options and arguments that several verbs share, both verbs of the core and of companions."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from autotune.errors import UserError


class _Composed(TyperCommand):
    """Represents a verb that takes a scenario, so that the verb's help also lists the keys of a scenario."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write every key with its comment from ``config.yaml``."""
        from autotune.commands.keys import explained

        with formatter.section("KEY=VALUE, nested keys with dots (budget.launches=20)"):
            formatter.write_dl(explained())
        super().format_epilog(ctx, formatter)


COMPOSED: dict[str, Any] = {
    "cls": _Composed,
    "context_settings": {"ignore_unknown_options": True},
    "epilog": "Hydra's own options: -m: a campaign for each combination of KEY=A,B; --cfg job: keys and "
    "values; --config-dir DIR: scenarios of your own; --hydra-help: all options.",
}
"""Arguments that declare a verb which takes a scenario; options unknown to the verb are passed to Hydra."""


def _words_that_fit(ctx: typer.Context, incomplete: str) -> list[str]:
    from autotune.commands.keys import completed

    return completed(ctx.params.get("words") or (), incomplete)


def _words(metavar: str, help_text: str) -> Any:
    return typer.Argument(metavar=metavar, help=help_text, autocompletion=_words_that_fit)


Words = Annotated[list[str] | None, _words("conf=NAME KEY=VALUE", "a scenario, and what is changed in it")]
WordsOrDir = Annotated[
    list[str] | None,
    _words("conf=NAME|DIR KEY=VALUE", "a scenario or a campaign, and what is changed"),
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


def only_one(*options: tuple[str, bool]) -> None:
    """Refuse options that exclude each other.

    Raises:
        UserError: more than one of the options is given.
    """
    given = [name for name, is_given in options if is_given]
    if len(given) > 1:
        raise UserError(" and ".join(given), "give one of them")


def belonging(options: str, owner: str, *given: object) -> None:
    """Refuse options that have no effect without another option, their ``owner``, which was not given.

    ``options`` contains the names of the options for the message, ``given`` their values.

    Raises:
        UserError: one of the options was given.
    """
    if any(given):
        several = " and " in options
        hint = f"add it, or leave {'them' if several else 'it'} out"
        raise UserError(f"{options} belong{'' if several else 's'} to {owner}", hint)
