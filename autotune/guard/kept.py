"""The state that was kept, and every night since: ``kept.json`` and ``nights.jsonl`` in ``guard/``.

The folder is in that of the settings, for everybody to read; everybody who may write there adds nights.
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
VERSION = 1
"""Version of both documents."""
MOST_NIGHTS = 4000
"""Number of nights that are read at most: ten years."""
_ONE_NIGHT_H = 12
"""Hours, half the time between nights: checks that are closer belong to the same night."""
_HINT = "autotune guard keep DIR|PREFIX writes it"


@dataclass(frozen=True, slots=True)
class Kept:
    """State of settings and machine on the day of ``guard keep``."""

    date: str
    """ISO date, UTC."""
    settings: str
    """Folder of the files that apply the settings."""
    recommendation: Mapping[str, Any]
    """Their contents, as ``export --format json`` writes them."""
    facts: Facts
    """State of the machine."""
    scenario: Mapping[str, Any]
    """How launches are made."""
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Node of ``hydra.launcher``; empty for ``mpirun``."""
    sources: tuple[str, ...] = ()
    """Files that users wrote, of which ``settings`` has copies."""
    seal: str = ""
    """Proof that this user kept ``meant``; empty where there was no place for a key."""
    private: str = ""
    """SHA-256 of the environment and the parameter files in the same folder, which nobody else can read;
    empty where there are none."""
    version: int = VERSION
    """Version of this document."""

    @property
    def meant(self) -> Any:
        """Return everything that a check starts or applies, as JSON values."""
        paths = (self.settings, self.sources, self.facts.mpirun, *filter(None, [self.private]))
        return plain([*paths, self.recommendation, self.scenario, self.launcher])


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch of a night."""

    tuned: bool
    """Whether the settings were in effect; otherwise the untouched stack was launched."""
    block: int
    """Number of the block; launches of a block are in random order."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Slot, as ``collective/ranks/bytes`` → seconds; empty where the launch failed."""
    reason: str = ""
    """Why it failed."""

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
            ValueError: A time is not finite or not above zero.
        """
        for slot, seconds in self.times.items():
            if not 0 < seconds < math.inf:
                raise ValueError(f"{slot} took {seconds} s; expected a finite number above zero")

    @classmethod
    def all_of(cls, night: Sequence[tuple[bool, Observation]]) -> "tuple[Launched, ...]":
        """Return the launches in observations, each with its side."""
        launches = []
        for tuned, observation in night:
            times = {slot_text(slot_of(e.cell)): e.median_s for e in observation.usable if e.median_s > 0}
            launches.append(cls(tuned, observation.trial.block, times, observation.reason))
        return tuple(launches)


@dataclass(frozen=True, slots=True)
class Night:
    """One check, or the launches that were made when the state was kept."""

    date: str
    """ISO date, UTC."""
    state: str
    """``Facts.identity`` of the machine."""
    launches: tuple[Launched, ...] = ()
    """Launches in order; empty for a quick check."""
    hosts: tuple[str, ...] = ()
    """Hosts of the launches."""
    said: tuple[str, ...] = ()
    """Result of the check, a line each."""
    code: int = 0
    """Exit code of the check."""
    found: tuple[tuple[str, str], ...] = ()
    """Slots found slower, by key, and the day since when: they remain found until the state is kept."""
    lost: tuple[str, ...] = ()
    """Slots to be tuned again, by key."""
    kept: bool = False
    """Whether the state was kept: nights before it are no reference any more."""
    heats: bool = False
    """Whether launches ran at the same time, so that their times are not those of single launches."""

    @property
    def day(self) -> str:
        """Return the day of its date."""
        return self.date[:10]

    def hours_from(self, other: "Night") -> float:
        """Return the hours between two nights, in any order; infinite where a date cannot be read."""
        try:
            dates = [datetime.fromisoformat(night.date) for night in (self, other)]
            return abs((dates[1] - dates[0]).total_seconds()) / 3600
        except (ValueError, TypeError):  # a date is invalid, or only one has a time zone
            return math.inf

    def blocks(self, slots: Sequence[Slot]) -> list[Drawn]:
        """Return the launches as blocks for the randomised evidence."""
        names = [slot_text(slot) for slot in slots]
        drawn = []
        for number in dict.fromkeys(launch.block for launch in self.launches):
            block = [launch for launch in self.launches if launch.block == number]
            y = np.log([[launch.times.get(name, np.nan) for name in names] for launch in block])
            drawn.append(Drawn(y, np.array([launch.tuned for launch in block])))
        return drawn

    def side(self, slots: Sequence[Slot], tuned: bool) -> Floats:
        """Return ln of the seconds of the launches of one side, ``(n_launches, n_slots)``."""
        names = [slot_text(slot) for slot in slots]
        rows = [launch.times for launch in self.launches if launch.tuned is tuned and launch.times]
        return np.log([[times.get(name, np.nan) for name in names] for times in rows]).reshape(-1, len(names))


def slot_text(slot: Slot) -> str:
    """Return a slot as a key."""
    collective, ranks, size = slot
    return f"{collective}/{ranks}/{size}"


def slot_words(slot: Slot) -> str:
    """Return a slot in words."""
    return "all sizes together" if slot == WHOLE else f"{calls_text(*slot[:2])}, {size_text(slot[2])}"


def slot_in(key: str) -> Slot:
    """Return the slot of a key.

    Raises:
        UserError: The key is no slot.
    """
    collective, *numbers = key.split("/")
    if len(numbers) != 2 or collective not in COLLECTIVES or not all(n.isdecimal() for n in numbers):
        raise UserError(f"{key!r} in {NIGHTS} is no slot", "expected collective/ranks/bytes")
    return collective, int(numbers[0]), int(numbers[1])


def by_sizes(keys: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
    """Return sizes → the collectives that have exactly these sizes among some slots.

    Raises:
        UserError: A key is no slot.
    """
    sizes: dict[str, set[int]] = {}
    for collective, _, size in map(slot_in, keys):
        sizes.setdefault(collective, set()).add(size)
    by_size: dict[tuple[int, ...], list[str]] = {}
    for collective in sorted(sizes):
        by_size.setdefault(tuple(sorted(sizes[collective])), []).append(collective)
    return by_size


def slots_of(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """Return all slots in which anything was measured."""
    return tuple(
        sorted(map(slot_in, {n for night in nights for launch in night.launches for n in launch.times}))
    )


def since_kept(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the nights since the state was last kept, in the order in which they were made."""
    return tuple(nights[max((i for i, night in enumerate(nights) if night.kept), default=0) :])


def comparable(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the nights with launches since the state was last kept, as independent as they can be.

    Checks of one state that follow each other within half a day share their conditions, and are merged to one
    night. The night when the state was kept is what others are compared with, and the last check is the one
    to be judged: neither is ever merged, so that both may be of one day.
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
    """Read ``kept.json`` of a folder.

    Raises:
        UserError: There is none, it is damaged or of a newer version, or others could have written it.
    """
    path = folder / KEPT
    document = _json(user_text(path, hint=_HINT, raised=UserError), path)
    reference = Document(str(path), own=True, newer=True).structured(Kept, document)
    if reference.version > VERSION:
        raise UserError(f"{path} has version {reference.version}", f"this program reads {VERSION}")
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise UserError(
            f"{path} could have been written by another user than you and root",
            "what it names would be started in your name; an administrator, or you, keep it",
        )
    return reference


def read_nights(*folders: Path) -> tuple[Night, ...]:
    """Return the last nights of some folders; a last line that was cut short in writing is left out.

    The nights of one folder are in the order in which they were added, whatever a clock showed then; those of
    several folders are merged by date.

    Raises:
        UserError: A line is no night.
    """
    nights: list[list[Night]] = []
    for path in (folder / NIGHTS for folder in folders):
        if not path.exists():
            continue
        nights.append([])
        *lines, _ = user_text(path, raised=UserError).split(
            "\n"
        )  # a last line without end is cut short, or being written
        for number, line in enumerate(lines, start=1):
            if line:
                place = f"{path}, line {number}"
                nights[-1].append(_night(line, place))
    return tuple(merge(*nights, key=lambda night: night.date))[-MOST_NIGHTS:]


def _night(line: str, place: str) -> Night:
    try:
        return Document(place, own=True, newer=True).structured(Night, _json(line, place))
    except UserError as exc:
        raise UserError(f"{place}: {exc.message.removeprefix(f'{place}: ')}", exc.hint) from exc


def write_kept(folder: Path, kept: Kept) -> None:
    """Write ``kept.json``, for everybody to read.

    Raises:
        UserError: The file cannot be written there.
        StorageError: The disk is full or read-only.
    """
    write_files({folder / KEPT: json_text(kept)}, parents=True, public=True, below=folder)


def add_night(folder: Path, night: Night) -> None:
    """Append a night; once this returns, the night survives a crash.

    Raises:
        OSError: The night cannot be written, or a link is in place of the file.
        JournalError: A link inside of a campaign leads there.
    """
    path, line = folder / NIGHTS, f"{json.dumps(plain(night), separators=(',', ':'))}\n".encode()
    refuse_links(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two checks may end at the same time
        file.seek(0)
        complete_bytes = sum(map(len, (existing for existing in file if existing.endswith(b"\n"))))
        file.truncate(complete_bytes)  # without a night that was cut short by a kill or a full disk
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
