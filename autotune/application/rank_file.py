"""Read the file that the recorder wrote for one rank, in the format of ``probe/recorder/file.h``.

A *cell* has sums over the calls of one kind. A *stream* is the calls of one collective and one power of two
of the size on one communicator; some of these calls are stored one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib.recfunctions import repack_fields

from autotune.application.lateness import SAMPLE
from autotune.application.recorded_time import FAMILIES
from autotune.errors import TableError

_SLICES, _CLASSES, _ENVIRONMENT = 64, 64, 8192


def _fields(kind: str, names: str) -> list[tuple[str, str]]:
    return [(name, kind) for name in names.split()]


HEAD = np.dtype([
    ("magic", "S8"),
    *_fields("<i4", "rank size ended threads kept_out nodes callers spawned compact environment"),
    *_fields("<i8", "job cells streams"),
    *_fields("<f8", "begin_s end_s ahead_s ahead_end_s unsure_s clock_s tick_s wtime_s wtick_s squares"),
    *_fields("<i8", "begin end shift"),
    *(("host", "S64"), ("library", "S128"), ("timeline", "<f8", (len(FAMILIES), _SLICES))),
])  # fmt: skip
CELL = np.dtype([
    ("name", "S24"),
    *_fields("<i4", "kind bin ranks family distance derived"),
    *_fields("<i8", "calls timed all ticks counted added"),
    *_fields("<f8", "bytes wait weight weighted"),
    *(("spread", "<f8", 3), ("excess", "<f8"), ("longest", "<f8"), ("classes", "<i8", _CLASSES)),
])  # fmt: skip
_RUN = np.dtype([("calls", "<i8"), ("bytes", "<f8"), *_fields("<i4", "cell stream")])
_STREAM = np.dtype([
    *(("name", "S24"), ("members", "<u8"), *_fields("<i4", "bin ranks n longest")),
    *(("calls", "<i8"), ("cut", "<i8"), ("limit", "<u8")),
])  # fmt: skip
_TICKS = np.dtype([
    *_fields("<i8", "call begin end"), *_fields("<i4", "root weight"), ("outside", "<i8")
])  # fmt: skip
CELL_KEY, STREAM_KEY = 44, 40
"""Number of bytes at the beginning of a record that identify its cell or its stream."""
_SUMMARY_FIELDS = ["rank", "size", "ended", "kept_out", "nodes", "callers", "spawned"]
_SUMMARY_FIELDS += ["begin_s", "end_s", "ahead_s", "ahead_end_s", "unsure_s", "host", "library"]
_RUNS, _CELLS, _STREAMS, _KEPT, _LONGEST = 32, 1024, 256, 512, 128
LOWER_S = 2.0 ** (np.arange(8, 8 + _CLASSES) / 2) * 1e-9  # Seconds at which the classes of durations begin.


@dataclass(frozen=True, slots=True)
class Rank:
    """The contents of one rank's file; ``probe/recorder/file.h`` describes the records."""

    head: Any  # Facts about the rank, a record of the type ``HEAD``.
    environment: str  # Environment variables, as NAME=VALUE with null characters between.
    cells: Any  # Sums over the calls of each kind, an array of the type ``CELL``.
    streams: Any  # Facts about the calls on each communicator, an array of the type ``_STREAM``.
    samples: Sequence[tuple[Any, Any]]  # Calls of each stream: those drawn at random, and the longest.

    @property
    def tick_s(self) -> float:
        """Return the length of a clock tick in seconds, measured over the run if the run was long enough."""
        head = self.head
        lasted_s, ticks = float(head["end_s"] - head["begin_s"]), head["end"] - head["begin"]
        return lasted_s / float(ticks) if lasted_s > 0.01 and ticks > 0 else float(head["tick_s"])

    @property
    def about(self) -> Any:
        """Return a copy of those fields of ``head`` that are needed after the file's memory is freed."""
        return repack_fields(self.head[_SUMMARY_FIELDS])

    def seconds(self) -> list[tuple[Any, Any]]:
        """Return ``samples`` as arrays of type ``SAMPLE``, with times in seconds on the clock of rank 0."""
        samples = np.concatenate([np.zeros(0, _TICKS), *(part for pair in self.samples for part in pair)])
        converted = samples.astype(SAMPLE)
        for column, ticks in (("begin_s", "begin"), ("end_s", "end")):
            times_s = self.head["begin_s"] + (samples[ticks] - self.head["begin"]) * self.tick_s
            converted[column] = times_s - _ahead(self.head, times_s)
        converted["outside_s"] = np.where(samples["outside"] < 0, np.nan, samples["outside"] * self.tick_s)
        ends = np.cumsum([len(part) for pair in self.samples for part in pair])
        parts = [part.copy() for part in np.split(converted, ends)]  # copies, so that each can be freed alone
        return list(zip(parts[:-1:2], parts[1::2], strict=True))


def _ahead(head: Any, times_s: Any) -> Any:
    """Return the seconds by which a rank's clock was ahead of rank 0's, interpolated over the run."""
    span = max(float(head["end_s"] - head["begin_s"]), 1e-9)
    share = np.clip((times_s - head["begin_s"]) / span, 0.0, 1.0) if head["ended"] == 1 else 0.0
    return head["ahead_s"] + share * (head["ahead_end_s"] - head["ahead_s"])


def read_rank(file: IO[bytes]) -> Rank:
    """Read one rank's file, leaving out the parts that the recorder did not use.

    Raises:
        TableError: The file was not written by this version of the recorder.
    """
    wrong = TableError("a file of another version of the recorder", "is another one preloaded as well?")

    def records(kind: np.dtype[Any], n: int, room: int) -> Any:
        """Read ``n`` records of a type; a file that is not compact has space for ``room`` such records."""
        data = file.read(kind.itemsize * n)
        if not 0 <= n <= room or len(data) != kind.itemsize * n:
            raise wrong
        if not compact:
            file.seek(kind.itemsize * (room - n), 1)
        return np.frombuffer(data, kind)

    compact = True
    head = records(HEAD, 1, 1)[0]
    if head["magic"] != b"autorec5":
        raise wrong
    compact = bool(head["compact"])
    variables = records(np.dtype("S1"), int(head["environment"]), _ENVIRONMENT).tobytes()
    runs = records(_RUN, _RUNS, _RUNS)
    cells = records(CELL, int(head["cells"]), _CELLS).copy()
    streams = records(_STREAM, int(head["streams"]), _STREAMS).copy()
    samples = [
        (records(_TICKS, int(stream["n"]), _KEPT), records(_TICKS, int(stream["longest"]), _LONGEST))
        for stream in streams
    ]
    for run in runs[runs["calls"] > 0]:  # the rank ended before it added these repeated calls to their cell
        cells["calls"][run["cell"]] += run["calls"]
        cells["bytes"][run["cell"]] += run["calls"] * run["bytes"]
        if run["stream"] >= 0:
            streams["calls"][run["stream"]] += run["calls"]
    return Rank(head, variables.decode(errors="replace"), cells, streams, samples)


def keys(rows: Any, length: int) -> list[bytes]:
    """Return the bytes that identify each cell (``length``: ``CELL_KEY``) or stream (``STREAM_KEY``)."""
    data = rows.tobytes()
    return [data[at : at + length] for at in range(0, len(data), rows.itemsize)]


def cell_of(key: bytes) -> tuple[str, int, int, int, int, int]:
    """Return name, kind, communicator size, bin, family and distance of the cell that a key identifies.

    The bin is the power of two of the message size.
    """
    cell = np.frombuffer(key.ljust(CELL.itemsize, b"\0"), CELL)[0]
    return cell["name"].decode(), *(int(cell[k]) for k in ("kind", "ranks", "bin", "family", "distance"))


def stream_of(key: bytes) -> tuple[str, int, int]:
    """Return collective, power of two of the message size, and communicator size of a stream by its key."""
    stream = np.frombuffer(key.ljust(_STREAM.itemsize, b"\0"), _STREAM)[0]
    return stream["name"].decode(), int(stream["bin"]), int(stream["ranks"])


def hashed(calls: Any) -> Any:
    """Return the hash of each call number, as the recorder's function ``hashed`` computes it.

    Calls are drawn in the order of their hashes, so that all ranks draw the same calls.
    """
    x = calls.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))
