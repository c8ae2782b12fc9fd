"""The two documents that the driver and the probe exchange: ``request.json`` and ``result.json``.

Both the driver and the ranks import this module. So it needs only the standard library, except for reading a
result. Raw samples are next to the result in ``samples.npz`` (compressed). ``result.json`` is written last
and atomically, so that its presence shows that the measurement is complete. An exit code does not show that,
since a launcher returns 0 when its allocation is lost.

Notation: a *choice* has the values that can differ from call to call within a launch, such as the algorithm.
A *cell* is (collective, communicator size, message size, index of the choice). A *heat* is a group of jobs
that are alive at once on the same cores and measure in turns.
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from autotune.errors import UserError, allowed
from autotune.probe.operations import OPERATIONS
from autotune.probe.rows_file import write_rows
from autotune.structure import Document, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Codes: TypeAlias = NDArray[np.uint8]
    Numbers: TypeAlias = NDArray[np.int32]
else:  # The ranks use ``array`` instead of numpy; readers of a result get numpy arrays.
    Floats = Codes = Numbers = Any

VERSION = 1  # Version of the format of request.json and result.json.

REQUEST, RESULT, SAMPLES = "request.json", "result.json", "samples.npz"
"""File names inside the directory of a launch."""
TIMED_S = "timed_s"
"""Key in ``CellSamples.extra``: seconds in the cell's calls on rank 0, including synchronisation."""
_MOST_RESULT, _MOST_SAMPLES = 64 << 20, 1 << 30
"""Largest sizes in bytes at which ``result.json`` and ``samples.npz`` are read.

A cell takes a few hundred bytes in ``result.json``; a minute of calls of 1 µs, 60 million of them, takes
480 MB in ``samples.npz``."""


UNTIMED = 1  # Number of untimed calls of a cell: one call checks the result and makes the connections.
NO_HEAT = "no heat is possible here"
"""Text in the reason of a failure if a job could not take turns with others."""
NOT_TIMED = "cells were not timed"  # Part of the note of a launch whose budget did not suffice for all cells.
OTHER_SHARE = 0.5  # Extra time for the other of ``LOOPS``, as a share of the time for the campaign's loop.
LOOPS = ("interleaved", "tight")
"""Orders in which calls are timed: blocks of all cells in turn, or one cell's calls back to back."""
BESIDE_BYTES = (8, 8192, 262144)
"""Message sizes in bytes of ``ProbeRequest.beside``: a small one, the first power of two beyond Open MPI's
eager limit in shared memory, and one beyond every eager limit of the shipped spaces."""
BESIDE_CALLS = 20
"""Least number of calls of each operation of ``ProbeRequest.beside``.

With so many calls, the error of a launch's mean is smaller than the difference between launches."""


@dataclass(frozen=True, slots=True)
class SweptChoice:
    """One choice for calls, such as an algorithm, as the probe applies it."""

    values: Mapping[str, Any]  # Parameter → value of the choice, copied into the result.
    cvars: Mapping[str, int | str] = field(default_factory=dict)
    """Maps each MPI_T control variable to the value that is written before the communicator is duplicated."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables, which the library reads only once at its start.

    So choices with different environment variables are measured in separate launches."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Settings that the probe must find on every rank; otherwise the launch is invalid."""

    library: str = ""  # Real path of the MPI library that each rank must load; empty: any library.
    env: Mapping[str, str] = field(default_factory=dict)  # Environment variables that each rank must see.
    cvars: Mapping[str, str] = field(default_factory=dict)
    """Maps each MPI_T control variable to the value that it must have when it is read."""
    ucx: bool = False  # Whether UCX must be in use, with variables that it knows and transports that exist.
    ucx_values: Mapping[str, str] = field(default_factory=dict)
    """Maps each UCX variable to the value that must be in effect, wherever UCX read it from."""


class TakenOut(StrEnum):
    """Reason why a job did not complete all of its turns. Values are written to files: never change one."""

    DIED = "died"  # A rank of the job ended before the job's last turn.
    STUCK = "stuck"  # The job kept a turn for longer than the heat allows, and was killed.


@dataclass(frozen=True, slots=True)
class Heat:
    """One job's part in a heat: a group of jobs, alive at once on the same cores, that measure in turns."""

    directory: str  # Directory of the heat, where the driver creates a file when a job ends.
    token: str  # Secret name of the file in which the jobs of a node meet.
    job: int  # Number of this job, from 0.
    jobs: int  # Number of jobs in the heat.
    seconds: float  # Seconds from the first turn of any job to the last turn.
    seed: int = 0  # Seed of the order of jobs and message sizes, the same for all jobs.
    slice_s: float = 1e-3  # Seconds for one cell in a turn; at least one call is timed.
    sizes_a_turn: int = 8
    """Largest number of message sizes measured in a turn; other sizes wait for the job's next turn."""
    join_s: float = 60.0  # Seconds for which a job waits for the other jobs to start.
    turn_limit_s: float = 30.0
    """Seconds after which a job that does not end its turn is taken out of the heat and killed."""

    def __post_init__(self) -> None:
        """Raise a UserError if the job's number, the token or a time is out of its range."""
        if not 0 <= self.job < self.jobs:
            raise UserError(f"job {self.job} of a heat of {self.jobs}", f"allowed: 0 … {self.jobs - 1}")
        if not (self.token.isascii() and self.token.isalnum()):
            raise UserError(f"heat with the token {self.token!r}", "expected letters and digits")
        times = (self.seconds, self.slice_s, self.sizes_a_turn, self.join_s, self.turn_limit_s)
        if not all(0 < seconds < math.inf for seconds in times):
            raise UserError("a heat with times of 0 s or less", "all of its times are above 0")

    def ended(self, job: int) -> Path:
        """Return the path of the file that the driver creates when a job has ended."""
        return Path(self.directory) / f"ended-{job}"

    def hosts(self, job: int) -> tuple[str, ...]:
        """Return the nodes on which a job has ranks; empty if the job has not written its file yet."""
        try:
            return tuple(json.loads(self._hosts(job).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return ()

    def note_hosts(self, hosts: Iterable[str]) -> None:
        """Write a file with the nodes on which this job has ranks; jobs on other nodes do not wait for it."""
        partial = self._hosts(self.job).with_suffix(".part")
        partial.write_text(json.dumps(sorted(set(hosts))), encoding="utf-8")
        partial.replace(self._hosts(self.job))

    def _hosts(self, job: int) -> Path:
        return Path(self.directory) / f"hosts-{job}"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """The measurements that a launch must make; the content of ``request.json``."""

    collectives: tuple[str, ...]  # Names in ``collectives.MEASURED``.
    sizes_bytes: tuple[int, ...]  # Message sizes in bytes, counted as ``collectives.Size`` describes.
    choices: Mapping[str, tuple[SweptChoice, ...]] = field(default_factory=dict)
    """Maps a collective to the choices to measure, such as algorithms; without choices the MPI's defaults are
    measured."""
    _: KW_ONLY
    comm_sizes: tuple[int, ...] = ()  # Communicator sizes in ranks; empty: all ranks of the launch.
    ranks: int = 0  # Number of ranks that the launch must have; 0: any.
    budget_s: float
    """Seconds for all calls, with checks and warm-up; each collective's first cell is timed in any case."""
    precision: float
    """Half-width of a median's confidence interval, relative to the median, at which a cell is complete."""
    min_samples: int  # Least number of samples of a cell; cells that are far too slow get fewer.
    max_samples: int  # Largest number of samples of a cell.
    timing: str  # Timing loop: ``native`` (in C), ``python`` (mpi4py), or ``auto``: native if possible.
    sync: str  # ``barrier``: a dissemination barrier of our own before calls; ``window``: start windows.
    check: bool  # Whether results are compared with a reference, outside of the timed region.
    memory: bool = False  # Whether peak resident memory is reported.
    reach: bool = False
    """Whether each call is made only once, without timing, to find out which calls the library refuses.

    If ``expect`` is also empty, ranks exchange no data beforehand, since the tested rules could make the
    library refuse the calls by which data are exchanged.
    """
    seed: int = 0  # Seed of the order of cells and of the data.
    expect: Expectation = Expectation()  # Settings that every rank must have.
    loop: str = "interleaved"  # The order in which calls are timed, one of ``LOOPS``.
    other_loop: str = ""
    """The other one of ``LOOPS``, if each cell is afterwards also measured in that loop, for half as long;
    else empty."""
    beside: tuple[str, ...] = ()
    """Names of other operations, measured briefly to show whether a setting changes their times too."""
    heat: Heat | None = None
    """This job's part in a heat (jobs that measure in turns); None: no other job runs beside this one."""

    def __post_init__(self) -> None:
        """Raise a UserError if the request asks for something that cannot be measured."""
        for name in (*self.collectives, *self.beside):
            if name not in OPERATIONS:
                raise UserError(f"unknown collective {name!r}", allowed(name, OPERATIONS))
        if not self.collectives:
            raise UserError("no collective to measure", allowed("", OPERATIONS))
        for size in self.sizes_bytes:
            if size < 0:
                raise UserError(f"negative message size {size}", "sizes are bytes, 0 or more")
        if not self.sizes_bytes and any(OPERATIONS[name].sized for name in self.collectives):
            raise UserError("no message sizes to measure", "give sizes in bytes, e.g. [8, 1024, 65536]")
        for size in self.comm_sizes:
            if size < 1 or (self.ranks and size > self.ranks):
                raise UserError(
                    f"communicator size {size} with {self.ranks} ranks", f"allowed: 1 … {self.ranks}"
                )
        if self.timing not in ("auto", "native", "python"):
            raise UserError(f"timing {self.timing!r}", allowed(self.timing, ("auto", "native", "python")))
        if self.sync not in ("barrier", "window"):
            raise UserError(f"sync {self.sync!r}", allowed(self.sync, ("barrier", "window")))
        for loop in filter(None, (self.loop, self.other_loop)):
            check_loop(loop, self.sync)
        if not (0 < self.precision < 1 and self.budget_s > 0 and 1 <= self.min_samples <= self.max_samples):
            raise UserError(
                f"precision={self.precision}, budget_s={self.budget_s}, "
                f"min_samples={self.min_samples}, max_samples={self.max_samples}",
                "needed: 0 < precision < 1, budget_s > 0, 1 ≤ min_samples ≤ max_samples",
            )

    def sizes_of(self, collective: str) -> tuple[int, ...]:
        """Return the message sizes in bytes at which a collective is measured; for a barrier only 0."""
        return self.sizes_bytes if OPERATIONS[collective].sized else (0,)

    def other_calls(self, ranks: int) -> tuple["ProbeRequest", ...]:
        """Return a request for each operation of ``beside``, in both loops and with the MPI's defaults.

        Where a rank has a block for each other rank, these blocks together are no larger than the largest
        message that the launch measures. So they need neither more memory nor much more time.
        """
        largest_bytes = max(*self.sizes_bytes, *BESIDE_BYTES)
        template = replace(self, choices={}, comm_sizes=(), beside=(), loop=LOOPS[0])
        template = replace(template, other_loop=LOOPS[1] if self.sync == "barrier" else "")
        requests = []
        for name in self.beside if ranks > 1 else ():
            sizes = tuple(
                size for size in BESIDE_BYTES if size * OPERATIONS[name].blocks(ranks) <= largest_bytes
            )
            requests.append(replace(template, collectives=(name,), sizes_bytes=sizes or BESIDE_BYTES[:1]))
        return tuple(requests)

    def to_json(self) -> str:
        """Return the text of ``request.json``."""
        return json.dumps({"version": VERSION, **plain(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ProbeRequest":
        """Return the request in the text of a ``request.json``.

        Raises:
            UserError: If the text is no request of this version, or nothing that can be measured.
        """
        try:
            document = json.loads(text)
            version = document.pop("version", None)
        except (ValueError, AttributeError, TypeError, RecursionError) as exc:
            raise _unreadable(str(exc), f"expected a {REQUEST} of version {VERSION}") from exc
        if version != VERSION:
            raise UserError(f"request of version {version}", f"this probe reads version {VERSION}")
        return Document("it", _unreadable, own=True).structured(cls, document)


def check_loop(loop: str, sync: str) -> None:
    """Raise an error if an order of calls is unknown, or impossible with this synchronisation.

    Raises:
        UserError: If ``loop`` is not allowed; the message names the scenario's keys.
    """
    if loop not in LOOPS:
        raise UserError(f"probe.options.loop={loop}", allowed(loop, LOOPS))
    if loop == "tight" and sync != "barrier":
        raise UserError(
            f"probe.options.loop={loop} with probe.sync={sync}", "a tight loop needs probe.sync=barrier"
        )


def _unreadable(message: str, hint: str) -> UserError:
    return UserError(f"unreadable request: {message}", hint)


@dataclass(frozen=True, slots=True)
class CellSamples:
    """The raw samples of one cell."""

    collective: str  # Name of the collective, as in the request.
    comm_size: int  # Number of ranks of the communicator.
    message_bytes: int  # Message size as in the request.
    values: Mapping[str, Any]  # Parameter → value of the choice; empty: the MPI's default.
    samples_s: Floats
    """Times of shape ``(n,)``, in seconds.

    In the interleaved loop there is a time for each call, the maximum over the ranks. In the tight loop there
    is a time for each run of calls, the mean on the slowest rank."""
    status: str = "ok"  # A name of ``history.trial.Status``.
    reason: str = ""  # Why the status is not ``ok``, in words.
    validity: Codes | None = None
    """Shape ``(n,)``: for each sample the sum of its ``measure.windows.Validity`` flags, where 0 means valid.

    None: calls were separated by a barrier, and every sample is valid."""
    rounds: Numbers | None = None
    """Shape ``(n,)``: the round of turns in which each sample was taken.

    None: the job did not take turns with others."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """Further figures in seconds, by name.

    A tight loop takes each rank's median over runs, and adds the smallest of the medians (``ranks_min_s``)
    and their average (``ranks_avg_s``), as OSU and IMB print such figures beside the maximum. If the other
    one of ``LOOPS`` was measured too, ``other_loop_s`` is the median of the samples in that loop, and
    ``other_loop_mean_s`` their mean."""

    def __post_init__(self) -> None:
        """Raise a UserError unless the times are a single row, and every other row has its length."""
        columns: list[Any] = [self.samples_s, self.validity, self.rounds]
        rows = [memoryview(row) for row in columns if row is not None]
        formats = ["df"] + ["B"] * (self.validity is not None) + ["i"] * (self.rounds is not None)
        one_row = all(row.ndim == 1 and row.shape == rows[0].shape for row in rows)
        if not one_row or any(row.format not in kind for row, kind in zip(rows, formats, strict=True)):
            shape, kind = rows[0].shape, rows[0].format
            raise UserError(f"{self.collective}: {kind} of shape {shape} are no samples")

    @property
    def valid_s(self) -> Floats:
        """Return the valid samples, in seconds."""
        return self.samples_s if self.validity is None else self.samples_s[self.validity == 0]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The measurements that a launch made; the content of ``result.json`` and ``samples.npz``."""

    status: str  # A name of ``history.trial.Status``.
    reason: str = ""  # Why the status is not ``ok``, in words.
    cells: tuple[CellSamples, ...] = ()  # Samples of the cells, in the order of the request.
    hosts: tuple[str, ...] = ()  # Host name of each rank.
    library: str = ""  # First line of the MPI library's version text.
    timing: str = ""  # The timing loop: ``native`` or ``python``.
    overhead_s: float = math.nan
    """Time that the timing loop itself adds to each call, in seconds; it is reported and never subtracted."""
    memory_bytes: float = math.nan  # Peak resident set of the largest rank, in bytes.
    notes: tuple[str, ...] = ()
    """Notes for the user: warnings of UCX, eliminated cells, fallback of the timing loop."""
    applied: Mapping[str, str] = field(default_factory=dict)  # Variable → the value that was read from it.
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Maps every control variable that can be read to its value, or to each rank's value if ranks differ.

    It is empty except in launches with ``ProbeRequest.reach``."""
    machine: Mapping[str, float] = field(default_factory=dict)
    """Figures, by name, of how other work interfered with the ranks, see ``measure.machine``; empty: not
    known."""
    moments: Mapping[str, float] = field(default_factory=dict)
    """Time at which each part of the launch began on rank 0, in seconds of CLOCK_MONOTONIC.

    The parts are ``python`` (the first line), ``mpi`` (loading mpi4py and MPI), ``imports`` (the probe's own
    modules), ``proof`` (checking the settings), ``kernel`` (compiling or loading the timing loop), ``checks``
    (of results, with warm-up) and ``calls`` (the first timed call)."""
    timed_s: float = math.nan  # Seconds that rank 0 spent in timed calls, including synchronisation.
    taken_out: Mapping[str, TakenOut] = field(default_factory=dict)
    """Maps the number of each job of the same heat that did not complete all of its turns to the reason."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Seconds of a call of each operation of ``ProbeRequest.beside``.

    Keys are name and size, such as ``halo 8``, or ``halo 8 tight`` for the tight loop. The value is a plain
    mean; if jobs took turns, it is the median over visits (blocks of calls in a turn) of plain means."""

    def write(self, directory: Path) -> None:
        """Write the result into the directory of its launch, ``result.json`` last and atomically."""
        rows = {
            f"{kind}{i}": row
            for i, cell in enumerate(self.cells)
            for kind, row in (("c", cell.samples_s), ("v", cell.validity), ("r", cell.rounds))
            if row is not None
        }
        write_rows(directory / SAMPLES, rows)
        document = {"version": VERSION, **plain(self, leave_out=tuple({type(row) for row in rows.values()}))}
        partial = directory / f"{RESULT}.part"
        partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
        partial.replace(directory / RESULT)

    @classmethod
    def read(cls, directory: Path) -> "ProbeResult | None":
        """Return the result in the directory of a launch; None if the probe did not complete there.

        Raises:
            UserError: If the result is damaged or of another version.
        """
        path = directory / RESULT
        if not path.exists():
            return None
        for part, limit_bytes in ((path, _MOST_RESULT), (directory / SAMPLES, _MOST_SAMPLES)):
            if part.exists() and not (part.is_file() and part.stat().st_size <= limit_bytes):
                raise UserError(f"{part}: damaged result: no regular file of at most {limit_bytes >> 20} MiB")
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            version = document.pop("version", None)
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as exc:
            raise UserError(f"{path}: damaged result: {exc}") from exc
        if version != VERSION:
            raise UserError(f"{path}: result of version {version}", f"this program reads version {VERSION}")
        import numpy as np

        try:
            # Opened here, since numpy leaves a damaged file open.
            with (directory / SAMPLES).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                if sum(member.file_size for member in arrays.zip.infolist()) > _MOST_SAMPLES:
                    raise ValueError(f"its samples have more than {_MOST_SAMPLES >> 20} MiB")
                for i, cell in enumerate(document["cells"]):
                    cell |= {"samples_s": arrays[f"c{i}"], "validity": arrays.get(f"v{i}")}
                    cell |= {"rounds": arrays.get(f"r{i}")}
            return Document("it", own=True).structured(cls, document)
        except Exception as exc:  # numpy, zipfile and zlib raise errors of many kinds if bytes are damaged
            raise UserError(f"{path}: damaged result: {type(exc).__name__}: {exc}") from exc
