"""What a page is made of (step 12 of the flow)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autotune.campaign.noise import Remark
from autotune.history.objectives import Envelope, Objective
from autotune.history.trial import History
from autotune.recommend.coverage import Covered
from autotune.recommend.recommendation import Recommendation
from autotune.screening import Effects, ScreeningResult
from autotune.space import Space
from autotune.verification.one_round import VerificationRound


@dataclass(frozen=True, slots=True)
class ReportInput:
    """What a report is made of; whatever a campaign does not have yet is left out of its page."""

    title: str
    """Name of the campaign."""
    space: Space
    """What could be chosen, and what the machine could not offer."""
    objectives: Sequence[Objective]
    """What is judged."""
    history: History
    """Every launch."""
    recommendation: Recommendation | None = None
    """What came out."""
    baseline: Envelope = field(default_factory=dict)
    """The stack's own defaults."""
    effects: Sequence[Effects] = ()
    """The screening's analyses, one for each objective."""
    screening: ScreeningResult | None = None
    """What became of its factors."""
    rounds: Sequence[VerificationRound] = ()
    """Of the verification, the last one being that of the recommendation."""
    findings: Sequence[tuple[str, str]] = ()
    """(what, found) pairs about the machine."""
    exports: Sequence[str] = ()
    """Files that were written."""
    untried: Sequence[str] = ()
    """Of them those of libraries that were not at hand."""
    use: str = ""
    """The one line that uses them; empty: there are none to use."""
    idle: bool = False
    """Whether they set nothing."""
    stamp: str = ""
    """``SIMULATED (…)`` where no real MPI ran, else empty."""
    state: str = "complete"
    """Of the campaign: anything but ``complete`` is said on top of the page."""
    discovery: Mapping[str, Any] | None = None
    """What a discovery found, see ``views.discovery``."""
    remarks: Sequence[Remark] = ()
    """What stood in the way of measuring."""
    worth: str = ""
    """What it saves the application that it was made for, in a sentence; empty: it was made for none."""
    guidelines: Mapping[str, Any] | None = None
    """Performance guidelines that are violated, see ``views.guidelines``."""
    asked: Sequence[Covered] = ()
    """Calls of a job, and whether what was measured covers them."""
    protocols: Sequence[tuple[str, str]] = ()
    """(message sizes, protocol) that UCX reports for the recommended setting."""
    before: Sequence[tuple[str, str]] = ()
    """The same by default; empty: no UCX was in use."""
    running: bool = False
    """Whether the page is to load itself again every half a minute."""
