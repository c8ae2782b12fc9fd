"""``record``: what an application calls, how long it takes, and how much is waiting for the last rank."""

import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import alarm, check, heeded
from autotune.errors import ExitCode, Interrupted, UserError
from autotune.exporters.writing import write_files
from autotune.importers.recording import Recording, joined
from autotune.importers.traces import read_trace
from autotune.recommend.front import Gain
from autotune.recommend.reach import reachable_s
from autotune.stacks.application import Ran, installation_of, recorder, recording, run, why_nothing
from autotune.views.documents import json_text
from autotune.views.text import size_text

_TOP = 10
"""Calls that the terminal shows."""
_SIGMAS = 1.96
"""Half of a 95 % interval in standard errors."""


def of_trace(trace: Path, command: Sequence[str], out: Path, against: Path | None, as_json: bool) -> int:
    """Write what an application called in a trace that another tool made, and print the same summary.

    Raises:
        UserError: a command as well, or no library for traces here.
        TableError: no trace, or a damaged one.
        StorageError: the disk is full or read-only.
    """
    if command:
        raise UserError(f"--trace {trace} and a command as well", "a trace is read, nothing is run")
    best = None if against is None else read_campaign(against).recommended()
    _told(read_trace(trace), _place(out), () if best is None else best.gains, as_json)
    return ExitCode.WELL


@heeded()
def record(command: Sequence[str], out: Path, against: Path | None, as_json: bool) -> int:
    """Run the application, write what it called, and print a summary; 1 where it did not end well.

    Raises:
        UserError: no application, or nothing of it could be recorded.
        StackError: no MPI, or no compiler for it.
        Interrupted: the user ended it.
        StorageError: the disk is full or read-only.
    """
    best = None if against is None else read_campaign(against).recommended()
    installation = installation_of(command)
    out = _place(out)
    # Beside the result: a place that all nodes see, as the user's own.
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as kept:
        folder = Path(kept)
        library = recorder(installation, folder)
        date = datetime.now(UTC).isoformat(timespec="seconds")
        ended: Ran | Interrupted
        begin = time.monotonic()
        try:
            ended = run(command, installation, recording(library, folder), check, alarm())
        except Interrupted as exc:  # what came before is worth a file
            ended = exc
        seconds = time.monotonic() - begin
        found = joined((path.read_bytes() for path in sorted(folder.glob("*.rank"))), command, seconds, date)
    if found is None:
        if isinstance(ended, Interrupted):
            raise ended
        raise UserError(*why_nothing(command, ended.exit_code))
    _told(found, out, () if best is None else best.gains, as_json)
    if isinstance(ended, Interrupted):
        raise ended
    if ended.exit_code:
        sys.stderr.write(
            f"{command[0]} ended with exit code {ended.exit_code}; recorded is what came before\n"
        )
    return ExitCode.FINDING if ended.exit_code else ExitCode.WELL


def _place(out: Path) -> Path:
    out = out.absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise UserError(f"--out {out} is no place for a file", "name a file in a directory that is there")
    return out


def _told(found: Recording, out: Path, gains: Sequence[Gain], as_json: bool) -> None:
    write_files({out: json_text(found.document())})
    if as_json:
        sys.stdout.write(json_text(found.document()))
    else:
        reach = reachable_s(found, gains) if gains else None
        sys.stdout.write(summary(found, reach) + f"kept in {out}\n")


def summary(found: Recording, reach_s: tuple[float, float] | None = None) -> str:
    """What of a run was spent in which calls, and what of it tuning could reach at best."""
    run_s, in_calls, waiting = found.run_s, found.collectives_s, found.waiting_s
    end = {"finalized": "", "killed": ", KILLED before MPI_Finalize", "aborted": ", ABORTED"}[found.ended]
    lines = [
        f"{found.ranks} rank(s) on {found.nodes} node(s), {run_s:.3g} s{end}; {found.library}",
        f"of {run_s:.3g} s of a mean rank {in_calls:.3g} s ({in_calls / run_s:.1%}) are in collectives, "
        f"{waiting:.3g} s of them waiting for others, which no tuning takes away",
    ]
    if reach_s is not None:
        lines.append(
            f"tuning can reach {reach_s[0]:.3g} s at best: recorded times without waiting against the "
            f"fastest in the campaign, which measured calls of {reach_s[1]:.0%} of the time"
        )
    if found.calls:
        lines.append(f"{'':4}{'calls a rank':>12}  {'message':>9}  {'ranks':>5}  {'s':>8}  {'waiting':>8}")
    for one in found.calls[:_TOP]:
        kind = "" if one.kind == "blocking" else f"  {one.kind}"
        lines.append(
            f"{'':4}{one.calls_per_rank:12.5g}  {size_text(round(one.message_bytes)):>9}  {one.comm_size:5}  "
            f"{one.seconds:8.3g}  {one.waiting_s:8.3g}  {one.collective}{kind}"
        )
    if len(found.calls) > _TOP:
        rest = sum(c.seconds for c in found.calls[_TOP:])
        lines.append(f"{'':4}… and {len(found.calls) - _TOP} more, {rest:.3g} s")
    if not found.calls:
        lines.append("no collective was called")
    some = [c for c in found.calls if c.timed is not None and c.timed < c.calls]
    if some:
        timed, calls = sum(c.timed or 0 for c in some), sum(c.calls for c in some)
        lines.append(
            f"of {calls} short calls {timed} were timed, drawn by lot: all seconds together are within "
            f"{_SIGMAS * found.collectives_se:.2g} s"
        )
    if found.not_kept:
        lines.append(f"{found.not_kept} kinds of calls found no room and are not counted")
    if found.clock_error_s > 1e-6:
        lines.append(f"clocks of the nodes agree within {found.clock_error_s * 1e6:.2g} µs")
    return "\n".join(lines) + "\n"
