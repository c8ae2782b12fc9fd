"""A campaign as it goes: one line for each launch, in a terminal a progress bar below them."""

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from autotune.campaign.costs import Share
from autotune.campaign.description import Description
from autotune.campaign.discovery import slots_of
from autotune.campaign.noise import Remark, disturbed
from autotune.history.objectives import Z95, Objective, Score
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.front import Candidate, candidates, pareto_front
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import Step, ratio_to, speedup_interval
from autotune.screening import Effects, ScreeningDesign, ScreeningResult
from autotune.space import Dropped, Point, Space
from autotune.views.discovery import discovery_parts
from autotune.views.launch_line import WIDTH, LaunchLines
from autotune.views.tables import design_table, effects_tables, machine_table, result_table, size_tables
from autotune.views.text import clock_text, cost_text, ratio_text, setting_text

_OTHERS = 5  # Settings shown beside the recommended one; the page has them all.

_PHASES = {
    Phase.BASELINE: ("baseline", "the stack's own defaults"),
    Phase.DISCOVERY: ("discovery", "which knobs have an effect here"),
    Phase.SCREENING: ("screening", "which parameters matter"),
    Phase.SEARCH: ("search", "the best values of the parameters that matter"),
    Phase.VERIFY: ("verification", "the best settings against the defaults"),
}
"""As ``campaign.costs`` names them, and what each is for."""


class Detail(Enum):
    """How much a campaign says while it runs."""

    QUIET = "quiet"  # The result.
    NORMAL = "normal"  # And a line for each launch.
    VERBOSE = "verbose"  # And what was measured in each, and what disturbed it.


class CampaignConsole:
    """Shows a campaign; a ``Listener`` of it, and a context in which the progress bar lives."""

    def __init__(
        self,
        console: Console,
        objectives: Sequence[Objective],
        unset: Point = Point(),
        phases: Sequence[Share] = (),
        detail: Detail = Detail.NORMAL,
    ) -> None:
        """A console; ``unset``: the stack's own values, from which a setting's differ."""
        self._console, self._detail, self._shares = console, detail, phases
        width = console.width if console.is_terminal else WIDTH
        names = tuple(one.phase for one in phases if one.most)
        self._lines = LaunchLines(tuple(objectives), unset, names, width, detail is Detail.VERBOSE)
        self._at, self._elapsed_s, self._left_s = "", 0.0, math.inf
        self._legend, self._warned = False, False
        self._task = TaskID(0)
        self._bar: Progress | None = None
        if console.is_terminal and detail is not Detail.QUIET:
            self._bar = Progress(
                TextColumn("{task.fields[place]}", markup=False),
                BarColumn(bar_width=12),
                TextColumn("{task.fields[best]}", markup=False),
                console=console,
                transient=True,
            )

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
        """The campaign's name, whether it is simulated, and what was found on the machine."""
        self._say(Text.assemble((title, "bold"), (f"  {stamp}" if stamp else "", "bold yellow")))
        if self._detail is not Detail.QUIET:
            self._console.print(machine_table(findings, dropped))

    def planned(self, limit_s: float | None) -> None:
        """The phases, and the limit of time on all of them; None: there is none."""
        if self._detail is not Detail.QUIET:
            self._say(Text(cost_text(self._shares, limit_s)))

    def phase(self, phase: Phase, n_trials: int) -> None:
        """A phase begins: of so many launches, as far as is known (0: the budget decides)."""
        self._at, what = _PHASES[phase]
        if self._detail is Detail.QUIET:
            return
        if not self._legend:
            self._legend = True
            self._say(Text(f"\n{self._lines.legend}", "dim"))
        place = self._lines.place(self._at).replace("/", " of ")
        self._heading(f"Phase {place}, {self._at}: {what}")
        self._say(self._lines.heading)

    def designed(self, design: ScreeningDesign) -> None:
        """The screening's design, in the order in which it will be run."""
        if self._detail is Detail.VERBOSE:
            self._show(design_table(design))
            self._console.print()

    def discovered(self, campaign: Description, history: History) -> None:
        """Show the discovery's findings before the search goes on with them."""
        for part in () if self._detail is Detail.QUIET else discovery_parts(campaign, slots_of(history)):
            self._show(part)

    def screened(self, effects: Sequence[Effects], screening: ScreeningResult) -> None:
        """Show the screening's findings, and which factors do not stay in the search."""
        if self._detail is Detail.QUIET:
            return
        self._show(effects_tables(self._lines.objectives, effects, screening))
        notes = dict.fromkeys(note for analysis in effects for note in analysis.notes)
        if notes:
            self._show(Text("\n".join(f"note: {note}" for note in notes), "dim"))

    def launching(self, trial: Trial, elapsed_s: float, left_s: float) -> None:
        """A launch starts, so long after the campaign did; about ``left_s`` remain until all of it ends."""
        self._at = self._at or _PHASES[trial.phase][0]
        self._elapsed_s, self._left_s = elapsed_s, left_s
        if self._bar is None:
            return
        place = f"phase {self._lines.place(self._at)} {self._at}"
        place += f" · {clock_text(elapsed_s)} elapsed, about {clock_text(left_s)} left"
        if not self._bar.tasks:
            self._task = self._bar.add_task("", total=1, place=place, best="")
            self._bar.start()
        total_s = elapsed_s + left_s
        total = total_s if 0 < total_s < math.inf else None
        self._bar.update(self._task, completed=elapsed_s, total=total, place=place)

    def observed(self, step: Step) -> None:
        """A launch ended; ``step`` says what is known now."""
        if self._bar is not None and self._bar.tasks:
            self._bar.update(self._task, best=self._best(step))
        if self._detail is Detail.QUIET:
            return
        took_s = step.observation.duration_s
        left_s = max(0.0, self._left_s - took_s)
        self._say(self._lines.of(step, self._at, self._elapsed_s + took_s, left_s))
        if not self._warned and (beside := disturbed(step.observation)):
            self._warned = True
            after = "further launches affected are summarised at the end"
            said = f"       interference: {beside}\n       {after}"
            self._say(Text(said, "yellow"))

    def closing(
        self,
        space: Space,
        history: History,
        recommendation: Recommendation,
        baseline: Sequence[Score] | None,
        against: Callable[[Point], str] = lambda point: "",
    ) -> None:
        """The recommended setting, why others are not it (``against``: by fresh launches), and its table."""
        if self._bar is not None:
            self._bar.stop()
        objectives, point = self._lines.objectives, recommendation.point
        judged, words = candidates(objectives, space, history), setting_text(recommendation, space.unset)
        mine = next((one for one in judged if one.point == point), None)
        if mine is None and baseline is not None and not words:
            mine = Candidate(point, {}, tuple(baseline), 0)

        def better(one: Candidate) -> bool:
            pairs = zip(objectives, one.scores, mine.scores, strict=True) if mine else ()
            return mine is None or any(ratio_to(*pair) > 1 for pair in pairs)

        def why(one: Candidate) -> str:
            searched = _why_not(objectives, one, mine) if mine else "not verified"
            return against(one.point) or searched

        others = [one for one in pareto_front(objectives, judged) if one.point != point and better(one)]
        chosen = (words, mine.scores if mine else None)
        self._heading("Result: speed-up over the baseline in the search, above 1 is better")
        self._show(result_table(objectives, others[:_OTHERS], chosen, space.unset, baseline, why))
        said = recommendation.provenance.verified
        if recommendation.gains and words:
            self._heading("The recommended setting by message size")
            self._show(size_tables(recommendation, self._detail is Detail.VERBOSE))
            if not recommendation.provenance.checked.done:
                average = ratio_text(recommendation.speedup, speedup_interval(recommendation))
                said = f"speed-up over all sizes, geometric mean: {average}  [{said}]"
        self._show(Text(said, "bold"))
        if choices := recommendation.provenance.choices[1:]:
            self._heading("Other choices")
            for choice in choices:
                self._console.print(Text(f"  {choice}"))

    def doubted(self, text: str) -> None:
        """Show performance guidelines that the exported settings violate; empty: none."""
        if text:
            self._show(Text(f"Guidelines violated: {text}", "yellow"))

    def remarked(self, remarks: Iterable[Remark]) -> None:
        """Show what disturbed the measurements."""
        for remark in remarks:
            self._show(Text(f"{remark.what[:1].upper()}{remark.what[1:]}: {remark.text}", "yellow"))

    def exported(self, paths: Iterable[object]) -> None:
        """The files that were written."""
        self._heading("Files")
        for path in paths:
            self._say(Text(f"  {path}"))

    def usable(self, use: str, otherwise: str) -> None:
        """Show the line that applies the files; where there is none, why."""
        self._say(Text.assemble("use them with\n  ", (use, "bold")) if use else Text(otherwise))

    def stamped(self, stamp: str) -> None:
        """The last word: that no MPI ran, where none did."""
        if stamp:
            self._say(Text(f"\nall of this is {stamp}: no MPI ran", "bold yellow"))

    def _heading(self, text: str) -> None:
        self._say(Text(f"\n{text}", "bold"))

    def _show(self, what: RenderableType) -> None:
        self._console.print()
        self._console.print(what)

    def _say(self, text: Text) -> None:
        """One line, never broken by us: it may be copied, and others' programs may read it."""
        self._console.print(text, soft_wrap=True)

    def _best(self, step: Step) -> str:
        """Best so far, in each objective, against the baseline."""
        if step.best is None or step.baseline is None:
            return ""
        return "best " + ", ".join(
            f"{objective.name} {ratio_text(ratio_to(objective, score, reference))}"
            for objective, score, reference in zip(
                self._lines.objectives, step.best, step.baseline, strict=True
            )
        )


def _why_not(objectives: Sequence[Objective], one: Candidate, chosen: Candidate) -> str:
    """Why ``one``, of the Pareto front, is not recommended but ``chosen``, by the launches of the search."""
    ratios, errors = [], []
    for objective, mine, other in zip(objectives, one.scores, chosen.scores, strict=True):
        ratios.append(ratio_to(objective, mine, other))
        errors.append(math.hypot(mine.sem / mine.value, other.sem / other.value))
    if all(abs(math.log(r)) <= Z95 * e for r, e in zip(ratios, errors, strict=True)):
        return "difference within the noise (95 %)"
    said = ", ".join(f"{o.name} {ratio_text(r)}" for o, r in zip(objectives, ratios, strict=True))
    if min(ratios) < 1 <= max(ratios) and math.prod(ratios) <= 1:
        return f"against the recommended setting {said}: worse overall"
    return f"against the recommended setting {said}, but only in the search: not verified"
