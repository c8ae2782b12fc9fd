"""Files of an application's ranks → one recording: counts, times, and how long ranks waited for others.

``probe/recorder/`` writes a file for each rank; here they become one: for each collective, kind of call,
communicator size and power of two of the message size its calls (exact), bytes, time, and how much of the
time ranks waited for others to arrive, which no tuning takes away.

Of frequent short calls a random few are timed; each time has the standard error that this leaves.

Waiting. Of some calls every rank kept when it came and went. With b and e these two times of a rank, on the
clock of rank 0, and a the time at which the ranks that it needs had come (all of them; in a call with a root,
for the others the root, for the root of a broadcast or scatter nobody), it waited min(max(a − b, 0), e − b).
The share of waiting in these calls is taken to be that of all calls of the stream. In a call with a root this
is an approximation: inner ranks of a tree wait for some others too. Of non-blocking calls none is known.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.collectives import COLLECTIVES, Pattern
from autotune.errors import TableError
from autotune.importers.recording import ENDS, KINDS, RecordedCalls, Recording, order

_HEAD = np.dtype(
    [("magic", "S8")]
    + [(name, "<i4") for name in ("rank", "size", "ended", "threads", "kept_out", "nodes")]
    + [(name, "<i8") for name in ("job", "cells", "streams")]
    + [(name, "<f8") for name in ("begin_s", "end_s", "ahead_s", "ahead_end_s", "unsure_s", "clock_s")]
    + [("host", "S64"), ("library", "S128")]
)
_CELL = np.dtype(
    [("name", "S24")]
    + [(name, "<i4") for name in ("kind", "bin", "ranks", "nodes")]
    + [("calls", "<i8"), ("timed", "<i8")]
    + [(name, "<f8") for name in ("bytes", "weight", "weighted_s", "wait_s")]
    + [("spread", "<f8", 3)]
)
_RUN = np.dtype([("calls", "<i8"), ("bytes", "<f8"), ("cell", "<i4"), ("stream", "<i4")])
_STREAM = np.dtype(
    [("name", "S24"), ("members", "<u8")]
    + [(name, "<i4") for name in ("bin", "ranks", "n", "spare")]
    + [("calls", "<i8"), ("limit", "<u8")]
)
SAMPLE = np.dtype([("call", "<i8"), ("begin_s", "<f8"), ("end_s", "<f8"), ("root", "<i4"), ("weight", "<i4")])
"""One call that a rank kept: number, entry, exit, world rank of its root, how many it was drawn of."""
_RUNS, _CELLS, _STREAMS, _KEPT = 32, 1024, 256, 512


@dataclass(frozen=True, slots=True)
class _Rank:
    """The file of one rank."""

    head: Any
    cells: Any
    streams: Any
    samples: Any


def joined(files: Iterable[bytes], command: Sequence[str], run_s: float, date: str) -> Recording | None:
    """The recording in the files of all ranks; None: there are none.

    Raises:
        TableError: a file that the recorder has not written.
    """
    jobs: dict[int, list[_Rank]] = defaultdict(list)
    for data in files:
        rank = _rank(data)
        jobs[int(rank.head["job"])].append(rank)
    if not jobs:
        return None
    every = [rank for ranks in jobs.values() for rank in ranks]
    largest = max(jobs.values(), key=len)
    totals: dict[tuple[str, int, int, int], Any] = defaultdict(lambda: np.zeros(8))
    for ranks in jobs.values():
        waiting = _waiting(ranks)
        for rank in ranks:
            for cell in rank.cells:
                name, of = cell["name"].decode(), int(rank.head["size"])
                kind, power, comm_size = (int(cell[key]) for key in ("kind", "bin", "ranks"))
                in_calls_s, error_s = _in_calls(cell)
                share, share_se = (0.0, 0.0)
                if kind == 0:
                    share, share_se = waiting.get(
                        (name, power, comm_size), waiting.get((name, -1, comm_size), (0.0, 0.0))
                    )
                totals[name, kind, comm_size, power] += (
                    *(cell["calls"], cell["bytes"], cell["calls"] / of, (in_calls_s + cell["wait_s"]) / of),
                    *(in_calls_s * share / of, cell["timed"], error_s / of),
                    math.hypot(in_calls_s * share_se, error_s * share) / of,
                )
    calls = []
    for (name, kind, comm_size, _), sums in totals.items():
        n, n_bytes, per_rank, seconds, waited_s, timed, se, waited_se = map(float, sums)
        if n:
            of_ranks = round(n), per_rank, seconds, waited_s, round(timed), se, waited_se
            calls.append(RecordedCalls(name, KINDS[kind], comm_size, n_bytes / n, *of_ranks))
    drift = [abs(r.head["ahead_end_s"] - r.head["ahead_s"]) for r in every if r.head["ended"] != 1]
    return Recording(
        command=tuple(command),
        run_s=run_s,
        mpi_s=float(
            np.mean([r.head["end_s"] - r.head["begin_s"] if r.head["ended"] else run_s for r in every])
        ),
        ranks=max(int(r.head["size"]) for r in every),
        nodes=max(1, len({r.head["host"] for r in largest}), max(int(r.head["nodes"]) for r in every)),
        ended=ENDS[_end(every)],
        library=every[0].head["library"].decode(errors="replace").splitlines()[0].strip(),
        date=date,
        clock_error_s=float(max([*(r.head["unsure_s"] for r in every), *drift], default=0.0)),
        not_kept=sum(int(r.head["kept_out"]) for r in every),
        calls=tuple(sorted(calls, key=order)),
    )


def _in_calls(cell: Any) -> tuple[float, float]:
    """Seconds in a cell's calls, and their standard error.

    The ratio estimator of Hájek (1971) out of the calls that were drawn, weighted by their blocks' lengths;
    the variance is that of draws with these probabilities, independent of each other. Ranks draw the same
    calls, so that their errors are added up, not their squares.
    """
    if not cell["weight"]:
        return 0.0, 0.0
    mean_s, calls = float(cell["weighted_s"] / cell["weight"]), int(cell["calls"])
    zeroth, first, second = map(float, cell["spread"])
    variance = max(second - 2 * mean_s * first + mean_s**2 * zeroth, 0.0)
    return max(mean_s, 0.0) * calls, math.sqrt(variance) * calls / float(cell["weight"])


def _end(ranks: Sequence[_Rank]) -> int:
    ends = {int(r.head["ended"]) for r in ranks}
    return 2 if 2 in ends else min(ends)


def _rank(data: bytes) -> _Rank:
    at = [_HEAD.itemsize, _RUNS * _RUN.itemsize, _CELLS * _CELL.itemsize, _STREAMS * _STREAM.itemsize]
    starts = np.cumsum(at)
    whole = starts[3] + _STREAMS * _KEPT * SAMPLE.itemsize
    if len(data) != whole or data[:8] != b"autorec2":
        raise TableError("a file of another version of the recorder", "is another one preloaded as well?")
    head = np.frombuffer(data, _HEAD, 1)[0]
    cells = np.frombuffer(data, _CELL, int(head["cells"]), starts[1]).copy()
    streams = np.frombuffer(data, _STREAM, int(head["streams"]), starts[2]).copy()
    samples = np.frombuffer(data, SAMPLE, len(streams) * _KEPT, starts[3]).reshape(-1, _KEPT)
    for run in np.frombuffer(data, _RUN, _RUNS, starts[0]):
        if run["calls"]:  # the rank ended within it
            cells["calls"][run["cell"]] += run["calls"]
            cells["bytes"][run["cell"]] += run["calls"] * run["bytes"]
            if run["stream"] >= 0:
                streams["calls"][run["stream"]] += run["calls"]
    return _Rank(head, cells, streams, samples)


def _waiting(ranks: Sequence[_Rank]) -> dict[tuple[str, int, int], tuple[float, float]]:
    """(collective, bin, communicator size) → share of waiting in its blocking calls' time, standard error."""
    lists: dict[tuple[str, int, int, int], list[tuple[int, float, float, Any]]] = defaultdict(list)
    for rank in ranks:
        for stream, samples in zip(rank.streams, rank.samples, strict=True):
            key = stream["name"].decode(), int(stream["bin"]), int(stream["ranks"]), int(stream["members"])
            kept = samples[: stream["n"]].copy()
            for column in ("begin_s", "end_s"):
                kept[column] -= _ahead(rank.head, kept[column])
            thinned = 2.0**64 / (float(stream["limit"]) + 1.0)
            lists[key].append((int(rank.head["rank"]), float(stream["calls"]), thinned, kept))
    found: dict[tuple[str, int, int], list[Any]] = defaultdict(list)
    for (name, power, comm_size, _), kept in lists.items():
        waited, took, weight = waits(name, comm_size, [(rank, samples) for rank, _, _, samples in kept])
        if weight.size:
            all_calls = sum(calls for _, calls, _, _ in kept)
            of = weight * max(thinned for _, _, thinned, _ in kept)
            found[name, power, comm_size].append((waited, took, weight * all_calls / weight.sum(), of))
    shares = {}
    for slot, parts in found.items():
        waited, took, weight, of = (np.concatenate(column) for column in zip(*parts, strict=True))
        total = float(weight @ took)
        if total > 0:
            share = float(weight @ waited) / total
            # What each call was drawn of says how much of its own error is left: nothing where all were kept.
            left = (weight * (waited - share * took)) ** 2 * (1.0 - 1.0 / np.maximum(of, 1.0))
            shares[slot] = share, math.sqrt(float(left.sum())) / total
    return shares


def _ahead(head: Any, times_s: Any) -> Any:
    """By how much a rank's clock was ahead of that of rank 0, at its times: a line between begin and end."""
    span = max(float(head["end_s"] - head["begin_s"]), 1e-9)
    share = np.clip((times_s - head["begin_s"]) / span, 0.0, 1.0) if head["ended"] == 1 else 0.0
    return head["ahead_s"] + share * (head["ahead_end_s"] - head["ahead_s"])


def waits(name: str, comm_size: int, kept: Sequence[tuple[int, Any]]) -> tuple[Any, Any, Any]:
    """Of those calls that all ranks kept, ``(n_calls,)`` each: seconds waited, seconds taken, weight."""
    nothing = np.zeros(0), np.zeros(0), np.zeros(0)
    if len(kept) < comm_size:
        return nothing
    common = set.intersection(*(set(samples["call"].tolist()) for _, samples in kept))
    if not common:
        return nothing
    columns = []
    for _, samples in kept:
        ours = samples[np.isin(samples["call"], list(common))]
        columns.append(ours[np.argsort(ours["call"])])
    begin, end, root = (np.stack([c[key] for c in columns]) for key in ("begin_s", "end_s", "root"))
    ranks = np.array([rank for rank, _ in kept])[:, None]
    last = np.broadcast_to(begin.max(axis=0), begin.shape)
    pattern = COLLECTIVES[name].pattern if name in COLLECTIVES else Pattern.ALL_TO_ALL
    if pattern is not Pattern.ALL_TO_ALL:
        is_root = ranks == root
        come = np.max(np.where(is_root, begin, -np.inf), axis=0)
        of_root = begin if pattern is Pattern.ONE_TO_ALL else last
        last = np.where(is_root, of_root, come)
    took = np.maximum(end - begin, 0.0)
    waits = np.minimum(np.maximum(last - begin, 0.0), took)
    return waits.sum(axis=0), took.sum(axis=0), columns[0]["weight"].astype(float)
