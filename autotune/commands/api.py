"""The public Python API: what the command line does, for notebooks and scripts.

    from autotune import Campaign, load_space

    campaign = Campaign("allreduce_local", "budget.launches=24", "sizes=[8,4k,1M]")
    campaign.run()                       # the same journal, files and exit code as the command's
    campaign.history                     # pandas: a row for each launch and cell
    Campaign.open("campaigns/allreduce_local").verdict

``autotune/__init__.pyi`` declares the names, ``autotune/__init__.py`` fetches them from here when they are
first used. Errors are those of ``autotune.errors``, with the same words as on the command line. Signals end
the work as they end the command, so composing and running are for the main thread.
"""

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Self, TypeVar

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.costs import shares
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import heeded
from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.commands import report as page
from autotune.commands.application import read_calls
from autotune.commands.diagnose import of_run
from autotune.commands.hydra_bridge import answer_of, connected, run_task
from autotune.commands.record import record as record_application
from autotune.commands.terminal import plain_output
from autotune.commands.trust import check_trusted
from autotune.commands.tune import strategy_of, tune
from autotune.commands.verify_application import RESULT, compared_on
from autotune.commands.worth import worth_to
from autotune.errors import CampaignError, ScenarioError, UserError
from autotune.exporters.files import export_files
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import FILE
from autotune.importers.recording import Recording
from autotune.recommend.diagnosis import Diagnosis
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.worth import Worth
from autotune.resources import space_text
from autotune.scenario import Scenario
from autotune.space import Space
from autotune.space.loader import load_space as space_in
from autotune.stacks import dialect
from autotune.verification.application import ApplicationVerdict
from autotune.verification.choices import ChoiceKind
from autotune.verification.verdict import Verdict
from autotune.views.documents import json_text
from autotune.views.frames import Frame, effects_frame, gains_frame, history_frame, plan_frame

_T = TypeVar("_T")

_NOT_HERE = {
    *("conf", "-m", "--multirun", "-c", "--cfg", "-h", "--help", "--hydra-help", "-i", "--info"),
    *("-sc", "--shell-completion"),
}
"""Words that ask the command line for something else than one campaign."""


class Campaign:
    """One campaign: a scenario to be run, or a directory that holds one.

    Its directory is its memory: whatever is read here is read from the journal, also while the campaign runs
    elsewhere, after it was killed, and on machines without any MPI.
    """

    def __init__(self, scenario: str, *overrides: str) -> None:
        """Compose a scenario; nothing is launched and nothing written.

        Args:
            scenario: its name, as behind ``conf=``.
            overrides: words as on the command line: ``"budget.launches=24"``, ``"sizes=[8,4k]"``,
                ``"hydra/launcher=simulated"``, ``"--config-dir=mine"``.

        Raises:
            ScenarioError: a name, key or value that does not exist, or words that ask for several campaigns.
            StackError: no usable MPI, where the scenario wants one.
        """
        self._words: tuple[str, ...] | None = (f"conf={scenario}", *overrides)
        self._read: tuple[tuple[int, int], CampaignDirectory, Conclusion] | None = None
        if foreign := {word.split("=")[0] for word in overrides} & _NOT_HERE:
            raise ScenarioError(
                f"Campaign({scenario!r}, …): {min(foreign)} is for the command line",
                "here: one scenario by name, and words KEY=VALUE",
            )
        self.directory = self._composed(lambda scenario, site: scenario.directory)

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """The campaign that a directory holds.

        Raises:
            UserError: there is none.
            JournalError: its journal is damaged or of a newer format.
        """
        campaign = cls.__new__(cls)
        campaign._words, campaign._read, campaign.directory = None, None, Path(directory)
        campaign._concluded()
        return campaign

    directory: Path
    """Where the campaign lives."""

    def __repr__(self) -> str:
        state = self.state if (self.directory / FILE).exists() else "not begun"
        return f"<Campaign {self.directory}: {state}>"

    def plan(self) -> Frame:
        """The launches it would make: a row for each phase with ``launches``, ``most`` and node-hours.

        ``node_hours`` is reached by measuring alone, ``node_hours_most`` where every launch runs into
        its time limit; starting ranks comes on top of the former.

        Raises:
            UserError: the campaign was opened: it has begun already.
        """

        def counted(scenario: Scenario, site: Site) -> Frame:
            asked = site.asked(scenario)
            phases, timeout_s = shares(strategy_of(asked, site)), measurement_of(asked, site.placement.ranks)
            return plan_frame(phases, site.placement.nodes, timeout_s.timeout_s)

        return self._composed(counted)

    def run(self, quiet: bool = False, yes: bool = False) -> int:
        """Run it, or what is left of it, to its end: all files are those that the command writes.

        ``quiet``: print nothing. ``yes``: of ``resume``.

        Returns:
            The command's exit code: 0, or 1 where the exported files do not do what they say.

        Raises:
            AutotuneError: as the command, ``Interrupted`` for Ctrl-C among them: ``run`` again goes on.
        """
        if self._words is None:
            return self.resume(quiet, yes)
        _in_main_thread()
        with _told(quiet):
            return run_task(tune, self._words, launches=True)

    def resume(self, quiet: bool = False, yes: bool = False) -> int:
        """Go on with what the directory holds, as its journal says; returns and raises as ``run``.

        ``yes``: start what is named there without a question, although this user has not run it before.

        Raises:
            JournalError: others could have written it, or nobody said yes.
        """
        _in_main_thread()
        about = read_campaign(self.directory).about
        check_trusted(self.directory, about, yes)
        place = replace(about.scenario.campaign, dir=str(self.directory), fresh=False)
        scenario = replace(about.scenario, campaign=place)
        with _told(quiet), heeded():
            return tune(scenario, connected(about.site.launcher, scenario))

    @property
    def state(self) -> State:
        """``running``, ``complete``, ``interrupted`` or ``failed``."""
        return self._concluded()[0].state

    @property
    def space(self) -> Space:
        """The parameters that can vary, and those that the machine lacks."""
        return self._concluded()[0].about.space

    @property
    def history(self) -> Frame:
        """Every measurement: a row for each estimate of each trial, as ``history --all`` prints them."""
        return history_frame(self._concluded()[0].history)

    @property
    def effects(self) -> Frame:
        """The screening: a row for each factor and objective; empty before it is complete."""
        return effects_frame(self._concluded()[1].effects)

    @property
    def recommendation(self) -> Recommendation | None:
        """The recommendation, verified where it was; None before a setting was measured completely."""
        return self._concluded()[1].recommendation

    @property
    def gains(self) -> Frame:
        """The recommendation size by size: tuned and default times, speed-up with its 95 % interval."""
        return gains_frame(self.recommendation)

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of fresh launches of both sides; None where no verification was begun."""
        return self._concluded()[1].verdict

    def export(
        self, *formats: str, out: str | PathLike[str] | None = None, choice: str = "recommended"
    ) -> tuple[Path, ...]:
        """Write the recommendation as parameter files, by default in the stack's formats into ``export/``.

        Raises:
            UserError: nothing to export, an unknown format or choice, or no place for files.
            StorageError: the disk is full or read-only.
        """
        if choice not in list(ChoiceKind):
            raise UserError(f"choice={choice}", f"allowed: {', '.join(ChoiceKind)}")
        campaign = self._concluded()[0]
        wanted = formats or dialect(campaign.about.space.stack).formats
        target = Path(out) if out is not None else self.directory / "export"
        return export_files(campaign.recommended(ChoiceKind(choice)), wanted, target)

    def report(
        self, out: str | PathLike[str] | None = None, figures: str | PathLike[str] | None = None
    ) -> Path:
        """Write the page, by default as ``report.html`` into the campaign's directory; returns its path.

        ``figures``: a directory where each figure is written too, as PNG and SVG.

        Raises:
            UserError: a file cannot be written, or matplotlib, which figures need, is not installed.
            StorageError: the disk is full or read-only.
        """
        target = Path(out) if out is not None else self.directory / "report.html"
        page.write_page(self._concluded()[0], target)
        if figures is not None:
            page.write_figures(self._concluded()[0], Path(figures))
        return target

    def worth(self, calls: str | PathLike[str], application_s: float | None = None) -> Worth:
        """The time that the recommendation saves an application: calls of a recording, profile or table.

        ``application_s``: wall time of its run, where ``calls`` does not say.

        Raises:
            UserError: nothing was gained, or the run's time is not known.
            TableError: no such calls, or none of those that were measured.
        """
        return worth_to(self._concluded()[0], Path(calls), application_s)

    def verify_app(
        self,
        *command: str,
        launches: int | None = None,
        figure: str | None = None,
        more_is_better: bool = False,
    ) -> ApplicationVerdict:
        """Run an application with the files and without, in turn, as ``verify DIR --app -- COMMAND``.

        Raises:
            AutotuneError: as the command.
        """
        _in_main_thread()
        verdict, document, target = compared_on(self.directory, command, launches, figure, more_is_better)
        write_files({target / RESULT: json_text(document)}, parents=True, below=target)
        return verdict

    def _composed(self, task: Callable[[Scenario, Site], _T]) -> _T:
        """The result of a task on the composed scenario and the connected site."""
        if self._words is None:
            raise UserError(f"{self.directory} has begun", "Campaign(NAME, …).plan() says what one would do")
        _in_main_thread()
        return answer_of(task, self._words)

    def _concluded(self) -> tuple[CampaignDirectory, Conclusion]:
        """The campaign and its conclusion, computed anew where the journal has grown."""
        journal = self.directory / FILE
        written = (journal.stat().st_size, journal.stat().st_mtime_ns) if journal.exists() else (0, 0)
        if self._read is None or self._read[0] != written:
            campaign = read_campaign(self.directory)
            self._read = (written, campaign, campaign.conclude())
        return self._read[1:]


def record(*command: str, runs: int = 1, out: str | PathLike[str] = "calls.json") -> Recording:
    """Run an application and record what it calls, as ``record -- COMMAND``; ``out`` keeps it.

    Raises:
        AutotuneError: as the command, also where the application does not end well.
    """
    _in_main_thread()
    with _told(quiet=True):
        _check_ended(record_application(command, runs, Path(out), None, False), command[0], out)
    return read_calls(Path(out))


def _check_ended(code: int, program: str, out: str | PathLike[str]) -> None:
    if code:
        raise CampaignError(f"{program} did not end well", f"recorded is what came before, in {out}")


def diagnose(
    *run: str,
    settings: Sequence[str | PathLike[str]] = (),
    seconds: float = 120.0,
    out: str | PathLike[str] = "calls.json",
) -> Diagnosis:
    """Losses of a run in MPI, their causes, and the gain that tuning can bring, as ``diagnose``.

    ``run``: a recording, or the words of a command. ``seconds``: to measure what this machine does at its
    best; 0 takes what was measured before. ``settings``: files and campaigns to try.

    Raises:
        AutotuneError: as the command, also where the application does not end well.
    """
    _in_main_thread()
    code, found, _, kept = of_run(run, [*map(Path, settings)], seconds, Path(out), ())
    _check_ended(code, run[0], kept)
    return found


def load_space(name: str | PathLike[str]) -> Space:
    """A search space, by the name of a shipped one or by path.

    Raises:
        SpaceError: there is no such file, or it is no search space.
    """
    return space_in(space_text(str(name)), str(name))


@contextlib.contextmanager
def _told(quiet: bool) -> Iterator[None]:
    with plain_output(), contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        yield


def _in_main_thread() -> None:
    """Check that signals can be handled here."""
    if threading.current_thread() is not threading.main_thread():
        raise UserError("a campaign is composed and run in the main thread", "its directory is read anywhere")
