"""The results and facts that a report is made of (step 12 of the data flow)."""

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
    """The results and facts that a report shows; parts that a campaign does not have yet are left out."""

    title: str  # Name of the campaign.
    space: Space  # The parameters that are searched, and those that the machine does not have.
    objectives: Sequence[Objective]  # The objectives.
    history: History  # Every launch.
    recommendation: Recommendation | None = None  # The recommendation; None before there is one.
    baseline: Envelope = field(default_factory=dict)  # The times with the MPI's own defaults.
    effects: Sequence[Effects] = ()  # The screening's analyses, one for each objective.
    screening: ScreeningResult | None = None  # The screening's decisions on its factors.
    rounds: Sequence[VerificationRound] = ()
    """The rounds of the verification; the last one verified the recommendation."""
    findings: Sequence[tuple[str, str]] = ()  # Findings on the machine, as (name, value).
    exports: Sequence[str] = ()  # Paths of the exported files.
    untried: Sequence[str] = ()  # Paths of exported files for libraries with which no file could be tried.
    use: str = ""  # The command line that applies the exported files; empty if there is no file to apply.
    harmless: str = ""
    """A text on the best setting that slows down no other call, if that is not the recommendation; empty if
    no such setting was verified."""
    idle: bool = False  # Whether the exported files set nothing.
    stamp: str = ""  # ``SIMULATED (…)`` or the like if no real MPI ran, else empty.
    state: str = "complete"  # State of the campaign; unless it is ``complete``, the page begins with it.
    discovery: Mapping[str, Any] | None = None  # Results of a discovery, see ``views.discovery``.
    remarks: Sequence[Remark] = ()  # Remarks on the noise of the measurements.
    worth: str = ""
    """A sentence on the time saved in the application that the campaign was made for; empty without one."""
    guidelines: Mapping[str, Any] | None = None
    """Performance guidelines that are violated, see ``views.guidelines``."""
    asked: Sequence[Covered] = ()  # Calls of a job, with whether the measurements cover them.
    ran: Mapping[str, Any] | None = None  # The ``run.json`` of a job that tuned itself.
    protocols: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports for the recommended setting."""
    before: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports for the defaults; empty if UCX was not used."""
    running: bool = False  # Whether the page reloads itself every half a minute.
    whole: Space | None = None
    """All parameters that a launch may have set, including those of a discovery; None means ``space``."""

    @property
    def unset(self) -> Point:
        """Return the MPI's own values of all parameters that a launch may have set."""
        return (self.whole or self.space).unset
