"""Write a line for each launch of a campaign: its phase, setting and result (step 8 of the data flow).

Notation: times are ``m:ss``; ``1.20×`` is a speed-up over the MPI's own defaults, those of the same heat if
there are any, where more than 1 is better; ``*`` marks what the best setting so far gains over them.
"""

import textwrap
from dataclasses import dataclass

from rich.text import Text

from autotune.campaign.noise import disturbed
from autotune.history.objectives import Objective
from autotune.history.trial import Subject, Trial
from autotune.recommend.summary import Step, ratio_to
from autotune.space import Point
from autotune.views.text import bound_text, clock_text, figure_text, ratio_text

WIDTH = 80  # Width in characters of a terminal by default, and of lines that are written to a file.
_PLACE, _INDENT = "{:>5}  {:>7}  {:>9}  ", 27
_LEAST, _MOST = 7, 12
"""Smallest and largest width of an objective's column in characters. A figure with its unit needs the
smallest width; longer names of objectives are cut to the largest width."""


def changes_of(trial: Trial, unset: Point) -> list[str]:
    """Return the values that a launch sets, as texts such as ``UCX_RNDV_THRESH=64k``.

    ``unset`` contains the MPI's own values; values equal to these are left out.
    """
    if trial.subject is Subject.UNTOUCHED:
        return ["default"]
    changes = [f"{n}={v}" for n, v in trial.point.items() if n not in unset or v != unset[n]]
    changes += ["rules by size"] if any(rule.sets for rule in trial.rules) else []
    return changes or ["default, each algorithm" if trial.subject is Subject.SWEEP else "default"]


@dataclass(frozen=True, slots=True)
class LaunchLines:
    """Writes the lines about a campaign's launches, which all have the same columns."""

    objectives: tuple[Objective, ...]  # The objectives; each has a column.
    unset: Point  # The MPI's own values of the parameters.
    phases: tuple[str, ...]  # Names of the planned phases, in order.
    width: int = WIDTH  # Width of a line in characters.
    verbose: bool = False
    """Whether further lines below each launch show its number, scores, reason and interference."""

    @property
    def legend(self) -> str:
        """Return a text of two lines that explains the columns."""
        return (
            "Columns: phase, elapsed and longest remaining time (m:ss), the setting tried,\n"
            "and its speed-up over the baseline (above 1 is better; * best so far)."
        )

    @property
    def heading(self) -> Text:
        """Return the names of the columns."""
        names = "".join(f"{o.name[:_MOST]:>{self._column(o)}}" for o in self.objectives)
        return Text(_PLACE.format("phase", "elapsed", "left") + f"{'tried':<{self._room}}" + names, "dim")

    def of(self, step: Step, phase: str, elapsed_s: float, left_s: float) -> Text:
        """Return the line of a launch that ended ``elapsed_s`` after the campaign began.

        ``left_s`` is the longest time until the campaign ends.
        """
        observation = step.observation
        line = Text(_PLACE.format(self.place(phase), clock_text(elapsed_s), bound_text(left_s)), "dim")
        setting, continuation = self._setting(observation.trial)
        line.append(f"{setting:<{self._room}}", "not dim")
        if observation.ok and step.scores is not None:
            line.append_text(self._figures(step))
            line.append(continuation)
        else:
            line.append("incomplete" if observation.ok else "failed", "not dim red")
            line.append(continuation)
            prefix = f"{str(observation.status).replace('_', ' ')}, launch {observation.trial.number}: "
            reason = prefix + observation.reason if not observation.ok else "some sizes have no usable time"
            line.append_text(self._below(reason, "not dim red"))
        if self.verbose:
            line.append_text(self._details(step))
        return line

    def place(self, phase: str) -> str:
        """Return the number of a phase among all phases, such as ``2/5``; a dash for an unplanned phase."""
        planned = phase in self.phases
        return f"{self.phases.index(phase) + 1}/{len(self.phases)}" if planned else "—"

    def _setting(self, trial: Trial) -> tuple[str, str]:
        """Return the values that a launch sets: those that fit on its line, then lines with the others."""
        changes = changes_of(trial, self.unset)
        n = 1
        while n < len(changes) and len(", ".join(changes[: n + 1])) < self._room - 1:
            n += 1
        first, extra = ", ".join(changes[:n]), ", ".join(changes[n:])
        if len(first) >= self._room:
            first, extra = "", ", ".join(changes)
        return first + ("," if first and extra else ""), self._below(extra, "").plain if extra else ""

    def _figures(self, step: Step) -> Text:
        """Return the columns of the objectives: speed-ups or, for the defaults themselves, scores."""
        line, scores = Text(), step.scores or ()
        untouched = step.observation.trial.subject is Subject.UNTOUCHED
        for i, (objective, score) in enumerate(zip(self.objectives, scores, strict=True)):
            if untouched or step.reference is None:
                text, style = figure_text(score.value, unit=objective.unit), "dim"
            else:
                ratio = ratio_to(objective, score, step.reference[i])
                text = ratio_text(ratio) + ("*" if step.leads and ratio > 1 else " ")
                style = "green" if ratio > 1 else "red"
            line.append(f"{text:>{self._column(objective)}}", f"not dim {style}" if style != "dim" else style)
        return line

    def _details(self, step: Step) -> Text:
        observation = step.observation
        details = [f"launch {observation.trial.number}", *filter(None, [observation.trial.note])]
        if step.scores is not None:
            details += [
                f"{objective.name} {figure_text(score.value, score.sem, objective.unit)}"
                for objective, score in zip(self.objectives, step.scores, strict=True)
            ]
        line = self._below(" · ".join(details), "dim")
        if interference := disturbed(observation):
            line.append_text(self._below(f"interference: {interference}", "yellow"))
        return line

    def _below(self, text: str, style: str) -> Text:
        lines = textwrap.wrap(text, max(self.width - _INDENT, 20), break_on_hyphens=False)
        return Text("".join(f"\n{'':{_INDENT}}{line}" for line in lines), style)

    def _column(self, objective: Objective) -> int:
        return 2 + min(max(len(objective.name), _LEAST), _MOST)

    @property
    def _room(self) -> int:
        return max(self.width - _INDENT - sum(map(self._column, self.objectives)), 16)
