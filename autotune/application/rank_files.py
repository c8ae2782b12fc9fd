"""Join the files of an application's ranks to recordings of counts, times, and how long ranks waited.

``probe/recorder/`` writes a file for each rank (see `rank_file`). This module reads one file after the other,
so that memory contains only sums, and the times of the calls that were stored one by one. The sums are the
exact number of calls, their bytes and their time. For collectives there is a sum for each collective, kind of
call, communicator size and power of two of the message size; for other calls there is one for each operation,
distance to the peer and power of two of the size.

The recorder divides successive calls into blocks. It times either all calls of a block, whose seconds are
then a sum, or one call that it draws at random. The mean over drawn calls is Hájek's estimator (1971), with
the variance of independent draws. ``excess`` is the time by which blocks lasted longer than their drawn calls
explain, within calls or between them; it widens the interval of the seconds.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import IO, Any

import numpy as np

from autotune.application.lateness import KeptCalls, Waited, lateness, waited
from autotune.application.rank_file import (
    CELL_KEY,
    LOWER_S,
    STREAM_KEY,
    Rank,
    cell_of,
    hashed,
    keys,
    read_rank,
    stream_of,
)
from autotune.application.recorded_time import DISTANCES, FAMILIES, Histogram, OtherCalls, Started, Timeline
from autotune.application.recording import ENDS, KINDS, WORST, RecordedCalls, Recording, order
from autotune.launch_command import LAUNCHERS
from autotune.resources.secret import environment_without_secrets, without_secrets

_LAUNCHER_VARIABLES = {f"OMPI_MCA_{name}" for name in ("num_procs", "initial_wdir", "cpu_type", "PREFIXES")}
_DAEMON_PREFIXES = ("OMPI_MCA_orte_", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_shmem_RUNTIME_QUERY_hint")
"""Prefixes of environment variables that Open MPI's launchers set for each rank, whatever the user set.
``_LAUNCHER_VARIABLES`` contains the names of further such variables."""


@dataclass(slots=True)
class _RecordedJob:
    """Sums over the ranks of one MPI job (one MPI_COMM_WORLD), updated as the ranks' files are read."""

    totals: dict[bytes, Any] = field(default_factory=dict)
    """Maps each cell (calls of one kind; see ``rank_file.keys``) to its row of ``_sums``, followed by the
    histogram of the calls' durations; both are summed over the ranks."""
    kept: dict[bytes, list[KeptCalls]] = field(default_factory=lambda: defaultdict(list))
    """Maps each stream (calls of one collective and size on one communicator) to the recorded calls of each
    rank of the communicator. A stream is removed once the files of all its ranks are read."""
    waits: dict[tuple[str, int, int], list[Waited]] = field(default_factory=lambda: defaultdict(list))
    """Maps (collective, power of two of the size, communicator size) to the waiting in complete streams."""
    limits: dict[bytes, int] = field(default_factory=dict)
    """Maps each stream to the largest hash of a call's number with which the call is still in ``kept``."""
    n_kept: int = 0  # Number of recorded calls in ``kept``.
    heads: list[Any] = field(default_factory=list)  # Facts about each rank, from ``Rank.about``.
    added_s: float = 0.0  # Seconds that the recorder's wrappers of timed calls took.
    squares: float = 0.0  # Sum of the squared times of single wrappers, in s².
    timeline: Any = None
    """Tuple of the length of a slice in seconds, which is the longest of all ranks, and the seconds by family
    and slice."""
    environment: str = ""
    """Environment variables of the first rank that recorded them: texts NAME=VALUE, separated by null
    characters."""

    def add(self, rank: Rank) -> None:
        head, tick_s = rank.head, rank.tick_s
        self.heads.append(rank.about)
        self.environment = self.environment or rank.environment
        self.added_s += float(rank.cells["added"].sum()) * tick_s
        self.squares += float(head["squares"]) * tick_s**2
        n_ranks = int(head["size"])
        clocks = (float(head[name]) for name in ("clock_s", "wtime_s", "wtick_s"))
        sums = _sums(rank.cells, tick_s, *clocks) / n_ranks
        sums[:, _COUNTED] *= n_ranks
        rows = np.hstack([sums, rank.cells["classes"]])
        for key, row in zip(keys(rank.cells, CELL_KEY), rows, strict=True):
            self.totals[key] = self.totals.get(key, 0.0) + row
        slices = (2.0 ** int(head["shift"]) * tick_s, head["timeline"] * tick_s / n_ranks)
        self.timeline = slices if self.timeline is None else _sum_of_timelines(self.timeline, slices)
        samples = rank.seconds()
        for key, stream, parts in zip(keys(rank.streams, STREAM_KEY), rank.streams, samples, strict=True):
            self._keep(key, rank, stream, *parts)

    def _keep(self, key: bytes, rank: Rank, stream: Any, drawn: Any, longest: Any) -> None:
        """Store one rank's recorded calls of a stream, or the stream's waiting once all ranks are read."""
        rank_limit = int(stream["limit"])
        limit = self.limits[key] = min(rank_limit, self.limits.get(key, rank_limit))
        if limit < rank_limit:
            drawn = drawn[hashed(drawn["call"]) <= limit]
        cut_s = float(stream["cut"]) * rank.tick_s
        who, calls = int(rank.head["rank"]), float(stream["calls"])
        self.kept[key].append(KeptCalls(who, calls, _thinned(limit), cut_s, drawn, longest))
        self.n_kept += len(drawn) + len(longest)
        if len(self.kept[key]) == stream["ranks"]:
            self.reduce(key)
        while self.n_kept > _MOST_SAMPLES:
            self._thin()

    def reduce(self, key: bytes) -> None:
        """Replace the recorded calls of a stream by the time that ranks waited in them."""
        name, power, comm_size = stream_of(key)
        per_rank = self.kept.pop(key)
        self.n_kept -= _n_samples(per_rank)
        if waiting := waited(name, comm_size, per_rank, int(self.heads[0]["size"])):
            self.waits[name, power, comm_size].append(waiting)

    def _thin(self) -> None:
        """Drop half of the stored calls in the stream that has most of them.

        All ranks drop the same drawn calls.
        """
        key = max(self.kept, key=lambda key: _n_samples(self.kept[key]))
        self.n_kept -= _n_samples(self.kept[key])
        limit = self.limits[key] = self.limits[key] >> 1
        for i, rank_calls in enumerate(self.kept[key]):
            drawn = rank_calls.drawn[hashed(rank_calls.drawn["call"]) <= limit]
            took_s = rank_calls.longest["end_s"] - rank_calls.longest["begin_s"]
            cut_s = float(np.median(took_s)) if took_s.size else rank_calls.cut_s
            longest = rank_calls.longest[took_s >= cut_s] if took_s.size > 1 else rank_calls.longest[:0]
            self.kept[key][i] = replace(
                rank_calls, thinned=_thinned(limit), cut_s=cut_s, drawn=drawn, longest=longest
            )
        self.n_kept += _n_samples(self.kept[key])


_Z95 = 1.959963984540054  # Quantile of the normal distribution for intervals of 95 %.
_MOST_SAMPLES = 1 << 22  # Largest number of recorded calls in memory at once: 128 MiB.


def _n_samples(per_rank: Iterable[KeptCalls]) -> int:
    return sum(len(rank_calls.drawn) + len(rank_calls.longest) for rank_calls in per_rank)


def _thinned(limit: int) -> float:
    return 2.0**64 / (limit + 1.0)


_COUNTED = [0, 1, 6, 10]
_COMPLETION = FAMILIES.index("completion")
_CALLS, _BYTES, _PER_RANK, _SECONDS, _WAIT, _SE, _TIMED, _LOW, _HIGH, _ADDED, _DERIVED = range(11)


def _sums(cells: Any, tick_s: float, clock_s: float, wtime_s: float = 0.0, wtick_s: float = 0.0) -> Any:
    """Return the columns ``_CALLS`` to ``_DERIVED`` of each cell (calls of one kind) of a rank.

    The seconds are those within the MPI library's own function. A program that takes the time around a call
    measures more: the time of the recorder's wrapper, which the recorder measures from the wrapper's first to
    its last instruction; the time between the wrapper and the program's readings of its clock; and one
    reading of the program's clock. The second of these is similar to the first, since it uses the same
    caches, and shorter; therefore the wrapper counts twice. Both clocks may be off by a reading of the
    counter and a tick of MPI_Wtime. Only a part of the seconds of a completion (MPI_Wait and similar calls)
    belongs to requests; its share is assumed to be that in the timed completions.
    """
    weight = np.maximum(cells["weight"], 1e-9)
    untimed = np.maximum(cells["calls"] - cells["all"], 0)
    in_all = cells["ticks"] / np.maximum(cells["all"], 1)
    mean = np.where(cells["weight"] > 0, cells["weighted"] / weight, in_all)
    zeroth, first, second = cells["spread"].T
    se = np.sqrt(np.maximum(second - 2 * mean * first + mean**2 * zeroth, 0.0)) * untimed / weight
    seconds = (cells["ticks"] + mean * untimed) * tick_s
    # The ticks of all timed calls, of which a part was assigned to requests.
    timed = np.maximum(cells["ticks"] + cells["weighted"], 1e-9)
    of_requests = seconds * np.minimum(cells["wait"] / timed, 1.0)
    in_waits = np.where(cells["family"] == _COMPLETION, of_requests, cells["wait"] * tick_s)
    se_s, timing_s = se * tick_s, cells["calls"] * (clock_s + wtick_s)
    low = np.maximum(seconds - _Z95 * se_s - timing_s, 0.0)
    wrapper_s = cells["added"] / np.maximum(cells["timed"], 1) * cells["counted"] * tick_s
    high = seconds + _Z95 * se_s + cells["excess"] * tick_s + timing_s
    high += 2 * wrapper_s + cells["calls"] * wtime_s
    counts = (cells[name] for name in ("calls", "bytes", "calls"))
    columns = (*counts, seconds, in_waits, se_s, cells["timed"], low, high, wrapper_s, cells["derived"])
    return np.stack([np.asarray(column, float) for column in columns], axis=1)


def _sum_of_timelines(timeline: Any, other_timeline: Any) -> Any:
    """Return the sum of two timelines in slices of the longer length; their ratio is a power of two."""
    longer_first = sorted((timeline, other_timeline), key=lambda line: -line[0])
    (slice_s, sums), (other_s, other_sums) = longer_first
    while other_s < 0.75 * slice_s:
        halved = other_sums.reshape(len(FAMILIES), -1, 2).sum(axis=2)
        other_sums, other_s = np.hstack([halved, np.zeros_like(halved)]), 2 * other_s
    return slice_s, sums + other_sums


def joined(
    files: Iterable[IO[bytes]], command: Sequence[str], run_s: float, date: str, unseen: Sequence[str] = ()
) -> list[Recording]:
    """Return the recordings in the files of all ranks, the one with the most ranks first.

    MPI jobs that follow each other, and jobs that another job has spawned, are joined to one recording; jobs
    that run at the same time become separate recordings.

    Args:
        files: The file of each rank; without files no recordings are returned.
        command: The command that was started.
        run_s: Wall time of the command in seconds.
        date: ISO date of the run.
        unseen: Communication outside of MPI, as in ``Recording.unseen``.

    Raises:
        TableError: A file was not written by the recorder.
    """
    jobs: dict[int, _RecordedJob] = defaultdict(_RecordedJob)
    for file in files:
        rank = read_rank(file)
        jobs[int(rank.head["job"])].add(rank)
    groups: list[list[_RecordedJob]] = []
    spawned = [job for job in jobs.values() if job.heads[0]["spawned"]]
    started_alone = [job for job in jobs.values() if not job.heads[0]["spawned"]]
    if not started_alone:  # all recorded jobs were spawned by jobs that were not recorded
        started_alone, spawned = spawned[:1], spawned[1:]
    for job in sorted(started_alone, key=lambda job: -len(job.heads)):
        free = (group for group in groups if not any(_overlap(job, member) for member in group))
        if (group := next(free, None)) is None:
            groups.append([job])
        else:
            group.append(job)
    if groups:
        groups[0] += spawned
    return [_recording(group, command, run_s, date, unseen) for group in groups]


def _overlap(first: _RecordedJob, second: _RecordedJob) -> bool:
    begins = [min(h["begin_s"] for h in job.heads) for job in (first, second)]
    ends = [max(h["end_s"] if h["ended"] else math.inf for h in job.heads) for job in (first, second)]
    return bool(max(begins) < min(ends))


def _recording(
    jobs: Sequence[_RecordedJob], command: Sequence[str], run_s: float, date: str, unseen: Sequence[str]
) -> Recording:
    heads = [head for job in jobs for head in job.heads]
    largest = max(jobs, key=lambda job: len(job.heads))
    totals = defaultdict[Any, Any](float)
    waits = defaultdict[Any, list[Waited]](list)
    for job in jobs:
        _balance(job.totals)
        for key, row in job.totals.items():
            totals[cell_of(key)] += row
        for stream in [*job.kept]:
            job.reduce(stream)
        for slot, streams in job.waits.items():
            waits[slot] += streams
    _widen(totals, jobs)
    # The last part of a key is the power of two of the size; -1 means all sizes.
    seconds = defaultdict[Any, list[float]](list)
    for (name, kind, comm_size, power, *_), row in totals.items():
        for power_key in {power, -1}:
            seconds[name, kind, comm_size, power_key].append(row[_SECONDS])
    calls, other_calls = [], []
    for (name, kind, comm_size, power, family, distance), row in totals.items():
        if row[_CALLS] and family:
            other_calls.append(_other_calls(name, FAMILIES[family], DISTANCES[distance], row))
        elif row[_CALLS]:
            slot = (name, power, comm_size) if (name, power, comm_size) in waits else (name, -1, comm_size)
            slot_waits = waits.get(slot, []) if kind == 0 else []
            in_all_s = math.fsum(seconds[name, kind, comm_size, slot[1]])
            calls.append(_recorded_calls(name, KINDS[kind], comm_size, row, slot_waits, in_all_s))
    drift = [abs(h["ahead_end_s"] - h["ahead_s"]) for h in heads if h["ended"] != 1]
    ends = {ENDS[int(h["ended"])] for h in heads}
    return Recording(
        command=without_secrets(command),
        run_s=run_s,
        mpi_s=float(np.mean([h["end_s"] - h["begin_s"] if h["ended"] else run_s for h in heads])),
        ranks=max(int(h["size"]) for h in heads),
        nodes=max(1, len({h["host"] for h in largest.heads}), max(int(h["nodes"]) for h in heads)),
        ended=next(end for end in WORST if end in ends),
        library=heads[0]["library"].decode(errors="replace").splitlines()[0].strip(),
        date=date,
        clock_error_s=float(max([*(h["unsure_s"] for h in heads), *drift], default=0.0)),
        not_kept=sum(int(h["kept_out"]) for h in heads),
        calls=tuple(sorted(calls, key=order)),
        other=tuple(sorted(other_calls, key=lambda o: (-o.seconds, o.operation, o.message_bytes))),
        started=_started(command, largest.environment),
        timeline=_timeline(largest),
        threads=max(1, max(int(h["callers"]) for h in heads)),
        unseen=tuple(sorted(unseen)),
    )


def _balance(totals: Mapping[bytes, Any]) -> None:
    """Scale the waiting for requests so that its sum is the time of the calls that completed the requests."""
    completions, others = list[Any](), list[Any]()
    for key, row in totals.items():
        (completions if cell_of(key)[4] == _COMPLETION else others).append(row)
    completed_s, begun_s = (sum(row[_WAIT] for row in rows) for rows in (completions, others))
    for row in others:
        if row[_WAIT]:
            row[_WAIT] *= completed_s / begun_s


def _widen(totals: Mapping[Any, Any], jobs: Sequence[_RecordedJob]) -> None:
    """Widen the intervals of seconds by errors that are known only for all ranks together.

    Between its own reading of the clock and the recorder's, a program may lose its core at random, as it may
    within the recorder's wrappers. If the losses are a compound Poisson process, their variance in W seconds
    is W Σ a² / Σ a, where a is the time of each wrapper. The errors of all ranks are added as if they were
    equal. The interval of the waiting for requests is its share of the interval of all completing calls.
    """
    added_s, squares = (math.fsum(getattr(job, name) for job in jobs) for name in ("added_s", "squares"))
    completions = [row for (_, _, _, _, family, _), row in totals.items() if family == _COMPLETION]
    for row in totals.values():
        row[_HIGH] += _Z95 * math.sqrt(row[_ADDED] * squares / added_s) if added_s > 0 else 0.0
    in_all_s = math.fsum(row[_SECONDS] for row in completions)
    for (_, _, _, _, family, _), row in totals.items():
        if family != _COMPLETION and row[_WAIT]:
            share = row[_WAIT] / in_all_s
            row[_LOW] -= share * math.fsum(c[_SECONDS] - c[_LOW] for c in completions)
            row[_HIGH] += share * math.fsum(c[_HIGH] - c[_SECONDS] for c in completions)


def _recorded_calls(
    name: str, kind: str, comm_size: int, row: Any, streams: Sequence[Waited], in_all_s: float
) -> RecordedCalls:
    n, n_bytes, per_rank, in_calls_s, in_waits_s, se, timed, low, high = map(float, row[:_ADDED])
    share, share_se, late = lateness(streams, in_all_s, in_calls_s)
    return RecordedCalls(
        *(name, kind, comm_size, n_bytes / n, round(n), per_rank),
        seconds=in_calls_s + in_waits_s,
        waiting_s=in_calls_s * share,
        timed=round(timed),
        seconds_se=se,
        waiting_se=math.hypot(in_calls_s * share_se, se * share),
        seconds_low=max(low + in_waits_s, 0.0),
        seconds_high=high + in_waits_s,
        derived=round(float(row[_DERIVED])),
        histogram=_histogram(row),
        lateness=late,
    )


def _other_calls(name: str, family: str, distance: str, row: Any) -> OtherCalls:
    n, n_bytes, per_rank, in_calls_s, in_waits_s, _, timed, low, high = map(float, row[:_ADDED])
    added_s = 0.0 if family == "completion" else in_waits_s
    return OtherCalls(
        *(family, name, distance, n_bytes / n, round(n), per_rank),
        seconds=in_calls_s + added_s,
        seconds_low=max(low + added_s, 0.0),
        seconds_high=high + added_s,
        completing_s=in_waits_s,
        timed=round(timed),
        histogram=_histogram(row),
        derived=round(float(row[_DERIVED])),
    )


def _histogram(row: Any) -> Histogram:
    classes = row[_DERIVED + 1 :]
    filled = np.flatnonzero(classes)
    return Histogram(tuple(map(float, LOWER_S[filled])), tuple(map(float, classes[filled])))


def _timeline(job: _RecordedJob) -> Timeline:
    """Return the timeline of a job, scaled so that the slices of each family of calls sum to its seconds."""
    slice_s, sums = job.timeline
    seconds = np.zeros(len(FAMILIES))
    for key, row in job.totals.items():
        family = cell_of(key)[4]
        seconds[family] += row[_SECONDS] + (-row[_WAIT] if family == _COMPLETION else row[_WAIT])
    drawn = sums.sum(axis=1)
    sums = sums * (seconds / np.where(drawn > 0, drawn, 1.0))[:, None]
    used = int(np.flatnonzero(np.append(True, sums.any(axis=0)))[-1])
    return Timeline(slice_s, {name: tuple(map(float, sums[i, :used])) for i, name in enumerate(FAMILIES)})


def _started(command: Sequence[str], environment: str) -> Started:
    """Return how a run was started: launcher, its options, and MPI's environment variables."""
    name = command[0].rpartition("/")[2] if command else ""
    launcher = LAUNCHERS.get(name)
    words = launcher.options(without_secrets(command)[1:]) if launcher else ()
    options = tuple((option, *values.values()) for option, values in words if option)
    assignments = (text.partition("=") for text in environment.split("\0") if "=" in text)
    variables = {
        key: value
        for key, _, value in sorted(assignments, key=itemgetter(0))
        if key not in _LAUNCHER_VARIABLES and not key.startswith(_DAEMON_PREFIXES)
    }
    return Started(name if launcher else "", options, environment_without_secrets(variables))
