"""Trials and observations as events of the journal, and back: pure, nothing is read or written here.

======================  ==========================================================================
event                   other keys
======================  ==========================================================================
``journal``             ``version``: of this format; always the first line
``campaign``            what the campaign is: scenario, space, objectives, site; once
``started``             ``pid`` and ``host`` of a process that writes from here on
``trial``               a trial, written before it is launched
``observation``         what a trial showed; its ``trial`` is the number
``ended``               ``state``: complete, interrupted or failed; ``reason`` or ``launches``
======================  ==========================================================================

Names of events and keys are only ever added.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from autotune.errors import JournalError
from autotune.history.trial import History, Observation, Trial
from autotune.structure import Document, plain

_EVENT = Document("an event of the journal", JournalError, own=True, newer=True)


class State(StrEnum):
    """How a campaign stands, or how its last run ended."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


def started_event(pid: int, host: str) -> dict[str, Any]:
    """That a process begins to write."""
    return {"event": "started", "pid": pid, "host": host}


def ended_event(state: State, **more: object) -> dict[str, Any]:
    """That it ends: well, with the ``launches`` of its budget, or not, with the ``reason``."""
    return {"event": "ended", "state": state.value, **more}


def trial_event(trial: Trial) -> dict[str, Any]:
    """A trial as an event."""
    return {"event": "trial", **plain(trial)}


def trial_of(event: Mapping[str, Any]) -> Trial:
    """The trial in an event.

    Raises:
        JournalError: a key is missing, or its value is of the wrong type.
    """
    return _EVENT.structured(Trial, event)


def observation_event(observation: Observation) -> dict[str, Any]:
    """An observation as an event; the trial is named by its number."""
    event = {"event": "observation", **plain(observation), "trial": observation.trial.number}
    for estimate in event["estimates"]:
        if not estimate["reason"]:  # of every usable cell
            del estimate["reason"]
    return event


def observation_of(event: Mapping[str, Any], trial: Trial) -> Observation:
    """What may be believed of the observation in an event.

    Raises:
        JournalError: a key is missing, or its value is of the wrong type.
    """
    return _EVENT.structured(Observation, {**event, "trial": trial}).believed()


def history_of(events: Sequence[Mapping[str, Any]]) -> History:
    """All observations of a journal."""
    trials = {event["number"]: trial_of(event) for event in events if event["event"] == "trial"}
    return History(
        tuple(observation_of(e, trials[e["trial"]]) for e in events if e["event"] == "observation")
    )


def unfinished(events: Sequence[Mapping[str, Any]]) -> Trial | None:
    """The trial that was written but never observed: its launch was interrupted."""
    done = {event["trial"] for event in events if event["event"] == "observation"}
    left = [event for event in events if event["event"] == "trial" and event["number"] not in done]
    return trial_of(left[-1]) if left else None
