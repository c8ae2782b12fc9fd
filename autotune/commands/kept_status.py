"""Store the ``status`` of a long or complete campaign in a file beside its journal, and read it again.

The evaluation of thousands of launches takes seconds and needs libraries that the light installation lacks,
so its result is stored. The file has one line, which
is signed for this user; the file is not used if it was altered, if an earlier version wrote it, or if it
belongs to somebody else. The stored status is valid while the journal is unchanged. If a running campaign has
added launches to the journal since, these are counted but not evaluated. This module imports no heavy
modules, so that ``status`` starts quickly.
"""

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
from autotune.structure import Document, plain
from autotune.views.documents import answer_text
from autotune.views.standing import Standing
from autotune.views.text import duration_text

KEPT = ".status.json"  # Name of the file in a campaign's directory that stores the status.
LONG = 200  # Smallest number of launches for which the status is stored before the campaign is complete.
JOBS = "slurm"  # Folder of a campaign's directory with the scripts and the output of its batch jobs.
_RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Progress:
    """Holds the status of a campaign: its state, its launches, and the best setting so far."""

    document: dict[str, Any]  # The status as JSON values, without what depends on who asks.
    directory: Path = Path()  # The campaign's directory, as the caller wrote it; it is not stored.
    standing: Standing | None = None  # How the campaign stands; None: it waits to begin.
    found: tuple[str, ...] = ()  # Lines of text on the results of the first ``concluded`` launches.
    concluded: int = 0  # Number of launches that the results are based on.
    phases: dict[str, int] = field(default_factory=dict)  # Number of launches by phase.
    under_way: tuple[tuple[int, str], ...] = ()
    """Number and phase of each launch that was begun and has no result yet."""
    lines: int = 0  # Number of lines of the journal that were read.
    since_s: float = 0.0  # Time at which the last of these lines was written, in seconds since 1970.

    @property
    def going_on(self) -> bool:
        """Whether the campaign runs, or waits for the batch job that will begin it."""
        return self.document["state"] == _RUNNING or bool(self.document.get("queue"))

    @property
    def json(self) -> str:
        """Return the status as a JSON document, for programs."""
        document = {"directory": str(self.directory), **self.document}
        if self.standing:
            document["ending"] = plain(self.standing.told(self.directory))
        if self.document["state"] == _RUNNING and self.under_way:
            document["under_way"] = [number for number, _ in self.under_way]
        if self.standing and self.concluded < self.document["launches"]:
            document["concluded_after"] = self.concluded
        return answer_text("status", document)

    @property
    def text(self) -> str:
        """Return the status as lines for a terminal."""
        return "".join(f"{line}\n" for line in self._words())

    @property
    def _phase(self) -> str:
        """Return a text on the last begun phase, in the planned order; empty if the campaign is complete.

        The latest launch may belong to an earlier phase, because every phase may launch the baseline again.
        """
        phases, begun_phases = self.document.get("phases", ()), {*self.phases, *dict(self.under_way).values()}
        if self.document["state"] == "complete" or not phases:
            return ""
        index = max((i for i, phase in enumerate(phases) if phase in begun_phases), default=0)
        return f", phase {index + 1} of {len(phases)}, {phases[index]}"

    def _words(self) -> Iterator[str]:
        document = self.document
        if "campaign" not in document:
            yield f"{self.directory}: waiting, nothing is launched yet"
            yield from (f"  queue      {job}" for job in document["queue"])
            return
        why = f" ({document['reason']})" if document["reason"] else ""
        yield f"{document['campaign']}: {document['state']}{why}{self._phase}"
        failed = sum(n for name, n in document["trials"].items() if name != "ok")
        by_phase = ", ".join(f"{name} {n}" for name, n in self.phases.items()) or "none yet"
        yield f"  launches   {document['launches']} ({by_phase})" + (f", {failed} failed" if failed else "")
        remaining = f", about {duration_text(document['left_s'])} left" if "left_s" in document else ""
        yield f"  time       {duration_text(document['measured_s'])} of launches{remaining}"
        for number, _ in self.under_way if document["state"] == _RUNNING else ():
            yield f"  now        launch {number}, for {duration_text(time.time() - self.since_s)}"
        for job in document.get("queue", ()):
            yield f"  queue      {job}"
        if document.get("queued_s", 0) >= 1:
            yield f"  waited     {duration_text(document['queued_s'])} in the queue, all launches together"
        yield from self.found
        for label, text, command in self.standing.told(self.directory).lines if self.standing else ():
            yield from (f"  {label.lower():<10} {text}", *([f"    {command}"] if command else []))
        if self.standing and self.concluded < document["launches"]:
            yield f"  found      after {self.concluded} launches; those since are counted, not judged yet"
        if document["stamp"]:
            yield f"  {document['stamp']}"


def is_site(directory: Path) -> bool:
    """Return whether a directory belongs to a whole site (several jobs that are tuned together)."""
    return (directory / WISHES).is_file()


def stored_status(directory: Path) -> Progress | None:
    """Return the stored status of a campaign, brought up to date by counting the launches made since.

    The result is None if no status is stored, if the stored status is not valid for this journal, or if it
    says that the campaign is running although no process writes the journal.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, AutotuneError):
        line = opened(content(directory, KEPT).removesuffix(b"\n"))
        if line.number is None:  # the line has no seal: an earlier version or somebody else wrote it
            return None
        document = {key: value for key, value in line.event.items() if key != "event"}
        proof = document.pop("seal", None)
        if not is_signed(document, proof):
            return None
        position, stat = document.pop("of"), (directory / FILE).stat()
        document["standing"] = Document(KEPT, own=True).structured(Standing, document["standing"])
        progress = Progress(**document, directory=directory)
        identity = [stat.st_dev, stat.st_ino]
        if position[:2] == identity and is_locked(directory):
            return _grown(progress, directory, position[2])
        if position == [*identity, stat.st_size, stat.st_mtime_ns]:
            return progress if progress.document["state"] != _RUNNING else None
    return None


def store_status(directory: Path, progress: Progress) -> None:
    """Store the status of a campaign, if the directory belongs to this user and the disk is not full."""
    with suppress(OSError, AutotuneError):
        from autotune.exporters.writing import write_files

        check_ours(directory)
        if (directory / KEPT).is_symlink():  # else the file that the link leads to would be overwritten
            (directory / KEPT).unlink()
        text, end = content(directory), 0
        for _ in range(progress.lines):
            end = text.index(b"\n", end) + 1
        stat = (directory / FILE).stat()
        position = [stat.st_dev, stat.st_ino, end, stat.st_mtime_ns]
        facts = asdict(progress)
        del facts["directory"]
        document = plain({"of": position, **facts})
        line = sealed({"event": "status", **document, "seal": signed(document)}, 1)
        write_files({directory / KEPT: line}, mode=0o600)


def _grown(progress: Progress, directory: Path, end: int) -> Progress | None:
    """Return a stored status to which the launches after the first ``end`` bytes of the journal are added.

    The result is None if the campaign has ended, if its description was changed, or if the numbers of the new
    lines do not continue the numbers of the lines that were read before.

    Raises:
        OSError: the journal cannot be read.
        ValueError: a line of the journal is damaged.
    """
    document, phases = {**progress.document}, {**progress.phases}
    trials, under_way = {**document["trials"]}, dict(progress.under_way)
    standing = progress.standing
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
            standing = replace(progress.standing or Standing(""), unfinished=False)
        elif line.event["event"] == "trial":
            under_way[line.event["number"]] = line.event["phase"]
        elif line.event["event"] == "observation":
            phase = document["phase"] = under_way.pop(line.event["trial"])
            phases[phase] = phases.get(phase, 0) + 1
            trials[line.event["status"]] = trials.get(line.event["status"], 0) + 1
            document["launches"] += 1
            took_s = line.event.get("duration_s", 0.0)
            document["measured_s"] += took_s
            if "left_s" in document:
                document["left_s"] = max(0.0, document["left_s"] - took_s)
            if queued_s := document.get("queued_s", 0) + line.event.get("queue_s", 0):
                document["queued_s"] = queued_s
    if document["state"] != _RUNNING:
        return None
    return replace(
        progress,
        document={**document, "trials": trials},
        standing=standing,
        phases=phases,
        under_way=tuple(under_way.items()),
        lines=progress.lines + len(added),
        since_s=since_s,
    )
