"""A stack without processes: trials stay as they are, for launchers that answer them by themselves."""

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.history.trial import Subject, Trial
from autotune.probe.protocol import Choice
from autotune.space import Space
from autotune.stacks.ports import Rendering


@dataclass(frozen=True, slots=True)
class Modelled:
    """Renders only what a model or a recording looks at: the call-level choices."""

    def render(self, space: Space, trial: Trial, collectives: Sequence[str]) -> Rendering:
        """The choices of a swept trial; nothing for the others."""
        if trial.subject is not Subject.SWEEP:
            return Rendering()
        return Rendering(
            choices={c: tuple(Choice(dict(p)) for p in space.choices(c, trial.point)) for c in collectives}
        )
