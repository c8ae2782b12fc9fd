"""``record``: record an application's MPI calls, their time, and how long ranks waited for late ranks.

The result is a file, the recording, that ``verify``, ``report --worth``, ``diagnose`` and
``conf=application`` read.
"""

import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from autotune.application.cubex import read_cubex
from autotune.application.rank_files import joined
from autotune.application.reach import reachable_s
from autotune.application.recording import Recording, mean_of
from autotune.application.scenario import sentence
from autotune.application.traces import read_trace
from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.errors import ExitCode, Interrupted, StorageError, UserError
from autotune.exporters.writing import write_files
from autotune.history.objectives import Z95
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.application import Ran, installation_of, passed_on, preload, recording, run, why_nothing
from autotune.stacks.installation import Installation
from autotune.views.documents import json_text
from autotune.views.text import size_text

_TOP = 10  # Number of kinds of calls that the summary lists.


def of_traces(
    traces: Sequence[Path],
    command: Sequence[str],
    runs: int | None,
    out: Path,
    against: Path | None,
    as_json: bool,
) -> int:
    """Make a recording from traces or profiles of an application's runs, print its summary, and return 0.

    Args:
        traces: An OTF2 trace or a CUBE profile (``.cubex``) of each run.
        command: The command line; it has to be empty, because nothing is run.
        runs: Number of runs; it has to be None, because each trace is of one run.
        out: The recording's file.
        against: Directory of a campaign, by whose measurements the summary says how much tuning could save;
            None: the summary does not say it.
        as_json: Whether to print the recording as JSON in place of the summary.

    Raises:
        UserError: a command or a number of runs is given as well, or the library that reads traces is
            missing.
        TableError: a file is no trace or is damaged, or the traces have different numbers of ranks.
        StorageError: the disk is full or read-only.
    """
    if command:
        raise UserError(f"--trace {traces[0]} and a command as well", "a trace is read, nothing is run")
    if runs is not None:
        raise UserError(
            f"--trace {traces[0]} and --runs {runs} as well", "a trace is of one run; give --trace for each"
        )
    best = None if against is None else read_campaign(against).recommended()
    recordings = [read_cubex(path) if path.suffix == ".cubex" else read_trace(path) for path in traces]
    _write_and_print(mean_of(recordings), _place(out), best, as_json)
    return ExitCode.WELL


@heeded(signal.SIGXCPU)
def record(command: Sequence[str], runs: int, out: Path, against: Path | None, as_json: bool) -> int:
    """Run an application, record its calls, print a summary, and return the application's exit code.

    The recording is written after each run. After a run that fails or is interrupted no further run is made,
    and its calls are recorded only if it was the first.

    Args:
        command: The application's command line.
        runs: Number of runs; the recording is the mean over the runs.
        out: The recording's file.
        against: Directory of a campaign, by whose measurements the summary says how much tuning could save;
            None: the summary does not say it.
        as_json: Whether to print the recording as JSON in place of the summary.

    Raises:
        UserError: no application is named, or none of its calls could be recorded.
        StackError: no MPI was found, or no compiler for it.
        TableError: the runs have different numbers of ranks.
        Interrupted: the user ended the command.
        StorageError: the disk is full or read-only.
    """
    best = None if against is None else read_campaign(against).recommended()
    installation = installation_of(command)
    out = _place(out)
    recordings: list[Recording] = []
    # The temporary folder is in the directory of the result, because all nodes can write there.
    scratch = tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    with passed_on(lambda number: None), scratch as scratch_name:
        library = preload(installation, Path(scratch_name))
        for number in range(1, runs + 1):
            jobs, other_libraries, outcome = _record_run(command, installation, library, Path(scratch_name))
            recorded = jobs[0] if jobs else None
            succeeded = isinstance(outcome, Ran) and not outcome.exit_code
            if recorded is None and succeeded:
                raise UserError(*why_nothing(command, 0, other_libraries))
            if recorded is not None and (succeeded or not recordings):
                recordings.append(recorded)
                other_paths = [
                    out.with_name(f"{out.stem}-{index}{out.suffix}") for index in range(2, len(jobs) + 1)
                ]
                for path, job in zip(other_paths, jobs[1:], strict=True):
                    write_files({path: json_text(job.document())}, mode=0o600)
                    sys.stderr.write(f"another job of {job.ranks} rank(s) ran at the same time: {path}\n")
                if number < runs and (
                    out.is_file() or not out.exists()
                ):  # a device such as /dev/stdout is written once
                    write_files({out: json_text(mean_of(recordings).document())}, mode=0o600)
                if runs > 1:
                    seconds = f"{recorded.run_s:.3g} s, {recorded.collectives_s:.3g} s of them in collectives"
                    sys.stderr.write(f"run {number} of {runs}: {seconds}\n")
            if not succeeded:
                break
    if not recordings:
        raise (
            outcome
            if isinstance(outcome, Interrupted)
            else UserError(*why_nothing(command, outcome.exit_code, other_libraries))
        )
    _write_and_print(mean_of(recordings), out, best, as_json)
    run_text = f" in run {number} of {runs}" if runs > 1 else ""
    remark = "recorded is what came before" if number == 1 else f"kept are the {number - 1} before it"
    if isinstance(outcome, Interrupted):
        if run_text:
            sys.stderr.write(f"interrupted{run_text}; {remark}\n")
        raise outcome
    if outcome.exit_code:
        sys.stderr.write(f"{command[0]} ended with exit code {outcome.exit_code}{run_text}; {remark}\n")
    return outcome.exit_code


def _record_run(
    command: Sequence[str], installation: Installation, library: Path, scratch: Path
) -> tuple[list[Recording], list[str], Ran | Interrupted]:
    """Run the application once and record it.

    Args:
        command: The application's command line.
        installation: The MPI installation that runs it.
        library: The library that records calls, which is preloaded.
        scratch: A folder for the files of the ranks.

    Returns:
        The recordings of the application's MPI jobs, the one with most ranks first, and none if nothing was
        recorded; the names of libraries other than MPI by which its processes communicate; and how it ended.

    Raises:
        StorageError: there was no room for the files of the ranks; the application ran without being
        recorded.
    """
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        outcome: Ran | Interrupted
        begin = time.monotonic()
        try:
            check()  # no run begins after the user has ended the command
            outcome = run(command, installation, recording(library, folder), check, alarm())
        except (Interrupted, KeyboardInterrupt):  # the calls until then are recorded nevertheless
            outcome = Interrupted("interrupted")
        seconds = time.monotonic() - begin
        files = sorted(folder.glob("*.rank"))
        other_libraries = sorted({path.name.split(".")[-2] for path in folder.glob("*.seen")})
        if not all(path.stat().st_size for path in files):
            outcome_text = (
                f"ended with exit code {outcome.exit_code}" if isinstance(outcome, Ran) else "was interrupted"
            )
            raise StorageError(
                f"nothing is recorded of {command[0]}, which {outcome_text}: "
                f"no room for its ranks in {scratch.parent}",
                "each rank needs 1 MiB there while it runs; --out NAME in another place",
            )
        return joined(_open_each(files), command, seconds, date, other_libraries), other_libraries, outcome


def _open_each(paths: Iterable[Path]) -> Iterator[IO[bytes]]:
    """Yield each file opened, one at a time, because a process cannot open ten thousand files at once."""
    for path in paths:
        with path.open("rb") as file:
            yield file


def _place(out: Path) -> Path:
    """Return the absolute path of the recording's file.

    Raises:
        UserError: the path is a directory, or the file's directory does not exist.
    """
    out = out.absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"--out {out} is no place for a file", "name a file in a directory that is there")
    return out


def _write_and_print(recorded: Recording, out: Path, best: Recommendation | None, as_json: bool) -> None:
    write_files({out: json_text(recorded.document())}, mode=0o600)
    sys.stdout.write(
        json_text(recorded.document()) if as_json else summary(recorded, best) + f"kept in {out}\n"
    )


def summary(recorded: Recording, best: Recommendation | None = None) -> str:
    """Return a summary of a recording as text.

    It contains the time of a run and of its calls. With a recommendation, it also contains the most that
    tuning could save, and the saving that is predicted for the recommendation's files.

    Args:
        recorded: The recording.
        best: The recommendation of a campaign, or None.
    """
    run_s, collectives_s, waiting_s = recorded.run_s, recorded.collectives_s, recorded.waiting_s
    end = {
        "finalized": "",
        "killed": ", KILLED before MPI_Finalize",
        "exited": ", EXITED without MPI_Finalize",
        "aborted": ", ABORTED",
    }[recorded.ended]
    lines = [
        f"{recorded.ranks} rank(s) on {recorded.nodes} node(s), {run_s:.3g} s{end}; {recorded.library}",
        f"of {run_s:.3g} s of a mean rank {collectives_s:.3g} s ({collectives_s / run_s:.1%}) "
        "are in collectives, "
        + (
            f"{waiting_s:.3g} s of them waiting for others, which no tuning takes away"
            if recorded.waiting_known
            else "how much of them waiting for others, which no tuning takes away, is not known"
        ),
        f"mean of {len(recorded.runs)} runs, "
        f"which took {_range([each_run.run_s for each_run in recorded.runs])} s, "
        f"{_range(recorded.collectives_runs_s)} s of them in collectives"
        if recorded.runs
        else "of one run: the spread between runs is unknown; "
        + ("add --runs 5" if recorded.command else "give --trace for each of several"),
    ]
    if best is not None and best.gains:
        reach, covered = reachable_s(recorded, best.gains)
        lines.append(
            f"tuning can reach {reach:.3g} s at best: recorded times without waiting against the "
            f"fastest in the campaign, which measured calls of {covered:.0%} of the time"
        )
        lines.append(sentence(recorded, best))
    if recorded.calls:
        lines.append(
            f"{'':4}{'calls a rank':>12}  {'message':>9}  {'ranks':>5}  {'s':>8}  {'waiting':>8}"
            + (f"  {'s over the runs':>15}" if recorded.runs else "")
        )
    for call in recorded.calls[:_TOP]:
        kind = "" if call.kind == "blocking" else f"  {call.kind}"
        waiting_text = f"{call.waiting_s:.3g}" if recorded.waiting_known else "?"
        over_runs = f"{_range([each_run.seconds for each_run in call.runs]):>15}  " if call.runs else ""
        lines.append(
            f"{'':4}{call.calls_per_rank:12.5g}  {size_text(round(call.message_bytes)):>9}  "
            f"{call.comm_size:5}  {call.seconds:8.3g}  {waiting_text:>8}  {over_runs}{call.collective}{kind}"
        )
    if len(recorded.calls) > _TOP:
        rest_s = sum(call.seconds for call in recorded.calls[_TOP:])
        lines.append(f"{'':4}… and {len(recorded.calls) - _TOP} more, {rest_s:.3g} s")
    if not recorded.calls:
        lines.append("no collective was called")
    sampled = [call for call in recorded.calls if call.timed is not None and 0 < call.timed < call.calls]
    if sampled:
        timed, calls = sum(call.timed or 0 for call in sampled), sum(call.calls for call in sampled)
        lines.append(
            f"of {calls} short calls {timed} were timed, drawn by lot: all seconds together are within "
            f"{Z95 * recorded.collectives_se:.2g} s"
        )
    lines += [
        f"runs differ in {call.collective} of {size_text(round(call.message_bytes))}: "
        f"{min(each_run.calls for each_run in call.runs)} … "
        f"{max(each_run.calls for each_run in call.runs)} calls"
        for call in recorded.differing[:_TOP]
    ]
    if recorded.not_kept:
        lines.append(f"{recorded.not_kept} kinds of calls found no room and are not counted")
    if recorded.clock_error_s > 1e-6:
        lines.append(f"clocks of the nodes agree within {recorded.clock_error_s * 1e6:.2g} µs")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3g} … {max(values):.3g}"
