"""Repeat launches that were lost (ended from outside), since a loss says nothing about their setting."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autotune.campaign import interruption
from autotune.campaign.failures import RULE
from autotune.history.folder import make_empty
from autotune.history.trial import Status
from autotune.stacks.ports import LaunchOutcome


def made_until_not_lost(attempt: Callable[[], LaunchOutcome], directory: Path) -> LaunchOutcome:
    """Make a launch, repeat it while it is lost (ended from outside), and return the last outcome.

    Args:
        attempt: Makes the launch once; it is called ``RULE.attempts`` times at most.
        directory: The launch's directory; files that a lost attempt left there are removed.

    Raises:
        Interrupted: the user ended the campaign, and the launch with it.
    """
    reasons: list[str] = []
    while True:
        outcome = attempt()
        if outcome.status is not Status.OK:
            interruption.check()  # a signal that ends the campaign may have ended the launch first
        if outcome.status is not Status.LOST or outcome.given_up:
            return replace(outcome, lost_before=tuple(reasons))
        if len(reasons) == RULE.attempts - 1:
            reason = f"lost {RULE.attempts} times in a row: {outcome.reason}"
            return replace(outcome, reason=reason, lost_before=tuple(reasons))
        reasons.append(outcome.reason)
        make_empty(directory)
