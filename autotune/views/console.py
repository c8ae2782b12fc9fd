"""A campaign as it goes: a progress bar in a terminal, one plain line for each launch elsewhere."""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.text import Text

from autotune.campaign.description import Description
from autotune.campaign.discovery import sizes_of
from autotune.campaign.noise import Remark, disturbed
from autotune.history.objectives import Objective, Score
from autotune.history.trial import History, Phase, Subject, Trial
from autotune.recommend.front import candidates, pareto_front
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.summary import Step, ratio_to, speedup_interval
from autotune.screening import Effects, ScreeningDesign, ScreeningResult
from autotune.space import Dropped, Space
from autotune.views.discovery import discovery_parts
from autotune.views.tables import design_table, effects_tables, front_table, machine_table, size_tables
from autotune.views.text import advice_text, duration_text, figure_text, ratio_text

_PLAIN_WIDTH = 120

_HEADINGS = {
    Phase.BASELINE: "Baseline: the stack's own defaults",
    Phase.DISCOVERY: "Discovery: which of all knobs do anything here",
    Phase.SCREENING: "Screening: which parameters matter",
    Phase.SEARCH: "Search: the best values of what is open",
    Phase.VERIFY: "Verification: fresh launches of both",
}

_SUBJECTS = {Subject.UNTOUCHED: "(default)", Subject.DEPLOYED: "(exported files)"}


class CampaignConsole:
    """Shows a campaign; a ``Listener`` of it, and a context in which the progress bar lives."""

    def __init__(self, console: Console, objectives: Sequence[Objective]) -> None:
        self._console = console
        self._objectives = tuple(objectives)
        self._place = ""
        self._bar: Progress | None = None
        if not console.is_terminal:  # a file has no right edge: rather a wide table than a broken one
            console.width = max(console.width, _PLAIN_WIDTH)
        self._task = TaskID(0)
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.fields[place]}", markup=False),
                BarColumn(bar_width=24),
                TextColumn("{task.fields[best]}", markup=False),
                TextColumn("{task.fields[left]}", markup=False, style="dim"),
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
        self._console.print(machine_table(findings, dropped))

    def phase(self, phase: Phase, n_trials: int) -> None:
        """A phase begins: of so many launches, as far as is known (0: the budget decides)."""
        self._heading(_HEADINGS[phase] + (f" ({n_trials} launches)" if n_trials else ""))

    def designed(self, design: ScreeningDesign) -> None:
        """The screening's design, in the order in which it will be run."""
        self._show(design_table(design))
        self._console.print()

    def discovered(self, campaign: Description, history: History) -> None:
        """What the discovery found, and that the search goes on with it."""
        for part in discovery_parts(campaign, sizes_of(history)):
            self._show(part)

    def screened(self, effects: Sequence[Effects], screening: ScreeningResult) -> None:
        """What the screening found, and which factors do not stay in the search."""
        self._show(effects_tables(self._objectives, effects, screening))
        notes = dict.fromkeys(note for analysis in effects for note in analysis.notes)
        if notes:
            self._say(Text("\n".join(["", *(f"note: {note}" for note in notes)]), "dim"))

    def launching(self, trial: Trial, number: int, total: int, time_left_s: float) -> None:
        """A launch starts: the ``number``-th of at most ``total``, with so much of the budget's time left."""
        self._place = f"trial {number:>{len(str(total))}} of {total}"
        if self._bar is None:
            return
        place, left = f"{self._place} · {trial.phase}", f"{duration_text(time_left_s)} left"
        if not self._bar.tasks:
            self._task = self._bar.add_task("", total=total, place=place, best="", left=left)
            self._bar.start()
        self._bar.update(self._task, completed=number - 1, total=total, place=place, left=left)

    def observed(self, step: Step) -> None:
        """A launch ended; ``step`` says what is known now."""
        if self._bar is not None and self._bar.tasks:
            self._bar.update(self._task, advance=1, best=self._best(step))
        self._say(self._line(step))

    def closing(
        self, space: Space, history: History, recommendation: Recommendation, baseline: Sequence[Score] | None
    ) -> None:
        """The front, the recommended setting and its per-size table."""
        if self._bar is not None:
            self._bar.stop()
        front = pareto_front(self._objectives, candidates(self._objectives, space, history))
        default = space.unset
        self._heading("Pareto front" if len(self._objectives) > 1 else "Best setting")
        self._show(front_table(self._objectives, front, recommendation.point, default, baseline))
        self._heading("Recommended: " + advice_text(recommendation, default))
        if recommendation.gains:
            self._show(size_tables(recommendation))
        said = recommendation.provenance.verified
        if recommendation.gains and not recommendation.provenance.checked.done:
            average = ratio_text(recommendation.speedup, speedup_interval(recommendation))
            said = f"speed-up over all sizes, geometric mean: {average}  [{said}]"
        self._say(Text(f"\n{said}", "bold"))
        if choices := recommendation.provenance.choices:
            self._heading("Choices")
            for choice in choices:
                self._say(Text(f"  {choice}"))

    def doubted(self, text: str) -> None:
        """The performance guidelines that what is handed over violates; empty: none."""
        if text:
            self._say(Text(f"\nguidelines violated: {text}", "yellow"))

    def remarked(self, remarks: Iterable[Remark]) -> None:
        """What stood in the way of measuring."""
        for remark in remarks:
            self._say(Text(f"\n{remark.what}: {remark.text}", "yellow"))

    def exported(self, paths: Iterable[object]) -> None:
        """The files that were written."""
        self._heading("Files")
        for path in paths:
            self._say(Text(f"  {path}"))

    def usable(self, use: str, otherwise: str) -> None:
        """The line that puts the files into force; where there is none, why."""
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

    def _line(self, step: Step) -> Text:
        observation = step.observation
        line = Text.assemble((f"{self._place or f'trial {observation.trial.number}'}  ", "dim"))
        if not observation.ok:
            return line.append(f"{observation.status}: {observation.reason}", "red")
        if step.scores is None:
            return line.append("ok, but not every size could be used", "yellow")
        line.append(" · ".join(
            f"{objective.name} {figure_text(score.value, score.sem, objective.unit)}"
            for objective, score in zip(self._objectives, step.scores, strict=True)
        ))  # fmt: skip
        if observation.trial.phase is Phase.DISCOVERY:
            line.append(f"  ({observation.trial.note})", "dim")
        elif observation.trial.subject is Subject.SWEEP:
            line.append(f"  {self._best(step)}" if self._bar is None else "", "dim")
        else:
            line.append(f"  {_SUBJECTS[observation.trial.subject]}", "dim")
        if beside := disturbed(observation):
            line.append(f"  ({beside})", "yellow")
        return line

    def _best(self, step: Step) -> str:
        """Best so far, in each objective, against the baseline."""
        if step.best is None:
            return ""
        parts = []
        for i, (objective, score) in enumerate(zip(self._objectives, step.best, strict=True)):
            against = (
                f" ({ratio_text(ratio_to(objective, score, step.baseline[i]))})" if step.baseline else ""
            )
            parts.append(f"{figure_text(score.value, unit=objective.unit)}{against}")
        return f"best {', '.join(parts)}"
