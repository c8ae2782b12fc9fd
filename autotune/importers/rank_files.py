"""Files of an application's ranks → one recording: counts, times, and how long ranks waited for others.

``probe/recorder/`` writes a file for each rank; here they become one, rank by rank, so that only sums and
entry times are held: for each collective, kind of call, communicator size and power of two of the message
size, and for each other operation, distance and size, its calls (exact), bytes and time.

Seconds. Where all calls of a block were timed they are a sum. Of other blocks one call was drawn: their mean
is that of Hájek (1971), its variance that of draws independent of each other, and by ``excess`` blocks lasted
longer than such blocks do, in their calls or between them: that belongs to the interval.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np

from autotune.errors import TableError
from autotune.importers.lateness import SAMPLE, KeptCalls, Waited, lateness, waited
from autotune.importers.launch_line import LAUNCHERS
from autotune.importers.recorded_time import DISTANCES, FAMILIES, Histogram, OtherCalls, Started, Timeline
from autotune.importers.recording import ENDS, KINDS, RecordedCalls, Recording, order

_SLICES, _CLASSES, _ENVIRONMENT = 64, 64, 8192
_HEAD = np.dtype(
    [("magic", "S8")]
    + [(name, "<i4") for name in ("rank", "size", "ended", "threads", "kept_out", "nodes")]
    + [(name, "<i4") for name in ("callers", "spawned", "compact", "environment")]
    + [(name, "<i8") for name in ("job", "cells", "streams")]
    + [
        (name, "<f8")
        for name in ("begin_s", "end_s", "ahead_s", "ahead_end_s", "unsure_s", "clock_s", "tick_s")
    ]
    + [(name, "<i8") for name in ("begin", "end", "shift")]
    + [("host", "S64"), ("library", "S128"), ("timeline", "<f8", (len(FAMILIES), _SLICES))]
)
_CELL = np.dtype(
    [("name", "S24")]
    + [(name, "<i4") for name in ("kind", "bin", "ranks", "family", "distance", "spare")]
    + [(name, "<i8") for name in ("calls", "timed", "all", "ticks")]
    + [(name, "<f8") for name in ("bytes", "wait", "weight", "weighted")]
    + [("spread", "<f8", 3), ("excess", "<f8"), ("longest", "<f8"), ("classes", "<i8", _CLASSES)]
)
_RUN = np.dtype([("calls", "<i8"), ("bytes", "<f8"), ("cell", "<i4"), ("stream", "<i4")])
_STREAM = np.dtype(
    [("name", "S24"), ("members", "<u8")]
    + [(name, "<i4") for name in ("bin", "ranks", "n", "longest")]
    + [("calls", "<i8"), ("cut", "<i8"), ("limit", "<u8")]
)
_RUNS, _CELLS, _STREAMS, _KEPT, _LONGEST = 32, 1024, 256, 512, 128
_LOWER_S = 2.0 ** (np.arange(8, 8 + _CLASSES) / 2) * 1e-9
"""Where the classes of durations begin."""
_OF_LAUNCHERS = ("OMPI_MCA_num_procs", "OMPI_MCA_initial_wdir", "OMPI_MCA_cpu_type", "OMPI_MCA_PREFIXES")
_OF_DAEMONS = ("OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_shmem_RUNTIME_QUERY_hint")
"""Variables, and beginnings of such, that Open MPI's launchers set for each rank, whatever the user said."""
_Z95 = 1.959963984540054
"""Quantile of the normal distribution for intervals of 95 %."""
_WARM_S, _COLD_S, _COLD = 0.3e-6, 2.5e-6, 0.01
"""Seconds that timing adds to a call, as the program's own clock sees it: 0.1 to 0.3 µs were measured between
other calls; a program that has used the caches for something else since sees up to 25 lines of memory at
100 ns, counted as far as that is no more than a share of the call's own time."""


@dataclass(frozen=True, slots=True)
class _Rank:
    """The file of one rank."""

    head: Any
    environment: str
    cells: Any
    streams: Any
    samples: Sequence[tuple[Any, Any]]
    """For each stream the calls that were drawn, and its longest."""

    @property
    def tick_s(self) -> float:
        """Seconds of a tick: over the run, where it lasted long enough."""
        lasted_s, ticks = (
            float(self.head["end_s"] - self.head["begin_s"]),
            self.head["end"] - self.head["begin"],
        )
        return lasted_s / float(ticks) if lasted_s > 0.01 and ticks > 0 else float(self.head["tick_s"])

    def seconds(self, samples: Any) -> Any:
        """``SAMPLE`` with times in seconds, by the clock of rank 0; ``begin_s`` and ``end_s``."""
        found = samples.astype(SAMPLE)
        for column, ticks in (("begin_s", "begin"), ("end_s", "end")):
            times_s = self.head["begin_s"] + (samples[ticks] - self.head["begin"]) * self.tick_s
            found[column] = times_s - _ahead(self.head, times_s)
        return found


_TICKS = np.dtype([("call", "<i8"), ("begin", "<i8"), ("end", "<i8"), ("root", "<i4"), ("weight", "<i4")])


@dataclass(slots=True)
class _RecordedJob:
    """Sums over the ranks of one MPI_COMM_WORLD, made as they are read."""

    totals: dict[tuple[str, int, int, int, int, int], Any] = field(default_factory=dict)
    """(name, kind, communicator size, bin, family, distance) → a row of ``_sums``, then the classes."""
    kept: dict[tuple[str, int, int, int], list[KeptCalls]] = field(default_factory=lambda: defaultdict(list))
    """(name, bin, communicator size, members) → what each of its ranks kept."""
    heads: list[Any] = field(default_factory=list)
    timeline: Any = None
    """Longest slices, in seconds, and seconds by family and slice."""
    environment: str = ""

    def add(self, rank: _Rank) -> None:
        """One more rank."""
        head, tick_s = rank.head, rank.tick_s
        self.heads.append(head)
        self.environment = self.environment or rank.environment
        of = int(head["size"])
        sums = _sums(rank.cells, tick_s, float(head["clock_s"])) / of
        sums[:, _COUNTED] *= of
        for cell, row in zip(rank.cells, np.hstack([sums, rank.cells["classes"]]), strict=True):
            key = (
                cell["name"].decode(),
                *(int(cell[k]) for k in ("kind", "ranks", "bin", "family", "distance")),
            )
            known = self.totals.get(key)
            self.totals[key] = row if known is None else known + row
        slices = (2.0 ** int(head["shift"]) * tick_s, head["timeline"] * tick_s / of)
        self.timeline = slices if self.timeline is None else _together(self.timeline, slices)
        for stream, (drawn, longest) in zip(rank.streams, rank.samples, strict=True):
            key = stream["name"].decode(), int(stream["bin"]), int(stream["ranks"]), int(stream["members"])
            thinned = 2.0**64 / (float(stream["limit"]) + 1.0)
            lists = rank.seconds(drawn), rank.seconds(longest)
            cut_s = float(stream["cut"]) * tick_s
            kept = KeptCalls(int(head["rank"]), float(stream["calls"]), thinned, cut_s, *lists)
            self.kept[key].append(kept)


_COUNTED = [0, 1, 6]
_CALLS, _BYTES, _PER_RANK, _SECONDS, _WAIT, _SE, _TIMED, _LOW, _HIGH = range(9)


def _sums(cells: Any, tick_s: float, clock_s: float) -> Any:
    """``(n_cells, 9)``: calls, bytes, calls, seconds in them, in waits, standard error, timed, interval."""
    weight = np.maximum(cells["weight"], 1e-9)
    rest = np.maximum(cells["calls"] - cells["all"], 0)
    mean = np.where(
        cells["weight"] > 0, cells["weighted"] / weight, cells["ticks"] / np.maximum(cells["all"], 1)
    )
    zeroth, first, second = cells["spread"].T
    se = np.sqrt(np.maximum(second - 2 * mean * first + mean**2 * zeroth, 0.0)) * rest / weight
    seconds, in_waits = (cells["ticks"] + mean * rest) * tick_s, cells["wait"] * tick_s
    se_s, timing_s = se * tick_s, cells["calls"] * clock_s
    low = np.maximum(seconds - _Z95 * se_s - timing_s, 0.0)
    added_s = (
        np.maximum(_WARM_S * cells["all"], np.minimum(_COLD_S * cells["all"], _COLD * seconds)) + timing_s
    )
    high = seconds + _Z95 * se_s + cells["excess"] * tick_s + added_s
    columns = (
        cells["calls"],
        cells["bytes"],
        cells["calls"],
        seconds,
        in_waits,
        se_s,
        cells["timed"],
        low,
        high,
    )
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def _together(one: Any, other: Any) -> Any:
    """Two timelines as one with the slices of the longer; slices of ranks differ by powers of two alone."""
    (slice_s, sums), (other_s, more) = (one, other) if one[0] >= other[0] else (other, one)
    while other_s < 0.75 * slice_s:
        halved = more.reshape(len(FAMILIES), -1, 2).sum(axis=2)
        more, other_s = np.hstack([halved, np.zeros_like(halved)]), 2 * other_s
    return slice_s, sums + more


def joined(
    files: Iterable[IO[bytes]], command: Sequence[str], run_s: float, date: str, unseen: Sequence[str] = ()
) -> list[Recording]:
    """The recordings in the files of all ranks, the one with the most ranks first; none: there are no files.

    Jobs that follow each other, and those that a job has spawned, are one recording; jobs at the same time
    are recordings of their own.

    Raises:
        TableError: a file that the recorder has not written.
    """
    jobs: dict[int, _RecordedJob] = defaultdict(_RecordedJob)
    for file in files:
        rank = read_rank(file)
        jobs[int(rank.head["job"])].add(rank)
    groups: list[list[_RecordedJob]] = []
    spawned = [job for job in jobs.values() if job.heads[0]["spawned"]]
    alone = [job for job in jobs.values() if not job.heads[0]["spawned"]]
    if not alone:  # those that spawned them were not recorded
        alone, spawned = spawned[:1], spawned[1:]
    for job in sorted(alone, key=lambda job: -len(job.heads)):
        group = next((g for g in groups if not any(_at_once(job, one) for one in g)), None)
        if group is None:
            groups.append([job])
        else:
            group.append(job)
    if groups:
        groups[0] += spawned
    return [_recording(group, command, run_s, date, unseen) for group in groups]


def _at_once(one: _RecordedJob, other: _RecordedJob) -> bool:
    """Whether two jobs ran at the same time."""
    spans = [
        (min(h["begin_s"] for h in job.heads), max(h["end_s"] if h["ended"] else math.inf for h in job.heads))
        for job in (one, other)
    ]
    return bool(max(begin for begin, _ in spans) < min(end for _, end in spans))


def _recording(
    jobs: Sequence[_RecordedJob], command: Sequence[str], run_s: float, date: str, unseen: Sequence[str]
) -> Recording:
    heads = [head for job in jobs for head in job.heads]
    largest = max(jobs, key=lambda job: len(job.heads))
    totals: dict[Any, Any] = {}
    waits: dict[Any, list[Waited]] = defaultdict(list)
    for job in jobs:
        for key, row in job.totals.items():
            totals[key] = totals[key] + row if key in totals else row
        for (name, power, comm_size, _), kept in job.kept.items():
            if found := waited(name, comm_size, kept, int(job.heads[0]["size"])):
                waits[name, power, comm_size].append(found)
    seconds: dict[Any, list[float]] = defaultdict(list)  # of calls of one power of two, and (-1) of all
    for (name, kind, comm_size, power, *_), row in totals.items():
        for of in {power, -1}:
            seconds[name, kind, comm_size, of].append(row[_SECONDS])
    calls: list[RecordedCalls] = []
    for (name, kind, comm_size, power, family, _), row in totals.items():
        if row[_CALLS] and family == 0:
            slot = (name, power, comm_size) if (name, power, comm_size) in waits else (name, -1, comm_size)
            of_slot = waits.get(slot, []) if kind == 0 else []
            in_all_s = math.fsum(seconds[name, kind, comm_size, slot[1]])
            calls.append(_collective(name, KINDS[kind], comm_size, row, of_slot, in_all_s))
    other = [
        _other(name, FAMILIES[family], DISTANCES[distance], row)
        for (name, _, _, _, family, distance), row in totals.items()
        if row[_CALLS] and family
    ]
    drift = [abs(h["ahead_end_s"] - h["ahead_s"]) for h in heads if h["ended"] != 1]
    ends = {int(h["ended"]) for h in heads}
    return Recording(
        command=tuple(command),
        run_s=run_s,
        mpi_s=float(np.mean([h["end_s"] - h["begin_s"] if h["ended"] else run_s for h in heads])),
        ranks=max(int(h["size"]) for h in heads),
        nodes=max(1, len({h["host"] for h in largest.heads}), max(int(h["nodes"]) for h in heads)),
        ended=ENDS[2 if 2 in ends else min(ends)],
        library=heads[0]["library"].decode(errors="replace").splitlines()[0].strip(),
        date=date,
        clock_error_s=float(max([*(h["unsure_s"] for h in heads), *drift], default=0.0)),
        not_kept=sum(int(h["kept_out"]) for h in heads),
        calls=tuple(sorted(calls, key=order)),
        other=tuple(sorted(other, key=lambda one: (-one.seconds, one.operation, one.message_bytes))),
        started=_started(command, largest.environment),
        timeline=_timeline(largest),
        threads=max(1, max(int(h["callers"]) for h in heads)),
        unseen=tuple(sorted(unseen)),
    )


def _collective(
    name: str, kind: str, comm_size: int, row: Any, found: Sequence[Waited], in_all_s: float
) -> RecordedCalls:
    n, n_bytes, per_rank, in_calls_s, in_waits_s, se, timed, low, high = map(float, row[:9])
    share, share_se, late = lateness(found, in_all_s, in_calls_s)
    return RecordedCalls(
        name,
        kind,
        comm_size,
        n_bytes / n,
        round(n),
        per_rank,
        in_calls_s + in_waits_s,
        in_calls_s * share,
        round(timed),
        se,
        math.hypot(in_calls_s * share_se, se * share),
        seconds_low=low + in_waits_s,
        seconds_high=high + in_waits_s,
        histogram=_histogram(row),
        lateness=late,
    )


def _other(name: str, family: str, distance: str, row: Any) -> OtherCalls:
    n, n_bytes, per_rank, in_calls_s, in_waits_s, _, timed, low, high = map(float, row[:9])
    more_s = 0.0 if family == "completion" else in_waits_s
    return OtherCalls(
        family,
        name,
        distance,
        n_bytes / n,
        round(n),
        per_rank,
        in_calls_s + more_s,
        low + more_s,
        high + more_s,
        in_waits_s,
        round(timed),
        _histogram(row),
    )


def _histogram(row: Any) -> Histogram:
    some = np.flatnonzero(row[9:])
    return Histogram(tuple(map(float, _LOWER_S[some])), tuple(map(float, row[9:][some])))


def _timeline(job: _RecordedJob) -> Timeline:
    slice_s, sums = job.timeline
    used = int(np.flatnonzero(np.append(True, sums.any(axis=0)))[-1])
    return Timeline(slice_s, {name: tuple(map(float, sums[i, :used])) for i, name in enumerate(FAMILIES)})


def _started(command: Sequence[str], environment: str) -> Started:
    """Launcher and options as far as the command begins with one; variables as rank 0 had them."""
    name = command[0].rpartition("/")[2] if command else ""
    known = LAUNCHERS.get(name)
    options = (
        tuple((option, *values.values()) for option, values in known.options(command[1:]) if option)
        if known
        else ()
    )
    variables: Mapping[str, str] = dict(
        one.split("=", 1) for one in environment.split("\0") if "=" in one and not one.startswith(_OF_DAEMONS)
    )
    kept = {key: value for key, value in sorted(variables.items()) if key not in _OF_LAUNCHERS}
    return Started(name if known else "", options, kept)


def _ahead(head: Any, times_s: Any) -> Any:
    """By how much a rank's clock was ahead of that of rank 0, at its times: a line between begin and end."""
    span = max(float(head["end_s"] - head["begin_s"]), 1e-9)
    share = np.clip((times_s - head["begin_s"]) / span, 0.0, 1.0) if head["ended"] == 1 else 0.0
    return head["ahead_s"] + share * (head["ahead_end_s"] - head["ahead_s"])


def read_rank(file: IO[bytes]) -> _Rank:
    """One rank's file, of which no more is read than was used.

    Raises:
        TableError: the recorder has not written it.
    """
    wrong = TableError("a file of another version of the recorder", "is another one preloaded as well?")

    def some(kind: np.dtype[Any], n: int, room: int) -> Any:
        """So many of a kind; where the file has holes, there is room for more of them."""
        data = file.read(kind.itemsize * n)
        if not 0 <= n <= room or len(data) != kind.itemsize * n:
            raise wrong
        if not compact:
            file.seek(kind.itemsize * (room - n), 1)
        return np.frombuffer(data, kind)

    compact = True
    head = some(_HEAD, 1, 1)[0]
    if head["magic"] != b"autorec3":
        raise wrong
    compact = bool(head["compact"])
    environment = (
        some(np.dtype("S1"), int(head["environment"]), _ENVIRONMENT).tobytes().decode(errors="replace")
    )
    runs = some(_RUN, _RUNS, _RUNS)
    cells = some(_CELL, int(head["cells"]), _CELLS).copy()
    streams = some(_STREAM, int(head["streams"]), _STREAMS).copy()
    samples = [
        (some(_TICKS, int(one["n"]), _KEPT), some(_TICKS, int(one["longest"]), _LONGEST)) for one in streams
    ]
    for run in runs[runs["calls"] > 0]:  # the rank ended within it
        cells["calls"][run["cell"]] += run["calls"]
        cells["bytes"][run["cell"]] += run["calls"] * run["bytes"]
        if run["stream"] >= 0:
            streams["calls"][run["stream"]] += run["calls"]
    return _Rank(head, environment, cells, streams, samples)
