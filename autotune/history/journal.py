"""The campaign's memory: ``journal.jsonl``, one JSON object a line, appended and synced (step 8 of the flow).

======================  ==========================================================================
event                   other keys
======================  ==========================================================================
``journal``             ``version``: of this format; always the first line
``campaign``            what the campaign is: scenario, space fingerprint, stack; once
``trial``               a trial, written before it is launched
``observation``         what a trial showed; its ``trial`` is the number
``note``                a decision worth keeping, e.g. what the screening fixed
``ended``               ``state``: complete, interrupted or failed, and why
======================  ==========================================================================

Names of events and keys are only ever added. A last line that was cut off by a crash is dropped when the
journal is opened for writing; a damaged line anywhere else is an error.
"""

import fcntl
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from autotune.errors import JournalError, LockedError
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Rule, Status, Subject, Trial
from autotune.space import Point

VERSION = 1
"""Of the format."""

FILE = "journal.jsonl"
"""Name of the journal in a campaign's directory."""


class Journal:
    """The journal of one campaign, opened by its only writer."""

    def __init__(self, directory: Path) -> None:
        """Lock and open the journal, creating both if they do not exist.

        Raises:
            LockedError: another process is writing it.
            JournalError: it is damaged or of a newer format.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / FILE
        self._file = self._path.open("a+b")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            self._file.close()
            raise LockedError(
                f"{directory} is being written by another process", "wait for it, or use another campaign.dir"
            ) from exc
        self._events = list(read_events(directory))
        self._drop_torn_line()
        if not self._events:
            self.append({"event": "journal", "version": VERSION})

    def append(self, event: Mapping[str, Any]) -> None:
        """Add one event; when this returns it survives a crash."""
        line = json.dumps(_finite(event), separators=(",", ":"), allow_nan=False).encode() + b"\n"
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._events.append(json.loads(line))

    def read(self) -> Sequence[Mapping[str, Any]]:
        """All events so far, oldest first."""
        return tuple(self._events)

    def close(self) -> None:
        """Release the lock."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop_torn_line(self) -> None:
        text = self._path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole < len(text):
            self._file.truncate(whole)


def read_events(directory: Path) -> Sequence[Mapping[str, Any]]:
    """All events of a campaign, oldest first, without locking; empty where there is none yet.

    Raises:
        JournalError: a damaged line that is not the last one, or a newer format.
    """
    path = directory / FILE
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")
    events = []
    for number, line in enumerate(
        lines[:-1], start=1
    ):  # what follows the last newline was cut off by a crash
        try:
            event = json.loads(line)
        except ValueError as exc:
            raise JournalError(f"{path}, line {number} is damaged: {exc}") from exc
        if not isinstance(event, dict) or "event" not in event:
            raise JournalError(f"{path}, line {number} is no event")
        events.append(event)
    if events and (events[0]["event"] != "journal" or events[0].get("version", 0) > VERSION):
        raise JournalError(
            f"{path} is no journal of version {VERSION} or older: its first line is {lines[0][:80]!r}",
            "it may have been written by a newer autotune",
        )
    return tuple(events)


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


def _finite(item: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(item, float):
        return item if math.isfinite(item) else None
    if isinstance(item, Mapping):
        return {str(k): _finite(v) for k, v in item.items()}
    if isinstance(item, list | tuple):
        return [_finite(v) for v in item]
    return item
