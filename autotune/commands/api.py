"""Define the public Python API, with which notebooks and scripts do what the command line does.

    from autotune import Campaign, load_space

    campaign = Campaign("allreduce_local", "budget.launches=24", "sizes=[8,4k,1M]")
    campaign.run()                       # writes the command's journal and files, returns its exit code
    campaign.history                     # a pandas frame with a row for each measured duration of a call
    Campaign.open("campaigns/allreduce_local").verdict

A *scenario* is the request for a campaign: collectives, message sizes, ranks, budget and search space; a
*bench* is the place where the campaign's launches are made. ``autotune/__init__.pyi`` declares the public
names; ``autotune/__init__.py`` imports them from this module when they are first used. Functions raise the
errors of ``autotune.errors``, with the same messages as on the command line. A signal such as Ctrl-C ends the
work of a function just as it ends the command. Python handles signals only in the main thread, so a campaign
can be composed and run only in that thread.
"""

import contextlib
import io
import threading
from collections.abc import Callable, Iterator, Sequence
from html import escape
from os import PathLike
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Self, TypeVar

from autotune.campaign.bench import Bench
from autotune.campaign.conclusion import Conclusion
from autotune.campaign.costs import shares
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.observing import measurement_of
from autotune.commands import report as page
from autotune.commands.hydra_bridge import answer_of, run_task
from autotune.commands.resume import resume
from autotune.commands.terminal import plain_output
from autotune.commands.tune import strategy_of, tune
from autotune.errors import CampaignError, ScenarioError, UserError, allowed, naming_extras
from autotune.exporters.files import export_files
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import FILE
from autotune.recommend.recommendation import Recommendation
from autotune.resources import space_text, user_text
from autotune.scenario import Scenario
from autotune.space import Space
from autotune.space.loader import load_space as space_in
from autotune.stacks import dialect
from autotune.verification.choices import ChoiceKind
from autotune.verification.verdict import Verdict
from autotune.views.documents import answer_text
from autotune.views.frames import Frame, effects_frame, gains_frame, history_frame, plan_frame

if TYPE_CHECKING:
    from autotune.application.diagnosis import Diagnosis
    from autotune.application.recording import Recording
    from autotune.application.verification import ApplicationVerdict
    from autotune.application.worth import Worth
    from autotune.commands.verify import Verification
    from autotune.lint.output import Report
    from autotune.stacks.asked import Answer

_T = TypeVar("_T")

_COMMAND_LINE_ONLY = {
    *("conf", "-m", "--multirun", "-c", "--cfg", "-h", "--help", "--hydra-help", "-i", "--info"),
    *("-sc", "--shell-completion"),
}
"""Options of the command line that ask for something other than one campaign."""


class Campaign:
    """Represents a campaign that was composed from a scenario or opened from the directory of an earlier run.

    Everything that the properties return is read from the journal in the campaign's directory. The properties
    can therefore be used while another process runs the campaign, after that process was killed, and on
    machines without an MPI.
    """

    def __init__(self, scenario: str, *overrides: str) -> None:
        """Compose a scenario without launching or writing anything.

        Args:
            scenario: Name of the scenario, which the command line takes as ``conf=NAME``.
            overrides: Words as on the command line: ``"budget.launches=24"``, ``"sizes=[8,4k]"``,
                ``"hydra/launcher=simulated"``, ``"--config-dir=mine"``.

        Raises:
            ScenarioError: A name, key or value does not exist, or the words ask for several campaigns.
            StackError: The scenario needs an MPI, and no usable MPI was found.
        """
        self._words: tuple[str, ...] | None = (f"conf={scenario}", *overrides)
        self._cached: tuple[tuple[int, int], CampaignDirectory, Conclusion] | None = None
        if foreign := {word.split("=")[0] for word in overrides} & _COMMAND_LINE_ONLY:
            raise ScenarioError(
                f"Campaign({scenario!r}, …): {min(foreign)} is for the command line",
                "here: one scenario by name, and words KEY=VALUE",
            )
        self.directory = self._composed(lambda scenario, bench: scenario.directory)

    @classmethod
    def open(cls, directory: str | PathLike[str]) -> Self:
        """Open the campaign in a directory.

        Raises:
            UserError: The directory contains no campaign.
            JournalError: The journal is damaged, or a newer version wrote it.
        """
        campaign = cls.__new__(cls)
        campaign._words, campaign._cached, campaign.directory = None, None, Path(directory)
        campaign._concluded()
        return campaign

    directory: Path
    """Directory of the campaign, which contains its journal and the files that it writes."""

    def __repr__(self) -> str:
        state = self.state if (self.directory / FILE).exists() else "not begun"
        return f"<Campaign {self.directory}: {state}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the state of the campaign, and what it recommends so far."""
        if not (self.directory / FILE).exists():
            return f"<p>{escape(repr(self))}</p>"
        campaign, conclusion = self._concluded()
        stamp = f", {campaign.about.bench.stamp}" if str(campaign.about.bench.stamp) else ""
        head = f"{campaign.about.scenario.title}: {campaign.state}, {len(campaign.history)} launches{stamp}"
        found = conclusion.recommendation._repr_html_() if conclusion.recommendation else ""
        return f"<p>{escape(head)}</p>{found}"

    def plan(self) -> Frame:
        """Return the launches that the campaign would make.

        The frame has a row for each phase, with the columns ``launches``, ``most`` (the largest number of
        launches), ``node_hours`` and ``node_hours_most``. ``node_hours`` counts only the time in which
        launches measure, and not the time to start ranks; ``node_hours_most`` is reached if every launch runs
        into its time limit.

        Raises:
            UserError: The campaign was opened from a directory, so it has begun already.
        """

        def frame_of(scenario: Scenario, bench: Bench) -> Frame:
            scenario_here = bench.asked(scenario)
            phases = shares(strategy_of(scenario_here, bench))
            measurement = measurement_of(scenario_here, bench.placement.ranks)
            return plan_frame(phases, bench.placement.nodes, measurement.timeout_s)

        return self._composed(frame_of)

    def run(self, quiet: bool = False, yes: bool = False) -> int:
        """Run the campaign, or the remaining part of it, and write the files that the command writes.

        Args:
            quiet: Print nothing.
            yes: See ``resume``, which is called if the campaign was opened from a directory; ignored if the
                campaign was composed.

        Returns:
            The command's exit code: 0, or 1 if the exported files do not have the effect that they state.

        Raises:
            AutotuneError: The same errors as on the command line. Ctrl-C raises ``Interrupted``; calling
                ``run`` again continues the campaign.
        """
        if self._words is None:
            return self.resume(quiet, yes)
        _in_main_thread()
        with _console_output(quiet):
            return run_task(tune, self._words, launches=True)

    def resume(self, quiet: bool = False, yes: bool = False) -> int:
        """Continue the campaign with the scenario that its journal contains, and return the exit code.

        If its budget is used up and a verdict is missing, it gets the time that the estimate says.

        Args:
            quiet: Print nothing.
            yes: Start the programs that the journal names, without asking the user, even if this user has not
                run the campaign before.

        Raises:
            JournalError: Other users could have written the journal, or the user did not agree to start the
                programs.
            AutotuneError: The same errors as from ``run``.
        """
        _in_main_thread()
        with _console_output(quiet):
            return resume(self.directory, unasked=yes)

    @property
    def state(self) -> State:
        """Return the state of the campaign: ``running``, ``complete``, ``interrupted`` or ``failed``."""
        return self._concluded()[0].state

    @property
    def space(self) -> Space:
        """Return the search space: the parameters that can vary, and those that the machine does not have."""
        return self._concluded()[0].about.space

    @property
    def history(self) -> Frame:
        """Return all measurements, a row for each measured duration, as ``history --all`` prints them."""
        return history_frame(self._concluded()[0].history)

    @property
    def effects(self) -> Frame:
        """Return the effects that the screening design found, a row for each factor and objective.

        The frame is empty until all launches of the screening are done.
        """
        return effects_frame(self._concluded()[1].effects)

    @property
    def recommendation(self) -> Recommendation | None:
        """Return the recommendation; None until one setting has been measured completely.

        ``recommendation.provenance`` says whether the setting was verified on fresh launches.
        """
        return self._concluded()[1].recommendation

    @property
    def gains(self) -> Frame:
        """Return a row for each message size: tuned time, default time, speed-up and its 95 % interval."""
        return gains_frame(self.recommendation)

    @property
    def verdict(self) -> Verdict | None:
        """Return the verdict of the verification; None if no verification was begun.

        The verification compares the default and the recommendation on fresh launches.
        """
        return self._concluded()[1].verdict

    def export(
        self, *formats: str, out: str | PathLike[str] | None = None, choice: str = "recommended"
    ) -> tuple[Path, ...]:
        """Write the recommendation as parameter files and return their paths.

        Args:
            formats: Names of file formats; by default the usual formats of the MPI implementation.
            out: Directory for the files; by default ``export/`` in the campaign's directory.
            choice: Name of the setting that is exported: a value of ``ChoiceKind``, such as ``harmless``.

        Raises:
            UserError: There is nothing to export, a format or choice is unknown, or files cannot be written
                to ``out``.
            StorageError: The disk is full or read-only.
        """
        if choice not in list(ChoiceKind):
            raise UserError(f"choice={choice}", f"allowed: {', '.join(ChoiceKind)}")
        campaign = self._concluded()[0]
        format_names = formats or dialect(campaign.about.space.stack).formats
        target = Path(out) if out is not None else self.directory / "export"
        return export_files(campaign.recommended(ChoiceKind(choice)), format_names, target)

    def verify(
        self,
        launches: int | None = None,
        against: Sequence[str | PathLike[str]] = (),
        quiet: bool = False,
        yes: bool = False,
    ) -> "Verification":
        """Compare the recommendation with the defaults, or with another tuning, on fresh launches.

        The command ``verify DIR`` does the same. The result is also written to ``verifications/`` in the
        campaign's directory.

        Args:
            launches: Number of launches of both sides together; None means as many as the scenario says.
            against: The directory of another campaign, or parameter files; none means the defaults.
            quiet: Print nothing.
            yes: Start the programs that the journal names, without asking the user, even if this user has not
                run the campaign before.

        Raises:
            UserError: There is no recommendation, or nothing to compare it with.
            AutotuneError: The same errors as from the command.
        """
        from autotune.commands.verify import verified

        _in_main_thread()
        silence = contextlib.redirect_stderr(io.StringIO()) if quiet else contextlib.nullcontext()
        with _console_output(quiet), silence:
            return verified(self.directory, launches, tuple(map(Path, against)), yes)

    def install(self, choice: str = "harmless", site: bool = False, yes: bool = False) -> tuple[Path, ...]:
        """Merge the recommendation into your own parameter files of Open MPI, and return the paths of these.

        The command ``install DIR`` does the same, with dated backups; ``install --remove`` undoes it.

        Args:
            choice: Name of the setting: ``harmless`` or ``recommended``.
            site: Whether to change the files for all users of the MPI instead.
            yes: Install also what is simulated or was not verified, without a question.

        Raises:
            AutotuneError: The result is doubtful and nobody agreed, or every verified setting slows other
                calls.
            UserError: The campaign tuned another MPI, or a file cannot be read or written.
        """
        from autotune.commands.install import install

        choices = (ChoiceKind.HARMLESS, ChoiceKind.RECOMMENDED)
        if choice not in choices:
            raise UserError(f"choice={choice}", allowed(choice, choices))
        return install(self.directory, yes, site, choice)

    def report(
        self, out: str | PathLike[str] | None = None, figures: str | PathLike[str] | None = None
    ) -> Path:
        """Write the report as an HTML page and return its path.

        Args:
            out: The page's path; by default ``report.html`` in the campaign's directory.
            figures: Directory into which each figure is also written, as PNG and SVG; None: no such files.

        Raises:
            UserError: A file cannot be written, or matplotlib, which figures need, is not installed.
            StorageError: The disk is full or read-only.
        """
        target = Path(out) if out is not None else self.directory / "report.html"
        page.write_page(self._concluded()[0], target)
        if figures is not None:
            page.write_figures(page.report_input(self._concluded()[0]), Path(figures))
        return target

    def worth(self, calls: str | PathLike[str], application_s: float | None = None) -> "Worth":
        """Return the time that the recommendation saves an application.

        Args:
            calls: A recording, profile or table with the calls of the application.
            application_s: Wall time of the application's run in seconds, if ``calls`` does not contain it.

        Raises:
            UserError: The recommendation gains nothing, or the run's time is not known.
            TableError: The file cannot be read, or contains no call that the campaign measured.
        """
        from autotune.application.verbs.worth import worth_to

        return worth_to(self._concluded()[0], Path(calls), application_s)

    def verify_app(
        self,
        *command: str,
        launches: int | None = None,
        figure: str | None = None,
        more_is_better: bool = False,
    ) -> "ApplicationVerdict":
        """Run an application alternately with and without the exported files, and return the verdict.

        The command ``verify DIR --app -- COMMAND`` does the same. The verdict is also written to the
        directory of the application's runs.

        Args:
            command: The application's command line.
            launches: Number of all launches, those with the files and those without; None means as many as
                the campaign's verification makes.
            figure: Regular expression that finds the figure to be compared in the application's output; None
                compares run times.
            more_is_better: Whether a larger figure is better.

        Raises:
            AutotuneError: The same errors as from the command.
        """
        from autotune.application.verbs.verify import RESULT, compared_on

        _in_main_thread()
        verdict, document, target = compared_on(self.directory, command, launches, figure, more_is_better)
        text = answer_text("verify-app", document)
        write_files({target / RESULT: text}, parents=True, below=target)
        return verdict

    def _composed(self, task: Callable[[Scenario, Bench], _T]) -> _T:
        """Compose the scenario and its bench, and return what ``task`` returns for these two."""
        if self._words is None:
            raise UserError(f"{self.directory} has begun", "Campaign(NAME, …).plan() says what one would do")
        _in_main_thread()
        return answer_of(task, self._words)

    def _concluded(self) -> tuple[CampaignDirectory, Conclusion]:
        """Return the campaign and its conclusion, which is computed again only if the journal has changed."""
        journal = self.directory / FILE
        version = (journal.stat().st_size, journal.stat().st_mtime_ns) if journal.exists() else (0, 0)
        if self._cached is None or self._cached[0] != version:
            campaign = read_campaign(self.directory)
            with naming_extras():
                self._cached = (version, campaign, campaign.conclude())
        return self._cached[1:]


def record(*command: str, runs: int = 1, out: str | PathLike[str] = "calls.json") -> "Recording":
    """Run an application and return a recording of its MPI calls, as ``record -- COMMAND`` makes it.

    Args:
        command: The application's command line.
        runs: Number of runs.
        out: File to which the recording is written.

    Raises:
        AutotuneError: The same errors as from the command, or the application ends with an exit code other
            than 0.
    """
    from autotune.application.documents import read_calls
    from autotune.application.verbs.record import record as record_application

    _in_main_thread()
    with _console_output(quiet=True):
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
) -> "Diagnosis":
    """Return the time that a run loses in MPI, the causes of this loss, and the gain that tuning can bring.

    The command ``diagnose`` does the same.

    Args:
        run: The path of a recording, or the words of a command that is then run and recorded.
        settings: Files and campaigns whose settings are tried.
        seconds: Time in seconds for measuring the shortest times that this machine can reach; 0 uses the
            times that an earlier call measured.
        out: File to which the recording of a command is written.

    Raises:
        AutotuneError: The same errors as from the command, or the application ends with an exit code other
            than 0.
    """
    from autotune.application.verbs.diagnose import of_run

    _in_main_thread()
    code, diagnosis, _, recording_path = of_run(run, [*map(Path, settings)], seconds, Path(out), ())
    _check_ended(code, run[0], recording_path)
    return diagnosis


def lint_files(
    *files: str | PathLike[str], mpi: str = "", nodes: int | None = None, everything: bool = False
) -> "Report":
    """Return what the MPI would silently ignore or misread in parameter files and scripts, as ``lint`` does.

    Args:
        files: Paths of the files.
        mpi: Name of the MPI, such as ``openmpi5``; empty means the version that a file states, or else Open
            MPI 5.
        nodes: Number of nodes of the jobs that use the files; None means the number that the files state, or
            else several.
        everything: Also return notes, which are findings that depend on more than the content of the files.

    Raises:
        UserError: No file is given, a file cannot be read, or the MPI is unknown.
    """
    from autotune.lint.verbs.lint import Asked, reported

    if not files:
        raise UserError("no file to check", "lint_files(FILE, …)")
    texts: dict[PurePath, str] = {}
    for path in map(Path, files):
        texts[path] = user_text(path, raised=UserError, line_ends=True)
    return reported(texts, Asked(mpi, nodes, everything))


def explain(
    file: str | PathLike[str],
    ranks: int,
    size: int | str,
    collective: str | None = None,
    ppn: int | None = None,
    mpi: str = "openmpi5",
) -> "tuple[Answer, ...]":
    """Return which line of a tuning file selects the algorithm of a call, as ``lint --explain`` does.

    Args:
        file: Path of the file.
        ranks: Number of ranks of the communicator.
        size: Message size in bytes as OSU counts it, or a text such as ``"64k"``.
        collective: The collective; None means every collective of which the file selects an algorithm.
        ppn: Number of ranks on each node; None means that all are on one node.
        mpi: Name of the MPI that reads the file.

    Raises:
        UserError: The file cannot be read, its kind is unknown, or so is the size, collective or MPI.
        TableError: The content of the file does not fit its kind.
    """
    from autotune.lint.verbs.explain import answers_of

    _, answers = answers_of(Path(file), ranks, str(size), collective, ppn, mpi)
    if answers is None:
        raise UserError(f"{file} is of an unknown kind", "see: autotune lint FILE")
    return tuple(answers)


def load_space(name: str | PathLike[str]) -> Space:
    """Return a search space, given its name if it is part of autotune, or else the path of its file.

    Raises:
        SpaceError: There is no such file, or it contains no search space.
    """
    return space_in(space_text(str(name)), str(name))


@contextlib.contextmanager
def _console_output(quiet: bool) -> Iterator[None]:
    with plain_output(), contextlib.redirect_stdout(io.StringIO()) if quiet else contextlib.nullcontext():
        yield


def _in_main_thread() -> None:
    """Raise an error unless this is the main thread, because Python handles signals in no other thread."""
    if threading.current_thread() is not threading.main_thread():
        raise UserError("a campaign is composed and run in the main thread", "its directory is read anywhere")
