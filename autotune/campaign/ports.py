"""Define the campaign's ports: protocols that adapters implement; no adapter is known here.

=============  ====================================  ==========================================
port           adapters                              promise
=============  ====================================  ==========================================
``Proposer``   ``proposers/``                        stateless: a function of its arguments
``Store``      ``history.journal``                   what was appended survives a crash
``Exporter``   ``exporters/``                        text, nothing written
``Listener``   ``views.console``                     watches, changes nothing
=============  ====================================  ==========================================

``Observer``, which makes a trial by whatever means, is in ``campaign.observing``; the ports between a trial
and a running program, ``Stack`` and ``Launcher``, are in ``stacks.ports``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from autotune.history.objectives import Objective
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.recommend.summary import Step
from autotune.space import Point, Space

if TYPE_CHECKING:
    from autotune.campaign.needed import Need
    from autotune.campaign.spec import CampaignSpec
    from autotune.recommend.recommendation import Recommendation
    from autotune.screening import Effects, ScreeningDesign, ScreeningResult


@dataclass(frozen=True, slots=True)
class Problem:
    """Describe a proposer's task."""

    space: Space  # The settings that may be chosen.
    objectives: tuple[Objective, ...]
    """The objectives, which are computed from a setting's envelope (its best choice at each size)."""
    min_gain: float = 0.0  # The search stops when the expected relative gain falls below this.
    max_loss: float | None = None  # Relative loss at any size that rules a setting out; None: no loss does.
    history_space: Space | None = None
    """The space of the history's points, if it is larger than ``space`` because a screening also varied
    factors that are fixed now; else None."""
    earlier: tuple[Observation, ...] = ()
    """Launches of points of that space that were made before the search, as by a discovery. A model learns
    from them, but they are no launches of the search, which may choose these points."""

    @property
    def known(self) -> Space:
        """Return the space that the history's points belong to."""
        return self.history_space or self.space


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Hold a proposer's choice of the next launch."""

    point: Point  # The point to launch.
    note: str = ""  # The reason, in a few words for the log.
    expected_gain: float | None = None
    """Expected relative gain in time, with the best choice at each size; None: the proposer does not estimate
    the gain."""


class Proposer(Protocol):
    """Choose the next launch; a proposer is stateless, so a campaign is resumed by replaying its history."""

    def propose(self, problem: Problem, history: History, seed: int) -> Suggestion | None:
        """Return the next launch as a function of the arguments alone; None if none is worth a launch."""


class Store(Protocol):
    """Store an append-only list of events, each a JSON object with a key ``event``."""

    def append(self, *events: Mapping[str, Any]) -> None:
        """Add some events, all or none; once this returns, the events survive a crash."""

    def read(self) -> Sequence[Mapping[str, Any]]:
        """Return all events so far, oldest first."""


class Exporter(Protocol):
    """Export a recommendation in one file format."""

    name: str
    summary: str

    def export(self, recommendation: "Recommendation", directory: Path) -> Mapping[str, str]:
        """Return the text of each file by file name.

        ``directory`` is where the files will be, for absolute paths in them.

        Raises:
            UserError: the recommendation contains something that the format cannot express.
        """

    def use(self, recommendation: "Recommendation", directory: Path) -> str:
        """Return the complete line that makes a program use the files in a directory; empty if there is none.

        Raises:
            UserError: as for ``export``.
        """


class Listener(Protocol):
    """Receive a notification of each step of a campaign; a listener has no effect on the campaign."""

    def phase(self, phase: Phase, n_trials: int) -> None:
        """A phase begins; ``n_trials`` is the number of its launches, 0 if the budget decides."""

    def forecast(self, need: "Need", left_s: float) -> None:
        """The verification begins; ``left_s`` seconds are left for its needs, infinite without a limit."""

    def designed(self, design: "ScreeningDesign") -> None:
        """The screening's design is known; its runs are in the order in which they will be launched."""

    def discovered(self, campaign: "CampaignSpec", history: History) -> None:
        """The discovery is complete; the campaign's space is the one left to search."""

    def screened(self, effects: "Sequence[Effects]", screening: "ScreeningResult") -> None:
        """The screening is complete, with its analysis for each objective and the decision on each factor."""

    def launching(self, trial: Trial, elapsed_s: float, left_s: float) -> None:
        """A launch starts ``elapsed_s`` after the campaign's start, at most ``left_s`` before its end."""

    def observed(self, step: Step) -> None:
        """A launch ended, with whatever status; ``step`` contains the campaign's state after it."""
