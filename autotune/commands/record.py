"""``record``: what an application calls, how long it takes, and how much is waiting for the last rank."""

import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.commands.application import sentence
from autotune.errors import ExitCode, Interrupted, StorageError, UserError
from autotune.exporters.writing import write_files
from autotune.history.objectives import Z95
from autotune.importers.cubex import read_cubex
from autotune.importers.rank_files import joined
from autotune.importers.recording import Recording, mean_of
from autotune.importers.traces import read_trace
from autotune.recommend.reach import reachable_s
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.application import Ran, installation_of, passed_on, preload, recording, run, why_nothing
from autotune.stacks.installation import Installation
from autotune.views.documents import json_text
from autotune.views.text import size_text

_TOP = 10  # Calls that the terminal shows.


def of_traces(
    traces: Sequence[Path],
    command: Sequence[str],
    runs: int | None,
    out: Path,
    against: Path | None,
    as_json: bool,
) -> int:
    """Write what an application called in traces or profiles of its runs, and print the same summary.

    Raises:
        UserError: a command as well, or no library for traces here.
        TableError: no trace, a damaged one, or traces of different numbers of ranks.
        StorageError: the disk is full or read-only.
    """
    if command:
        raise UserError(f"--trace {traces[0]} and a command as well", "a trace is read, nothing is run")
    if runs is not None:
        raise UserError(
            f"--trace {traces[0]} and --runs {runs} as well", "a trace is of one run; give --trace for each"
        )
    best = None if against is None else read_campaign(against).recommended()
    read = [read_cubex(one) if one.suffix == ".cubex" else read_trace(one) for one in traces]
    _told(mean_of(read), _place(out), best, as_json)
    return ExitCode.WELL


@heeded(signal.SIGXCPU)
def record(command: Sequence[str], runs: int, out: Path, against: Path | None, as_json: bool) -> int:
    """Run the application so often, write what it called, and print a summary; the application's exit code.

    The file is there after each run. A run that does not end well is the last; it counts only where it is
    the first.

    Raises:
        UserError: no application, or nothing of it could be recorded.
        StackError: no MPI, or no compiler for it.
        TableError: its runs have different numbers of ranks.
        Interrupted: the user ended it.
        StorageError: the disk is full or read-only.
    """
    best = None if against is None else read_campaign(against).recommended()
    installation = installation_of(command)
    out = _place(out)
    every: list[Recording] = []
    # Beside the result: a place that all nodes see, as the user's own.
    beside = tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent)
    with passed_on(lambda number: None), beside as kept:
        library = preload(installation, Path(kept))
        for number in range(1, runs + 1):
            jobs, unseen, ended = _recorded(command, installation, library, Path(kept))
            found = jobs[0] if jobs else None
            well = isinstance(ended, Ran) and not ended.exit_code
            if found is None and well:
                raise UserError(*why_nothing(command, 0, unseen))
            if found is not None and (well or not every):
                every.append(found)
                beside_it = [out.with_name(f"{out.stem}-{i}{out.suffix}") for i in range(2, len(jobs) + 1)]
                for path, job in zip(beside_it, jobs[1:], strict=True):
                    write_files({path: json_text(job.document())}, mode=0o600)
                    sys.stderr.write(f"another job of {job.ranks} rank(s) ran at the same time: {path}\n")
                if number < runs and (out.is_file() or not out.exists()):  # no device gets several
                    write_files({out: json_text(mean_of(every).document())}, mode=0o600)
                if runs > 1:
                    seconds = f"{found.run_s:.3g} s, {found.collectives_s:.3g} s of them in collectives"
                    sys.stderr.write(f"run {number} of {runs}: {seconds}\n")
            if not well:
                break
    if not every:
        raise (
            ended
            if isinstance(ended, Interrupted)
            else UserError(*why_nothing(command, ended.exit_code, unseen))
        )
    _told(mean_of(every), out, best, as_json)
    where = f" in run {number} of {runs}" if runs > 1 else ""
    kept_is = "recorded is what came before" if number == 1 else f"kept are the {number - 1} before it"
    if isinstance(ended, Interrupted):
        if where:
            sys.stderr.write(f"interrupted{where}; {kept_is}\n")
        raise ended
    if ended.exit_code:
        sys.stderr.write(f"{command[0]} ended with exit code {ended.exit_code}{where}; {kept_is}\n")
    return ended.exit_code


def _recorded(
    command: Sequence[str], installation: Installation, library: Path, beside: Path
) -> tuple[list[Recording], list[str], Ran | Interrupted]:
    """One run: recordings of its jobs, if any, what it communicates by beside MPI, and how it ended.

    Raises:
        StorageError: its ranks found no room to record; the application ran on without.
    """
    with tempfile.TemporaryDirectory(dir=beside) as place:
        folder = Path(place)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        ended: Ran | Interrupted
        begin = time.monotonic()
        try:
            check()  # none is begun after the user has ended it
            ended = run(command, installation, recording(library, folder), check, alarm())
        except (Interrupted, KeyboardInterrupt):  # what came before is worth a file
            ended = Interrupted("interrupted")
        seconds = time.monotonic() - begin
        files = sorted(folder.glob("*.rank"))
        unseen = sorted({path.name.split(".")[-2] for path in folder.glob("*.seen")})
        if not all(path.stat().st_size for path in files):
            how = f"ended with exit code {ended.exit_code}" if isinstance(ended, Ran) else "was interrupted"
            raise StorageError(
                f"nothing is recorded of {command[0]}, which {how}: no room for its ranks in {beside.parent}",
                "each rank needs 1 MiB there while it runs; --out NAME in another place",
            )
        return joined(_opened(files), command, seconds, date, unseen), unseen, ended


def _opened(paths: Iterable[Path]) -> Iterator[IO[bytes]]:
    """One after the other: ten thousand are more than may be open at once."""
    for path in paths:
        with path.open("rb") as file:
            yield file


def _place(out: Path) -> Path:
    out = out.absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"--out {out} is no place for a file", "name a file in a directory that is there")
    return out


def _told(found: Recording, out: Path, best: Recommendation | None, as_json: bool) -> None:
    write_files({out: json_text(found.document())}, mode=0o600)
    sys.stdout.write(json_text(found.document()) if as_json else summary(found, best) + f"kept in {out}\n")


def summary(found: Recording, best: Recommendation | None = None) -> str:
    """Time of a run in which calls, the most that tuning could save, and the saving of files."""
    run_s, in_calls, waiting = found.run_s, found.collectives_s, found.waiting_s
    end = {
        "finalized": "",
        "killed": ", KILLED before MPI_Finalize",
        "exited": ", EXITED without MPI_Finalize",
        "aborted": ", ABORTED",
    }[found.ended]
    lines = [
        f"{found.ranks} rank(s) on {found.nodes} node(s), {run_s:.3g} s{end}; {found.library}",
        f"of {run_s:.3g} s of a mean rank {in_calls:.3g} s ({in_calls / run_s:.1%}) are in collectives, "
        + (
            f"{waiting:.3g} s of them waiting for others, which no tuning takes away"
            if found.waiting_known
            else "how much of them waiting for others, which no tuning takes away, is not known"
        ),
        f"mean of {len(found.runs)} runs, which took {_range([one.run_s for one in found.runs])} s, "
        f"{_range(found.collectives_runs_s)} s of them in collectives"
        if found.runs
        else "of one run: the spread between runs is unknown; "
        + ("add --runs 5" if found.command else "give --trace for each of several"),
    ]
    if best is not None and best.gains:
        reach, covered = reachable_s(found, best.gains)
        lines.append(
            f"tuning can reach {reach:.3g} s at best: recorded times without waiting against the "
            f"fastest in the campaign, which measured calls of {covered:.0%} of the time"
        )
        lines.append(sentence(found, best))
    if found.calls:
        lines.append(
            f"{'':4}{'calls a rank':>12}  {'message':>9}  {'ranks':>5}  {'s':>8}  {'waiting':>8}"
            + (f"  {'s over the runs':>15}" if found.runs else "")
        )
    for one in found.calls[:_TOP]:
        kind = "" if one.kind == "blocking" else f"  {one.kind}"
        waited = f"{one.waiting_s:.3g}" if found.waiting_known else "?"
        over_runs = f"{_range([r.seconds for r in one.runs]):>15}  " if one.runs else ""
        lines.append(
            f"{'':4}{one.calls_per_rank:12.5g}  {size_text(round(one.message_bytes)):>9}  {one.comm_size:5}  "
            f"{one.seconds:8.3g}  {waited:>8}  {over_runs}{one.collective}{kind}"
        )
    if len(found.calls) > _TOP:
        rest = sum(c.seconds for c in found.calls[_TOP:])
        lines.append(f"{'':4}… and {len(found.calls) - _TOP} more, {rest:.3g} s")
    if not found.calls:
        lines.append("no collective was called")
    some = [c for c in found.calls if c.timed is not None and 0 < c.timed < c.calls]
    if some:
        timed, calls = sum(c.timed or 0 for c in some), sum(c.calls for c in some)
        lines.append(
            f"of {calls} short calls {timed} were timed, drawn by lot: all seconds together are within "
            f"{Z95 * found.collectives_se:.2g} s"
        )
    lines += [
        f"runs differ in {one.collective} of {size_text(round(one.message_bytes))}: "
        f"{min(r.calls for r in one.runs)} … {max(r.calls for r in one.runs)} calls"
        for one in found.differing[:_TOP]
    ]
    if found.not_kept:
        lines.append(f"{found.not_kept} kinds of calls found no room and are not counted")
    if found.clock_error_s > 1e-6:
        lines.append(f"clocks of the nodes agree within {found.clock_error_s * 1e6:.2g} µs")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    return f"{min(values):.3g} … {max(values):.3g}"
