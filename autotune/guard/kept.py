"""Read and write the saved state (``kept.json``) and the record of each check (``nights.jsonl``).

A night is the record of one check. Both files are in ``guard/`` in the folder of the settings; everybody may
read them, and everybody who may write there adds nights. Dates are in ISO format and UTC. The key of a slot
(collective, communicator size, message size) is the text ``collective/ranks/bytes``.
"""

import fcntl
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from heapq import merge
from pathlib import Path
from typing import Any

import numpy as np

from autotune.collectives import COLLECTIVES
from autotune.errors import UserError
from autotune.exporters.writing import write_files
from autotune.guard.facts import Facts
from autotune.guard.nights import Floats
from autotune.history.folder import refuse_links
from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Observation
from autotune.resources import user_text
from autotune.structure import Document, parsed, plain
from autotune.verification.comparison import WHOLE
from autotune.verification.evidence import Drawn
from autotune.views.documents import json_text
from autotune.views.text import calls_text, size_text

FOLDER, KEPT, NIGHTS = "guard", "kept.json", "nights.jsonl"
VERSION = 1  # Version of the format of both files.
MOST_NIGHTS = 4000  # Maximum number of nights that are read, enough for ten years.
_ONE_NIGHT_H = 12  # Checks that are fewer hours apart belong to the same night.
_HINT = "autotune guard keep DIR|PREFIX writes it"


@dataclass(frozen=True, slots=True)
class Kept:
    """State of settings and machine on the day of ``guard keep``: the reference of later checks."""

    date: str  # Date of ``guard keep``.
    settings: str  # Folder of the files that apply the settings.
    recommendation: Mapping[str, Any]  # The settings, as ``export --format json`` writes them.
    facts: Facts  # State of the machine.
    scenario: Mapping[str, Any]  # The scenario: what is launched and measured, and how.
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Hydra's configuration node ``hydra.launcher``; empty for ``mpirun``."""
    sources: tuple[str, ...] = ()  # Files written by hand, if ``settings`` contains copies of such files.
    seal: str = ""
    """Signature of ``meant`` by the user who ran ``guard keep``; empty if no key could be stored."""
    private: str = ""  # SHA-256 of ``private.json``, see ``before``; empty if there is none.
    version: int = VERSION  # Version of the format of this file.

    @property
    def meant(self) -> Any:
        """Return everything that a check starts or applies, as JSON values; ``seal`` signs these values."""
        paths = (self.settings, self.sources, self.facts.mpirun, *filter(None, [self.private]))
        return plain([*paths, self.recommendation, self.scenario, self.launcher])


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch of a check."""

    tuned: bool  # Whether the tuned settings were in effect rather than MPI's own defaults.
    block: int  # Number of the block; launches of a block are made in random order.
    times: Mapping[str, float] = field(default_factory=dict)
    """Median time of a call in seconds, by key of the slot; empty if the launch failed."""
    reason: str = ""  # Reason why the launch failed; empty if it did not fail.

    def __post_init__(self) -> None:
        """Raise a ``ValueError`` unless all times are positive and finite."""
        for slot, seconds in self.times.items():
            if not 0 < seconds < math.inf:
                raise ValueError(f"{slot} took {seconds} s; expected a finite number above zero")

    @classmethod
    def by(cls, tuned: bool, observation: Observation) -> "Launched":
        """Return the record of the launch that ``observation`` describes."""
        times = {slot_text(slot_of(e.cell)): e.median_s for e in observation.usable if e.median_s > 0}
        return cls(tuned, observation.trial.block, times, observation.reason)


@dataclass(frozen=True, slots=True)
class Night:
    """Record of one ``guard check``, or of the launches that ``guard keep`` made."""

    date: str  # Date of the check.
    state: str  # ``Facts.identity`` of the machine: a checksum of its state.
    launches: tuple[Launched, ...] = ()  # The launches in order; empty for ``guard check --quick``.
    hosts: tuple[str, ...] = ()  # Names of the hosts that ran the launches.
    said: tuple[str, ...] = ()  # Lines of text that state the result of the check.
    code: int = 0  # Exit code of the check.
    found: tuple[tuple[str, str], ...] = ()
    """Key of each slot that was found slower, with the first day of the slowdown. These slots are reported
    again each night until the next ``guard keep``."""
    lost: tuple[str, ...] = ()  # Keys of the slots to be tuned again.
    kept: bool = False  # Whether ``guard keep`` saved a new state: earlier nights no longer count.
    heats: bool = False  # Whether launches ran at the same time, which changes their times.

    @property
    def day(self) -> str:
        """Return the date of the check without the time of day."""
        return self.date[:10]

    def hours_from(self, other: "Night") -> float:
        """Return the hours between two nights, in any order; infinite if one of their dates is invalid."""
        try:
            dates = [datetime.fromisoformat(night.date) for night in (self, other)]
            return abs((dates[1] - dates[0]).total_seconds()) / 3600
        except (ValueError, TypeError):  # a date is invalid, or only one of them has a time zone
            return math.inf

    def blocks(self, slots: Sequence[Slot]) -> list[Drawn]:
        """Return the times of each block of launches, for the randomisation test of ``verification``."""
        names, drawn = list(map(slot_text, slots)), []
        for number in dict.fromkeys(launch.block for launch in self.launches):
            block = [launch for launch in self.launches if launch.block == number]
            y = np.log([[launch.times.get(name, np.nan) for name in names] for launch in block])
            drawn.append(Drawn(y, np.array([launch.tuned for launch in block])))
        return drawn

    def side(self, slots: Sequence[Slot], tuned: bool) -> Floats:
        """Return ln(seconds of a call) for launches with or without settings, ``(n_launches, n_slots)``."""
        names = list(map(slot_text, slots))
        rows = [launch.times for launch in self.launches if launch.tuned is tuned and launch.times]
        return np.log([[times.get(name, np.nan) for name in names] for times in rows]).reshape(-1, len(names))


def slot_text(slot: Slot) -> str:
    """Return the key of a slot: ``collective/ranks/bytes``."""
    collective, ranks, size = slot
    return f"{collective}/{ranks}/{size}"


def slot_words(slot: Slot) -> str:
    """Return a slot in words for a report."""
    return "all sizes together" if slot == WHOLE else f"{calls_text(*slot[:2])}, {size_text(slot[2])}"


def slot_in(key: str) -> Slot:
    """Return the slot that a key stands for; raise a ``UserError`` if the key is invalid."""
    collective, *numbers = key.split("/")
    if len(numbers) != 2 or collective not in COLLECTIVES or not all(n.isdecimal() for n in numbers):
        raise UserError(f"{key!r} in {NIGHTS} is no slot", "expected collective/ranks/bytes")
    return collective, int(numbers[0]), int(numbers[1])


def slots_of(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """Return all slots that were measured in at least one launch."""
    keys = {key for night in nights for launch in night.launches for key in launch.times}
    return tuple(sorted(map(slot_in, keys)))


def since_kept(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the nights since the last ``guard keep``, in the order in which they were made."""
    return tuple(nights[max((i for i, night in enumerate(nights) if night.kept), default=0) :])


def comparable(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the nights with launches since the last ``guard keep``, merged so that all are independent.

    Checks of one state that follow each other within half a day ran under the same conditions, and are merged
    into one night. Two nights are never merged: that of ``guard keep``, with which the others are compared,
    and the last check, which is to be evaluated. Nights that differ from the last check in ``heats`` are left
    out.
    """
    launched = [night for night in since_kept(nights) if night.launches]
    launched = [night for night in launched if night.heats == launched[-1].heats]
    merged: list[Night] = []
    for night in launched[:-1]:
        previous = merged[-1] if merged else None
        same_state = previous is not None and not previous.kept and previous.state == night.state
        if previous is None or not same_state or night.hours_from(previous) >= _ONE_NIGHT_H:
            merged.append(night)
            continue
        shift = 1 + max(launch.block for launch in previous.launches)
        added = tuple(replace(launch, block=launch.block + shift) for launch in night.launches)
        merged[-1] = replace(previous, launches=previous.launches + added)
    return (*merged, *launched[-1:])


def read_kept(folder: Path) -> Kept:
    """Read ``kept.json`` in a folder.

    Raises:
        UserError: The file does not exist, is damaged, has a newer format, or could have been written by
            another user.
    """
    path = folder / KEPT
    document = _json(user_text(path, hint=_HINT, raised=UserError), path)
    reference = Document(str(path), own=True, newer=True).structured(Kept, document)
    if reference.version > VERSION:
        raise UserError(f"{path} has version {reference.version}", f"this program reads {VERSION}")
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        problem = f"{path} could have been written by another user than you and root"
        hint = "what it names would be started in your name; an administrator, or you, keep it"
        raise UserError(problem, hint)
    return reference


def read_nights(*folders: Path) -> tuple[Night, ...]:
    """Return the last ``MOST_NIGHTS`` nights that were recorded in some folders.

    The nights of one folder are in the order in which they were added, even if a clock was wrong at the time.
    The nights of several folders are merged by date.

    Raises:
        UserError: A line is not the record of a night.
    """
    nights: list[list[Night]] = []
    for path in (folder / NIGHTS for folder in folders if (folder / NIGHTS).exists()):
        # A last line without a line end was cut short, or another process is writing it.
        *lines, _ = user_text(path, raised=UserError).split("\n")
        nights.append([_night(line, f"{path}, line {n}") for n, line in enumerate(lines, start=1) if line])
    return tuple(merge(*nights, key=lambda night: night.date))[-MOST_NIGHTS:]


def _night(line: str, place: str) -> Night:
    try:
        return Document(place, own=True, newer=True).structured(Night, _json(line, place))
    except UserError as exc:
        raise UserError(f"{place}: {exc.message.removeprefix(f'{place}: ')}", exc.hint) from exc


def write_kept(folder: Path, kept: Kept) -> None:
    """Write ``kept.json`` with permissions that let everybody read it; see ``write_files`` for its errors."""
    write_files({folder / KEPT: json_text(kept)}, parents=True, public=True, below=folder)


def add_night(folder: Path, night: Night) -> None:
    """Append the record of one check to ``nights.jsonl`` so that it survives a crash.

    Raises:
        OSError: The record cannot be written, or the file is a symbolic link.
        JournalError: The folder is reached by a link inside of a campaign's directory.
    """
    path, line = folder / NIGHTS, f"{json.dumps(plain(night), separators=(',', ':'))}\n".encode()
    refuse_links(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two checks may end at the same time
        file.seek(0)
        complete_bytes = sum(map(len, (existing for existing in file if existing.endswith(b"\n"))))
        file.truncate(complete_bytes)  # removes a record that was cut short by a kill or a full disk
        try:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), complete_bytes)
            raise
    if path.stat().st_uid == os.geteuid():
        path.chmod(path.stat().st_mode | 0o444)


def _json(text: str, place: object) -> Any:
    return parsed(text, f"{place} is damaged", UserError, "remove it, or bring it back from a copy")
