"""One line for each launch of a campaign: where the campaign is, what is tried, what it does (step 8).

Notation: times are ``m:ss``; ``1.20×`` is a speed-up over the stack's own defaults as measured so far, above
1 is better; ``*`` marks the best so far in an objective.
"""

import textwrap
from dataclasses import dataclass

from rich.text import Text

from autotune.campaign.noise import disturbed
from autotune.history.objectives import Objective
from autotune.history.trial import Subject, Trial
from autotune.recommend.summary import Step, ratio_to
from autotune.space import Point
from autotune.views.text import clock_text, figure_text, ratio_text

WIDTH = 80  # Columns of a terminal that nobody made wider, and of the lines in a file.
_PLACE, _INDENT = "{:>5}  {:>7}  {:>6}  ", 24
_LEAST, _MOST = 7, 12
"""Characters of an objective's column: of a figure with its unit, and of a long name that is cut."""


def changes_of(trial: Trial, unset: Point) -> list[str]:
    """The values that a launch sets, an item each: ``UCX_RNDV_THRESH=64k``; ``unset``: the stack's own."""
    if trial.subject is Subject.UNTOUCHED:
        return ["default"]
    changes = [f"{n}={v}" for n, v in trial.point.items() if n not in unset or v != unset[n]]
    changes += ["rules by size"] if any(rule.sets for rule in trial.rules) else []
    return changes or ["default, each algorithm" if trial.subject is Subject.SWEEP else "default"]


@dataclass(frozen=True, slots=True)
class LaunchLines:
    """The lines of a campaign, all of the same columns."""

    objectives: tuple[Objective, ...]  # A column each.
    unset: Point  # The stack's own values.
    phases: tuple[str, ...]  # Planned, in order.
    width: int = WIDTH  # Columns of a line.
    verbose: bool = False
    """With figures, numbers, reasons and interference of each launch, on lines of their own below it."""

    @property
    def legend(self) -> str:
        """The meaning of the columns, in two lines."""
        return (
            "Columns: phase, elapsed and estimated remaining time (m:ss), the setting tried,\n"
            "and its speed-up over the baseline (above 1 is better; * best so far)."
        )

    @property
    def heading(self) -> Text:
        """The names of the columns."""
        names = "".join(f"{one.name[:_MOST]:>{self._column(one)}}" for one in self.objectives)
        return Text(_PLACE.format("phase", "elapsed", "left") + f"{'tried':<{self._room}}" + names, "dim")

    def of(self, step: Step, phase: str, elapsed_s: float, left_s: float) -> Text:
        """The line of a launch that ended, in some phase, so long after the campaign began."""
        observation = step.observation
        line = Text(_PLACE.format(self.place(phase), clock_text(elapsed_s), clock_text(left_s)), "dim")
        tried, rest = self._tried(observation.trial)
        line.append(f"{tried:<{self._room}}", "not dim")
        if observation.ok and step.scores is not None:
            line.append_text(self._figures(step))
            line.append(rest)
        else:
            line.append("incomplete" if observation.ok else "failed", "not dim red")
            line.append(rest)
            where = f"{str(observation.status).replace('_', ' ')}, launch {observation.trial.number}: "
            reason = where + observation.reason if not observation.ok else "some sizes have no usable time"
            line.append_text(self._below(reason, "not dim red"))
        if self.verbose:
            line.append_text(self._details(step))
        return line

    def place(self, phase: str) -> str:
        """Phase k of n."""
        known = phase in self.phases
        return f"{self.phases.index(phase) + 1}/{len(self.phases)}" if known else "—"

    def _tried(self, trial: Trial) -> tuple[str, str]:
        """The values that a launch sets: those with room beside its figures, and the rest for lines below."""
        changes = changes_of(trial, self.unset)
        shown = 1
        while shown < len(changes) and len(", ".join(changes[: shown + 1])) < self._room - 1:
            shown += 1
        first, rest = ", ".join(changes[:shown]), ", ".join(changes[shown:])
        if len(first) >= self._room:
            first, rest = "", ", ".join(changes)
        return first + ("," if first and rest else ""), self._below(rest, "").plain if rest else ""

    def _figures(self, step: Step) -> Text:
        """A column for each objective: times as good as the default; of the first launches themselves."""
        line, scores = Text(), step.scores or ()
        untouched = step.observation.trial.subject is Subject.UNTOUCHED
        for i, (one, score) in enumerate(zip(self.objectives, scores, strict=True)):
            if untouched or step.baseline is None:
                text, style = figure_text(score.value, unit=one.unit), "dim"
            else:
                ratio = ratio_to(one, score, step.baseline[i])
                best = step.observation.trial.subject is Subject.SWEEP and step.best is not None
                text = ratio_text(ratio) + ("*" if best and score == step.best[i] else " ")  # type: ignore[index] # known
                style = "green" if ratio > 1 else "red"
            line.append(f"{text:>{self._column(one)}}", f"not dim {style}" if style != "dim" else style)
        return line

    def _details(self, step: Step) -> Text:
        observation = step.observation
        said = [f"launch {observation.trial.number}", *filter(None, [observation.trial.note])]
        if step.scores is not None:
            said += [
                f"{one.name} {figure_text(score.value, score.sem, one.unit)}"
                for one, score in zip(self.objectives, step.scores, strict=True)
            ]
        line = self._below(" · ".join(said), "dim")
        if beside := disturbed(observation):
            line.append_text(self._below(f"interference: {beside}", "yellow"))
        return line

    def _below(self, text: str, style: str) -> Text:
        """Text on lines of its own, below what is tried."""
        lines = textwrap.wrap(text, max(self.width - _INDENT, 20), break_on_hyphens=False)
        return Text("".join(f"\n{'':{_INDENT}}{line}" for line in lines), style)

    def _column(self, objective: Objective) -> int:
        return 2 + min(max(len(objective.name), _LEAST), _MOST)

    @property
    def _room(self) -> int:
        return max(self.width - _INDENT - sum(map(self._column, self.objectives)), 16)
