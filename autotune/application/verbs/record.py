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
from autotune.views.documents import answer_text, json_text
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

    The arguments are the options of ``record``. If ``against`` is a campaign, the summary also says how much
    tuning could save.

    Raises:
        UserError: a command or a number of runs is given as well, or the library that reads traces is
            missing.
        TableError: a file is no trace or is damaged, or the traces have different numbers of ranks.
        StorageError: the disk is full or read-only.
    """
    if command:
        raise UserError(f"--trace {traces[0]} and a command as well", "a trace is read, nothing is run")
    if runs is not None:
        hint = "a trace is of one run; give --trace for each"
        raise UserError(f"--trace {traces[0]} and --runs {runs} as well", hint)
    best = None if against is None else read_campaign(against).recommended()
    recordings = [read_cubex(path) if path.suffix == ".cubex" else read_trace(path) for path in traces]
    _write_and_print(mean_of(recordings), _place(out), best, as_json)
    return ExitCode.WELL


@heeded(signal.SIGXCPU)
def record(command: Sequence[str], runs: int, out: Path, against: Path | None, as_json: bool) -> int:
    """Run an application, record its calls, print a summary, and return the application's exit code.

    The arguments are those of ``of_traces``. The recording is written after each run. After a run that fails
    or is interrupted no further run is made; the calls of such a run are recorded only if it was the first.

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
                for index, job in enumerate(jobs[1:], 2):
                    path = out.with_name(f"{out.stem}-{index}{out.suffix}")
                    _write(job, path)
                    sys.stderr.write(f"another job of {job.ranks} rank(s) ran at the same time: {path}\n")
                # A device such as /dev/stdout is written once.
                if number < runs and (out.is_file() or not out.exists()):
                    _write(mean_of(recordings), out)
                if runs > 1:
                    seconds = f"{recorded.run_s:.3g} s, {recorded.collectives_s:.3g} s of them in collectives"
                    sys.stderr.write(f"run {number} of {runs}: {seconds}\n")
            if not succeeded:
                break
    if not recordings:
        if isinstance(outcome, Interrupted):
            raise outcome
        raise UserError(*why_nothing(command, outcome.exit_code, other_libraries))
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
    """Run the application once, with the recorder ``library`` preloaded.

    Returns:
        The recordings of the application's MPI jobs, the one with most ranks first; the names of libraries
        other than MPI by which its processes communicate; and how the run ended.
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
            ended = isinstance(outcome, Ran) and f"ended with exit code {outcome.exit_code}"
            raise StorageError(
                f"nothing is recorded of {command[0]}, which {ended or 'was interrupted'}: "
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
    out = out.absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"--out {out} is no place for a file", "name a file in a directory that is there")
    return out


def _write(recorded: Recording, out: Path) -> None:
    write_files({out: json_text(recorded.document())}, mode=0o600)


def _write_and_print(recorded: Recording, out: Path, best: Recommendation | None, as_json: bool) -> None:
    _write(recorded, out)
    if as_json:
        sys.stdout.write(answer_text("record", recorded.document()))
    else:
        sys.stdout.write(f"{summary(recorded, best)}kept in {out}\n")


def summary(recorded: Recording, best: Recommendation | None = None) -> str:
    """Return a summary of a recording as text, with what the campaign's recommendation ``best`` saves."""
    run_s, collectives_s, waiting_s = recorded.run_s, recorded.collectives_s, recorded.waiting_s
    ends = {"killed": ", KILLED before MPI_Finalize", "exited": ", EXITED without MPI_Finalize"}
    end = ({"finalized": "", "aborted": ", ABORTED"} | ends)[recorded.ended]
    waiting = f"{waiting_s:.3g} s of them waiting for others, which no tuning takes away"
    if not recorded.waiting_known:
        waiting = "how much of them waiting for others, which no tuning takes away, is not known"
    more = "add --runs 5" if recorded.command else "give --trace for each of several"
    spread = f"of one run: the spread between runs is unknown; {more}"
    if recorded.runs:
        took = _range([each_run.run_s for each_run in recorded.runs])
        in_collectives = f"{_range(recorded.collectives_runs_s)} s of them in collectives"
        spread = f"mean of {len(recorded.runs)} runs, which took {took} s, {in_collectives}"
    lines = [
        f"{recorded.ranks} rank(s) on {recorded.nodes} node(s), {run_s:.3g} s{end}; {recorded.library}",
        f"of {run_s:.3g} s of a mean rank {collectives_s:.3g} s ({collectives_s / run_s:.1%}) "
        f"are in collectives, {waiting}",
        spread,
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
    if sampled := [call for call in recorded.calls if 0 < call.timed < call.calls]:
        timed, calls = sum(call.timed for call in sampled), sum(call.calls for call in sampled)
        lines.append(
            f"of {calls} short calls {timed} were timed, drawn by lot: all seconds together are within "
            f"{Z95 * recorded.collectives_se:.2g} s"
        )
    for call in recorded.differing[:_TOP]:
        counts, size = [each_run.calls for each_run in call.runs], size_text(round(call.message_bytes))
        lines.append(f"runs differ in {call.collective} of {size}: {min(counts)} … {max(counts)} calls")
    if recorded.not_kept:
        lines.append(f"{recorded.not_kept} kinds of calls found no room and are not counted")
    if recorded.clock_error_s > 1e-6:
        lines.append(f"clocks of the nodes agree within {recorded.clock_error_s * 1e6:.2g} µs")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3g} … {max(values):.3g}"
