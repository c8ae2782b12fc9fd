"""``guard keep``, ``check`` and ``history``: are the settings that were kept still right tonight?"""

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Measurement, Observer
from autotune.campaign.sealing import signed
from autotune.commands.guard_facts import facts_there
from autotune.commands.guard_place import (
    MissingFilesError,
    Place,
    in_turn,
    kept_anew,
    kept_place,
    launching,
    recommendation_document,
)
from autotune.commands.guard_span import Span
from autotune.commands.trust import check_kept
from autotune.errors import ExitCode, HandedOver, StackError, UnansweredError, UserError
from autotune.exporters.export_check import Proof, check_export
from autotune.exporters.guard import guard_of
from autotune.exporters.writing import write_files
from autotune.guard.changes import Change, changes
from autotune.guard.facts import Facts
from autotune.guard.kept import (
    FOLDER,
    KEPT,
    Kept,
    Launched,
    Night,
    add_night,
    comparable,
    read_kept,
    read_nights,
    since_kept,
    slot_text,
    write_kept,
)
from autotune.guard.report import CheckReport, reframe_test
from autotune.guard.verdict import judge
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Status, Trial
from autotune.space import Space
from autotune.stacks.installation import find
from autotune.structure import plain
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import WHOLE, claims, compare
from autotune.verification.sequential import SequentialDesign
from autotune.views.documents import json_text
from autotune.views.text import ratio_text

EACH_NIGHT = 24
"""Launches of each side: on a machine whose launches differ by 5 % a night is then known to 1 %, and a loss
of 10 % at one size is found in three nights (docs/guard.md); of 16 in 92 of 100 machines."""
MINUTES = 10.0
"""Minutes that all of it may take."""
FIRST = 10
"""Launches of a first block, both sides together, as ``verification.blocks.order`` draws them."""
REFRAME = "autotune_guard_reframe.py"


@heeded()
def keep(source: Path, words: Sequence[str], minutes: float | None, mpirun: str | None, unasked: bool) -> int:
    """Write down what holds today, with a night of launches.

    ``words``: KEY=VALUE of a scenario, for what a prefix does not say.

    Raises:
        UserError: no settings there, or no real MPI's.
        StackError: no MPI here.
        StorageError: the disk is full or read-only.
    """
    span, source = Span(MINUTES if minutes is None else minutes), source.absolute()
    with unanswered(source):
        place, folder = kept_anew(source, words, mpirun, unasked), source / FOLDER
    sources = tuple(map(str, place.sources))
    measured, files = minutes is None or minutes > 0, _files(place.files, sources)
    with suppress(OSError):  # what is written below says why
        folder.mkdir(parents=True, exist_ok=True)
    with launching(folder, alone=measured) as into, chdir(into):
        facts = facts_there(place.site, place.installation, files, into, steady=True)
        same = _is_kept(folder, facts)
        document = recommendation_document(place.recommendation)
        settings = str(place.files.absolute())
        scenario, node = plain(place.scenario), place.launcher
        kept = Kept(_now(), settings, document, facts, scenario, node, sources)
        write_kept(folder, replace(kept, seal=signed(kept.meant)))
        proof = _proof(place, into, span if measured else None)
        launches: tuple[Launched, ...] = ()
        hosts: tuple[str, ...] = ()
        if measured:
            launches, hosts, _ = _night(place, into, span)
    said = (str(proof) if proof else "nothing could be launched under the files",)
    night = Night(
        _now(), facts.identity, launches, hosts, said, int(bool(proof and proof.refutes)), kept=not same
    )
    _append(folder, night)
    nights = comparable(_until_now(read_nights(folder)))
    if nights:
        test = reframe_test(str(source.absolute()), judge(nights).seen, sys.executable)
        write_files({folder / REFRAME: test}, public=True, below=folder)
    state = ", ".join(f"{name} {version}" for name, version in facts.stack.items() if "built" not in name)
    sys.stdout.write(f"kept in {folder}: {state}; {len(nights)} night(s) of launches\n  {said[0]}\n")
    if measured and not launches:
        sys.stderr.write(f"no launches are kept: {span.wanted(FIRST)}\n")
    words = [sys.executable, "-P", "-m", "autotune", "guard", "check", str(source.absolute())]
    sys.stdout.write(f"check it with: {shlex.join(words)}\n")
    return ExitCode.FINDING if proof and proof.refutes else ExitCode.WELL


@heeded()
def check(
    source: Path | None,
    quick: bool,
    minutes: float,
    against: str | None,
    rate: float,
    mpirun: str | None,
    own: Path | None,
    outputs: dict[str, Path | None],
    as_json: bool,
    unasked: bool = False,
) -> int:
    """Say whether what was kept still holds: 0 same, 1 slower or not in effect, 3 inconclusive, 6 not yet.

    ``against``: an older ``mpirun``, launched in turn with the one that is here; ``own``: where nights are
    added by those who may not write beside the settings; ``unasked``: also what this user has not kept.

    Raises:
        UserError: nothing was kept, or it is damaged.
        StackError: no MPI here.
        StorageError: the disk is full or read-only.
    """
    span, folder = Span(minutes), _guarded(source).absolute()
    kept = read_kept(folder)
    check_kept(folder, kept, unasked)
    target = own.absolute() if own else folder
    nights = _until_now(since_kept(read_nights(*dict.fromkeys((folder, target)))))
    report = CheckReport(kept.date, (), where=str((own or folder.parent).absolute()))
    night = Night(_now(), kept.facts.identity)
    timed = None if quick else span
    try:
        with unanswered(folder.parent, as_json):
            place = kept_place(kept, mpirun, target, timed)
    except MissingFilesError as gone:
        report = replace(report, not_in_effect=(gone.message,))
    else:
        earlier = None if quick else _earlier(kept, place, against)
        handing_over = unanswered(folder.parent, as_json)
        with handing_over, launching(target, alone=not quick) as into, chdir(into):
            report, night = _in_effect(report, night, kept, place, into, timed)
            if earlier is not None:
                report = _beside(report, kept, place, earlier, span, into)
            elif not quick:
                launches, hosts, problem = _night(place, into, span)
                night = replace(night, launches=launches, hosts=hosts)
                wrong = (*report.not_in_effect, *filter(None, [problem]))
                report = replace(report, not_in_effect=wrong)
                if not launches:
                    report = replace(report, other=(*report.other, span.wanted(FIRST)), open=True)
    if night.launches:
        report = replace(report, verdict=judge(comparable((*nights, night)), rate))
    lost = tuple((slot_text(f.slot), f.since) for f in report.verdict.found) if report.verdict else ()
    again = tuple(map(slot_text, report.worse))
    _append(target, replace(night, said=(report.headline,), code=int(report.code), found=lost, lost=again))
    _write(report, outputs)
    sys.stdout.write(json_text(report.document()) if as_json else report.text())
    return report.code


def history(source: Path | None, own: Path | None, as_json: bool) -> None:
    """Print what each night said.

    Raises:
        UserError: nothing was kept.
    """
    folder = _guarded(source)
    nights = read_nights(*dict.fromkeys((folder, own or folder)))
    if as_json:
        rows = [{"date": n.date, "code": n.code, "kept": n.kept, "launches": len(n.launches),
                 "state": n.state, "said": list(n.said)} for n in nights]  # fmt: skip
        sys.stdout.write(json_text(rows))
        return
    for night in nights:
        mark = "kept" if night.kept else str(night.code)
        sys.stdout.write(
            f"{night.date}  {mark:4}  {len(night.launches):3} launches  {'; '.join(night.said)}\n"
        )


def _is_kept(folder: Path, facts: Facts) -> bool:
    """Whether the very same state was kept before, so that nights since then go on."""
    before = bool(read_nights(folder)) and (folder / KEPT).exists()
    return before and read_kept(folder).facts.identity == facts.identity


def _guarded(source: Path | None) -> Path:
    """The folder of what was kept: below what is named, the variable, or the current directory."""
    named = source or Path(os.environ.get("AUTOTUNE_GUARD") or ".")
    folder = named / FOLDER
    if not (folder / KEPT).exists():
        words = shlex.join(["autotune", "guard", "keep", str(named)])
        raise UserError(f"{named} was not kept", f"first: {words}")
    return folder


def _files(folder: Path, sources: Iterable[str]) -> list[Path]:
    """Files of the settings, and those that they are copies of."""
    return [*sorted(path for path in folder.glob("*") if path.is_file())[:64], *map(Path, sources)]


def _until_now(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Nights but for those that the clock says are still to come: it was wrong then, or it is now.

    What was kept is what others are compared with, whatever its date.
    """
    known = tuple(night for night in nights if night.kept or night.date <= _now())
    if later := len(nights) - len(known):
        said = f"left out: {later} of {len(nights)} nights, for they are dated after now, {_now()}"
        sys.stderr.write(f"{said}: see to the clock, or remove their lines\n")
    return known


@contextmanager
def unanswered(source: Path, as_json: bool = False) -> Iterator[None]:
    """Turn the passing of a check to a job of the batch system into an end that answers nothing.

    Raises:
        UnansweredError: a job does, or another one does already.
    """
    try:
        yield
    except HandedOver as job:
        if as_json:
            code = int(ExitCode.UNANSWERED)
            sys.stdout.write(json_text({"code": code, "headline": job.message, "found": [], "slots": []}))
        command = shlex.join(["python", "-m", "autotune", "guard", "history", str(source)])
        raise UnansweredError(f"nothing is said yet: {job.message}", f"afterwards: {command}") from job


def _in_effect(
    report: CheckReport, night: Night, kept: Kept, place: Place, into: Path, span: Span | None
) -> tuple[CheckReport, Night]:
    """The report with changes and the proof of a fresh launch, and the night with the state."""
    files = _files(place.files, kept.sources)
    facts = facts_there(place.site, place.installation, files, into)
    values = {**dict.fromkeys(place.recipe(into).variables, ""), **dict(place.recommendation.provenance.env)}
    differ = changes(kept.facts, facts, values, set(map(str, files)))
    proof = _proof(place, into, span)
    wrong = (*_not_in_effect(place, facts, differ), *([str(proof)] if proof and proof.refutes else []))
    said = str(proof) if proof else ""
    report = replace(report, changes=differ, not_in_effect=wrong, proof=said, how=place.words)
    if proof and proof.unseen and not proof.variables_seen:  # no rank started: nothing is known
        report = replace(report, proof="", other=(said,), open=True)
    return report, replace(night, state=facts.identity)


def _not_in_effect(place: Place, facts: Facts, differ: Sequence[Change]) -> Iterator[str]:
    """Why what is installed does nothing here, or something else."""
    asked, here = guard_of(place.recommendation), place.installation
    other = asked and (here.flavour, here.version) != ("openmpi", asked.openmpi)
    if asked and (other or (asked.ucx and facts.stack.get("UCX", asked.ucx) != asked.ucx)):
        yield f"the files hold for {asked.versions} alone, and {place.site.description} is here"
    yield from (one.text for one in differ if one.breaks)


def _proof(place: Place, into: Path, span: Span | None) -> Proof | None:
    """Launch under the files, within the span; None: without one."""
    where = make_empty(into / "check")

    def observers(measurement: Measurement, space: Space, directory: Path) -> Observer:
        if span is None:
            return place.site.observer(measurement, space, directory)
        limit_s = span.within(measurement.timeout_s)
        patience_s = measurement.patience_s if limit_s == measurement.timeout_s else 0.0
        limited = replace(measurement, timeout_s=limit_s, patience_s=patience_s)
        return _Timed(place.site.observer(limited, space, directory), span)

    return check_export(
        *([place.name], place.recommendation, place.files, observers, place.measurement),
        *(place.site.space, where),
    )


@dataclass(frozen=True)
class _Timed:
    """An observer whose launches count for what the next ones are expected to take."""

    observer: Observer
    span: Span

    def observe(self, trial: Trial) -> Observation:
        """As the observer does."""
        return self.span.timed(partial(self.observer.observe, trial))


def _night(
    place: Place, into: Path, span: Span, each: int = EACH_NIGHT
) -> tuple[tuple[Launched, ...], tuple[str, ...], str]:
    """Launches of both sides in turn: what they showed, where, and why the settings are not in effect."""
    under, problem = place.recipe(into).under, ""
    made: list[tuple[bool, Observation]] = []
    hosts: list[str] = []
    for observation, tuned in in_turn((None, under), [place, place], into, span, each):
        made.append((tuned, observation))
        hosts += observation.hosts
        if tuned and observation.status is Status.NOT_APPLIED:
            problem = problem or observation.reason
    return Launched.all_of(made), tuple(dict.fromkeys(hosts)), problem


def _earlier(kept: Kept, place: Place, against: str | None) -> str | None:
    """The launcher of the version before, where it still is and another one is here; None: it is not."""
    if against:
        return against
    before = Path(kept.facts.mpirun)
    if not before.exists() or before.samefile(place.installation.mpirun):
        return None
    try:
        version = find(str(before)).version
    except StackError:
        return None
    return (
        str(before)
        if version in kept.facts.stack.values() and version != place.installation.version
        else None
    )


def _beside(
    report: CheckReport, kept: Kept, place: Place, earlier: str, span: Span, into: Path
) -> CheckReport:
    """Launch the settings under the MPI before and the one that is here, in turn."""
    before = kept_place(kept, earlier, place.scenario.directory, span)
    unders = [one.recipe(into).under for one in (before, place)]
    sides: tuple[list[Observation], list[Observation]] = ([], [])
    for observation, tuned in in_turn(unders, (before, place), into, span, EACH_NIGHT):
        sides[tuned].append(observation)
    blocks, design = blocks_of(*sides), SequentialDesign()
    names = [one.site.description for one in (before, place)]
    said, judged = claims(blocks, design), compare(blocks, design)
    lines = [f"speed under {names[1]} over that under {names[0]}, {sum(map(len, sides))} launches in turn:"]
    lines += [
        f"{'SLOWER ' if c.slot in said.loses else ''}{slot_text(c.slot)}: "
        f"{ratio_text(float(np.exp(c.gain)), (float(np.exp(c.low)), float(np.exp(c.high))))}"
        for c in judged
    ]
    if said.loses:
        lines.insert(0, f"slower than under {names[0]} at {', '.join(map(slot_text, sorted(said.loses)))}")
    elif not judged or said.open:
        lines.insert(
            0, "a loss of 10 % is not excluded everywhere: more launches would resolve it (--minutes)"
        )
    return replace(
        report,
        other=tuple(lines),
        lost=tuple(sorted(set(said.loses) - {WHOLE})),
        open=not judged or bool(said.open),
    )


def _append(folder: Path, night: Night) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        add_night(folder, night)
    except OSError as exc:
        hint = "--to DIR adds it in a folder of your own"
        sys.stderr.write(f"not added to the history: {folder}: {exc.strerror}; {hint}\n")


def _write(report: CheckReport, outputs: dict[str, Path | None]) -> None:
    texts = {
        "junit": lambda: report.junit(_now(), platform.node()),
        "metrics": lambda: report.metrics(time.time()),
        "motd": report.day_message,
    }
    files = {path: texts[name]() for name, path in outputs.items() if path is not None}
    write_files(files, parents=True)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
