"""The ``status`` of a long campaign, kept beside its journal.

Concluding thousands of launches takes seconds. The file is one line, with a proof that this user has written
it: one that was altered, is of an earlier version, or somebody else's, is not used. It holds while the
journal is unchanged; where its campaign has added launches, with these counted. Heavy modules are not
imported here.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from autotune.campaign.sealing import is_signed, signed
from autotune.errors import AutotuneError
from autotune.history.folder import FILE, WISHES, check_ours
from autotune.history.journal import content, is_locked, opened, sealed
from autotune.structure import plain
from autotune.views.text import duration_text

KEPT = ".status.json"  # Its name in a campaign's directory.
LONG = 200  # Launches from which on it is worth a file.
JOBS = "slurm"  # Where the scripts and the output of a campaign's jobs are.
SCHEMA = 1  # Version of ``status --json``: keys are added within one; a key that changes or goes raises it.
_RUNNING, _APART = "running", ("verify", "discovery")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is."""

    document: dict[str, Any]  # As JSON values.
    found: tuple[str, ...] = ()  # In words, what it has found after ``concluded`` launches.
    concluded: int = 0  # So many launches had been observed then.
    phases: dict[str, int] = field(default_factory=dict)  # Launches by phase.
    under_way: tuple[tuple[int, str], ...] = ()
    """Number and phase of the trials that were begun and not observed."""
    lines: int = 0  # Number of its journal's lines that were read.
    since_s: float = 0.0  # When the last one was written, in seconds since 1970.

    @property
    def going_on(self) -> bool:
        """Whether it runs, or waits for a job to begin it."""
        return self.document["state"] == _RUNNING or bool(self.document.get("queue"))

    @property
    def json(self) -> str:
        """For programs."""
        document = {"schema": SCHEMA, **self.document}
        if self.document["state"] == _RUNNING and self.under_way:
            document["under_way"] = [number for number, _ in self.under_way]
        if self.found and self.concluded < self.document["launches"]:
            document["concluded_after"] = self.concluded
        return json.dumps(document, indent=1) + "\n"

    @property
    def text(self) -> str:
        """For a terminal."""
        return "".join(f"{line}\n" for line in self._words())

    @property
    def _phase(self) -> str:
        """The furthest phase that was begun, as ``phase 2 of 4, search``; the baseline recurs."""
        document = self.document
        phases, begun = document.get("phases", ()), {*self.phases, *(phase for _, phase in self.under_way)}
        at = max((i for i, phase in enumerate(phases) if phase in begun), default=0)
        if document["state"] == "complete" or not phases:
            return ""
        return f", phase {at + 1} of {len(phases)}, {phases[at]}"

    def _words(self) -> Iterator[str]:
        document = self.document
        if "campaign" not in document:
            yield f"{document['directory']}: waiting, nothing is launched yet"
            yield from (f"  queue      {job}" for job in document["queue"])
            return
        why = f" ({document['reason']})" if document["reason"] else ""
        yield f"{document['campaign']}: {document['state']}{why}{self._phase}"
        failed = sum(n for name, n in document["trials"].items() if name != "ok")
        each = ", ".join(f"{name} {n}" for name, n in self.phases.items()) or "none yet"
        yield f"  launches   {document['launches']} ({each})" + (f", {failed} failed" if failed else "")
        spent_s = document.get("measured_s", 0.0)
        left = f", about {duration_text(document['left_s'])} left" if "left_s" in document else ""
        yield f"  time       {duration_text(spent_s)} of launches{left}"
        for number, _ in self.under_way if document["state"] == _RUNNING else ():
            yield f"  now        launch {number}, for {duration_text(time.time() - self.since_s)}"
        for job in document.get("queue", ()):
            yield f"  queue      {job}"
        if document.get("queued_s", 0) >= 1:
            yield f"  waited     {duration_text(document['queued_s'])} in the queue, all launches together"
        yield from self.found
        if self.found and self.concluded < document["launches"]:
            yield f"  found      after {self.concluded} launches; those since are counted, not judged yet"
        if document["stamp"]:
            yield f"  {document['stamp']}"


def is_site(directory: Path) -> bool:
    """Say whether a directory is that of a whole site."""
    return (directory / WISHES).is_file()


def kept(directory: Path) -> Progress | None:
    """Kept status of this journal, or of its beginning where its campaign is writing it; None: none."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, AutotuneError):
        line = opened(content(directory, KEPT).removesuffix(b"\n"))
        if line.number is None:  # it is not sealed: of an earlier version, or of somebody else
            return None
        document = {key: value for key, value in line.event.items() if key != "event"}
        proof = document.pop("seal", None)
        if not is_signed(document, proof):
            return None
        at, found = document.pop("of"), (directory / FILE).stat()
        progress = Progress(**document)
        document["document"]["directory"] = str(directory)  # as it is called this time
        where = [found.st_dev, found.st_ino]
        if at[:2] == where and at[2:] == [found.st_size, found.st_mtime_ns] and not is_locked(directory):
            return progress if progress.document["state"] != _RUNNING else None
        if at[:2] == where and is_locked(directory):
            return _grown(progress, directory, at[2])
    return None


def keep(directory: Path, progress: Progress) -> None:
    """Remember what is said of a journal, if the directory is the user's own and has room for it."""
    with suppress(OSError, AutotuneError):
        from autotune.exporters.writing import write_files

        check_ours(directory)
        if (directory / KEPT).is_symlink():  # it would be written through
            (directory / KEPT).unlink()
        text, end = content(directory), 0
        for _ in range(progress.lines):
            end = text.index(b"\n", end) + 1
        found = (directory / FILE).stat()
        of = [found.st_dev, found.st_ino, end, found.st_mtime_ns]
        document = plain({"of": of, **asdict(progress)})
        line = sealed({"event": "status", **document, "seal": signed(document)}, 1)
        write_files({directory / KEPT: line}, mode=0o600)


def _grown(progress: Progress, directory: Path, end: int) -> Progress | None:
    """The same with what its journal says after so many bytes; None where it has ended, or is another one.

    Raises:
        OSError: the journal cannot be read.
        ValueError: a line of it is damaged.
    """
    document, phases = {**progress.document}, {**progress.phases}
    trials, under_way = {**document["trials"]}, dict(progress.under_way)
    with (directory / FILE).open("rb") as file:
        file.seek(end)
        added = file.read().split(b"\n")[:-1]
        since_s = os.fstat(file.fileno()).st_mtime
    for number, text in enumerate(added, start=progress.lines + 1):
        line = opened(text)
        if line.number != number or line.event["event"] in ("ended", "changed"):
            return None
        if line.event["event"] == "started":
            document |= {"state": _RUNNING, "reason": ""}
        elif line.event["event"] == "trial":
            under_way[line.event["number"]] = line.event["phase"]
        elif line.event["event"] == "observation":
            phase = document["phase"] = under_way.pop(line.event["trial"])
            phases[phase] = phases.get(phase, 0) + 1
            trials[line.event["status"]] = trials.get(line.event["status"], 0) + 1
            document["launches"] += 1
            took_s = line.event.get("duration_s", 0.0)
            document["measured_s"] = document.get("measured_s", 0.0) + took_s
            if "left_s" in document:
                document["left_s"] = max(0.0, document["left_s"] - took_s)
            if queued_s := document.get("queued_s", 0) + line.event.get("queue_s", 0):
                document["queued_s"] = queued_s
    if document["state"] != _RUNNING:
        return None
    return replace(
        progress,
        document={**document, "trials": trials},
        phases=phases,
        under_way=tuple(under_way.items()),
        lines=progress.lines + len(added),
        since_s=since_s,
    )
