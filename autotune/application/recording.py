"""Define recordings: documents with the MPI calls of an application in one run or several.

``record`` writes such a document, which is no part of a campaign. `rank_files` makes the recording of a run
from the files of its ranks, `traces` and `cubex` make it from another tool's trace or profile.

Several runs become one recording, whose numbers are means over the runs. The recording also contains the
numbers of each run, because runs differ by more than the sampling error of one run.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from autotune.application.recorded_time import (
    FAMILIES,
    Histogram,
    Lateness,
    OtherCalls,
    Started,
    Timeline,
    mean_row,
    means_of,
)
from autotune.collectives import COLLECTIVES, MEASURED, PATTERNS, Pattern, Size, later
from autotune.errors import TableError
from autotune.structure import Document, document_in, plain

FORMAT = "autotune calls 4"  # Name and version of the format, the first key of a document.
_DOCUMENT = Document("the recording", TableError, own=True, newer=True)
_LARGEST = 1e100  # Largest number in a recording: sums and ratios of such numbers are finite.
KINDS = ("blocking", "non-blocking", "persistent")
"""Kinds of calls of a collective, in the order of ``enum kind`` in ``probe/recorder/file.h``."""
ENDS = ("killed", "finalized", "aborted", "exited")
"""How a rank ended, in the order of ``ended`` in ``probe/recorder/file.h``; ``exited`` means that the program
ended without MPI_Finalize."""
WORST = ("aborted", "exited", "killed", "finalized")
"""The ends of ``ENDS``, worst first. A run's end is the worst end of its ranks, because the launcher kills
the others when one rank aborts."""


@dataclass(frozen=True, slots=True)
class CallsOfRun:
    """Count and times of the calls of one ``RecordedCalls`` in one of several runs."""

    calls: int  # Exact number of calls over all ranks.
    seconds: float  # Seconds in these calls, mean over all ranks.
    waiting_s: float  # Part of ``seconds`` that was spent waiting for late ranks.

    @property
    def busy_s(self) -> float:
        """Return the seconds that tuning could reduce."""
        return max(self.seconds - self.waiting_s, 0.0)


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """Counts and times of calls of one collective, kind, communicator size and power of two of the size.

    Numbers that a tool does not record are None.
    """

    collective: str  # MPI's name of the collective, in lower case without ``mpi_``.
    kind: str  # One of ``KINDS``.
    comm_size: int  # Ranks of the communicator.
    message_bytes: float  # Mean message size in bytes, counted as in the module ``collectives``.
    calls: int  # Number of calls over all ranks; for several runs the mean, rounded.
    calls_per_rank: float  # Number of calls of a rank, mean over all ranks of the run.
    seconds: float  # Seconds in these calls and in MPI_Wait and the like for them, mean over all ranks.
    waiting_s: float  # Part of ``seconds`` spent waiting for ranks that came later; 0 if not known.
    timed: int = 0  # Number of calls whose time was taken; of short calls only a random sample is timed.
    seconds_se: float | None = None  # Standard error of ``seconds`` because only a sample was timed.
    waiting_se: float | None = None  # Standard error of ``waiting_s``.
    runs: tuple[CallsOfRun, ...] = ()
    """The numbers of each run, in the order of ``Recording.runs``; empty for a single run."""
    seconds_low: float | None = None  # Lower end of the 95 % interval that contains ``seconds``.
    seconds_high: float | None = None
    """Upper end of the interval, well above ``seconds`` if a call that was not timed may have been long."""
    histogram: Histogram | None = None  # Durations of the calls, without MPI_Wait and the like.
    lateness: Lateness | None = None  # Which ranks the others waited for.
    derived: int = 0  # Number of calls among ``calls`` whose datatype the program has defined.

    @property
    def tunable(self) -> bool:
        """Return whether rules files can choose the algorithm: only for blocking calls of several ranks."""
        return self.kind == KINDS[0] and self.comm_size > 1 and self.collective in MEASURED

    @property
    def sized(self) -> bool:
        """Return whether the calls carry data."""
        return self.collective in COLLECTIVES and COLLECTIVES[self.collective].size is not Size.NONE

    @property
    def busy_s(self) -> float:
        """Return the seconds that tuning could reduce."""
        return max(self.seconds - self.waiting_s, 0.0)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """The times and the end of one of several runs; ``Recording`` describes the fields."""

    run_s: float
    mpi_s: float
    ended: str
    date: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of an application, or the mean over several runs."""

    command: tuple[str, ...]
    """Command line of the run, without secrets."""
    run_s: float
    """Wall time of the command in seconds."""
    mpi_s: float
    """Seconds between MPI_Init and MPI_Finalize, mean over the ranks."""
    ranks: int
    """Number of ranks of the largest job."""
    nodes: int
    """Number of nodes that these ranks ran on."""
    ended: str
    """How the run ended, one of ``ENDS``; for several runs the worst end."""
    library: str
    """Name and version of the MPI library as it prints them, or the kind of file of another tool."""
    date: str
    """ISO date of the run; for several runs that of the first."""
    clock_error_s: float
    """Largest difference between the clocks of the nodes, in seconds, that cannot be excluded."""
    not_kept: int
    """Number of kinds of calls that were not recorded because the recorder's tables were full."""
    calls: tuple[RecordedCalls, ...]
    """Calls of collectives; those with the most time come first."""
    runs: tuple[RecordedRun, ...] = ()
    """Times and end of each run; empty for a single run."""
    other: tuple[OtherCalls, ...] = ()
    """Calls that are no collectives, those with the most time first; empty in recordings of other tools."""
    started: Started | None = None
    """How the run was started; None where it is not known."""
    timeline: Timeline | None = None
    """Time in MPI in each slice of the (first) run; None where it is not known."""
    threads: int = 1
    """Largest number of threads of one rank that called MPI, over which its seconds are summed."""
    unseen: tuple[str, ...] = ()
    """Ways by which the run also communicated, not recorded: ``NCCL``, ``gloo``, ``MPI sessions``."""

    @property
    def timed_all_of_mpi(self) -> bool:
        """Return whether calls that are no collectives were recorded too."""
        return self.timeline is not None

    @property
    def families_s(self) -> dict[str, float]:
        """Return the seconds of a mean rank in each family of calls (see ``FAMILIES``).

        Each second counts in one family. MPI_Wait for a non-blocking collective counts as a collective.
        """
        sums = {FAMILIES[0]: self.collectives_s}
        for entry in self.other:
            sums[entry.family] = sums.get(entry.family, 0.0) + entry.own_s
        return sums

    @property
    def collectives_s(self) -> float:
        """Return the seconds spent in collectives, averaged over ranks."""
        return math.fsum(c.seconds for c in self.calls)

    @property
    def waiting_s(self) -> float:
        """Return the part of ``collectives_s`` in which a mean rank waited for others."""
        return math.fsum(c.waiting_s for c in self.calls)

    @property
    def waiting_known(self) -> bool:
        """Return whether waiting for late ranks was measured; profiles of other tools lack it."""
        return not self.calls or any(c.waiting_s > 0 or c.waiting_se is not None for c in self.calls)

    @property
    def collectives_se(self) -> float:
        """Return the standard error that ``collectives_s`` has because only a sample of the calls was timed.

        The error is 0 if it is not known.
        """
        return math.hypot(*(c.seconds_se or 0.0 for c in self.calls))

    @property
    def collectives_runs_s(self) -> tuple[float, ...]:
        """Return the seconds of a mean rank in collectives, for each run."""
        return tuple(math.fsum(c.runs[i].seconds for c in self.calls) for i in range(len(self.runs)))

    @property
    def differing(self) -> tuple[RecordedCalls, ...]:
        """Return the entries of ``calls`` whose number of calls differs between runs."""
        return tuple(c for c in self.calls if len({of_run.calls for of_run in c.runs}) > 1)

    def document(self) -> dict[str, Any]:
        """Return the document that is written as JSON."""
        return {"format": FORMAT, **plain(self)}


def of_tool(
    library: str, run_s: float, ranks: int, nodes: int, calls: Iterable[RecordedCalls], date: str = ""
) -> Recording:
    """Return the recording of a run that another tool recorded, and that reached MPI_Finalize."""
    rows = tuple(sorted(calls, key=order))
    return Recording((), run_s, run_s, ranks, nodes, ENDS[1], library, date, 0.0, 0, rows)


def even_block(name: str, ranks: int, moved: Any) -> Any:
    """Return the message size of a call in which all ranks move equally many bytes.

    The size is in bytes, counted as in the module ``collectives``; it is None for a collective in which one
    rank sends or receives more than the others.

    Args:
        name: The collective.
        ranks: Ranks of the communicator.
        moved: Sum of the bytes that a rank sent and that it received in one call.
    """
    if name in ("scan", "exscan"):
        return moved / max(ranks + (1 if name == "scan" else -1), 1)
    pattern = COLLECTIVES[name].pattern if name in COLLECTIVES else Pattern.ALL_TO_ALL
    # A rank sends one block to each rank and receives one block from each.
    return moved / (2 * ranks) if pattern is Pattern.ALL_TO_ALL else None


def read_recording(text: str, name: str) -> Recording:
    """Return the recording in a document.

    Raises:
        TableError: The document is no recording, or is damaged.
    """
    document = document_in(text, name, (FORMAT,), "recording of calls", "autotune record -- mpirun …")
    del document["format"]
    try:
        recording = _DOCUMENT.structured(Recording, document)
        _check_numbers(recording, "")
    except (TableError, ValueError) as exc:
        hint = exc.hint if isinstance(exc, TableError) else ""
        raise TableError(f"{name}: a damaged recording: {str(exc).partition(chr(10))[0]}", hint) from exc
    runs: tuple[Recording | RecordedRun, ...] = (recording, *recording.runs)
    for run in runs:
        if run.ended not in ENDS or not run.run_s:
            raise TableError(f"{name}: a damaged recording: ended={run.ended!r}, run_s={run.run_s}")
    if len(recording.runs) == 1 or any(len(c.runs) != len(recording.runs) for c in recording.calls):
        raise TableError(f"{name}: a damaged recording: calls of other runs than its {len(recording.runs)}")
    return recording


def mean_of(recordings: Sequence[Recording]) -> Recording:
    """Return the mean over several runs of one application; a single recording is returned unchanged.

    Args:
        recordings: ``(n_runs,)`` recordings of one run each. Calls that a run did not make count as zero
            calls in it.

    Raises:
        TableError: The runs have different numbers of ranks.
    """
    first, n = recordings[0], len(recordings)
    if n == 1:
        return first
    if len(sizes := sorted({run.ranks for run in recordings})) > 1:
        raise TableError(
            f"runs on {' and '.join(map(str, sizes))} ranks", "a recording is of one application, run again"
        )
    groups: dict[tuple[str, str, int, int], list[RecordedCalls | None]] = {}
    for i, recording in enumerate(recordings):
        for entry in recording.calls:
            # The sizes of a group's calls have the same power of two, and so has their mean.
            key = entry.collective, entry.kind, entry.comm_size, int(entry.message_bytes).bit_length()
            groups.setdefault(key, [None] * n)[i] = entry
    return replace(
        first,
        run_s=math.fsum(run.run_s for run in recordings) / n,
        mpi_s=math.fsum(run.mpi_s for run in recordings) / n,
        nodes=max(run.nodes for run in recordings),
        ended=next(end for end in WORST if end in {run.ended for run in recordings}),
        clock_error_s=max(run.clock_error_s for run in recordings),
        not_kept=max(run.not_kept for run in recordings),
        calls=tuple(sorted(map(_mean_calls, groups.values()), key=order)),
        runs=tuple(RecordedRun(run.run_s, run.mpi_s, run.ended, run.date) for run in recordings),
        other=means_of([run.other for run in recordings]),
        threads=max(run.threads for run in recordings),
        unseen=tuple(sorted({word for run in recordings for word in run.unseen})),
    )


def order(calls: RecordedCalls) -> tuple[float, str, int, float]:
    """Return a sort key that puts calls with more time first."""
    return -calls.seconds, calls.collective, calls.comm_size, calls.message_bytes


def _mean_calls(per_run: Sequence[RecordedCalls | None]) -> RecordedCalls:
    present = [entry for entry in per_run if entry is not None]

    def error(errors: list[float | None]) -> float | None:
        # Each run drew its timed calls independently, so the squares of the errors are added.
        known = [value for value in errors if value is not None]
        return math.hypot(*known) / len(per_run) if len(known) == len(errors) else None

    return replace(
        mean_row(present, len(per_run), "waiting_s"),
        seconds_se=error([entry.seconds_se for entry in present]),
        waiting_se=error([entry.waiting_se for entry in present]),
        runs=tuple(
            CallsOfRun(entry.calls, entry.seconds, entry.waiting_s) if entry else CallsOfRun(0, 0.0, 0.0)
            for entry in per_run
        ),
    )


def _check_numbers(part: Any, prefix: str) -> None:
    """Raise an error unless all numbers are finite and at least 0; numbers of ranks and nodes at least 1."""
    for entry in fields(part):
        value, key = getattr(part, entry.name), f"{prefix}{entry.name}"
        for number in value if isinstance(value, tuple) else (value,):
            if is_dataclass(number):
                _check_numbers(number, f"{key}.")
            elif isinstance(number, int | float):
                minimum = 1 if entry.name in ("ranks", "nodes", "comm_size") else 0
                if not minimum <= number <= _LARGEST:
                    raise TableError(f"{key}={number} is not a number of at least {minimum:g}")


@dataclass(frozen=True, slots=True)
class TunableCalls:
    """Calls of one kind that MPI settings can make faster, by the name that the benchmark probe uses."""

    name: str  # The collective or pattern of messages, one of ``collectives.MEASURED``.
    comm_size: int | None  # Ranks of the communicator; None for messages, for which it does not matter.
    message_bytes: float  # Mean message size in bytes.
    count: float  # Number of calls of one rank; of a halo, the number of halo exchanges.
    busy_s: float
    """Seconds of a mean rank in these calls. For collectives they exclude the waiting for late ranks; for
    messages they include waiting, which cannot be separated."""


def tunable(recorded: Recording) -> tuple[TunableCalls, ...]:
    """Return the calls of a recording that MPI settings can make faster.

    They are blocking collectives, non-blocking and persistent collectives that the benchmark probe can
    measure, messages between two ranks, and one-sided operations.
    """
    rows = []
    for c in recorded.calls:
        name = c.collective if c.tunable else later(c.collective, c.kind)
        if c.tunable or (name in PATTERNS and c.comm_size > 1):
            rows.append(TunableCalls(name, c.comm_size, c.message_bytes, c.calls_per_rank, c.busy_s))
    for other in recorded.other:
        if other.pattern:
            count = other.calls_per_rank / _requests(other.pattern, recorded.ranks)
            rows.append(TunableCalls(other.pattern, None, other.message_bytes, count, other.own_s))
    return tuple(rows)


def _requests(pattern: str, ranks: int) -> int:
    """Return the number of messages, sent and received, that a rank begins in one call of a pattern.

    In a halo exchange a rank has two neighbours in each of two dimensions, or two neighbours in one dimension
    if the number of ranks is prime.
    """
    if not pattern.startswith("halo"):
        return 1
    prime = all(ranks % n for n in range(2, math.isqrt(ranks) + 1))
    return 4 if prime else 8
