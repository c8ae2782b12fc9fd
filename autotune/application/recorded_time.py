"""Time in a recording outside of the collectives themselves: parts of a `Recording`.

Apart from the flow of a campaign. Seconds are means over the ranks of the run, as everywhere in a recording.
They have an interval that contains the program's own seconds: all calls of a microsecond or more are timed, a
sample of shorter ones is, and the time between two stamps of the clock bounds the calls in between.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

FAMILIES = ("collectives", "point-to-point", "one-sided", "files", "completion", "setup")
"""Families of operations, in the order of ``enum family`` of the recorder. Completion has waits and tests, as
far as they did not complete requests of the other families."""
DISTANCES = ("", "self", "socket", "node", "network")
"""Distances to the peer, in the order of ``enum distance`` of the recorder; empty where there is no peer, or
the distance is not known."""
PATTERNS = ("none", "same", "wandering", "periodic")
"""How ranks come late: nobody does; always the same rank (imbalance); changing ranks (noise); at a period."""
_TWO_SIDED = ("send", "bsend", "ssend", "rsend", "recv")
PROBED: Mapping[str, str] = {
    **dict.fromkeys((*_TWO_SIDED, "sendrecv", "sendrecv_replace"), "pingpong"),
    **{f"i{name}": "pingpong" for name in _TWO_SIDED},
    **{f"{name}_init": "pingpong" for name in _TWO_SIDED},
    **{f"{r}{name}": name for name in ("put", "get", "accumulate") for r in ("", "r")},
    **{f"{r}get_accumulate": "accumulate" for r in ("", "r")},
}
"""Operation → the probe's pattern for it: half of a round trip, or the transfer with its flush."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations of calls of all ranks together, in logarithmic classes."""

    lower_s: tuple[float, ...] = ()
    """Seconds at which each class that is not empty begins; it ends at √2 times that."""
    calls: tuple[float, ...] = ()
    """Calls in each class; where not all were timed, those that were represent the others."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: There are not as many numbers as classes, or one is not finite or below 0.
        """
        if len(self.lower_s) != len(self.calls) or not all(
            math.isfinite(x) and x >= 0 for x in (*self.lower_s, *self.calls)
        ):
            raise ValueError("a histogram needs a finite number of at least 0 for each class")


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that others waited for."""

    rank: int  # Rank in MPI_COMM_WORLD.
    last: float  # Share of the calls to which it came last.
    caused_s: float
    """Seconds of the others' waiting which it caused by coming last, mean over the ranks of the run."""
    waited_s: float  # Seconds that it waited itself in these calls.


@dataclass(frozen=True, slots=True)
class Lateness:
    """For whom ranks waited in calls of the same kind."""

    examined: int  # Number of calls of which the times of all ranks are known.
    pattern: str  # One of ``PATTERNS``.
    period_s: float | None  # Seconds between late calls where they come at a period; None where they do not.
    ranks: tuple[LateRank, ...]  # Late ranks, at most 16, those that caused most waiting first.
    outside: float | None = None
    """Share of the waiting that late ranks are known to have caused outside of MPI, by the program itself or
    by losing their cores; None where it is not known."""

    def __post_init__(self) -> None:
        """Check the pattern and the share.

        Raises:
            ValueError: The pattern is unknown, or the share is not between 0 and 1.
        """
        if self.pattern not in PATTERNS:
            raise ValueError(f"unknown pattern {self.pattern!r}")
        if self.outside is not None and not 0 <= self.outside <= 1:
            raise ValueError(f"a share of {self.outside}")


@dataclass(frozen=True, slots=True)
class OtherCalls:
    """Calls that are no collectives, of one operation, distance and power of two of the message size."""

    family: str  # One of ``FAMILIES``, without the first.
    operation: str
    """MPI's name, lower case without ``mpi_``: ``waitall``, ``win_fence``, ``file_write_at_all``."""
    distance: str  # One of ``DISTANCES``.
    message_bytes: float  # Mean size in bytes, for waits that of the largest message; 0 where there is none.
    calls: int  # Exact number over all ranks; for several runs the mean, rounded.
    calls_per_rank: float  # Number, mean over all ranks of the run.
    seconds: float
    """Seconds in these calls and in the waits for what they began, mean over all ranks; for a completion all
    of its time."""
    seconds_low: float  # With ``seconds_high`` the interval (95 %) that contains ``seconds``.
    seconds_high: float  # Upper end of that interval.
    completing_s: float = 0.0
    """Part of ``seconds`` in MPI_Wait and similar calls; for a completion, seconds that other entries contain
    already."""
    timed: int = 0  # Number of timed calls among ``calls``.
    histogram: Histogram | None = None  # Durations of the calls themselves.
    derived: int = 0  # Number of calls among ``calls`` whose datatype is not one of MPI's own.

    def __post_init__(self) -> None:
        """Check names and numbers.

        Raises:
            ValueError: A name is unknown, or a number is not finite or below 0.
        """
        if self.family not in FAMILIES[1:] or self.distance not in DISTANCES:
            raise ValueError(f"unknown family {self.family!r} or distance {self.distance!r}")
        numbers = (self.message_bytes, self.calls_per_rank, self.seconds, self.seconds_low, self.seconds_high)
        if not all(
            0 <= x < math.inf for x in (*numbers, self.completing_s, self.calls, self.timed, self.derived)
        ):
            raise ValueError("a number that is not finite or below 0")

    @property
    def pattern(self) -> str:
        """Return the probe's pattern that has such calls; empty where none has.

        Calls that are waited for later make a halo.
        """
        name = PROBED.get(self.operation, "")
        if name == "pingpong" and self.operation.endswith("_init"):
            return "halo_persistent"
        return "halo" if name == "pingpong" and self.operation.startswith("i") else name

    @property
    def own_s(self) -> float:
        """Return their seconds in MPI, without those that other entries contain already."""
        return max(self.seconds - self.completing_s, 0.0) if self.family == "completion" else self.seconds


@dataclass(frozen=True, slots=True)
class Timeline:
    """Time of a mean rank in MPI in each slice of the run; with several jobs, of the largest."""

    slice_s: float  # Length of a slice in seconds; the first begins at the end of MPI_Init.
    seconds: Mapping[str, tuple[float, ...]]
    """Family → ``(n_slices,)`` seconds. Time in completions counts for the requests' own families."""

    def __post_init__(self) -> None:
        """Check the lengths.

        Raises:
            ValueError: Families differ in their number of slices, or a slice has no length.
        """
        if len({len(values) for values in self.seconds.values()}) > 1 or not self.slice_s > 0:
            raise ValueError("a timeline has as many slices in each family")


@dataclass(frozen=True, slots=True)
class Started:
    """How a run was started, as far as it affects MPI."""

    launcher: str = ""  # Name of the launcher; empty where it is not a known one.
    options: tuple[tuple[str, ...], ...] = ()
    """Its options with their values, without dashes: ``("mca", "btl", "self,tcp")``; options for the number
    of ranks and the place of its files are included."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of rank 0 that MPI libraries read (``OMPI_MCA_*``, ``UCX_*``, ``I_MPI_*``, …), including
    those that ``--mca`` and ``-x`` set."""


def means_of(runs: Sequence[tuple[OtherCalls, ...]]) -> tuple[OtherCalls, ...]:
    """Return the mean calls of several runs, ``(n_runs,)``.

    Calls that a run did not make count as zero calls in it.
    """
    groups: dict[tuple[str, str, int], list[OtherCalls]] = {}
    for run in runs:
        for entry in run:
            key = entry.operation, entry.distance, int(entry.message_bytes).bit_length()
            groups.setdefault(key, []).append(entry)
    return tuple(sorted((_mean(group, len(runs)) for group in groups.values()), key=lambda c: -c.seconds))


def _mean(group: Sequence[OtherCalls], n: int) -> OtherCalls:
    def mean(name: str) -> float:
        return math.fsum(getattr(entry, name) for entry in group) / n

    calls = sum(entry.calls for entry in group)
    return replace(
        group[0],
        message_bytes=math.fsum(entry.message_bytes * entry.calls for entry in group) / max(calls, 1),
        calls=round(calls / n),
        calls_per_rank=mean("calls_per_rank"),
        seconds=mean("seconds"),
        seconds_low=mean("seconds_low"),
        seconds_high=mean("seconds_high"),
        completing_s=mean("completing_s"),
        timed=round(mean("timed")),
        derived=round(mean("derived")),
        histogram=mean_histogram([entry.histogram for entry in group], n),
    )


def mean_histogram(histograms: Sequence[Histogram | None], n: int) -> Histogram | None:
    """Return the mean over ``n`` runs; a missing histogram counts as empty. None where all are missing."""
    sums: dict[float, float] = {}
    for histogram in histograms:
        for lower_s, calls in zip(histogram.lower_s, histogram.calls, strict=True) if histogram else ():
            sums[lower_s] = sums.get(lower_s, 0.0) + calls / n
    return Histogram(tuple(sorted(sums)), tuple(sums[key] for key in sorted(sums))) if sums else None
