"""Print the course of a campaign: one line for each launch and, in a terminal or notebook, a progress bar."""

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.text import Text

from autotune.campaign.costs import Share
from autotune.campaign.discovery import slots_of
from autotune.campaign.needed import Need
from autotune.campaign.noise import Remark, disturbed
from autotune.campaign.spec import CampaignSpec
from autotune.history.objectives import Objective, Score
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.front import Candidate, candidates
from autotune.recommend.other_calls import slower
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.recommend.summary import Step, ratio_to, speedup_interval
from autotune.screening import Effects, ScreeningDesign, ScreeningResult
from autotune.space import Dropped, Point, Space
from autotune.views.discovery import discovery_parts
from autotune.views.ending import forecast_text
from autotune.views.launch_line import WIDTH, LaunchLines
from autotune.views.progress_bar import bar_for
from autotune.views.rivals import OTHERS, chosen, rivals, why_not
from autotune.views.standing import Ending
from autotune.views.tables import (
    design_table,
    effects_tables,
    lines_table,
    machine_table,
    other_calls_table,
    result_table,
    size_tables,
)
from autotune.views.text import bound_text, clock_text, cost_text, ratio_text, setting_text

_PHASES = {
    Phase.BASELINE: ("baseline", "the stack's own defaults"),
    Phase.DISCOVERY: ("discovery", "which knobs have an effect here"),
    Phase.SCREENING: ("screening", "which parameters matter"),
    Phase.SEARCH: ("search", "the best values of the parameters that matter"),
    Phase.VERIFY: ("verification", "the best settings against the defaults"),
    Phase.STARTS: ("starts", "how often the verified setting fails"),
}
"""Maps each phase to its name (the same as in ``campaign.costs``) and its purpose."""


class Detail(Enum):
    """Says how much a campaign prints while it runs."""

    QUIET = "quiet"  # Only the result.
    NORMAL = "normal"  # The result, and a line for each launch.
    VERBOSE = "verbose"  # The result, and lines with scores and interference for each launch.


class CampaignConsole:
    """A ``Listener`` that prints the events of a campaign; leaving its context ends the progress bar."""

    def __init__(
        self,
        console: Console,
        objectives: Sequence[Objective],
        unset: Point = Point(),
        phases: Sequence[Share] = (),
        detail: Detail = Detail.NORMAL,
    ) -> None:
        """Prepare the output to a console.

        ``unset`` contains the MPI's own values of the parameters; a line about a setting shows only the
        values that differ from these.
        """
        self._console, self._detail, self._shares = console, detail, phases
        width = console.width if console.is_terminal else WIDTH
        names = tuple(share.phase for share in phases if share.most)
        self._lines = LaunchLines(tuple(objectives), unset, names, width, detail is Detail.VERBOSE)
        self._phase, self._elapsed_s, self._took_s = "", 0.0, 0.0
        self._most_s, self._left_s = math.inf, math.inf  # the time left at the last start, and as shown
        self._legend, self._warned = False, False
        self._bar = None if detail is Detail.QUIET else bar_for(console)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def opening(
        self, title: str, stamp: str, findings: Iterable[tuple[str, str]], dropped: Sequence[Dropped]
    ) -> None:
        """Show the campaign's title, the findings on the machine, and what is missing there (``dropped``).

        ``stamp`` marks a campaign in which no MPI runs, and is empty in any other campaign.
        """
        self._say(Text.assemble((title, "bold"), (f"  {stamp}" if stamp else "", "bold yellow")))
        if self._detail is not Detail.QUIET:
            self._console.print(machine_table(findings, dropped))

    def planned(self, limit_s: float | None) -> None:
        """Show the phases with their costs, and the campaign's time limit in seconds (None: no limit)."""
        if self._detail is not Detail.QUIET:
            self._say(Text(cost_text(self._shares, limit_s)))

    def phase(self, phase: Phase, n_trials: int) -> None:
        """Show that a phase begins with ``n_trials`` planned launches (0: the budget decides)."""
        self._phase, purpose = _PHASES[phase]
        if self._detail is Detail.QUIET:
            return
        if not self._legend:
            self._legend = True
            self._say(Text(f"\n{self._lines.legend}", "dim"))
        place = self._lines.place(self._phase).replace("/", " of ")
        self._heading(f"Phase {place}, {self._phase}: {purpose}")
        self._say(self._lines.heading)

    def forecast(self, need: Need, left_s: float) -> None:
        """Show what a verdict needs, and the seconds that are left for it."""
        if self._detail is not Detail.QUIET:
            self._say(Text(f"\n{forecast_text(need, left_s)}", "yellow" if need.seconds > left_s else ""))

    def designed(self, design: ScreeningDesign) -> None:
        """Show the screening's design, with its runs in the order in which they will be launched."""
        if self._detail is Detail.VERBOSE:
            self._show(design_table(design))
            self._console.print()

    def discovered(self, campaign: CampaignSpec, history: History) -> None:
        """Show which parameters have an effect according to the discovery; the search varies only these."""
        for part in () if self._detail is Detail.QUIET else discovery_parts(campaign, slots_of(history)):
            self._show(part)

    def screened(self, effects: Sequence[Effects], screening: ScreeningResult) -> None:
        """Show the effects found by the screening, and which factors the search will leave out."""
        if self._detail is Detail.QUIET:
            return
        self._show(effects_tables(self._lines.objectives, effects, screening))
        if notes := dict.fromkeys(note for analysis in effects for note in analysis.notes):
            self._show(Text("\n".join(f"note: {note}" for note in notes), "dim"))

    def launching(self, trial: Trial, elapsed_s: float, left_s: float) -> None:
        """Show that a launch starts, ``elapsed_s`` after the beginning, at most ``left_s`` before the end.

        A time left that was shown is never exceeded later: a bound that grows was none. It falls by the time
        that has passed, which is less than the launches took if a model of the machine made them.
        """
        self._phase = self._phase or _PHASES[trial.phase][0]
        passed_s = min(self._took_s, elapsed_s - self._elapsed_s)
        self._elapsed_s, self._took_s = elapsed_s, 0.0
        self._most_s = min(left_s, self._most_s - passed_s)
        self._left_s = left_s = min(self._most_s, self._left_s)
        if self._bar is None:
            return
        place = f"phase {self._lines.place(self._phase)} {self._phase}"
        place += f" · {clock_text(elapsed_s)} elapsed, {bound_text(left_s)} left"
        self._bar.show(place, elapsed_s, left_s)

    def observed(self, step: Step) -> None:
        """Show that a launch ended; ``step`` contains the launch's result and the state of the campaign."""
        if self._bar is not None:
            self._bar.best(self._best(step))
        if self._detail is Detail.QUIET:
            return
        self._took_s += step.observation.duration_s
        self._left_s = min(self._left_s, max(0.0, self._most_s - self._took_s))
        self._say(self._lines.of(step, self._phase, self._elapsed_s + self._took_s, self._left_s))
        if not self._warned and (interference := disturbed(step.observation)):
            self._warned = True
            notice = "further launches affected are summarised at the end"
            warning = f"       interference: {interference}\n       {notice}"
            self._say(Text(warning, "yellow"))

    def closing(
        self,
        space: Space,
        history: History,
        recommendation: Recommendation,
        baseline: Sequence[Score] | None,
        against: Callable[[Point], str] = lambda point: "",
    ) -> None:
        """Show the recommended setting, its gain at each message size, and why others are not recommended.

        ``against`` returns why a setting is not recommended after its verification on fresh launches; the
        text is empty if the setting was not verified.
        """
        if self._bar is not None:
            self._bar.stop()
        objectives = self._lines.objectives
        measured, words = candidates(objectives, space, history), setting_text(recommendation, space.unset)
        recommended = chosen(space, measured, recommendation, baseline)

        def why(rival: Candidate) -> str:
            return why_not(objectives, rival, recommended, against(rival.point))

        others = rivals(objectives, measured, recommendation, recommended)[:OTHERS]
        winner = (words, recommended.scores if recommended else None)
        verified = recommendation.provenance.checked.done
        self._heading("Result: speed-up over the baseline in the search, above 1 is better")
        self._show(result_table(objectives, others, winner, space.unset, baseline, why, verified))
        source = recommendation.provenance
        summary: RenderableType = Text(source.verified, "bold")
        if recommendation.gains and words:
            verbose = self._detail is Detail.VERBOSE
            self._heading(f"The {'recommended' if verified else 'unverified'} setting by message size")
            self._show(size_tables(recommendation, verbose))
            if calls := recommendation.others if verbose else slower(recommendation.others):
                self._heading(f"Other calls{'' if verbose else ' that it makes slower'}")
                self._show(other_calls_table(calls))
            if not verified:
                average = ratio_text(recommendation.speedup, speedup_interval(recommendation))
                summary = Text(f"speed-up over all sizes, geometric mean: {average}  [{summary}]", "bold")
            elif source.verdict:
                self._heading("Verified")
                summary = lines_table(source.verdict)
        self._show(summary)
        if choices := recommendation.provenance.choices[1:]:
            self._heading("Other choices")
            self._console.print(Text("\n".join(f"  {choice}" for choice in choices)))

    def doubted(self, text: str) -> None:
        """Show which performance guidelines the exported settings violate; nothing if ``text`` is empty."""
        if text:
            self._show(Text(f"Guidelines violated: {text}", "yellow"))

    def remarked(self, remarks: Iterable[Remark]) -> None:
        """Show what disturbed the measurements."""
        for remark in remarks:
            self._show(Text(f"{remark.subject[:1].upper()}{remark.subject[1:]}: {remark.text}", "yellow"))

    def exported(self, paths: Iterable[object]) -> None:
        """Show the files that were written."""
        self._heading("Files")
        for path in paths:
            self._say(Text(f"  {path}"))

    def usable(
        self, use: str, otherwise: str, notes: Iterable[str] = (), checked: Checked = Checked.HOLDS
    ) -> None:
        """Show the command line ``use``, which applies the files; if it is empty, show ``otherwise``.

        ``notes`` stand below the line, so that it can be copied. Files with a setting that is not verified
        (``checked``) are offered for trying it only.
        """
        words = "use them with" if checked.done else "they hold a setting that is not verified; to try it"
        self._say(Text.assemble(f"{words}\n  ", (use, "bold")) if use else Text(otherwise))
        for note in notes:
            self._say(Text(note, "dim"))

    def ended(self, state: Ending) -> None:
        """Show how the campaign stands, in labelled lines."""
        self._console.print()
        for label, text, command in state.lines:
            self._say(Text.assemble((f"{label:<11}", "bold"), text))
            if command:
                self._say(Text(f"  {command}", "bold"))

    def stamped(self, stamp: str) -> None:
        """Show the mark of results for which no MPI ran, such as ``SIMULATED``; nothing if it is empty."""
        if stamp:
            self._say(Text(f"\nall of this is {stamp}: no MPI ran", "bold yellow"))

    def _heading(self, text: str) -> None:
        self._say(Text(f"\n{text}", "bold"))

    def _show(self, part: RenderableType) -> None:
        self._console.print()
        self._console.print(part)

    def _say(self, text: Text) -> None:
        """Print a line without wrapping, because users may copy the line and programs may read it."""
        self._console.print(text, soft_wrap=True)

    def _best(self, step: Step) -> str:
        if step.best is None or step.baseline is None:
            return ""
        triples = zip(self._lines.objectives, step.best, step.baseline, strict=True)
        return "best " + ", ".join(f"{o.name} {ratio_text(ratio_to(o, *pair))}" for o, *pair in triples)
