"""Read an application's calls from its OTF2 trace (Score-P, Extrae), as the document that ``record`` writes.

A trace contains for each call of a collective its begin, end, communicator and root, and the bytes that a
rank sent and received. Score-P counts the bytes that a flat algorithm would move, including a rank's own
block; the message size follows from these bytes. In an in-place call Score-P counts one block less. In
collectives in which every rank sends and receives, an in-place call cannot be detected, and with n ranks the
computed size is only (n − 1) / n of the true one.

All calls are timed by the clocks of the trace; OTF2 corrects the differences between clocks. For non-blocking
calls a trace has only counts and bytes.

References:
    D. Eschweiler et al., "Open Trace Format 2: The Next Generation of Scalable Trace Formats and Support
    Libraries", ParCo 2011.
"""

import contextlib
import math
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from autotune.application.lateness import SAMPLE, waits
from autotune.application.recording import KINDS, RecordedCalls, Recording, even_block, of_tool
from autotune.collectives import COLLECTIVES, Pattern
from autotune.errors import TableError, needing


def read_trace(path: Path) -> Recording:
    """Return the recording in the trace with an anchor file (``traces.otf2``).

    Raises:
        UserError: The library that reads traces is not installed.
        TableError: The file is no trace, is damaged, or has no rank.
    """
    with needing("traces", f"{path}, an OTF2 trace,"):
        import otf2
        from otf2.error import Error
        from otf2.reader import _otf2
    try:
        with contextlib.closing(otf2.reader.Reader(str(path))) as trace:
            return _Trace().read(trace, otf2.events, path)
    except (_otf2.Error, Error, KeyError, ValueError, IndexError) as exc:
        raise TableError(
            f"{path} cannot be read as an OTF2 trace: {exc}", "name its anchor file, traces.otf2"
        ) from exc


class _Trace:
    def __init__(self) -> None:
        self.places: dict[Any, dict[Any, int]] = {}
        self.totals = defaultdict[tuple[str, int, int, int], Any](lambda: np.zeros(3))
        self.lists = defaultdict[tuple[str, int, int, int], dict[int, list[Any]]](lambda: defaultdict(list))

    def read(self, trace: Any, events: Any, path: Path) -> Recording:
        """Return the recording from all events of all ranks, which are read in the order of time."""
        clock = trace.definitions.clock_properties
        begin_times: dict[Any, float] = {}
        processes = {place.group for place in trace.definitions.locations if place.group is not None}
        for place, event in trace.events:
            time_s = (event.time - clock.global_offset) / clock.timer_resolution
            if isinstance(event, events.MpiCollectiveBegin):
                begin_times[place] = time_s
            elif isinstance(event, events.MpiCollectiveEnd):
                self._add(place, event, begin_times.pop(place, time_s), time_s, 0)
            elif isinstance(event, events.NonBlockingCollectiveComplete):
                self._add(place, event, time_s, time_s, 1)
        callers = {group for group in processes if _word(group.location_group_type) == "process"} or processes
        if not callers:
            raise TableError(f"{path}: a trace without any process")
        run_s = clock.trace_length / clock.timer_resolution
        if run_s <= 0:
            raise TableError(f"{path}: a trace of no length")
        stamp: int = getattr(clock, "realtime_timestamp", None) or 2**64
        has_date = stamp < 2**63  # if the trace has no date, all bits are set
        date = datetime.fromtimestamp(stamp / 1e9, UTC).isoformat(timespec="seconds") if has_date else ""
        nodes = len({group.system_tree_parent for group in callers})
        calls = self._calls(len(callers))
        return of_tool("as in an OTF2 trace", run_s, len(callers), nodes, calls, date)

    def _add(self, place: Any, event: Any, begin_s: float, end_s: float, kind: int) -> None:
        name = _word(event.collective_op)
        if name not in COLLECTIVES:
            return  # creating windows and files is a collective event, too, but no collective operation
        if event.communicator not in self.places:
            # A communicator between two groups of ranks has no list of members here, and its calls are left
            # out: no rules can choose their algorithm.
            members = getattr(getattr(event.communicator, "group", None), "members", ())
            self.places[event.communicator] = {member: rank for rank, member in enumerate(members)}
        places = self.places[event.communicator]
        if place not in places:
            return
        ranks, own_rank = len(places), places[place]
        n_bytes = _block(name, ranks, own_rank == event.root, event.size_sent, event.size_received)
        power = int(n_bytes).bit_length()
        self.totals[name, kind, ranks, power] += (1.0, n_bytes, end_s - begin_s)
        if kind == 0:
            uneven = name in ("gatherv", "scatterv", "alltoallv", "alltoallw")
            samples = self.lists[name, -1 if uneven else power, ranks, event.communicator._ref][own_rank]
            root = event.root if event.root < ranks else -1
            samples.append((len(samples), begin_s, end_s, root, 1, math.nan))

    def _calls(self, ranks: int) -> list[RecordedCalls]:
        sums: dict[tuple[str, int, int], Any] = defaultdict(lambda: np.zeros(2))
        for (name, power, comm_size, _), lists in self.lists.items():
            per_rank = [(rank, np.array(calls, SAMPLE)) for rank, calls in lists.items()]
            sums[name, power, comm_size] += waits(name, comm_size, per_rank)
        recorded = []
        for (name, kind, comm_size, power), (n, n_bytes, seconds) in self.totals.items():
            waited_s, took_s = sums.get((name, power, comm_size), sums.get((name, -1, comm_size), (0.0, 0.0)))
            share = float(waited_s / took_s) if kind == 0 and took_s > 0 else 0.0
            mean_s, calls = float(seconds) / ranks, round(n)
            counts = (float(n_bytes / n), calls, float(n) / ranks)
            errors = (calls, 0.0, 0.0) if kind == 0 else (0, None, None)
            row = RecordedCalls(name, KINDS[kind], comm_size, *counts, mean_s, mean_s * share, *errors)
            recorded.append(row)
        return recorded


def _word(value: Any) -> str:
    """Return the name of an OTF2 enumerated value in lower case: ``bcast`` of ``CollectiveOp.BCAST``."""
    return str(value).rpartition(".")[2].lower()


def _block(name: str, ranks: int, is_root: bool, sent: int, received: int) -> float:
    """Return the message size of a call in bytes, counted as in ``collectives``, from a rank's bytes."""
    block: float | None = even_block(name, ranks, sent + received)
    if block is not None:
        return block
    one_to_all = COLLECTIVES[name].pattern is Pattern.ONE_TO_ALL
    root_bytes, other_bytes = (sent, received) if one_to_all else (received, sent)
    if not is_root:
        return other_bytes
    # In an in-place call the root's own block is not counted.
    return root_bytes / (ranks if other_bytes else max(ranks - 1, 1))
