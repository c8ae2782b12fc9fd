"""Convert trials and observations to events of the journal, and back, without reading or writing files.

======================  ==========================================================================
event                   other keys
======================  ==========================================================================
``journal``             ``version`` of this format; the event is always the first line
``campaign``            description of the campaign: scenario, space, objectives, site; written once
``changed``             ``scenario``: sections that have other values from here on
``started``             ``pid`` and ``host`` of a process that writes from here on; ``seal`` of its user
``narrowed``            decisions of a discovery: the ``space`` left to search, points to search first
                        and points to verify
``trial``               a trial, written before it is launched, with the decisions that led to it: the
                        members of a block, a factor to try again
``observation``         the result of a trial; ``trial`` is the trial's number
``ended``               ``state``: complete, interrupted or failed; ``reason`` or ``launches``
======================  ==========================================================================

Names of events and keys are added, but never changed or removed.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

from autotune.errors import JournalError
from autotune.history.trial import Cell, Estimate, History, Observation, Status, Trial
from autotune.structure import Document, plain

_REPAIR = "autotune status DIR --repair   keeps everything that can be read"
_FIGURES = itemgetter("median_s", "sem_s", "n", "low_s", "high_s", "outliers")
_KINDS = (float, float, int, float, float, int)
_KEYS = {"cell", "median_s", "sem_s", "n", "status", "low_s", "high_s", "outliers", "extra"}
"""Keys of the usual JSON object of an estimate with status ``ok``."""
_EVENT = Document("an event of the journal", JournalError, own=True, newer=True)


class State(StrEnum):
    """Says whether a campaign is running, or how its last run ended."""

    RUNNING = "running"
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


def changed_event(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event which says that from here on some sections of the scenario have other values."""
    return {"event": "changed", "scenario": dict(sections)}


def started_event(pid: int, host: str, seal: str = "") -> dict[str, Any]:
    """Return the event that says that a process begins to write the journal.

    Args:
        pid: Process id of the writer.
        host: Name of the writer's machine.
        seal: The user's seal (HMAC) of the campaign's description; empty if there is none.
    """
    return {"event": "started", "pid": pid, "host": host, **({"seal": seal} if seal else {})}


def ended_event(state: State, **details: object) -> dict[str, Any]:
    """Return the event that says how a run of the campaign ended.

    Args:
        state: The state at the end.
        details: ``launches``, the number of launches made from the budget, if the run ended well; else
            ``reason``.
    """
    return {"event": "ended", "state": state.value, **details}


def trial_event(trial: Trial) -> dict[str, Any]:
    """Return a trial as an event; keys that few trials use are left out if they have no value."""
    event = {"event": "trial", **plain(trial)}
    for key in ("timeout_s", "repeats", "each", "heat", "measured_s", "block_members", "freed"):
        if not event[key]:
            del event[key]
    return event


def trial_of(event: Mapping[str, Any]) -> Trial:
    """Return the trial in an event.

    Raises:
        JournalError: a key is missing, or its value is of the wrong type.
    """
    return _EVENT.structured(Trial, event)


def observation_event(observation: Observation) -> dict[str, Any]:
    """Return an observation as an event, which names its trial by number."""
    event = {"event": "observation", **plain(observation), "trial": observation.trial.number}
    for estimate in event["estimates"]:
        if not estimate["reason"]:  # every usable cell has an empty reason
            del estimate["reason"]
    return event


def observation_of(event: Mapping[str, Any], trial: Trial) -> Observation:
    """Return the observation in an event, without the figures that no measurement can have given.

    Raises:
        JournalError: a key is missing, or its value is of the wrong type.
    """
    estimates = event.get("estimates")
    if isinstance(estimates, list):
        event = {**event, "estimates": [_estimate_of(e) for e in estimates]}
    return _EVENT.structured(Observation, {**event, "trial": trial}).believed()


def _estimate_of(document: Any) -> Any:
    """Return the estimate in a document of the usual form; return any other document for the full check."""
    if not isinstance(document, dict):
        return document
    cell, extra = _cell_of(document.get("cell")), document.get("extra")
    if type(cell) is Cell and type(extra) is dict and document.keys() == _KEYS and document["status"] == "ok":
        figures = _FIGURES(document)
        if (*map(type, figures),) == _KINDS and all(type(value) is float for value in extra.values()):
            median_s, sem_s, n, low_s, high_s, outliers = figures
            return Estimate(cell, median_s, sem_s, n, Status.OK, low_s, high_s, outliers, extra)
    return {**document, "cell": cell}


def _cell_of(document: Any) -> Any:
    """Return the cell in a document, or a flawed document itself; equal cells are the same object."""
    try:
        place = (document["collective"], document["comm_size"], document["message_bytes"])
        return _cell(*place, *chain.from_iterable(document["choice"].items()))
    except (KeyError, TypeError, AttributeError, JournalError):
        return document


@lru_cache(4096, typed=True)
def _cell(collective: Any, comm_size: Any, message_bytes: Any, *choice: Any) -> Cell:
    values = dict(zip(choice[::2], choice[1::2], strict=True))
    document = {"collective": collective, "comm_size": comm_size, "message_bytes": message_bytes}
    return _EVENT.structured(Cell, {**document, "choice": values})


def replayed(events: Sequence[Mapping[str, Any]]) -> tuple[History, tuple[Trial, ...]]:
    """Return all observations of a journal, and the trials that were interrupted before they were observed.

    There is at most one such trial, unless observations were lost in a damaged journal.

    Raises:
        JournalError: an event cannot be read, a trial or an observation is there twice, or an observation
            belongs to no trial.
    """
    trials, observations = _read(events)
    observed = {observation.trial.number for observation in observations}
    return History(observations), tuple(trial for trial in trials if trial.number not in observed)


def history_of(events: Sequence[Mapping[str, Any]]) -> History:
    """Return all observations of a journal; it raises what ``replayed`` raises."""
    return replayed(events)[0]


def _read(events: Sequence[Mapping[str, Any]]) -> tuple[tuple[Trial, ...], tuple[Observation, ...]]:
    trials: dict[int, Trial] = {}
    observations: dict[int, Observation] = {}
    for line, event in enumerate(events, start=1):
        if event["event"] == "trial":
            trial = trial_of(event)
            if trial.number in trials:
                raise JournalError(f"the journal's line {line}: trial {trial.number} is there twice", _REPAIR)
            trials[trial.number] = trial
        elif event["event"] == "observation":
            number = event.get("trial")
            if not isinstance(number, int) or number not in trials:
                raise JournalError(f"the journal's line {line}: there is no trial {number!r}", _REPAIR)
            if number in observations:
                raise JournalError(f"the journal's line {line}: trial {number} was observed before", _REPAIR)
            observations[number] = observation_of(event, trials[number])
    return tuple(trials.values()), tuple(observations.values())
