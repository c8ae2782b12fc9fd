"""``guard keep``, ``check`` and ``history``: check every night whether tuned settings are still right.

``keep`` saves a reference: the settings, the state of the machine, and a first set of launches. ``check``
compares today's machine with that reference, and adds the record of its launches (a "night") to a history.
"""

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

from autotune.campaign.interruption import heeded
from autotune.campaign.observing import Measurement, Observer
from autotune.campaign.sealing import signed
from autotune.campaign.withheld import withheld
from autotune.errors import ExitCode, HandedOver, StackError, UnansweredError, UserError
from autotune.exporters.export_check import Proof, check_export
from autotune.exporters.version_check import guard_of
from autotune.exporters.writing import write_files
from autotune.guard.before import (
    Restoration,
    keep_private,
    kept_private,
    launch_sides,
    lost_for_good,
    restoration,
    sides_of,
)
from autotune.guard.changes import Change, changes
from autotune.guard.facts import Facts
from autotune.guard.kept import (
    FOLDER,
    KEPT,
    Kept,
    Night,
    add_night,
    comparable,
    read_kept,
    read_nights,
    since_kept,
    slot_text,
    write_kept,
)
from autotune.guard.nights import Rates
from autotune.guard.node_facts import facts_there
from autotune.guard.place import (
    MissingFilesError,
    Place,
    exported_anew,
    kept_place,
    launching,
    place_to_keep,
    recommendation_document,
)
from autotune.guard.report import CheckReport, reframe_test
from autotune.guard.span import Span
from autotune.guard.trust import check_kept
from autotune.guard.verdict import judge
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Trial
from autotune.space import Space
from autotune.stacks.installation import find
from autotune.structure import plain
from autotune.verification.sequential import EACH_IN_A_HEAT
from autotune.views.documents import json_text

EACH_NIGHT = 24
"""Number of launches of each side in one check. On a machine whose launches differ by 5 % the result of a
check is then known to 1 %, and a loss of 10 % at one size is found in three nights (docs/guard.md); with 16
launches it is found on 92 of 100 machines."""
MINUTES = 10.0
"""Minutes that ``keep`` may take by default."""
FIRST = 3 * EACH_IN_A_HEAT
"""Number of launches in the first block of a comparison of three sides."""
REFRAME = "autotune_guard_reframe.py"
"""Name of the file with a ReFrame test that runs the check."""


@heeded()
def keep(
    source: Path, words: Sequence[str], minutes: float | None, mpirun: str | None, confirmed: bool
) -> int:
    """Save the settings and the state of the machine as a reference, with a first set of launches.

    Args:
        source: A campaign's directory, a site's prefix, or a folder of exported files.
        words: Settings KEY=VALUE of a scenario, for keys that a prefix does not contain.
        minutes: Time limit in minutes; None means ``MINUTES``. With 0, only the launches that check whether
            the files take effect are made.
        mpirun: The launcher; None means the one on the search path.
        confirmed: Whether to start the programs that a campaign names without asking the user.

    Returns:
        The exit code: ``FINDING`` if the files do not put the settings into effect, otherwise ``WELL``.

    Raises:
        UserError: ``source`` contains no settings, or settings that are not for a real MPI.
        StackError: there is no MPI on this machine.
        StorageError: the disk is full or read-only.
    """
    span, source = Span(MINUTES if minutes is None else minutes), source.absolute()
    with unanswered(source):
        place, folder = place_to_keep(source, words, mpirun, confirmed), source / FOLDER
    sources = tuple(map(str, place.sources))
    measures, files = minutes is None or minutes > 0, _files(place.files, sources)
    with suppress(OSError):  # writing a file below reports the reason
        folder.mkdir(parents=True, exist_ok=True)
    with launching(folder, alone=measures) as work_folder, chdir(work_folder):
        facts = facts_there(place.bench, place.installation, files, work_folder, steady=True)
        unchanged = _is_kept(folder, facts)
        document = recommendation_document(place.recommendation)
        settings = str(place.files.absolute())
        scenario, node = plain(withheld(place.scenario)), place.launcher
        private = keep_private(folder, facts)
        reference = Kept(_now(), settings, document, facts, scenario, node, sources, private=private)
        write_kept(folder, replace(reference, seal=signed(reference.meant)))
        proof = _proof(place, work_folder, span if measures else None)
        night = Night(_now(), facts.identity)
        if measures:  # the settings compared with themselves show the repeatability of launches
            night, self_comparison, _ = launch_sides(
                night, sides_of(place, place, Restoration(), work_folder), EACH_NIGHT, span, 0.0
            )
    result_lines = (str(proof) if proof else "nothing could be launched under the files",)
    night = replace(night, said=result_lines, code=int(bool(proof and proof.refutes)), kept=not unchanged)
    _append(folder, night)
    nights = comparable(_dated_until_now(read_nights(folder)))
    if nights:
        test = reframe_test(str(source.absolute()), judge(nights).seen, sys.executable)
        write_files({folder / REFRAME: test}, public=True, below=folder)
    state = ", ".join(f"{name} {version}" for name, version in facts.stack.items() if "built" not in name)
    sys.stdout.write(f"kept in {folder}: {state}; {len(nights)} night(s) of launches\n  {result_lines[0]}\n")
    if measures and not night.launches:
        sys.stderr.write(f"no launches are kept: {span.shortage_text(FIRST)}\n")
    if night.launches:
        sys.stdout.write(f"  the settings beside themselves: {self_comparison.bound}\n")
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
    own_folder: Path | None,
    outputs: dict[str, Path | None],
    as_json: bool,
    confirmed: bool = False,
) -> int:
    """Compare today's machine and settings with the saved reference, and print a report.

    Args:
        source: The directory given to ``guard keep``; None means that in the variable ``AUTOTUNE_GUARD``, or
            the current directory.
        quick: Whether to compare only versions and values in effect, with no launches but those that check
            whether the files take effect.
        minutes: Time limit in minutes.
        against: An older ``mpirun``, which is launched in turn with the installed one.
        rate: Expected number of false alarms in a year.
        mpirun: The launcher; None means the one on the search path.
        own_folder: Folder for the records of checks, for a user who cannot write to the folder of the
            settings; None means the latter.
        outputs: Maps the formats ``junit``, ``metrics`` and ``motd`` to paths of further files to write; None
            means that no such file is written.
        as_json: Print a JSON document in place of text.
        confirmed: Whether to start the programs that a reference names without asking, even if another user
            may have saved it.

    Returns:
        The exit code: 0 if unchanged, 1 if slower or not in effect, 3 if inconclusive.

    Raises:
        UserError: there is no reference, or it is damaged.
        UnansweredError: a job of the batch system was submitted that makes the check (exit code 6).
        StackError: there is no MPI on this machine.
        StorageError: the disk is full or read-only.
    """
    span, folder = Span(minutes), _guarded(source).absolute()
    reference = read_kept(folder)
    check_kept(folder, reference, confirmed)
    target = own_folder.absolute() if own_folder else folder
    nights = _dated_until_now(since_kept(read_nights(*dict.fromkeys((folder, target)))))
    report = CheckReport(reference.date, (), folder=str((own_folder or folder.parent).absolute()))
    night = Night(_now(), reference.facts.identity)
    timed = None if quick else span
    try:
        with unanswered(folder.parent, as_json):
            place = kept_place(reference, mpirun, target, timed)
    except MissingFilesError as missing:
        report = replace(report, not_in_effect=(missing.message,))
    else:
        handing_over = unanswered(folder.parent, as_json)
        with handing_over, launching(target, alone=not quick) as work_folder, chdir(work_folder):
            facts = facts_there(
                place.bench, place.installation, _files(place.files, reference.sources), work_folder
            )
            report = _in_effect(report, reference, place, facts, work_folder, timed)
            night = replace(night, state=facts.identity)
            if not quick:
                change, reference_place = _kept_side(
                    folder, reference, place, facts, against, work_folder, span
                )
                differing = sum(past.state != reference.facts.identity for past in nights)
                alpha = Rates(rate).of_change(1 + differing)
                report, night = _compared(
                    report, night, place, reference_place, change, work_folder, span, alpha
                )
    if night.launches:
        verdict = judge(comparable((*nights, night)), rate, at_once=bool(report.lacking))
        report = replace(report, verdict=verdict)
    lost = tuple((slot_text(f.slot), f.since) for f in report.verdict.found) if report.verdict else ()
    slots_to_tune = tuple(map(slot_text, report.worse))
    _append(
        target, replace(night, said=(report.headline,), code=int(report.code), found=lost, lost=slots_to_tune)
    )
    _write(report, outputs)
    sys.stdout.write(json_text(report.document()) if as_json else report.text())
    return report.code


def history(source: Path | None, own_folder: Path | None, as_json: bool) -> None:
    """Print the date, exit code, number of launches and result of each recorded check.

    ``source`` and ``own_folder`` are those of ``check``.

    Raises:
        UserError: there is no reference.
    """
    folder = _guarded(source)
    nights = read_nights(*dict.fromkeys((folder, own_folder or folder)))
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
    """Return whether the saved reference is of the same machine state, so that its checks stay comparable."""
    has_reference = bool(read_nights(folder)) and (folder / KEPT).exists()
    return has_reference and read_kept(folder).facts.identity == facts.identity


def _guarded(source: Path | None) -> Path:
    """Return the folder of the reference below ``source``, ``AUTOTUNE_GUARD`` or the current directory.

    Raises:
        UserError: there is no reference in that directory.
    """
    directory = source or Path(os.environ.get("AUTOTUNE_GUARD") or ".")
    folder = directory / FOLDER
    if not (folder / KEPT).exists():
        words = shlex.join(["autotune", "guard", "keep", str(directory)])
        raise UserError(f"{directory} was not kept", f"first: {words}")
    return folder


def _files(folder: Path, sources: Iterable[str]) -> list[Path]:
    """Return the files in a folder of settings, at most 64, and the files that these are copies of."""
    return [*sorted(path for path in folder.glob("*") if path.is_file())[:64], *map(Path, sources)]


def _dated_until_now(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the recorded checks that are not dated in the future, and print a warning about the others.

    A date in the future means that the clock was wrong then, or is wrong now. Records of ``guard keep`` are
    returned whatever their date, because the checks are compared with these.
    """
    past_nights = tuple(night for night in nights if night.kept or night.date <= _now())
    if later := len(nights) - len(past_nights):
        message = f"left out: {later} of {len(nights)} nights, for they are dated after now, {_now()}"
        sys.stderr.write(f"{message}: see to the clock, or remove their lines\n")
    return past_nights


@contextmanager
def unanswered(source: Path, as_json: bool = False) -> Iterator[None]:
    """Turn ``HandedOver``, raised when a batch job makes the check, into an error with the next command.

    Raises:
        UnansweredError: a job was submitted that makes the check, or an earlier one is still making it.
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
    report: CheckReport, reference: Kept, place: Place, facts: Facts, work_folder: Path, span: Span | None
) -> CheckReport:
    """Return the report with the changes since the reference, and whether the files still take effect."""
    files = _files(place.files, reference.sources)
    values = {
        **dict.fromkeys(place.recipe(work_folder).variables, ""),
        **dict(place.recommendation.provenance.env),
    }
    differences = changes(reference.facts, facts, values, set(map(str, files)))
    proof = _proof(place, work_folder, span)
    reasons = (*_not_in_effect(place, facts, differences), *([str(proof)] if proof and proof.refutes else []))
    proof_text = str(proof) if proof else ""
    report = replace(report, changes=differences, not_in_effect=reasons, proof=proof_text, how=place.words)
    if proof and proof.unseen and not proof.variables_seen:  # no rank started: nothing is known
        return replace(report, proof="", other=proof_text)
    return report


def _not_in_effect(place: Place, facts: Facts, differences: Sequence[Change]) -> Iterator[str]:
    """Yield the reasons why the installed files have no effect, or a different one, on this machine."""
    required, installation = guard_of(place.recommendation), place.installation
    other_mpi = required and (installation.flavour, installation.version) != ("openmpi", required.openmpi)
    if required and (other_mpi or (required.ucx and facts.stack.get("UCX", required.ucx) != required.ucx)):
        yield f"the files hold for {required.versions} alone, and {place.bench.description} is here"
    yield from (change.text for change in differences if change.breaks)


def _proof(place: Place, work_folder: Path, span: Span | None) -> Proof | None:
    """Check by launches whether the exported files have the effect that they state.

    Args:
        place: The settings, and how they are launched.
        work_folder: Folder for the launches; all nodes must see it.
        span: The time limit of the whole command; None sets no limit.

    Returns:
        The result; None if launches cannot check the format of the files, or the files set nothing.
    """
    folder = make_empty(work_folder / "check")

    def observers(measurement: Measurement, space: Space, directory: Path) -> Observer:
        if span is None:
            return place.bench.observer(measurement, space, directory)
        limit_s = span.within(measurement.timeout_s)
        limited = replace(measurement, timeout_s=limit_s)
        return _Timed(place.bench.observer(limited, space, directory), span)

    return check_export(
        *([place.name], place.recommendation, place.files, observers, place.measurement),
        *(place.bench.space, folder),
    )


@dataclass(frozen=True)
class _Timed:
    """An observer that also reports the duration of each launch to the time limit of the command."""

    observer: Observer
    span: Span

    def observe(self, trial: Trial) -> Observation:
        """Let the wrapped observer launch the trial, and add the duration to the time limit ``span``."""
        return self.span.timed(partial(self.observer.observe, trial))


def _kept_side(
    folder: Path,
    reference: Kept,
    place: Place,
    facts: Facts,
    against: str | None,
    work_folder: Path,
    span: Span,
) -> tuple[Restoration, Place]:
    """Return how the settings are launched as they were on the day of ``guard keep``.

    Returns:
        The changes to a launch that restore the environment of the reference, and the settings with the MPI
        of the reference, or with today's MPI if the former is no longer installed.
    """
    earlier = _earlier(reference, place, against)
    reference_place = kept_place(reference, earlier, place.scenario.directory, span) if earlier else place
    if any(
        reference.facts.files.get(str(p), "") != facts.files.get(str(p), "") for p in _files(place.files, ())
    ):
        reference_place = exported_anew(reference_place, work_folder)
    change = restoration(
        reference, facts, kept_private(folder, reference), reference_place.installation, work_folder
    )
    lacking = (*change.lacking, *lost_for_good(reference, facts, bool(earlier)))
    return replace(change, lacking=lacking), reference_place


def _compared(
    report: CheckReport,
    night: Night,
    place: Place,
    reference_place: Place,
    change: Restoration,
    work_folder: Path,
    span: Span,
    alpha: float,
) -> tuple[CheckReport, Night]:
    """Launch today's settings in turn with those of the reference, and add the result to report and night.

    ``alpha`` is the error rate of the comparison.
    """
    sides_differ = reference_place is not place or change.env or change.unset
    sides = sides_of(place, reference_place, change, work_folder)
    night, comparison, problem = launch_sides(night, sides, EACH_NIGHT, span, alpha if sides_differ else 0.0)
    reasons = (*report.not_in_effect, *filter(None, [problem]))
    report = replace(report, not_in_effect=reasons, lacking=change.lacking)
    if not night.launches:
        return replace(report, other=report.other or span.shortage_text(FIRST)), night
    other_stack = (
        f" under {reference_place.bench.description}" if reference_place.bench is not place.bench else ""
    )
    how = "at the same moments" if night.heats else "one after the other"
    heading = f"speed now over that as kept{other_stack}, {comparison.launches} launches each, {how}:"
    return replace(report, beside=comparison, how_beside=heading), night


def _earlier(reference: Kept, place: Place, against: str | None) -> str | None:
    """Return the launcher of the reference's MPI, if that is still installed besides today's MPI.

    Returns:
        ``against`` if it is given; None if the launcher no longer exists, is today's launcher, or now belongs
        to another version than the reference's.
    """
    if against:
        return against
    kept_mpirun = Path(reference.facts.mpirun)
    if not kept_mpirun.exists() or kept_mpirun.samefile(place.installation.mpirun):
        return None
    try:
        version = find(str(kept_mpirun)).version
    except StackError:
        return None
    return str(kept_mpirun) if version in reference.facts.stack.values() else None


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
