"""The input of a report (step 12 of the flow)."""

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
    """The input of a report; parts that a campaign does not have yet are left out of its page."""

    title: str  # Name of the campaign.
    space: Space  # The searched parameters, and those that the machine lacks.
    objectives: Sequence[Objective]  # The objectives.
    history: History  # Every launch.
    recommendation: Recommendation | None = None  # The recommendation; None before there is one.
    baseline: Envelope = field(default_factory=dict)  # The times of the stack's own defaults.
    effects: Sequence[Effects] = ()  # The screening's analyses, one for each objective.
    screening: ScreeningResult | None = None  # The screening's decisions on its factors.
    rounds: Sequence[VerificationRound] = ()
    """The verification's rounds, the last one being that of the recommendation."""
    findings: Sequence[tuple[str, str]] = ()  # Findings on the machine, as (name, value).
    exports: Sequence[str] = ()  # Paths of the files that were written.
    untried: Sequence[str] = ()  # Files for libraries that were not available to check them.
    use: str = ""  # The line that applies the exported files; empty: there are none to apply.
    harmless: str = ""
    """The best setting that slows down no other call, where it differs from the recommendation; empty: none
    was verified."""
    idle: bool = False  # Whether the exported files set nothing.
    stamp: str = ""  # ``SIMULATED (…)`` where no real MPI ran, else empty.
    state: str = "complete"  # State of the campaign; one other than ``complete`` stands on top of the page.
    discovery: Mapping[str, Any] | None = None  # Findings of a discovery, see ``views.discovery``.
    remarks: Sequence[Remark] = ()  # Remarks on the noise of the measurements.
    worth: str = ""
    """A sentence on the saving for the application that the campaign was made for; empty: for none."""
    guidelines: Mapping[str, Any] | None = None
    """Performance guidelines that are violated, see ``views.guidelines``."""
    asked: Sequence[Covered] = ()  # Calls of a job, with whether the measurements cover them.
    ran: Mapping[str, Any] | None = None  # The ``run.json`` of a job that tuned itself.
    protocols: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports for the recommended setting."""
    before: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports by default; empty: no UCX was in use."""
    running: bool = False  # Whether the page reloads itself every half a minute.
    whole: Space | None = None
    """All parameters that a launch may have set, those of a discovery included; None: those of ``space``."""

    @property
    def unset(self) -> Point:
        """Return the stack's own values of all parameters that a launch may have set."""
        return (self.whole or self.space).unset
