"""Read call profiles: how often an application calls each collective with each message size.

A profile weights the objectives of a campaign, so that the search tunes for one application, and shows the
time that a recommendation saves. Counts are those of one rank, because all ranks make their calls at the same
time. A *slot* is a collective, communicator size and message size.

The following files are read:

- tables with a size and a count, optionally collective and communicator size (see `delimited`);
- text reports of mpiP with statistics by callsite and rank;
- documents of ``record`` (see `recording`), with the time of the calls;
- files of Open MPI's monitoring components (`pml_monitoring_filename`), those of all ranks joined to one.
  They distinguish only classes of collectives, and contain only mean sizes.

References:
    J. S. Vetter, C. Chambreau, *mpiP: Lightweight, Scalable MPI Profiling*, User Guide 3.5. G. Bosilca et
    al., "Online dynamic monitoring of MPI communications", Euro-Par 2017.
"""

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.application.recording import read_recording, tunable
from autotune.collectives import COLLECTIVES, MEASURED, Pattern, Size, called
from autotune.errors import TableError, allowed
from autotune.history.objectives import Slot
from autotune.tables.importers import delimited
from autotune.tables.importers.delimited import ColumnKind
from autotune.tables.importers.runlog import Log

CLASSES: Mapping[str, tuple[str, ...]] = {
    pattern.value: tuple(name for name in MEASURED if COLLECTIVES[name].pattern is pattern)
    for pattern in (Pattern.ONE_TO_ALL, Pattern.ALL_TO_ONE, Pattern.ALL_TO_ALL)
}
"""Maps each class of collectives to its members, for profilers that do not distinguish the members."""

_MONITORED = {"O2A": "one_to_all", "A2O": "all_to_one", "A2A": "all_to_all"}


@dataclass(frozen=True, slots=True)
class Calls:
    """One entry of a profile: the calls of one collective with the same size."""

    message_bytes: float  # Message size, as in `trial.Cell`; a mean if the profiler wrote only means.
    count: float  # Number of calls of one rank, mean over ranks.
    collective: str = ""  # Name of the collective, or a class of `CLASSES`; empty: it may be any.
    comm_size: int | None = None  # Ranks of the communicator; None where they are not known.
    seconds: float | None = None  # Seconds of one rank in these calls, without waiting; None: not known.

    def __post_init__(self) -> None:
        if self.collective and self.collective not in MEASURED and self.collective not in CLASSES:
            raise ValueError(f"unknown collective {self.collective!r}")
        if not 0 <= self.message_bytes < math.inf or not 0 <= self.count < math.inf:
            raise ValueError(f"{self.count} calls of {self.message_bytes} bytes")
        if self.comm_size is not None and self.comm_size < 1:
            raise ValueError(f"a communicator of {self.comm_size} ranks")

    def means(self, collective: str) -> bool:
        """Return whether this entry could describe calls of the given collective."""
        return self.collective in ("", collective) or collective in CLASSES.get(self.collective, ())


@dataclass(frozen=True, slots=True)
class CallProfile:
    """The calls that one rank of an application makes in one run."""

    source: str  # Name of the profile's file.
    calls: tuple[Calls, ...]  # The entries, in the order of the file.
    application_s: float | None = None  # Wall time of the run in seconds; None: the file lacks it.

    def weights(self, slots: Iterable[Slot], time_s: Mapping[Slot, float] | None = None) -> dict[Slot, float]:
        """Return the share of the profile that belongs to each measured slot; the shares sum to one.

        Calls are divided between the next smaller and the next larger measured size, in proportion to the
        nearness of the logarithms; calls beyond all measured sizes count for the smallest or the largest of
        these. Calls count for the measured communicator size that is nearest to their own. Calls of an
        unknown collective are divided evenly among the collectives that it may be.

        Args:
            slots: The measured slots.
            time_s: Seconds of one call in each slot. If given, the shares are shares of time, and the
                profile's own time of the calls takes precedence where it is known. None: the shares are those
                of calls.

        Raises:
            TableError: The profile has no call of a measured collective, or its calls take no time.
        """
        measured = sorted(set(slots))
        shares = dict.fromkeys(measured, 0.0)
        for calls in self.calls:
            curves = _curves(measured, calls)
            for curve, sizes in curves.items():
                for size, part in _between(sizes, calls.message_bytes):
                    slot, weight = (*curve, size), calls.count
                    if time_s is not None:
                        weight = weight * time_s[slot] if calls.seconds is None else calls.seconds
                    shares[slot] += weight * part / len(curves)
        total = math.fsum(shares.values())
        if total <= 0:
            called_names = sorted({c.collective or "any collective" for c in self.calls if c.count})
            measured_names = sorted({collective for collective, _, _ in measured})
            raise TableError(
                f"{self.source} calls nothing of what was measured",
                f"it calls {', '.join(called_names) or 'nothing'}; measured: {', '.join(measured_names)}",
            )
        return {slot: count / total for slot, count in shares.items()}


def read_profile(text: str, name: str) -> CallProfile:
    """Return the call profile in the text of a file, whose format is detected.

    Raises:
        TableError: The text is no profile or an incomplete one; the message names file and line.
    """
    if text.lstrip()[:1] == "{":
        recording = read_recording(text, name)
        calls = (
            Calls(c.message_bytes, c.count, c.name, c.comm_size, seconds=c.busy_s) for c in tunable(recording)
        )
        return CallProfile(name, tuple(calls), recording.run_s)
    log = Log.of(text, name)
    if any(line.startswith("@ mpiP") for line in log.lines):
        return _mpip(log)
    if any(_COMMUNICATOR.match(line) for line in log.lines):
        return _monitored(log)
    return _table(log)


# Tables that a person wrote.

_COLUMNS: Mapping[str, ColumnKind] = {
    **delimited.SHARED,
    "count": ColumnKind("count counts calls ncalls n_calls number executions"),
}
_SECONDS = re.compile(r"^#\s*application_s\s*[:=]\s*(\S+)")


def _table(log: Log) -> CallProfile:
    """Read a table that a person wrote; a comment `# application_s = 3600` may give the run's wall time."""
    application_s = None
    for number, line in enumerate(log.lines, 1):
        if stated := _SECONDS.match(line):
            application_s = _float(stated[1])
            if not 0 < application_s < math.inf:
                log.fail(number, f"application_s is {stated[1]!r}", "it must be a number above 0, in seconds")
    if not delimited.announces(log, _COLUMNS):
        raise TableError(
            f"{log.name}: no profile of calls in {len(log.lines)} lines",
            "known: what record wrote, tables with a size and a count in their first line, mpiP reports, "
            "Open MPI's monitoring",
        )
    calls = []
    for number, values, _ in delimited.rows(log, _COLUMNS):
        if "count" not in values:
            log.fail(number, "a row without a count")
        name = str(values.get("collective", "")).lower().removeprefix("mpi_")
        collective = called(name)
        if name and collective not in MEASURED:
            log.fail(number, f"unknown collective {name!r}", allowed(name, MEASURED))
        comm_size = values.get("comm_size")
        if comm_size == 0:
            log.fail(number, "a communicator of 0 ranks")
        size, count = float(values["message_bytes"]), float(values["count"])
        calls.append(Calls(size, count, collective, int(comm_size) if comm_size else None))
    return CallProfile(log.name, tuple(calls), application_s)


# Reports of mpiP.

_SENT = "Callsite Message Sent statistics (all, sent bytes"
_TIMES = "Callsite Time statistics (all, milliseconds"
_TASKS = "MPI Time (seconds)"
_END = "End of Report"


def _mpip(log: Log) -> CallProfile:
    """Read from an mpiP report the mean size of the calls at each callsite, and their number on a mean rank.

    Barriers send nothing, so their calls are read from the section of times.
    """
    section, sections = "", set()
    total_s, n_tasks = 0.0, 0
    sites: list[tuple[str, float, float]] = []  # Operation, mean size, calls of all ranks.
    for number, line in enumerate(log.lines, 1):
        words = line.split()
        if line.startswith("@--- "):
            section = line.removeprefix("@--- ")
            sections.add(next((s for s in (_SENT, _TIMES, _TASKS, _END) if section.startswith(s)), section))
        elif section.startswith(_TASKS) and len(words) == 4 and words[0].isdigit():
            total_s += _number(log, number, words[1])
            n_tasks += 1
        elif len(words) >= 8 and words[2] == "*":
            operation = called(words[0])
            sized = operation in MEASURED and COLLECTIVES[operation].size is not Size.NONE
            silent = section.startswith(_TIMES) and operation in MEASURED and not sized
            if silent or (section.startswith(_SENT) and sized):
                size = 0.0 if silent else _number(log, number, words[5])
                sites.append((operation, size, _number(log, number, words[3])))
    if _END not in sections:
        log.fail(len(log.lines), "the mpiP report was cut off", f"it never came to {_END!r}")
    if _SENT not in sections or not n_tasks:
        raise TableError(
            f"{log.name}: an mpiP report without sizes by callsite",
            "let mpiP write its verbose report (MPIP without -c) of a run with all ranks",
        )
    calls = (Calls(size, count / n_tasks, operation) for operation, size, count in sites)
    return CallProfile(log.name, tuple(calls), total_s / n_tasks or None)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _number(log: Log, number: int, text: str) -> float:
    value = _float(text)
    if not 0 <= value < math.inf:
        log.fail(number, f"{text!r} is not a number of at least 0")
    return value


# Files of Open MPI's monitoring components.

_COMMUNICATOR = re.compile(r"^D\t(.*)\tprocs: (\d+(?:,\d+)*)$")
_TRAFFIC = re.compile(r"^(O2A|A2O|A2A)\t(\d+)\t(\d+) bytes\t(\d+) msgs sent$")


def _monitored(log: Log) -> CallProfile:
    """Read from files of Open MPI's monitoring the traffic of each communicator by class of collectives.

    The traffic of a call is its size, multiplied by the number of the other ranks of the communicator. Calls
    with a root are counted at the root alone, so the counts of all ranks are summed; all other calls are
    counted by each rank, so the largest count is used. Communicators of one rank have no traffic.
    """
    ranks: tuple[int, ...] = ()
    communicator = ""
    by_class = defaultdict[tuple[str, tuple[int, ...], str], dict[int, tuple[int, int]]](dict)
    for number, line in enumerate(log.lines, 1):
        if head := _COMMUNICATOR.match(line):
            communicator, ranks = head[1], tuple(map(int, head[2].split(",")))
        elif traffic := _TRAFFIC.match(line):
            if not ranks:
                log.fail(number, "traffic of an unknown communicator", "was something cut out of the file?")
            of_rank = by_class[communicator, ranks, traffic[1]]
            rank, n_bytes, count = (int(traffic[i]) for i in (2, 3, 4))
            previous_bytes, previous_count = of_rank.get(rank, (0, 0))
            of_rank[rank] = previous_bytes + n_bytes, previous_count + count
    calls = []
    for (communicator, ranks, kind), of_rank in by_class.items():
        if missing := sorted(set(ranks) - of_rank.keys()):
            raise TableError(
                f"{log.name}: {communicator}: nothing of rank {missing[0]}",
                "join the files of all ranks: cat NAME.*.prof > all.prof",
            )
        figures = list(of_rank.values())
        if kind == "A2A":
            figures = [max(figures, key=lambda f: f[1])]
        n_bytes, count = map(sum, zip(*figures, strict=True))
        if len(ranks) > 1 and count:
            size = n_bytes / count / (len(ranks) - 1)
            calls.append(Calls(size, float(count), _MONITORED[kind], len(ranks)))
    if not calls:
        raise TableError(f"{log.name}: no collective was called while Open MPI's monitoring was on")
    return CallProfile(log.name, tuple(calls))


def _curves(measured: Iterable[Slot], calls: Calls) -> dict[tuple[str, int], list[int]]:
    curves: dict[tuple[str, int], list[int]] = defaultdict(list)
    for collective, comm_size, size in measured:
        if calls.means(collective):
            curves[collective, comm_size].append(size)
    if calls.comm_size is None:
        return curves
    log_ranks = math.log(calls.comm_size)
    nearest = {
        c: min((p for d, p in curves if d == c), key=lambda p: abs(math.log(max(p, 1)) - log_ranks))
        for c, _ in curves
    }
    return {(c, p): sizes for (c, p), sizes in curves.items() if nearest[c] == p}


def _between(sizes: list[int], size: float) -> list[tuple[int, float]]:
    """Return the measured ``sizes`` next to a call's size, each with its share of the call.

    The shares depend on the nearness of the logarithms, where a size of 0 bytes counts as 1.
    """
    next_size = bisect_left(sizes, size)
    if next_size in (0, len(sizes)):
        return [(sizes[min(next_size, len(sizes) - 1)], 1.0)]
    low, high = sizes[next_size - 1], sizes[next_size]
    x, a, b = (math.log(max(v, 1.0)) for v in (size, low, high))
    share = (x - a) / (b - a) if b > a else 1.0
    return [(low, 1 - share), (high, share)]
