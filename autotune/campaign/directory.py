"""A campaign's directory, read: what its verbs and its report know (steps 8 and 10 of the flow).

Everything comes from the journal, so it can be read while the campaign runs, after it was killed, and on a
machine without any MPI.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion, conclude
from autotune.campaign.description import Description, campaign_in
from autotune.campaign.strategy import Strategy
from autotune.errors import UserError
from autotune.history.events import State, replayed
from autotune.history.folder import FILE, WISHES
from autotune.history.journal import Journal, is_locked, read_events
from autotune.history.trial import History, Phase, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario
from autotune.verification.choices import ChoiceKind


@dataclass(frozen=True, slots=True)
class CampaignDirectory:
    """One campaign as recorded in its journal."""

    path: Path  # Where it lives.
    about: Description  # What was asked for, and of which space.
    history: History  # All observations.
    state: State  # How it stands.
    reason: str  # In words, where the state needs some.
    pending: tuple[Trial, ...] = ()  # Trials that were begun and not observed: under way where it is running.
    lines: int = 0  # Of its journal that were read.

    @property
    def phase(self) -> Phase:
        """Phase of the last trial."""
        return self.history.observations[-1].trial.phase if len(self.history) else Phase.BASELINE

    @property
    def trials(self) -> Mapping[str, int]:
        """Number of trials by status."""
        return dict(Counter(o.status.value for o in self.history))

    def conclude(self) -> Conclusion:
        """Its findings so far: computed at each call, so call it once."""
        return conclude(self.about, self.history, last_written(self.path))

    def recommended(self, kind: ChoiceKind = ChoiceKind.RECOMMENDED) -> Recommendation:
        """Its recommendation, or another of its choices.

        Raises:
            UserError: nothing yet, or no profile of calls to choose by.
        """
        conclusion = self.conclude()
        choice = conclusion.choice(kind)
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
    """The campaign in a directory.

    Raises:
        UserError: there is no campaign.
        JournalError: its journal is damaged or of a newer format.
    """
    if (found := find_campaign(directory)) is not None:
        return found
    hint = f"expected a directory with a {FILE}"
    if (directory / WISHES).is_file():
        hint = f"it is that of a whole site: its campaigns are in {directory / 'jobs'}"
    raise UserError(f"{directory} holds no campaign", hint)


def find_campaign(directory: Path) -> CampaignDirectory | None:
    """The campaign in a directory; None: none was begun, or its process ended before it said which.

    Raises:
        JournalError: its journal is damaged or of a newer format.
    """
    events = read_events(directory)
    if (begun := campaign_in(events)) is None:
        return None
    history, pending = replayed(events)
    about = Strategy(begun).plan(history).campaign
    return CampaignDirectory(directory, about, history, *_state(directory, events), pending, len(events))


def last_written(directory: Path) -> str:
    """ISO date of the journal's last event."""
    return date.fromtimestamp((directory / FILE).stat().st_mtime).isoformat()


def _state(directory: Path, events: Sequence[Mapping[str, Any]]) -> tuple[State, str]:
    """The state by the journal's last event, and where it has none, whether anybody is still writing."""
    last = events[-1]
    if last["event"] == "ended":
        return State(last["state"]), str(last.get("reason", ""))
    if is_locked(directory):
        return State.RUNNING, ""
    return State.INTERRUPTED, "it was ended without a word; the same command continues it"


def start_over(scenario: Scenario) -> None:
    """For ``campaign.fresh``: rename an existing campaign to the first free one of ``NAME.1``, ``NAME.2`` ….

    Raises:
        UserError: the directory exists and is not a campaign.
        LockedError: somebody is writing it.
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
