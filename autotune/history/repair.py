"""Reading a damaged journal (step 8 of the flow): pure, nothing is read or written here.

A trial whose observation was lost is made again by whoever continues the campaign; an observation whose trial
was lost says nothing and goes with it.
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
    """The readable part of a journal."""

    events: tuple[Event, ...]  # In order, without the first one, which says the format's version.
    lost: tuple[str, ...]  # What is not, in words.


def salvaged(text: bytes) -> Salvage:
    """Read all that is intact in a journal.

    Raises:
        JournalError: what the campaign is cannot be read, so that nothing else means anything.
    """
    lost: list[str] = []
    events = tuple(_consistent(_readable(text, lost), lost))
    if not any(event["event"] == "campaign" for event in events):
        raise JournalError(
            "what the campaign is was lost, so that the rest means nothing", "it cannot be repaired"
        )
    return Salvage(events, tuple(lost))


def _readable(text: bytes, lost: list[str]) -> list[Event]:
    """The events of the lines that are whole, each once, in the order of their numbers."""
    *lines, torn = text.split(b"\n")
    found: dict[int, Event] = {}
    damaged = 0
    must_be_sealed = False
    for place, line in enumerate(lines, start=1):
        try:
            whole = opened(line)
        except ValueError as exc:
            damaged += 1
            lost.append(f"line {place}: {exc}")
            continue
        must_be_sealed |= whole.number is not None
        number = whole.number or place
        if must_be_sealed and whole.number is None:
            damaged += 1
            lost.append(f"line {place}: it has no checksum")
        elif number in found:
            lost.append(f"line {place}: line {number} again")
        else:
            found[number] = whole.event
    missing = max(found, default=0) - len(found) - damaged
    if missing > 0:
        lost.append(f"{missing} line(s) that are not there")
    if torn:
        lost.append(f"{len(torn)} bytes of a last line that was cut off")
    return [event for _, event in sorted(found.items()) if event["event"] != "journal"]


def _consistent(events: list[Event], lost: list[str]) -> Iterator[Event]:
    """The events without those that say something twice, or about a trial that is not there."""
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
