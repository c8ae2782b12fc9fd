"""Launches that are lost, which says nothing of their setting, are made again (step 5 of the flow)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autotune.campaign import interruption
from autotune.campaign.failures import RULE
from autotune.history.folder import make_empty
from autotune.history.trial import Status
from autotune.stacks.ports import LaunchOutcome


def made_until_not_lost(attempt: Callable[[], LaunchOutcome], directory: Path) -> LaunchOutcome:
    """The outcome of a launch that is made again while it is lost, ``RULE.attempts`` times at most.

    ``directory`` is that of the launch; what an attempt that was lost left there is removed.

    Raises:
        Interrupted: whoever ended the launch ends us too.
    """
    reasons: list[str] = []
    while True:
        outcome = attempt()
        if outcome.status is not Status.OK:
            interruption.check()  # who ends us may have ended the launch before us: it is no fault of it
        if outcome.status is not Status.LOST or outcome.given_up:
            return replace(outcome, lost_before=tuple(reasons))
        if len(reasons) == RULE.attempts - 1:
            reason = f"lost {RULE.attempts} times in a row: {outcome.reason}"
            return replace(outcome, reason=reason, lost_before=tuple(reasons))
        reasons.append(outcome.reason)
        make_empty(directory)
