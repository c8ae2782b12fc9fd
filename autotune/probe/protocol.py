"""The two documents between a launch and the probe: ``request.json`` and ``result.json``.

Both sides import this module, the ranks too: standard library and numpy only. Raw samples travel beside the
result in ``samples.npz`` (compressed); ``result.json`` is written last and atomically, so that its presence
is the record of completion (an exit code is not: a launcher returns 0 when its allocation is lost).

Notation: a *request* names cells by (collective, communicator size, message size, choice index).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.collectives import COLLECTIVES, MEASURED, Size
from autotune.errors import UserError, allowed
from autotune.measure.machine import UsualCore
from autotune.structure import Document, plain

VERSION = 1  # Of both documents.

REQUEST, RESULT, SAMPLES = "request.json", "result.json", "samples.npz"
"""File names inside the directory of a launch."""
_MOST_RESULT, _MOST_SAMPLES = 64 << 20, 1 << 30
"""Bytes: a cell has a few hundred in the first, and a minute of calls of 1 µs, 60 million of them, 480 MB."""


WARM_UP = 2
"""Calls of each cell before the first that counts: connections and buffers are made in the first ones."""
UNTIMED = 2 + WARM_UP  # Calls of a cell that no time is kept for: two checks of results, and these.
NOT_TIMED = "cells were not timed"  # In the note of a launch whose budget did not reach every cell.
OTHER_SHARE = 0.5  # Of the time for the campaign's own loop, what the other one gets on top.
LOOPS = ("interleaved", "tight")
"""In which order calls are timed: blocks of all cells in turn, or one cell's calls back to back."""
BESIDE_BYTES = (8, 8192, 262144)
"""Sizes of ``ProbeRequest.beside``: a small message, the first power of two beyond Open MPI's eager limit in
shared memory, and one beyond every eager limit of the shipped spaces."""
BESIDE_CALLS = 20  # Calls of each of them, at least: launches differ by more than their medians are unsure.


@dataclass(frozen=True, slots=True)
class SweptChoice:
    """One call-level choice as the probe applies it."""

    values: Mapping[str, Any]  # Parameter → value, carried through to the result.
    cvars: Mapping[str, int | str] = field(default_factory=dict)
    """MPI_T control variable → value to write before the communicator is duplicated; empty: write nothing."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Variables that the library reads once: choices with different ones are launches of their own."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Settings that the probe must find on every rank; otherwise the launch is invalid."""

    library: str = ""  # Real path of the MPI library of the launcher; empty: any.
    env: Mapping[str, str] = field(default_factory=dict)  # Environment variables that each rank must see.
    cvars: Mapping[str, str] = field(default_factory=dict)
    """MPI_T control variables and the value that each must read back as."""
    ucx: bool = False  # Whether UCX must be in use, its variables be known to it and its transports exist.
    ucx_values: Mapping[str, str] = field(default_factory=dict)
    """Variables that must be in effect in UCX, from wherever it read them."""


@dataclass(frozen=True, slots=True)
class Heat:
    """The place of one job among those that are alive at once and measure in turns."""

    directory: str  # Of the heat, where the driver notes which jobs have ended.
    token: str  # Names the file in which the jobs of a node meet; nobody else knows it.
    job: int  # This one's number, from 0.
    jobs: int  # How many there are.
    seconds: float  # From its first turn to its last: of all jobs together.
    seed: int = 0  # Of the order of jobs and message sizes, the same for all of them.
    slice_s: float = 1e-3  # Duration of one cell in a turn; at least one call is timed.
    sizes_a_turn: int = 8  # Message sizes that a turn visits; the others wait for the job's next one.
    join_s: float = 60.0  # How long a job waits for the others to start.
    turn_limit_s: float = 30.0  # After which a job that does not end its turn is taken out and killed.

    def __post_init__(self) -> None:
        """Refuse what is no heat.

        Raises:
            UserError: a job that is none of the heat's, a token that is no name, or a time that is none.
        """
        if not 0 <= self.job < self.jobs:
            raise UserError(f"job {self.job} of a heat of {self.jobs}", f"allowed: 0 … {self.jobs - 1}")
        if not (self.token.isascii() and self.token.isalnum()):
            raise UserError(f"heat with the token {self.token!r}", "expected letters and digits")
        times = (self.seconds, self.slice_s, self.sizes_a_turn, self.join_s, self.turn_limit_s)
        if not all(0 < seconds < math.inf for seconds in times):
            raise UserError("a heat with times of 0 s or less", "all of its times are above 0")

    def ended(self, job: int) -> Path:
        """The file by which the driver notes that a job has ended."""
        return Path(self.directory) / f"ended-{job}"


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """The measurements of one launch."""

    collectives: tuple[str, ...]  # Of ``collectives.MEASURED``.
    sizes_bytes: tuple[int, ...]  # Message sizes, counted as in ``Cell``.
    choices: Mapping[str, tuple[SweptChoice, ...]] = field(default_factory=dict)
    """For each collective the choices to sweep; a collective without any is measured as the stack is."""
    _: KW_ONLY
    comm_sizes: tuple[int, ...] = ()  # Communicator sizes; empty: the world.
    ranks: int = 0  # Ranks that the launch was given; 0: do not check.
    budget_s: float  # For all calls, with checks and warm-up; a first cell of each collective is timed anyway
    precision: float
    """Stop a cell when the half-width of its median's confidence interval is this share of it."""
    min_samples: int  # At least so many samples a cell (hopeless ones excepted).
    max_samples: int  # At most so many samples a cell.
    timing: str  # ``native`` (C kernel), ``python`` (mpi4py loop), or ``auto``: native where it can be had.
    sync: str  # ``barrier``: own dissemination barrier; ``window``: synchronised start windows.
    check: bool  # Whether results are compared with a reference, outside of the timed region.
    memory: bool = False  # Whether peak resident memory is reported.
    reach: bool = False
    """Whether each call is made once only, to see which ones the library refuses; nothing is timed.

    Without any expectation the ranks agree on nothing: rules could refuse what they would agree by.
    """
    seed: int = 0  # Of the order of cells and of the data.
    expect: Expectation = Expectation()  # What must be found on the ranks.
    loop: str = "interleaved"  # One of ``LOOPS``.
    other_loop: str = ""
    """One of them in which each cell is measured too, afterwards and for half as long; empty: in none."""
    usual_core: UsualCore = field(default_factory=UsualCore)  # How near and how fast the cores mostly are.
    patience_s: float = 0.0  # How long to wait for it, and to measure again what lost it.
    beside: tuple[str, ...] = ()  # Patterns measured at a glance: what else do the settings change?
    heat: Heat | None = None  # Other jobs that are alive meanwhile, in turns with this one; None: it is alone

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UserError: unknown collective, negative size, or a number out of its range.
        """
        for name in (*self.collectives, *self.beside):
            if name not in MEASURED:
                raise UserError(f"unknown collective {name!r}", allowed(name, MEASURED))
        if not self.collectives:
            raise UserError("no collective to measure", allowed("", MEASURED))
        for size in self.sizes_bytes:
            if size < 0:
                raise UserError(f"negative message size {size}", "sizes are bytes, 0 or more")
        if not self.sizes_bytes and any(_sized(name) for name in self.collectives):
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
        """The message sizes at which a collective is measured: a barrier has none, and counts as 0 bytes."""
        return self.sizes_bytes if _sized(collective) else (0,)

    def to_json(self) -> str:
        """The document."""
        return json.dumps({"version": VERSION, **plain(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> "ProbeRequest":
        """The request in a document.

        Raises:
            UserError: no JSON, another version, unknown or missing keys, or values that cannot be measured.
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
    """Refuse a way to order calls that there is not, or not with this synchronisation.

    Raises:
        UserError: the message names the scenario's keys.
    """
    if loop not in LOOPS:
        raise UserError(f"probe.options.loop={loop}", allowed(loop, LOOPS))
    if loop == "tight" and sync != "barrier":
        raise UserError(
            f"probe.options.loop={loop} with probe.sync={sync}", "a tight loop needs probe.sync=barrier"
        )


def _sized(collective: str) -> bool:
    return COLLECTIVES[collective].size is not Size.NONE


def _unreadable(message: str, hint: str) -> UserError:
    return UserError(f"unreadable request: {message}", hint)


@dataclass(frozen=True, slots=True)
class CellSamples:
    """The raw samples of one cell."""

    collective: str  # As in the request.
    comm_size: int  # Ranks of the communicator.
    message_bytes: int  # As in the request.
    values: Mapping[str, Any]  # The call-level values of the choice; empty: the stack's own.
    samples_s: NDArray[np.float64]
    """Shape ``(n,)``: for each call the maximum over the ranks; of a tight loop for each run of calls their
    mean on the slowest rank."""
    status: str = "ok"  # A name of ``Status``.
    reason: str = ""  # In words, where the status is not ``ok``.
    validity: NDArray[np.uint8] | None = None
    """Shape ``(n,)``: for each sample the sum of its ``measure.windows.Validity`` flags, 0 is valid; None:
    calls were separated by a barrier, and every sample is."""
    rounds: NDArray[np.int32] | None = None
    """Shape ``(n,)``: of a heat, the round of turns in which each sample was taken; None: no turns."""
    extra: Mapping[str, float] = field(default_factory=dict)
    """A tight loop's median over runs of the fastest rank's mean (``ranks_min_s``), and the average
    over ranks of theirs (``ranks_avg_s``), as OSU and IMB print them beside the maximum. Where the other loop
    was measured too, the median of its samples (``other_loop_s``)."""

    def __post_init__(self) -> None:
        """Check the shapes.

        Raises:
            UserError: not one row of times with one flag for each.
        """
        times = self.samples_s
        flags = np.zeros(times.shape, np.uint8) if self.validity is None else self.validity
        rounds = np.zeros(times.shape, np.int32) if self.rounds is None else self.rounds
        one_row = times.ndim == 1 and times.dtype.kind == "f" and times.shape == flags.shape == rounds.shape
        if not one_row or flags.dtype != np.uint8 or rounds.dtype != np.int32:
            raise UserError(f"{self.collective}: {times.dtype} of shape {times.shape} are no samples")

    @property
    def valid_s(self) -> NDArray[np.float64]:
        """The samples that may be used."""
        return self.samples_s if self.validity is None else self.samples_s[self.validity == 0]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The results of one launch."""

    status: str  # A name of ``Status``.
    reason: str = ""  # In words, where the status is not ``ok``.
    cells: tuple[CellSamples, ...] = ()  # In the order in which they were declared.
    hosts: tuple[str, ...] = ()  # Host name of each rank.
    library: str = ""  # Version text of the MPI library, first line.
    timing: str = ""  # How calls were timed: ``native`` or ``python``.
    overhead_s: float = math.nan
    """Measured overhead of the timing loop per call, reported and never subtracted."""
    memory_bytes: float = math.nan  # Peak resident set of the largest rank.
    library_bytes: Mapping[str, float] = field(default_factory=dict)
    """MPI_T performance variables that count the library's own bytes: name → value on the largest rank."""
    notes: tuple[str, ...] = ()
    """Notes for the user: warnings of UCX, eliminated cells, fallback of the timing loop."""
    applied: Mapping[str, str] = field(default_factory=dict)  # What was read back: variable → value.
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Every control variable that can be read → its value; where ranks differ, each rank's, in order. Only
    launches that make each call once have them."""
    machine: Mapping[str, float] = field(default_factory=dict)
    """Interference with the ranks, see ``measure.machine``; empty: not known."""
    taken_out: Mapping[str, str] = field(default_factory=dict)
    """Jobs of the same heat that did not end all of their turns: number → what became of it, in words."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """For each pattern beside the request its name and size, ``halo 8`` → median seconds; in the tight
    loop ``halo 8 tight``."""

    def write(self, directory: Path) -> None:
        """Store the result in the directory of its launch, ``result.json`` last and atomically."""
        arrays: dict[str, NDArray[Any]] = {f"c{i}": cell.samples_s for i, cell in enumerate(self.cells)}
        arrays |= {f"v{i}": cell.validity for i, cell in enumerate(self.cells) if cell.validity is not None}
        arrays |= {f"r{i}": cell.rounds for i, cell in enumerate(self.cells) if cell.rounds is not None}
        np.savez_compressed(directory / SAMPLES, **arrays)  # type: ignore[arg-type] # numpy's stub of **kwds
        document = {"version": VERSION, **plain(self, leave_out=np.ndarray)}
        partial = directory / f"{RESULT}.part"
        partial.write_text(json.dumps(document, indent=1), encoding="utf-8")
        partial.replace(directory / RESULT)

    @classmethod
    def read(cls, directory: Path) -> "ProbeResult | None":
        """The result in the directory of a launch; None where no probe completed one.

        Raises:
            UserError: a result that is damaged or of another version.
        """
        path = directory / RESULT
        if not path.exists():
            return None
        for part, most in ((path, _MOST_RESULT), (directory / SAMPLES, _MOST_SAMPLES)):
            if part.exists() and not (part.is_file() and part.stat().st_size <= most):
                raise UserError(f"{part}: damaged result: no regular file of at most {most >> 20} MiB")
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            version = document.pop("version", None)
        except (OSError, ValueError, AttributeError, TypeError, RecursionError) as exc:
            raise UserError(f"{path}: damaged result: {exc}") from exc
        if version != VERSION:
            raise UserError(f"{path}: result of version {version}", f"this program reads version {VERSION}")
        try:
            # Opened here: numpy leaves a file open that it finds damaged.
            with (directory / SAMPLES).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
                if sum(one.file_size for one in arrays.zip.infolist()) > _MOST_SAMPLES:
                    raise ValueError(f"its samples have more than {_MOST_SAMPLES >> 20} MiB")
                for i, cell in enumerate(document["cells"]):
                    cell |= {"samples_s": arrays[f"c{i}"], "validity": arrays.get(f"v{i}")}
                    cell |= {"rounds": arrays.get(f"r{i}")}
            return Document("it", own=True).structured(cls, document)
        except Exception as exc:  # at damaged bytes numpy, zipfile and zlib raise whatever they like
            raise UserError(f"{path}: damaged result: {type(exc).__name__}: {exc}") from exc
