"""The edges of the campaign, each with one or two methods; nothing here knows an adapter.

=============  ====================================  ==========================================
port           adapters                              promise
=============  ====================================  ==========================================
``Proposer``   ``proposers/``                        stateless: a function of its arguments
``Store``      ``history.journal``                   what was appended survives a crash
``Exporter``   ``exporters/``                        text, nothing written
``Listener``   ``views.console``                     watches, changes nothing
=============  ====================================  ==========================================

``Observer``, which makes a trial by whatever means, is in ``campaign.observing``; those between a trial and a
running program, ``Stack`` and ``Launcher``, are in ``stacks.ports``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.summary import Step
from autotune.space import Point, Space

if TYPE_CHECKING:
    from autotune.campaign.description import Description
    from autotune.recommend.recommendation import Recommendation
    from autotune.screening import Effects, ScreeningDesign, ScreeningResult


@dataclass(frozen=True, slots=True)
class Problem:
    """A proposer's task."""

    space: Space  # What may be chosen.
    objectives: tuple[Objective, ...]  # What is judged, on the envelope.
    min_gain: float = 0.0  # Stop when the expected relative gain falls below this.
    max_loss: float | None = None  # Relative loss at any size that rules a setting out; None: none does.
    whole: Space | None = None
    """Where the history comes from, if that is more than ``space``: a screening varied what is now fixed."""

    @property
    def known(self) -> Space:
        """The space that the history's points belong to."""
        return self.whole or self.space


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The next launch."""

    point: Point  # What to try.
    note: str = ""  # Why, in a few words for the log.
    expected_gain: float | None = None  # Relative gain expected of the envelope; None: it does not say.


class Proposer(Protocol):
    """Chooses the next launch; stateless, so that resuming is replaying."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """The next launch as a function of the arguments alone; None: nothing more is worth a launch."""


class Store(Protocol):
    """An append-only list of events, each a JSON object with a key ``event``."""

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one event; when this returns it survives a crash."""

    def read(self) -> Sequence[Mapping[str, Any]]:
        """All events so far, oldest first."""


class Exporter(Protocol):
    """One file format."""

    name: str
    summary: str

    def export(self, recommendation: "Recommendation", directory: Path) -> Mapping[str, str]:
        """File name → text; ``directory`` is where the files will lie (for absolute paths in them).

        Raises:
            UserError: the recommendation holds something that the format cannot say.
        """

    def use(self, recommendation: "Recommendation", directory: Path) -> str:
        """The line that applies the files in a directory, completely; empty: there is none.

        Raises:
            UserError: as ``export``.
        """


class Listener(Protocol):
    """Is notified of each step of a campaign; its own actions have no effect on it."""

    def phase(self, phase: Phase, n_trials: int) -> None:
        """A phase begins, of so many launches as far as is known; 0: the budget decides."""

    def designed(self, design: "ScreeningDesign") -> None:
        """The screening's design, in the order in which it will be run."""

    def discovered(self, campaign: "Description", history: History) -> None:
        """The discovery is complete; the campaign's space is what is left to search."""

    def screened(self, effects: "Sequence[Effects]", screening: "ScreeningResult") -> None:
        """The screening's analyses, one for each objective, and the decision on each factor."""

    def launching(self, trial: Trial, elapsed_s: float, left_s: float) -> None:
        """A launch starts, so long after the campaign did; about ``left_s`` remain until all of it ends."""

    def observed(self, step: Step) -> None:
        """A launch ended, whatever its status; ``step`` says what is known now."""
