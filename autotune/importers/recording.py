"""An application's calls as ``record`` saw them, in one run or several: a document, and back.

Beside the flow of a campaign. `rank_files` has the run that the ranks' files make, `traces` that of a trace.

Several runs become one recording, whose numbers are means over them. Each run's own numbers are kept too, for
runs differ by more than the sampling error that one run can show.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from autotune.collectives import COLLECTIVES, MEASURED, Pattern, Size
from autotune.errors import TableError
from autotune.importers.recorded_time import (
    FAMILIES,
    Histogram,
    Lateness,
    OtherCalls,
    Started,
    Timeline,
    mean_histogram,
    means_of,
)
from autotune.structure import Document, document_in, plain

FORMAT = "autotune calls 4"  # How such a document names itself.
_BEFORE = ("autotune calls 1", "autotune calls 2", "autotune calls 3")
"""The first lacks what was timed and how exact times are, both of one run; none has calls of other kinds."""
_DOCUMENT = Document("the recording", TableError, own=True, newer=True)

_MOST = 1e100
"""Beyond any number of a recording, so that sums and ratios of such are numbers."""
KINDS = ("blocking", "non-blocking", "persistent")  # As ``enum kind`` of the recorder numbers them.
ENDS = ("killed", "finalized", "aborted", "exited")
"""As ``head.ended`` of the recorder numbers them; exited: without MPI_Finalize."""
WORST = ("aborted", "exited", "killed", "finalized")
"""A run has the first of these that any rank has: a launcher kills the others."""


@dataclass(frozen=True, slots=True)
class CallsOfRun:
    """Counts and times of one of several runs for calls alike; as in ``RecordedCalls``, ``calls`` exactly."""

    calls: int
    seconds: float
    waiting_s: float

    @property
    def busy_s(self) -> float:
        """Seconds that tuning could reduce."""
        return max(self.seconds - self.waiting_s, 0.0)


@dataclass(frozen=True, slots=True)
class RecordedCalls:
    """Calls alike in collective, kind, communicator size and power of two of the message size."""

    collective: str  # MPI's name, lower case.
    kind: str  # One of ``KINDS``.
    comm_size: int  # Ranks of the communicator.
    message_bytes: float  # Mean message size, as in ``collectives``.
    calls: int  # Number over all ranks; of several runs the mean, rounded.
    calls_per_rank: float  # Mean over all ranks of the run.
    seconds: float  # In these calls and in the waits for them, mean over all ranks.
    waiting_s: float  # Part of ``seconds`` until the ranks that are needed had come; 0 where it is not known.
    timed: int | None = None
    """Calls that were timed, of ``calls``; the others were drawn by lot not to be. None: not known."""
    seconds_se: float | None = None  # Standard error of ``seconds`` by that draw; None: not known.
    waiting_se: float | None = None  # Standard error of ``waiting_s``; None: not known.
    runs: tuple[CallsOfRun, ...] = ()
    """Each run's numbers where there were several, in the order of ``Recording.runs``."""
    seconds_low: float | None = None
    """With ``seconds_high`` the interval (95 %) that holds the ``seconds``; None: not known."""
    seconds_high: float | None = None
    """Its other end: well above ``seconds`` where a long call may hide between those that were timed."""
    histogram: Histogram | None = None  # Durations of the calls themselves; None: not known.
    lateness: Lateness | None = None  # For whom they waited; None: not known.
    derived: int = 0  # Calls, of ``calls``, whose datatype is not one of MPI's own.

    @property
    def tunable(self) -> bool:
        """Whether files can choose how they are made: rules hold for blocking calls between several ranks."""
        return self.kind == KINDS[0] and self.comm_size > 1 and self.collective in MEASURED

    @property
    def sized(self) -> bool:
        """Whether they carry data."""
        return self.collective in COLLECTIVES and COLLECTIVES[self.collective].size is not Size.NONE

    @property
    def busy_s(self) -> float:
        """Seconds that tuning could reduce."""
        return max(self.seconds - self.waiting_s, 0.0)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """One of several runs; as in ``Recording``."""

    run_s: float
    mpi_s: float
    ended: str
    date: str


@dataclass(frozen=True, slots=True)
class Recording:
    """One run of an application, or the mean over several."""

    command: tuple[str, ...]
    """As it was started."""
    run_s: float
    """Wall time of the command."""
    mpi_s: float
    """Between MPI_Init and MPI_Finalize, mean over the ranks."""
    ranks: int
    """Size of the largest job in it."""
    nodes: int
    """That they ran on."""
    ended: str
    """One of ``ENDS``; of several runs the worst."""
    library: str
    """The MPI library's name for itself."""
    date: str
    """ISO date of the run; of several the first."""
    clock_error_s: float
    """By how much the clocks of its nodes may differ at most."""
    not_kept: int
    """Kinds of calls for which there was no room."""
    calls: tuple[RecordedCalls, ...]
    """The most time first."""
    runs: tuple[RecordedRun, ...] = ()
    """Each, where there were several."""
    other: tuple[OtherCalls, ...] = ()
    """Calls that are no collectives; the most time first. None in older recordings and other tools'."""
    started: Started | None = None
    """How it was started; None: not known."""
    timeline: Timeline | None = None
    """Its time in slices; of several runs the first one's; None: not known."""
    threads: int = 1
    """Most threads of one rank that called MPI: seconds are the sum over them."""
    unseen: tuple[str, ...] = ()
    """Communication beside MPI, which is not in here: ``NCCL``, ``gloo``, ``MPI sessions``."""

    @property
    def timed_all_of_mpi(self) -> bool:
        """Whether calls that are no collectives were recorded too."""
        return self.timeline is not None

    @property
    def families_s(self) -> dict[str, float]:
        """Family → seconds of a mean rank, each second in one of them; the collectives' waits in theirs."""
        sums = {FAMILIES[0]: self.collectives_s}
        for one in self.other:
            sums[one.family] = sums.get(one.family, 0.0) + one.own_s
        return sums

    @property
    def collectives_s(self) -> float:
        """Seconds of a mean rank in collectives."""
        return math.fsum(c.seconds for c in self.calls)

    @property
    def waiting_s(self) -> float:
        """Part of these that is waiting for others."""
        return math.fsum(c.waiting_s for c in self.calls)

    @property
    def waiting_known(self) -> bool:
        """Whether anything is known of it: profiles have none."""
        return not self.calls or any(c.waiting_s > 0 or c.waiting_se is not None for c in self.calls)

    @property
    def collectives_se(self) -> float:
        """Standard error of ``collectives_s`` by the draw of what is timed; 0 where none is known."""
        return math.hypot(*(c.seconds_se or 0.0 for c in self.calls))

    @property
    def collectives_runs_s(self) -> tuple[float, ...]:
        """Seconds of a mean rank in collectives, for each run."""
        return tuple(math.fsum(c.runs[i].seconds for c in self.calls) for i in range(len(self.runs)))

    @property
    def differing(self) -> tuple[RecordedCalls, ...]:
        """Calls of which runs made different numbers."""
        return tuple(c for c in self.calls if len({one.calls for one in c.runs}) > 1)

    def document(self) -> dict[str, Any]:
        """As JSON keeps it."""
        return {"format": FORMAT, **plain(self)}


def of_tool(
    library: str, run_s: float, ranks: int, nodes: int, calls: Iterable[RecordedCalls], date: str = ""
) -> Recording:
    """The recording in what another tool kept of a run that ended well; it timed every call."""
    return Recording(
        command=(),
        run_s=run_s,
        mpi_s=run_s,
        ranks=ranks,
        nodes=nodes,
        ended=ENDS[1],
        library=library,
        date=date,
        clock_error_s=0.0,
        not_kept=0,
        calls=tuple(sorted(calls, key=order)),
    )


def even_block(name: str, ranks: int, moved: Any) -> Any:
    """The message size, as in ``collectives``, of what each rank sent and received together in a call of it.

    None where one rank gives or gets more than the others.
    """
    if name in ("scan", "exscan"):
        return moved / max(ranks + (1 if name == "scan" else -1), 1)
    pattern = COLLECTIVES[name].pattern if name in COLLECTIVES else Pattern.ALL_TO_ALL
    return moved / (2 * ranks) if pattern is Pattern.ALL_TO_ALL else None  # a block to and from each


def read_recording(text: str, name: str) -> Recording:
    """The recording in a document.

    Raises:
        TableError: it is none, or damaged.
    """
    made_by = "autotune record -- mpirun …"
    document = document_in(text, name, (FORMAT, *_BEFORE), "recording of calls", made_by)
    del document["format"]
    try:
        found = _DOCUMENT.structured(Recording, document)
        _check_numbers(found, "")
    except (TableError, ValueError) as exc:
        hint = exc.hint if isinstance(exc, TableError) else ""
        raise TableError(f"{name}: a damaged recording: {str(exc).partition(chr(10))[0]}", hint) from exc
    for ended, run_s in ((found.ended, found.run_s), *((one.ended, one.run_s) for one in found.runs)):
        if ended not in ENDS or not run_s:
            raise TableError(f"{name}: a damaged recording: ended={ended!r}, run_s={run_s}")
    if len(found.runs) == 1 or any(len(c.runs) != len(found.runs) for c in found.calls):
        raise TableError(f"{name}: a damaged recording: calls of other runs than its {len(found.runs)}")
    return found


def mean_of(recordings: Sequence[Recording]) -> Recording:
    """Runs of one application as one recording; a single run is itself.

    ``(n_runs,)`` recordings, each of one run. Calls that a run did not make are counted as none in it.

    Raises:
        TableError: they are of different numbers of ranks.
    """
    first, n = recordings[0], len(recordings)
    if n == 1:
        return first
    if len(sizes := sorted({one.ranks for one in recordings})) > 1:
        raise TableError(
            f"runs on {' and '.join(map(str, sizes))} ranks", "a recording is of one application, run again"
        )
    found: dict[tuple[str, str, int, int], list[RecordedCalls | None]] = {}
    for i, recording in enumerate(recordings):
        for one in recording.calls:
            # Calls alike are of one power of two, and so is the mean of their sizes.
            key = one.collective, one.kind, one.comm_size, int(one.message_bytes).bit_length()
            found.setdefault(key, [None] * n)[i] = one
    calls = [_mean_calls(alike) for alike in found.values()]
    return replace(
        first,
        run_s=math.fsum(one.run_s for one in recordings) / n,
        mpi_s=math.fsum(one.mpi_s for one in recordings) / n,
        nodes=max(one.nodes for one in recordings),
        ended=next(end for end in WORST if end in {one.ended for one in recordings}),
        clock_error_s=max(one.clock_error_s for one in recordings),
        not_kept=max(one.not_kept for one in recordings),
        calls=tuple(sorted(calls, key=order)),
        runs=tuple(RecordedRun(one.run_s, one.mpi_s, one.ended, one.date) for one in recordings),
        other=means_of([one.other for one in recordings]),
        threads=max(one.threads for one in recordings),
        unseen=tuple(sorted({word for one in recordings for word in one.unseen})),
    )


def order(calls: RecordedCalls) -> tuple[float, str, int, float]:
    """The most time first."""
    return -calls.seconds, calls.collective, calls.comm_size, calls.message_bytes


def _mean_calls(alike: Sequence[RecordedCalls | None]) -> RecordedCalls:
    made, n = [one for one in alike if one is not None], len(alike)
    calls = sum(one.calls for one in made)

    def known(name: str) -> list[float] | None:
        values = [getattr(one, name) for one in made]
        return None if None in values else values

    timed, of_seconds, of_waiting = known("timed"), known("seconds_se"), known("waiting_se")
    low, high = known("seconds_low"), known("seconds_high")
    return replace(
        made[0],
        message_bytes=math.fsum(one.message_bytes * one.calls for one in made) / calls,
        calls=round(calls / n),
        calls_per_rank=math.fsum(one.calls_per_rank for one in made) / n,
        seconds=math.fsum(one.seconds for one in made) / n,
        waiting_s=math.fsum(one.waiting_s for one in made) / n,
        timed=None if timed is None else round(sum(timed) / n),
        # Of the mean, by draws that are independent of each other.
        seconds_se=None if of_seconds is None else math.hypot(*of_seconds) / n,
        waiting_se=None if of_waiting is None else math.hypot(*of_waiting) / n,
        runs=tuple(
            CallsOfRun(one.calls, one.seconds, one.waiting_s) if one else CallsOfRun(0, 0.0, 0.0)
            for one in alike
        ),
        derived=round(sum(one.derived for one in made) / n),
        seconds_low=None if low is None else math.fsum(low) / n,
        seconds_high=None if high is None else math.fsum(high) / n,
        histogram=mean_histogram([one.histogram for one in made], n),
    )


def _check_numbers(part: Any, where: str) -> None:
    """Refuse numbers that are not finite, or below 0, or below 1 of what must be there.

    Raises:
        TableError: with the key.
    """
    for its in fields(part):
        value, key = getattr(part, its.name), f"{where}{its.name}"
        for one in value if isinstance(value, tuple) else (value,):
            if is_dataclass(one):
                _check_numbers(one, f"{key}.")
            elif isinstance(one, int | float):
                least = 1 if its.name in ("ranks", "nodes", "comm_size") else 0
                if not least <= one <= _MOST:
                    raise TableError(f"{key}={one} is not a number of at least {least:g}")
