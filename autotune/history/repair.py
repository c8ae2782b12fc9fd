"""Recover the readable events of a damaged journal, from its bytes alone (data flow: journal).

A trial whose observation was lost is launched again when the campaign continues. An observation whose trial
was lost says nothing and is dropped.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.errors import JournalError
from autotune.history.events import observation_of, trial_of
from autotune.history.journal import opened
from autotune.history.trial import Trial

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Salvage:
    """Holds the readable part of a journal, and a list of what was lost."""

    events: tuple[Event, ...]  # Events in order, without the first one, which contains the format's version.
    lost: tuple[str, ...]  # What cannot be read, in words.


def salvaged(text: bytes) -> Salvage:
    """Return all that is intact in the bytes of a journal.

    Raises:
        JournalError: the event that describes the campaign is lost, without which the rest means nothing.
    """
    lost: list[str] = []
    events = tuple(_consistent(_readable(text, lost), lost))
    if not any(event["event"] == "campaign" for event in events):
        raise JournalError(
            "what the campaign is was lost, so that the rest means nothing", "it cannot be repaired"
        )
    return Salvage(events, tuple(lost))


def _readable(text: bytes, lost: list[str]) -> list[Event]:
    """Return the events of the intact lines, each once, in the order of the lines' numbers.

    A description of each damaged or missing line is added to ``lost``.
    """
    *lines, torn = text.split(b"\n")
    events_by_number: dict[int, Event] = {}
    damaged = 0
    must_be_sealed = False
    for place, line in enumerate(lines, start=1):
        try:
            journal_line = opened(line)
        except ValueError as exc:
            damaged += 1
            lost.append(f"line {place}: {exc}")
            continue
        must_be_sealed |= journal_line.number is not None
        number = journal_line.number or place
        if must_be_sealed and journal_line.number is None:
            damaged += 1
            lost.append(f"line {place}: it has no checksum")
        elif number in events_by_number:
            lost.append(f"line {place}: line {number} again")
        else:
            events_by_number[number] = journal_line.event
    missing = max(events_by_number, default=0) - len(events_by_number) - damaged
    if missing > 0:
        lost.append(f"{missing} line(s) that are not there")
    if torn:
        lost.append(f"{len(torn)} bytes of a last line that was cut off")
    return [event for _, event in sorted(events_by_number.items()) if event["event"] != "journal"]


def _consistent(events: list[Event], lost: list[str]) -> Iterator[Event]:
    """Yield the events except repeated events, unreadable trials and observations of trials that were lost.

    A description of each event that is left out is added to ``lost``, and so is each trial without an
    observation.
    """
    trials: dict[int, Trial] = {}
    observed: set[int] = set()
    described = False
    for event in events:
        try:
            if event["event"] == "campaign" and described:
                raise JournalError("the campaign is described again")
            if event["event"] == "trial":
                trial = trial_of(event)
                if trial.number in trials:
                    raise JournalError(f"trial {trial.number} again")
                trials[trial.number] = trial
            if event["event"] == "observation":
                number = event.get("trial")
                if not isinstance(number, int) or number not in trials:
                    raise JournalError(f"the observation of trial {number!r}, which was lost")
                if number in observed:
                    raise JournalError(f"another observation of trial {number}")
                observation_of(event, trials[number])
                observed.add(number)
        except JournalError as exc:
            lost.append(exc.message)
            continue
        described |= event["event"] == "campaign"
        yield event
    lost += [f"the observation of trial {n}, which will be made again" for n in trials if n not in observed]
