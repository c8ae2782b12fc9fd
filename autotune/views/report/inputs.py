"""Input of a page (step 12 of the flow)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.campaign.noise import Remark
from autotune.history.objectives import Envelope, Objective
from autotune.history.trial import History
from autotune.recommend.coverage import Covered
from autotune.recommend.recommendation import Recommendation
from autotune.screening import Effects, ScreeningResult
from autotune.space import Point, Space
from autotune.verification.one_round import VerificationRound


@dataclass(frozen=True, slots=True)
class ReportInput:
    """The input of a report; whatever a campaign does not have yet is left out of its page."""

    title: str  # Name of the campaign.
    space: Space  # The parameters, and those that the machine lacks.
    objectives: Sequence[Objective]  # The objectives.
    history: History  # Every launch.
    recommendation: Recommendation | None = None  # The recommendation.
    baseline: Envelope = field(default_factory=dict)  # The stack's own defaults.
    effects: Sequence[Effects] = ()  # The screening's analyses, one for each objective.
    screening: ScreeningResult | None = None  # The decisions on its factors.
    rounds: Sequence[VerificationRound] = ()
    """The verification's rounds, the last one being that of the recommendation."""
    findings: Sequence[tuple[str, str]] = ()  # (what, found) pairs about the machine.
    exports: Sequence[str] = ()  # Files that were written.
    untried: Sequence[str] = ()  # Those of libraries that were not at hand.
    use: str = ""  # The one line that uses them; empty: there are none to use.
    idle: bool = False  # Whether they set nothing.
    stamp: str = ""  # ``SIMULATED (…)`` where no real MPI ran, else empty.
    state: str = "complete"  # State of the campaign: anything but ``complete`` is said on top of the page.
    discovery: Mapping[str, Any] | None = None  # Findings of a discovery, see ``views.discovery``.
    remarks: Sequence[Remark] = ()  # Noise of the measurements.
    worth: str = ""
    """Its saving for the application that it was made for, in a sentence; empty: it was made for none."""
    guidelines: Mapping[str, Any] | None = None
    """Performance guidelines that are violated, see ``views.guidelines``."""
    asked: Sequence[Covered] = ()  # Calls of a job, and whether what was measured covers them.
    ran: Mapping[str, Any] | None = None  # The ``run.json`` of a job that tuned itself.
    protocols: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports for the recommended setting."""
    before: Sequence[tuple[str, str]] = ()  # The same by default; empty: no UCX was in use.
    running: bool = False  # Whether the page is to load itself again every half a minute.
    whole: Space | None = None
    """Everything that a launch may have set, the knobs of a discovery too; None: the space."""

    @property
    def unset(self) -> Point:
        """The stack's own values of everything that a launch may have set."""
        return (self.whole or self.space).unset
