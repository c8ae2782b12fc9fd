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

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Rule, Status, Subject, Trial
from autotune.space import Point


def trial_event(trial: Trial) -> dict[str, Any]:
    """A trial as an event."""
    document = asdict(trial)
    document["point"] = dict(trial.point)
    document["rules"] = [{**asdict(rule), "choice": dict(rule.choice)} for rule in trial.rules]
    return {"event": "trial", **document}


def trial_of(event: Mapping[str, Any]) -> Trial:
    """The trial in an event."""
    known = {k: v for k, v in event.items() if k in Trial.__dataclass_fields__}
    rules = tuple(Rule(**{**rule, "choice": Point.of(rule["choice"])}) for rule in event.get("rules", ()))
    return Trial(
        **{
            **known,
            "phase": Phase(event["phase"]),
            "subject": Subject(event["subject"]),
            "point": Point.of(event["point"]),
            "rules": rules,
        }
    )


def observation_event(observation: Observation) -> dict[str, Any]:
    """An observation as an event; the trial is named by its number."""
    estimates = [
        {**asdict(e), "cell": {**asdict(e.cell), "choice": dict(e.cell.choice)}}
        for e in observation.estimates
    ]
    document = {k: getattr(observation, k) for k in Observation.__dataclass_fields__}
    return {
        "event": "observation",
        **document,
        "trial": observation.trial.number,
        "estimates": estimates,
        "hosts": list(observation.hosts),
        "notes": list(observation.notes),
        "extra": dict(observation.extra),
    }


def observation_of(event: Mapping[str, Any], trial: Trial) -> Observation:
    """The observation in an event."""
    known = {k: v for k, v in event.items() if k in Observation.__dataclass_fields__}
    estimates = tuple(_estimate(document) for document in event["estimates"])
    return Observation(
        **{
            **known,
            "trial": trial,
            "status": Status(event["status"]),
            "estimates": estimates,
            "hosts": tuple(event["hosts"]),
            "notes": tuple(event["notes"]),
        }
    )


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


def _estimate(document: Mapping[str, Any]) -> Estimate:
    cell = Cell(**{**document["cell"], "choice": Point.of(document["cell"]["choice"])})
    numbers = {
        name: math.nan if document.get(name) is None else document[name]
        for name in ("median_s", "sem_s", "low_s", "high_s")
    }
    return Estimate(
        **{
            **{k: v for k, v in document.items() if k in Estimate.__dataclass_fields__},
            **numbers,
            "cell": cell,
            "status": Status(document["status"]),
        }
    )
