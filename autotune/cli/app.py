"""Define the program: the order of its verbs, the names of verbs in earlier versions, and general options.

This folder holds declarations only. Each verb imports what it needs when it is called, so that ``--help``
stays fast.
"""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup
from typer.models import CommandInfo

from autotune import __version__
from autotune.errors import ExitCode, UserError
from autotune.history.folder import is_campaign

_EPILOG = f"""Run a campaign: autotune conf=allreduce_local [KEY=VALUE]…, which is the verb tune; or what is
left of one: autotune DIR.

Words that the shell completes: eval "$(autotune completion bash)", zsh or fish.

Exit codes: {" · ".join(f"{code:d} {code.meaning}" for code in ExitCode)}."""


_PROGRAM = "autotune"

_RENAMED = {
    "watch": ("status", {}, "--watch"),
    "repair": ("status", {}, "--repair"),
    "list": ("plan", {}, "--list"),
    "space": ("export", {"--from": ""}, "--space"),
    "winners": ("compare", {}, "--winners"),
    "guidelines": ("compare", {}, "--guidelines"),
    "worth": ("report", {"--calls": "--worth"}, "--worth"),
    "explain": ("lint", {}, "--explain"),
    "knobs": ("doctor", {}, "--knobs"),
    "uninstall": ("install", {}, "--remove"),
}
"""Maps each verb of versions before 1.0, which is understood until 2.0, to its replacement: a verb, the new
names of options that were renamed (an empty name: the option is dropped), and the option that selects the
work of the old verb."""


_SECTIONS = {
    "Tune": ("tune", "plan", "measure", "calibrate", "status", "history", "report"),
    "Apply": ("export", "verify", "install"),
    "Check": ("doctor", "lint", "guard"),
    "My application": ("record", "diagnose", "run"),
    "Tables": ("compare", "import", "screen", "model"),
}
"""Maps the sections of ``--help`` to their verbs, in the order in which they are listed. Verbs that
companions declare are missing without these companions."""
_ORDER = tuple(verb for verbs in _SECTIONS.values() for verb in verbs)


def _renamed(words: list[str], silent: bool = False) -> list[str]:
    """Return a command line in the words of this version; print its verb's new name unless ``silent``."""
    if not words or words[0] not in _RENAMED:
        return words
    verb, options, option = _RENAMED[words[0]]
    names = [(word.partition("=")[0], word) for word in words[1:]]
    others = [
        word.replace(name, options[name], 1).lstrip("=") if name in options else word for name, word in names
    ]
    if not silent and not {"-h", "--help"} & set(words):
        sys.stderr.write(f"{words[0]}: say {verb} {option}\n")
    return [verb, *filter(None, others), *([] if option in options.values() else [option])]


def is_override(word: str) -> bool:
    """Return whether a word changes a scenario or is an option of Hydra's, and so names no campaign."""
    return "=" in word or word[:1] in "-+~"


class _Verbs(TyperGroup):
    """Holds the verbs of the program; ``tune`` is assumed if the command line begins with ``KEY=VALUE``.

    ``help VERB`` means ``VERB --help``. If ``ctx.resilient_parsing`` is set, a shell asks how the command
    line may go on: then nothing is printed, and bash has made a word of its own of each ``=``.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert the verb ``tune`` if the first word is a key, a campaign, or an option of Hydra's."""
        if args[:1] == ["help"]:
            args = [*args[1:], *([] if ctx.resilient_parsing else ["--help"])]
        options = {option for parameter in self.get_params(ctx) for option in parameter.opts}
        is_program_option = bool(options & {*args[:1]}) and not any("=" in word for word in args)
        if is_program_option and args[0].endswith("-completion"):
            ctx.info_name = _PROGRAM  # the shell completes this command, not python -m autotune
        word = args[0] if args else ""
        named = bool(word) and (is_override(word) or self._is_campaign(ctx, word))
        campaign = named and not is_program_option
        if ctx.resilient_parsing and args:
            campaign |= word not in (*self.list_commands(ctx), *_RENAMED)
        return super().parse_args(ctx, ["tune", *args] if campaign else _renamed(args, ctx.resilient_parsing))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Return the verbs, and the keys of a scenario with which the verb ``tune`` may be left out."""
        tune = self.get_command(ctx, "tune")
        words = [parameter for parameter in tune.params if parameter.name == "words"] if tune else []
        keys = [item for parameter in words for item in parameter.shell_complete(ctx, incomplete)]
        return [*super().shell_complete(ctx, incomplete), *keys]

    def _is_campaign(self, ctx: Any, word: str) -> bool:
        """Return whether a word names no verb, but a campaign's directory, or a path that should be one."""
        is_verb = self.get_command(ctx, word) is not None or word in _RENAMED
        return not is_verb and (is_campaign(word) or "/" in word or Path(word).is_dir())

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the verb that the first word names.

        Raises:
            UserError: there is no such verb. The hint suggests the scenario or verb that was probably meant.
        """
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-") and not ctx.resilient_parsing:
            from autotune.commands.keys import groups

            scenarios = [f"conf={name}" for name in groups()["conf"]]
            candidates = [*self.list_commands(ctx), *scenarios]
            suggestions = (
                [f"conf={word}"] if f"conf={word}" in scenarios else get_close_matches(word, candidates, 1)
            )
            hint = (
                f"did you mean {suggestions[0]}?"
                if suggestions
                else "`autotune --help` lists the verbs, `plan --list` the scenarios"
            )
            raise UserError(f"there is no verb{'' if suggestions else ' and no campaign'} {word!r}", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write every verb with its whole summary, which Click would cut off, in sections."""
        verbs = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: verb for name, verb in verbs.items() if verb is not None and not verb.hidden}
        others = tuple(name for name in shown if name not in _ORDER)
        for title, names in {**_SECTIONS, "More": others}.items():
            rows = [(name, " ".join((shown[name].help or "").split())) for name in names if name in shown]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


cli = typer.Typer(
    name=_PROGRAM,
    cls=_Verbs,
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def take_verbs(declared: Iterable[typer.Typer | None]) -> None:
    """Add the verbs that companions declare, and sort all verbs into the order in which they are listed."""
    for verbs in filter(None, declared):
        cli.registered_commands += verbs.registered_commands
        cli.registered_groups += verbs.registered_groups
    cli.registered_commands.sort(key=_place)


def _place(verb: CommandInfo) -> int:
    """Return the place of a verb in the list; verbs that are not in the order come last."""
    name = verb.name or getattr(verb.callback, "__name__", "")
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _print_version(requested: bool) -> None:
    if requested:
        sys.stdout.write(f"autotune {__version__}\n")
        raise typer.Exit


@cli.command(hidden=True)
def completion(
    context: typer.Context,
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="the shell that you use")
    ],
) -> int:
    """Print a script by which a shell completes verbs, options, and keys of a scenario with their values."""
    from typer.completion import shell_complete

    variable = f"_{_PROGRAM}_COMPLETE".upper()
    return shell_complete(context.find_root().command, {}, _PROGRAM, variable, f"source_{shell}")


@cli.callback(help="An adaptive autotuner for MPI collectives.")
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Handle the options of the program itself."""
