"""The reference that was kept, and every night since: ``kept.json`` and ``nights.jsonl`` in ``guard/``.

The folder is beside the settings, for everybody to read; whoever may write there adds nights.
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
from autotune.verification.blocks import strata
from autotune.verification.evidence import Drawn
from autotune.views.documents import json_text

FOLDER, KEPT, NIGHTS = "guard", "kept.json", "nights.jsonl"
VERSION = 1
"""Version of both documents."""
MOST_NIGHTS = 4000
"""Nights that are read: ten years."""
_ONE_NIGHT_H = 12
"""Hours: what is nearer to a check than half the time between nights belongs to the same one."""
_HINT = "autotune guard keep DIR|PREFIX writes it"


@dataclass(frozen=True, slots=True)
class Kept:
    """State of settings and machine on the day of ``guard keep``."""

    date: str
    """ISO, UTC."""
    settings: str
    """Folder of the files that put the settings into effect."""
    recommendation: Mapping[str, Any]
    """Their contents, as ``export --format json`` writes them."""
    facts: Facts
    """State of the machine."""
    scenario: Mapping[str, Any]
    """How launches are made."""
    launcher: Mapping[str, Any] = field(default_factory=dict)
    """Node of ``hydra.launcher``; empty: ``mpirun``."""
    sources: tuple[str, ...] = ()
    """Files that somebody wrote, of which ``settings`` has copies."""
    seal: str = ""
    """Proof that this user keeps ``meant``; empty: there was no place for a key."""
    version: int = VERSION
    """Version of this document."""

    @property
    def meant(self) -> Any:
        """All that a check starts or puts into effect, as JSON values."""
        own = (self.settings, self.sources, self.facts.mpirun)
        return plain([*own, self.recommendation, self.scenario, self.launcher])


@dataclass(frozen=True, slots=True)
class Launched:
    """One launch of a night."""

    tuned: bool
    """Whether the settings were in effect; else the untouched stack."""
    block: int
    """Those of a block were launched in an order that was drawn."""
    apart: bool = False
    """Whether its cores were further apart than the nearest of the night."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Slot, as ``collective/ranks/bytes`` → seconds; empty: it failed."""
    reason: str = ""
    """Why it failed."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: a time that no clock shows.
        """
        for slot, seconds in self.times.items():
            if not 0 < seconds < math.inf:
                raise ValueError(f"{slot} took {seconds} s; expected a finite number above zero")

    @classmethod
    def all_of(cls, night: Sequence[tuple[bool, Observation]]) -> "tuple[Launched, ...]":
        """Take from observations, each with its side."""
        found = []
        for (tuned, observation), stratum in zip(night, strata(night), strict=True):
            times = {slot_text(slot_of(e.cell)): e.median_s for e in observation.usable if e.median_s > 0}
            found.append(cls(tuned, observation.trial.block, stratum > 0, times, observation.reason))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Night:
    """One check, or what was launched as it was kept."""

    date: str
    """ISO, UTC."""
    state: str
    """``Facts.identity`` of what was there."""
    launches: tuple[Launched, ...] = ()
    """In order; empty: a quick check."""
    hosts: tuple[str, ...] = ()
    """Where."""
    said: tuple[str, ...] = ()
    """Result of the check, a line each."""
    code: int = 0
    """Its exit code."""
    found: tuple[tuple[str, str], ...] = ()
    """Slots found slower, by key, and since which day: they stay found until the state is kept."""
    lost: tuple[str, ...] = ()
    """Slots to be tuned again, by key."""
    kept: bool = False
    """Whether what was there was taken for good: nights before it are no measure any more."""

    @property
    def day(self) -> str:
        """Day of its date."""
        return self.date[:10]

    def hours_from(self, other: "Night") -> float:
        """Time between two nights, whichever was first; infinite where a date cannot be read."""
        try:
            dates = [datetime.fromisoformat(night.date) for night in (self, other)]
            return abs((dates[1] - dates[0]).total_seconds()) / 3600
        except (ValueError, TypeError):  # no date, or one of them without a zone
            return math.inf

    def blocks(self, slots: Sequence[Slot]) -> list[Drawn]:
        """Its launches as the randomised evidence takes them."""
        names = [slot_text(slot) for slot in slots]
        found = []
        for number in dict.fromkeys(one.block for one in self.launches):
            block = [one for one in self.launches if one.block == number]
            y = np.log([[one.times.get(name, np.nan) for name in names] for one in block])
            strata = np.array([one.apart for one in block], dtype=int)
            found.append(Drawn(y, np.array([one.tuned for one in block]), strata))
        return found

    def side(self, slots: Sequence[Slot], tuned: bool) -> Floats:
        """Ln of the seconds of the launches of one side, ``(n_launches, n_slots)``; of cores as usual."""
        names = [slot_text(slot) for slot in slots]
        rows = [one.times for one in self.launches if one.tuned is tuned and one.times and not one.apart]
        return np.log([[times.get(name, np.nan) for name in names] for times in rows]).reshape(-1, len(names))


def slot_text(slot: Slot) -> str:
    """A slot as a key."""
    collective, ranks, size = slot
    return f"{collective}/{ranks}/{size}"


def slot_in(key: str) -> Slot:
    """The slot of a key.

    Raises:
        UserError: it is none.
    """
    collective, *numbers = key.split("/")
    if len(numbers) != 2 or collective not in COLLECTIVES or not all(n.isdecimal() for n in numbers):
        raise UserError(f"{key!r} in {NIGHTS} is no slot", "expected collective/ranks/bytes")
    return collective, int(numbers[0]), int(numbers[1])


def by_sizes(keys: Sequence[str]) -> dict[tuple[int, ...], list[str]]:
    """Sizes → the collectives of which just these are among some slots.

    Raises:
        UserError: a key that is no slot.
    """
    sizes: dict[str, set[int]] = {}
    for collective, _, size in map(slot_in, keys):
        sizes.setdefault(collective, set()).add(size)
    found: dict[tuple[int, ...], list[str]] = {}
    for collective in sorted(sizes):
        found.setdefault(tuple(sorted(sizes[collective])), []).append(collective)
    return found


def slots_of(nights: Sequence[Night]) -> tuple[Slot, ...]:
    """All slots in which anything was measured."""
    return tuple(sorted(map(slot_in, {n for night in nights for one in night.launches for n in one.times})))


def since_kept(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Nights from the one on that was last kept, by the order in which they were made."""
    return tuple(nights[max((i for i, night in enumerate(nights) if night.kept), default=0) :])


def comparable(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Nights with launches since what was last kept, as independent as they can be.

    Checks of one state that follow each other within half a day share their conditions, and are one night.
    What was kept is what others are compared with, and the last check is what is judged: neither is ever
    merged, so that both may be of one day.
    """
    launched = [night for night in since_kept(nights) if night.launches]
    merged: list[Night] = []
    for night in launched[:-1]:
        before = merged[-1] if merged else None
        same = before is not None and not before.kept and before.state == night.state
        if before is None or not same or night.hours_from(before) >= _ONE_NIGHT_H:
            merged.append(night)
            continue
        shift = 1 + max(one.block for one in before.launches)
        more = tuple(replace(one, block=one.block + shift) for one in night.launches)
        merged[-1] = replace(before, launches=before.launches + more)
    return (*merged, *launched[-1:])


def read_kept(folder: Path) -> Kept:
    """Read ``kept.json`` of a folder.

    Raises:
        UserError: nothing, a document that is damaged or newer, or one that others could have written.
    """
    path = folder / KEPT
    document = _json(user_text(path, hint=_HINT, raised=UserError), path)
    found = Document(str(path), own=True, newer=True).structured(Kept, document)
    if found.version > VERSION:
        raise UserError(f"{path} has version {found.version}", f"this program reads {VERSION}")
    status = path.stat()
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o022:
        raise UserError(
            f"{path} could have been written by another user than you and root",
            "what it names would be started in your name; an administrator, or you, keep it",
        )
    return found


def read_nights(*folders: Path) -> tuple[Night, ...]:
    """The last nights of some folders; a line that was cut short as it was written is none.

    Those of one folder are in the order in which they were added, whatever a clock said then; those of
    several are merged by date.

    Raises:
        UserError: a line that is no night.
    """
    nights: list[list[Night]] = []
    for path in (folder / NIGHTS for folder in folders):
        if not path.exists():
            continue
        nights.append([])
        *lines, _ = user_text(path, raised=UserError).split("\n")  # no end: cut short, or being written
        for number, line in enumerate(lines, start=1):
            if line:
                where = f"{path}, line {number}"
                nights[-1].append(_night(line, where))
    return tuple(merge(*nights, key=lambda night: night.date))[-MOST_NIGHTS:]


def _night(line: str, where: str) -> Night:
    try:
        return Document(where, own=True, newer=True).structured(Night, _json(line, where))
    except UserError as exc:
        raise UserError(f"{where}: {exc.message.removeprefix(f'{where}: ')}", exc.hint) from exc


def write_kept(folder: Path, kept: Kept) -> None:
    """Keep it, for everybody to read.

    Raises:
        UserError: nothing can be written there.
        StorageError: the disk is full or read-only.
    """
    write_files({folder / KEPT: json_text(kept)}, parents=True, public=True, below=folder)


def add_night(folder: Path, night: Night) -> None:
    """Append a night; when this returns it survives a crash.

    Raises:
        OSError: it cannot be written, or a link is in its place.
        JournalError: a link inside of a campaign leads there.
    """
    path, line = folder / NIGHTS, f"{json.dumps(plain(night), separators=(',', ':'))}\n".encode()
    refuse_links(path)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # two checks may end at once
        file.seek(0)
        whole = sum(map(len, (one for one in file if one.endswith(b"\n"))))
        file.truncate(whole)  # less a night that was cut short, by a kill or a full disk
        try:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), whole)
            raise
    if path.stat().st_uid == os.geteuid():
        path.chmod(path.stat().st_mode | 0o444)


def _json(text: str, where: object) -> Any:
    return parsed(text, f"{where} is damaged", UserError, "remove it, or bring it back from a copy")
