"""``guard keep``, ``check`` and ``history``: check every night whether tuned settings are still right.

``keep`` saves a reference: the settings, the state of the machine, and a first set of launches. ``check``
compares today's machine with that reference, and adds the record of its launches (a "night") to a history.
The arguments are the options of the commands, which ``cli`` describes.
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
from autotune.commands.install import mention
from autotune.errors import ExitCode, HandedOver, StackError, UnansweredError, UserError
from autotune.exporters.export_check import Proof, check_export
from autotune.exporters.version_check import guard_of
from autotune.exporters.writing import write_files
from autotune.guard.before import (
    Private,
    Restoration,
    keep_private,
    kept_private,
    launch_sides,
    lost_for_good,
    restoration,
    sides_of,
)
from autotune.guard.changes import Change, changes
from autotune.guard.facts import Facts, facts_there
from autotune.guard.heats import Span
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
from autotune.guard.trust import check_kept
from autotune.guard.verdict import judge
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Trial
from autotune.space import Space
from autotune.stacks.installation import find
from autotune.structure import plain
from autotune.verification.sequential import EACH_IN_A_HEAT
from autotune.views.documents import answer_text
from autotune.views.text import own_line

EACH_NIGHT = 24
"""Number of launches of each side in one check. On a machine whose launches differ by 5 % the result of a
check is then known to 1 %, and a slowdown of 10 % at one size is found in three nights (docs/guard.md). With
16 launches, such a slowdown is found on 92 of 100 machines."""
_MINUTES = 10.0  # Minutes that ``keep`` may take by default.
_FIRST = 3 * EACH_IN_A_HEAT  # Number of launches in the first block of a comparison of three sides.
_REFRAME = "autotune_guard_reframe.py"  # Name of the file with a ReFrame test that runs the check.


@heeded()
def keep(
    source: Path, words: Sequence[str], minutes: float | None, mpirun: str | None, confirmed: bool
) -> int:
    """Save the settings and the state of the machine as a reference, with a first set of launches.

    With 0 minutes, only the launches that check whether the files take effect are made.

    Returns:
        The exit code: ``FINDING`` if the files do not put the settings into effect, otherwise ``WELL``.

    Raises:
        UserError: ``source`` contains no settings, or settings that are not for a real MPI.
        StackError: there is no MPI on this machine.
        StorageError: the disk is full or read-only.
    """
    span, source = Span(_MINUTES if minutes is None else minutes), source.absolute()
    with unanswered(source):
        place, folder = place_to_keep(source, words, mpirun, confirmed), source / FOLDER
    if not place.sources:  # files that somebody wrote by hand come from no campaign that could verify them
        mention(place.recommendation, (source,), "keep", confirmed)
    sources = tuple(map(str, place.sources))
    measures, files = minutes is None or minutes > 0, _files(place.files, sources)
    with suppress(OSError):  # if this fails, writing a file later reports the reason
        folder.mkdir(parents=True, exist_ok=True)
    with launching(folder, alone=measures) as work_folder, chdir(work_folder):
        facts = facts_there(place.bench, place.installation, files, work_folder, steady=True)
        # With the same state of the machine, later checks stay comparable with earlier ones.
        has_reference = bool(read_nights(folder)) and (folder / KEPT).exists()
        unchanged = has_reference and read_kept(folder).facts.identity == facts.identity
        document, scenario = recommendation_document(place.recommendation), plain(withheld(place.scenario))
        about = (_now(), str(place.files.absolute()), document, facts, scenario, place.launcher, sources)
        reference = Kept(*about, private=keep_private(folder, facts))
        write_kept(folder, replace(reference, seal=signed(reference.meant)))
        proof = _proof(place, work_folder, span if measures else None)
        night = Night(_now(), facts.identity)
        if measures:  # the settings compared with themselves show the repeatability of launches
            sides = sides_of(place, place, Restoration(), work_folder)
            night, self_comparison, _ = launch_sides(night, sides, EACH_NIGHT, span, 0.0)
    result_lines = (str(proof) if proof else "nothing could be launched under the files",)
    night = replace(night, said=result_lines, code=int(bool(proof and proof.refutes)), kept=not unchanged)
    _append(folder, night)
    nights = comparable(_dated_until_now(read_nights(folder)))
    if nights:
        test = reframe_test(str(source.absolute()), judge(nights).seen, sys.executable)
        write_files({folder / _REFRAME: test}, public=True, below=folder)
    state = ", ".join(f"{name} {version}" for name, version in facts.stack.items() if "built" not in name)
    sys.stdout.write(f"kept in {folder}: {state}; {len(nights)} night(s) of launches\n  {result_lines[0]}\n")
    if measures and not night.launches:
        sys.stderr.write(f"no launches are kept: {span.shortage_text(_FIRST)}\n")
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

    A ``quick`` check makes only the launches that check whether the files take effect. ``own_folder`` is for
    the records of a user who cannot write to the folder of the settings. ``outputs`` maps the names of
    further formats of the report to the files that they are written to.

    Returns:
        The exit code: 0 if unchanged, 1 if slower or not in effect, 3 if inconclusive.

    Raises:
        UserError: there is no reference, or it is damaged.
        UnansweredError: the check will be made by a job that was submitted to the batch system (exit code 6).
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
            files = _files(place.files, reference.sources)
            facts = facts_there(place.bench, place.installation, files, work_folder)
            report = _in_effect(report, reference, place, facts, work_folder, timed)
            night = replace(night, state=facts.identity)
            if not quick:
                differing = sum(past.state != reference.facts.identity for past in nights)
                alpha, private = Rates(rate).of_change(1 + differing), kept_private(folder, reference)
                kept = (reference, private, _earlier(reference, place, against))
                report, night = _compared(report, night, place, facts, kept, work_folder, span, alpha)
    if night.launches:
        verdict = judge(comparable((*nights, night)), rate, at_once=bool(report.lacking))
        report = replace(report, verdict=verdict)
    found = tuple((slot_text(f.slot), f.since) for f in report.verdict.found) if report.verdict else ()
    night = replace(night, said=(report.headline,), code=int(report.code), found=found)
    _append(target, replace(night, lost=tuple(map(slot_text, report.worse))))
    texts = {
        "junit": lambda: report.junit(_now(), platform.node()),
        "metrics": lambda: report.metrics(time.time()),
        "motd": report.day_message,
    }
    write_files({path: texts[name]() for name, path in outputs.items() if path is not None}, parents=True)
    sys.stdout.write(answer_text("guard-check", report.document()) if as_json else report.text())
    return report.code


def history(source: Path | None, own_folder: Path | None, as_json: bool) -> None:
    """Print the date, exit code, number of launches and result of each recorded check.

    Raises:
        UserError: there is no reference.
    """
    folder = _guarded(source)
    nights = read_nights(*dict.fromkeys((folder, own_folder or folder)))
    if as_json:
        rows = [{"date": n.date, "code": n.code, "kept": n.kept, "launches": len(n.launches),
                 "state": n.state, "said": list(n.said)} for n in nights]  # fmt: skip
        sys.stdout.write(answer_text("guard-history", {"nights": rows}))
        return
    for night in nights:
        mark = "kept" if night.kept else str(night.code)
        sys.stdout.write(
            f"{night.date}  {mark:4}  {len(night.launches):3} launches  {'; '.join(night.said)}\n"
        )


def _guarded(source: Path | None) -> Path:
    """Return the folder of the reference below ``source``, ``AUTOTUNE_GUARD`` or the current directory."""
    directory = source or Path(os.environ.get("AUTOTUNE_GUARD") or ".")
    folder = directory / FOLDER
    if not (folder / KEPT).exists():
        raise UserError(f"{directory} was not kept", f"first: {own_line('guard', 'keep', str(directory))}")
    return folder


def _files(folder: Path, sources: Iterable[str]) -> list[Path]:
    """Return the files in a folder of settings (at most 64), and then the files that these are copies of."""
    return [*sorted(path for path in folder.glob("*") if path.is_file())[:64], *map(Path, sources)]


def _dated_until_now(nights: Sequence[Night]) -> tuple[Night, ...]:
    """Return the recorded checks that are not dated in the future, and print a warning about the others.

    Records of ``guard keep`` are returned whatever their date, because checks are compared with these
    records.
    """
    past_nights = tuple(night for night in nights if night.kept or night.date <= _now())
    if later := len(nights) - len(past_nights):
        message = f"left out: {later} of {len(nights)} nights, for they are dated after now, {_now()}"
        sys.stderr.write(f"{message}: see to the clock, or remove their lines\n")
    return past_nights


@contextmanager
def unanswered(source: Path, as_json: bool = False) -> Iterator[None]:
    """Turn ``HandedOver`` (a batch job makes the check) into an error that names the next command."""
    try:
        yield
    except HandedOver as job:
        if as_json:
            document = {"code": int(ExitCode.UNANSWERED), "headline": job.message, "found": [], "slots": []}
            sys.stdout.write(answer_text("guard-check", document))
        afterwards = f"afterwards: {own_line('guard', 'history', str(source))}"
        raise UnansweredError(f"nothing is said yet: {job.message}", afterwards) from job


def _in_effect(
    report: CheckReport, reference: Kept, place: Place, facts: Facts, work_folder: Path, span: Span | None
) -> CheckReport:
    """Add to a report the changes since the reference, and whether the files still take effect."""
    files = _files(place.files, reference.sources)
    values = {
        **dict.fromkeys(place.recipe(work_folder).variables, ""),
        **dict(place.recommendation.provenance.env),
    }
    differences = changes(reference.facts, facts, values, set(map(str, files)))
    proof = _proof(place, work_folder, span)
    proof_text = str(proof) if proof else ""
    refuted = [proof_text] if proof and proof.refutes else []
    reasons = (*_not_in_effect(place, facts, differences), *refuted)
    report = replace(report, changes=differences, not_in_effect=reasons, proof=proof_text, how=place.words)
    if proof and proof.unseen and not proof.variables_seen:  # no rank started: the effect is unknown
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

    The result is None if launches cannot check the format of the files, or the files set nothing.
    """

    def observers(measurement: Measurement, space: Space, directory: Path) -> Observer:
        if span is None:
            return place.bench.observer(measurement, space, directory)
        limit_s = span.within(measurement.timeout_s)
        limited = replace(measurement, timeout_s=limit_s)
        return _Timed(place.bench.observer(limited, space, directory), span)

    about = ([place.name], place.recommendation, place.files, observers, place.measurement)
    return check_export(*about, place.bench.space, make_empty(work_folder / "check"))


@dataclass(frozen=True)
class _Timed:
    """An observer that also reports the duration of each launch to the time limit of the command."""

    observer: Observer
    span: Span

    def observe(self, trial: Trial) -> Observation:
        """Let the wrapped observer launch the trial, and add the duration to the time limit ``span``."""
        return self.span.timed(partial(self.observer.observe, trial))


def _compared(
    report: CheckReport,
    night: Night,
    place: Place,
    facts: Facts,
    kept: tuple[Kept, Private | None, str | None],
    work_folder: Path,
    span: Span,
    alpha: float,
) -> tuple[CheckReport, Night]:
    """Launch today's settings in turn with those of the reference, and add the result to report and night.

    ``kept`` contains the reference, the values that were saved for this user alone, and the launcher of the
    reference's MPI, which is None if that MPI is today's or no longer installed. ``alpha`` is the error rate
    of the comparison.
    """
    reference, private, earlier = kept
    then = kept_place(reference, earlier, place.scenario.directory, span) if earlier else place
    old, new = reference.facts.files, facts.files
    if any(old.get(str(path), "") != new.get(str(path), "") for path in _files(place.files, ())):
        then = exported_anew(then, work_folder)
    change = restoration(reference, facts, private, then.installation, work_folder)
    sides = sides_of(place, then, change, work_folder)
    alpha = alpha if then is not place or change.env or change.unset else 0.0
    night, comparison, problem = launch_sides(night, sides, EACH_NIGHT, span, alpha)
    reasons = (*report.not_in_effect, *filter(None, [problem]))
    lacking = (*change.lacking, *lost_for_good(reference, facts, bool(earlier)))
    report = replace(report, not_in_effect=reasons, lacking=lacking)
    if not night.launches:
        return replace(report, other=report.other or span.shortage_text(_FIRST)), night
    other_stack = f" under {then.bench.description}" if then.bench is not place.bench else ""
    how = "at the same moments" if night.heats else "one after the other"
    heading = f"speed now over that as kept{other_stack}, {comparison.launches} launches each, {how}:"
    return replace(report, beside=comparison, how_beside=heading), night


def _earlier(reference: Kept, place: Place, against: str | None) -> str | None:
    """Return the launcher of the reference's MPI, if that is still installed besides today's MPI.

    If ``against`` is given, it is returned. The result is None if the saved launcher no longer exists, is the
    same as today's, or now belongs to another version of MPI than on the day of ``guard keep``.
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
    """Add a night to the history; a folder that cannot be written is a warning."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        add_night(folder, night)
    except OSError as exc:
        hint = "--to DIR adds it in a folder of your own"
        sys.stderr.write(f"not added to the history: {folder}: {exc.strerror}; {hint}\n")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
