"""Commands ``guard …``, which check whether saved settings are still in effect and as fast as before."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import Json, Mpirun, Words

verbs = typer.Typer()

guard = typer.Typer(
    help="Say whether settings that were kept are still right, night after night.", no_args_is_help=True
)
verbs.add_typer(guard, name="guard")

_SOURCE = "what was kept; else $AUTOTUNE_GUARD, or the current directory"
Source = Annotated[Path | None, typer.Argument(metavar="DIR|PREFIX", help=_SOURCE)]
To = Annotated[
    Path | None, typer.Option("--to", help="folder of your own for nights, where the settings' is read-only")
]


@guard.command(context_settings={"ignore_unknown_options": True})
def keep(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|PREFIX", help="campaign, site's prefix, exported files")
    ],
    words: Words = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="of launches; 0: none")] = None,
    mpirun: Mpirun = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="start what a campaign names without a question")
    ] = False,
) -> int:
    """Keep what holds today: values in effect, versions, hashes, and a day of launches."""
    from autotune.guard import verbs as verb

    return verb.keep(source, words or (), minutes, mpirun, yes)


@guard.command()
def check(
    source: Source = None,
    quick: Annotated[bool, typer.Option("--quick", help="versions, values in effect")] = False,
    minutes: Annotated[float, typer.Option(min=0, help="of launches")] = 10.0,
    against: Annotated[
        str | None, typer.Option(help="an older mpirun, launched in turn with the one here")
    ] = None,
    rate: Annotated[float, typer.Option(min=1e-9, max=0.5, help="false alarms expected in a year")] = 0.01,
    mpirun: Mpirun = None,
    to: To = None,
    junit: Annotated[Path | None, typer.Option(help="write JUnit XML, for CI")] = None,
    metrics: Annotated[Path | None, typer.Option(help="write metrics for Prometheus' node exporter")] = None,
    motd: Annotated[Path | None, typer.Option(help="write one line for a message of the day")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="start what another user may have kept without a question")
    ] = False,
    as_json: Json = False,
) -> int:
    """Say whether it still holds: exit code 0 same, 1 slower or not in effect, 3 inconclusive."""
    from autotune.guard import verbs as verb

    outputs = {"junit": junit, "metrics": metrics, "motd": motd}
    return verb.check(source, quick, minutes, against, rate, mpirun, to, outputs, as_json, yes)


@guard.command()
def history(source: Source = None, to: To = None, as_json: Json = False) -> None:
    """Say what each night said."""
    from autotune.guard import verbs as verb

    verb.history(source, to, as_json)


@guard.command(context_settings={"ignore_unknown_options": True})
def bisect(
    a: Annotated[str, typer.Argument(metavar="A", help="PREFIX of an MPI, or mpi=…,ucx=…,settings=…")],
    b: Annotated[str, typer.Argument(metavar="B", help="likewise; it is asked what makes B slower")],
    words: Words = None,
    blocks: Annotated[int, typer.Option(min=1, help="of four launches of each, at most")] = 6,
    as_json: Json = False,
) -> int:
    """Say which part of two environments costs the time, by swapping one at a time, at the same moments."""
    from autotune.guard import bisect as verb

    return verb.bisect(a, b, words or (), blocks, as_json)


@dataclass(frozen=True)
class _Guard(Companion):
    """Adds the key ``retune=DIR`` to the command that tunes."""

    def command_lines(self, words: Sequence[str]) -> list[list[str]]:
        from autotune.guard.retune import retuned

        return retuned(words)


companion = _Guard(verbs)
