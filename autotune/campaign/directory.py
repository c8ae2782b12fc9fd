"""Read a campaign's directory, for the commands and the report that show a campaign (data flow: journal).

Everything comes from the journal, so a directory can be read while its campaign runs, after the campaign was
killed, and on a machine without any MPI.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion, conclude
from autotune.campaign.spec import CampaignSpec, campaign_in
from autotune.campaign.strategy import Strategy
from autotune.errors import AutotuneError, UserError
from autotune.history.events import State, replayed
from autotune.history.folder import FILE, WISHES
from autotune.history.journal import Journal, is_locked, read_events
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario
from autotune.verification.choices import ChoiceKind


@dataclass(frozen=True, slots=True)
class CampaignDirectory:
    """Hold one campaign as its journal records it."""

    path: Path  # The campaign's directory.
    about: CampaignSpec  # The campaign's description.
    history: History  # All observations.
    state: State  # The state of the campaign, such as running or ended.
    reason: str  # Reason for the state in words; empty where the state needs none.
    pending: tuple[Trial, ...] = ()
    """Trials that were begun and not observed yet; if the campaign is running, they are under way."""
    lines: int = 0  # Number of lines that were read from the journal.

    @property
    def phase(self) -> Phase:
        """Return the phase of the last trial."""
        return self.history.observations[-1].trial.phase if len(self.history) else Phase.BASELINE

    @property
    def trials(self) -> Mapping[str, int]:
        """Return the number of trials by status."""
        return dict(Counter(o.status.value for o in self.history))

    def conclude(self) -> Conclusion:
        """Return the campaign's findings so far; they are computed at each call, so call it once."""
        return conclude(self.about, self.history, last_written(self.path))

    def recommended(
        self, kind: ChoiceKind = ChoiceKind.RECOMMENDED, conclusion: Conclusion | None = None
    ) -> Recommendation:
        """Return the campaign's recommendation, or another of its choices.

        Args:
            kind: The criterion of the choice.
            conclusion: The campaign's conclusion, if the caller has computed it; None computes it here.

        Raises:
            AutotuneError: every setting that was verified makes other calls slower.
            UserError: nothing is recommended yet, or there is no profile of calls to choose by.
        """
        conclusion = conclusion or self.conclude()
        choice = conclusion.choice(kind)
        if choice is None and conclusion.choices and kind is ChoiceKind.HARMLESS:
            raise AutotuneError(
                f"{self.path}: what it recommends is {conclusion.choices[0].recommendation.scope}; "
                "no setting that makes none of them slower was verified",
                "--choice recommended takes it all the same",
            )
        if choice is None and conclusion.choices:
            raise UserError(
                f"{self.path} has no choice {kind}: it was searched without a profile of calls",
                f"objective.weights=FILE gives one; here: {', '.join(c.kind for c in conclusion.choices)}",
            )
        recommendation = choice.recommendation if choice else None
        if recommendation is None:
            raise UserError(
                f"{self.path} recommends nothing yet: no setting was measured completely",
                f"see: autotune status {self.path}",
            )
        return recommendation


def read_campaign(directory: Path) -> CampaignDirectory:
    """Return the campaign in a directory.

    Raises:
        UserError: the directory contains no campaign.
        JournalError: the campaign's journal is damaged or of a newer format.
    """
    if (campaign := find_campaign(directory)) is not None:
        return campaign
    hint = f"expected a directory with a {FILE}"
    if (directory / WISHES).is_file():
        hint = f"it is that of a whole site: its campaigns are in {directory / 'jobs'}"
    raise UserError(f"{directory} holds no campaign", hint)


def find_campaign(directory: Path) -> CampaignDirectory | None:
    """Return the campaign in a directory; None if none was begun, or it ended before writing its description.

    Raises:
        JournalError: the campaign's journal is damaged or of a newer format.
    """
    events = read_events(directory)
    if (description := campaign_in(events)) is None:
        return None
    history, pending = replayed(events)
    about = Strategy(description).plan(history).campaign
    return CampaignDirectory(directory, about, history, *_state(directory, events), pending, len(events))


def last_written(directory: Path) -> str:
    """Return the ISO date of the journal's last event."""
    return date.fromtimestamp((directory / FILE).stat().st_mtime).isoformat()


def _state(directory: Path, events: Sequence[Mapping[str, Any]]) -> tuple[State, str]:
    """Return the campaign's state and its reason.

    If the journal's last event is ``ended``, it contains the state; otherwise the state depends on whether a
    process still has the journal locked.
    """
    last = events[-1]
    if last["event"] == "ended":
        return State(last["state"]), str(last.get("reason", ""))
    if is_locked(directory):
        return State.RUNNING, ""
    return State.INTERRUPTED, "it was ended without a word; the same command continues it"


def start_over(scenario: Scenario) -> None:
    """Rename an existing campaign to a free name (``NAME.1``, ``NAME.2`` …), if ``campaign.fresh`` is set.

    Raises:
        UserError: the directory exists and is not a campaign.
        LockedError: another process is writing the campaign's journal.
    """
    directory = scenario.directory
    if not scenario.campaign.fresh or not directory.exists():
        return
    if not (directory / FILE).exists() and any(directory.iterdir()):
        raise UserError(f"{directory} is not a campaign: it has no {FILE}", "choose another campaign.dir")
    with Journal(directory):
        number = 1
        while (aside := directory.with_name(f"{directory.name}.{number}")).exists():
            number += 1
        directory.rename(aside)
    sys.stdout.write(f"kept the earlier campaign as {aside}\n")
