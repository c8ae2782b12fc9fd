"""Declare the verbs ``record``, ``run`` and ``diagnose``, and parts of other verbs that use recordings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.commands.companions import Companion
from autotune.commands.options import Command, Json

if TYPE_CHECKING:
    from autotune.campaign.spec import CampaignSpec
    from autotune.history.objectives import Slot
    from autotune.recommend.recommendation import Recommendation

_LISTED = 25  # For so many of a recording's kinds of calls the page shows whether they are covered.

verbs = typer.Typer()


@verbs.command()
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


@verbs.command()
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


@verbs.command()
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


class _Recordings:
    def page(self, path: Path) -> str:
        from autotune.application.documents import kept_floor, read_calls
        from autotune.application.recording_page import recording_page

        return recording_page(read_calls(path), kept_floor(path), str(path))

    def timed_slots(self, path: Path) -> "list[tuple[Slot, int, float]]":
        from autotune.application.documents import read_calls

        run = read_calls(path)
        calls = sorted((c for c in run.calls if c.tunable), key=lambda c: -c.busy_s)[:_LISTED]
        return [((c.collective, c.comm_size, round(c.message_bytes)), run.nodes, c.busy_s) for c in calls]

    def tuned_run(self, path: Path) -> Mapping[str, Any]:
        from autotune.application.documents import run_in

        return run_in(path)

    def weights(
        self, text: str, name: str, slots: "Sequence[Slot]", time_s: "Mapping[Slot, float]"
    ) -> "dict[Slot, float]":
        from autotune.application.profiles import read_profile

        return read_profile(text, name).weights(slots, time_s)

    def print_worth(self, directory: Path, calls: Path, application_s: float | None, as_json: bool) -> None:
        from autotune.application.verbs.worth import worth

        worth(directory, calls, application_s, as_json)

    def verify(
        self,
        directory: Path,
        command: Sequence[str],
        launches: int | None,
        figure: str | None,
        more_is_better: bool,
        as_json: bool,
    ) -> int:
        from autotune.application.verbs.verify import verify_application

        return verify_application(directory, command, launches, figure, more_is_better, as_json)


@dataclass(frozen=True)
class _Application(Companion):
    def filled(self, document: Mapping[str, Any]) -> dict[str, Any]:
        if "calls" not in document:
            return dict(document)
        from autotune.application.scenario import of_recording

        return of_recording(document)

    def worth_text(
        self,
        about: "CampaignSpec",
        recommendation: "Recommendation | None",
        harmless: "Recommendation | None",
    ) -> str:
        from autotune.application.scenario import worth_text

        return worth_text(about, recommendation, harmless)


companion = _Application(verbs, recordings=_Recordings())
