"""Time in a recording beside the collectives themselves: parts of a `Recording`.

Beside the flow of a campaign. Seconds are means over the ranks of the run, as everywhere in a recording. They
come with the interval that holds the program's own: every call of a microsecond or more is timed, of shorter
ones a sample, and what hides between two stamps of the clock is bounded by the time between them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

FAMILIES = ("collectives", "point-to-point", "one-sided", "files", "completion", "setup")
"""As ``enum family`` of the recorder numbers them; completion: waits and tests, beyond what they did for
requests of the other families."""
DISTANCES = ("", "self", "socket", "node", "network")
"""As ``enum distance`` of the recorder numbers them: how far the peer is; empty where there is none, or it is
not known."""
PATTERNS = ("none", "same", "wandering", "periodic")
"""Late ranks: nobody is late; always the same (imbalance); ever others (noise); at a period."""
_TWO_SIDED = ("send", "bsend", "ssend", "rsend", "recv")
PROBED: Mapping[str, str] = {
    **dict.fromkeys((*_TWO_SIDED, "sendrecv", "sendrecv_replace"), "pingpong"),
    **{f"i{name}": "pingpong" for name in _TWO_SIDED},
    **{f"{name}_init": "pingpong" for name in _TWO_SIDED},
    **{f"{r}{name}": name for name in ("put", "get", "accumulate") for r in ("", "r")},
    **{f"{r}get_accumulate": "accumulate" for r in ("", "r")},
}
"""Operation → what the probe measures of it: half of a round trip, or the transfer with its flush."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Durations of calls, of all ranks together, in logarithmic classes."""

    lower_s: tuple[float, ...] = ()  # Where each class that is not empty begins; it ends at √2 times that.
    calls: tuple[float, ...] = ()  # In each; where not all were timed those that were stand for the others.

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: not as many numbers as classes, or one that is none.
        """
        if len(self.lower_s) != len(self.calls) or not all(
            math.isfinite(x) and x >= 0 for x in (*self.lower_s, *self.calls)
        ):
            raise ValueError("a histogram needs a finite number of at least 0 for each class")


@dataclass(frozen=True, slots=True)
class LateRank:
    """A rank that others waited for."""

    rank: int  # In MPI_COMM_WORLD.
    last: float  # Share of the calls that it was the last to come to.
    caused_s: float  # Waiting of the others which it caused by that, mean over the ranks of the run.
    waited_s: float  # Its own waiting, as a share of its time in collectives.


@dataclass(frozen=True, slots=True)
class Lateness:
    """For whom ranks waited in calls alike."""

    examined: int  # Calls of which the times of all ranks are known.
    pattern: str  # One of ``PATTERNS``.
    period_s: float | None  # Seconds between late calls where they come at a period; None: they do not.
    ranks: tuple[LateRank, ...]  # Those that caused most first, at most 16.
    outside: float | None = None
    """Share of the waiting that late ranks are known to have caused outside of MPI, by what the program did
    or by losing their cores; None: not known."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: an unknown pattern, or a share that is none.
        """
        if self.pattern not in PATTERNS:
            raise ValueError(f"unknown pattern {self.pattern!r}")
        if self.outside is not None and not 0 <= self.outside <= 1:
            raise ValueError(f"a share of {self.outside}")


@dataclass(frozen=True, slots=True)
class OtherCalls:
    """Calls that are no collectives, alike in operation, distance and power of two of the message size."""

    family: str  # One of ``FAMILIES`` but the first.
    operation: str
    """MPI's name, lower case without ``mpi_``: ``waitall``, ``win_fence``, ``file_write_at_all``."""
    distance: str  # One of ``DISTANCES``.
    message_bytes: float  # Mean size, of waits that of the largest message; 0 where there is none.
    calls: int  # Number over all ranks, exact; of several runs the mean, rounded.
    calls_per_rank: float  # Mean over all ranks of the run.
    seconds: float
    """In these calls and in the waits for what they began, mean over all ranks; of a completion all of it."""
    seconds_low: float  # With ``seconds_high`` the interval (95 %) that holds ``seconds``.
    seconds_high: float  # Its other end.
    completing_s: float = 0.0
    """Part of ``seconds`` in MPI_Wait and its kin; of a completion, seconds already in other entries."""
    timed: int = 0  # Calls that were timed, of ``calls``.
    histogram: Histogram | None = None  # Durations of the calls themselves.
    derived: int = 0  # Calls, of ``calls``, whose datatype is not one of MPI's own.

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: a word or number that is none.
        """
        if self.family not in FAMILIES[1:] or self.distance not in DISTANCES:
            raise ValueError(f"unknown family {self.family!r} or distance {self.distance!r}")
        known = (self.message_bytes, self.calls_per_rank, self.seconds, self.seconds_low, self.seconds_high)
        if not all(
            0 <= x < math.inf for x in (*known, self.completing_s, self.calls, self.timed, self.derived)
        ):
            raise ValueError("a number that is not finite or below 0")

    @property
    def pattern(self) -> str:
        """The pattern that has such calls: those that are waited for later make a halo; empty: none."""
        name = PROBED.get(self.operation, "")
        if name == "pingpong" and self.operation.endswith("_init"):
            return "halo_persistent"
        return "halo" if name == "pingpong" and self.operation.startswith("i") else name

    @property
    def own_s(self) -> float:
        """Their share of the time in MPI: seconds in other entries are not counted again."""
        return max(self.seconds - self.completing_s, 0.0) if self.family == "completion" else self.seconds


@dataclass(frozen=True, slots=True)
class Timeline:
    """Time of a mean rank in MPI in each slice of the run; of jobs in turn, of the largest."""

    slice_s: float  # Length of a slice; the first begins at the end of MPI_Init.
    seconds: Mapping[str, tuple[float, ...]]
    """Family → ``(n_slices,)`` seconds. Time in completions is that of the requests' own families."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: not all of one length.
        """
        if len({len(values) for values in self.seconds.values()}) > 1 or not self.slice_s > 0:
            raise ValueError("a timeline has as many slices in each family")


@dataclass(frozen=True, slots=True)
class Started:
    """How a run was started, as far as it changes what MPI does."""

    launcher: str = ""  # Name of the launcher; empty: none that is known.
    options: tuple[tuple[str, ...], ...] = ()
    """Its options with their values, without dashes: ``("mca", "btl", "self,tcp")``; those that say how many
    ranks, and where its files are, among them."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Rank 0's variables that MPI libraries read (``OMPI_MCA_*``, ``UCX_*``, ``I_MPI_*``, …). What
    ``--mca`` and ``-x`` have set is there too."""


def means_of(runs: Sequence[tuple[OtherCalls, ...]]) -> tuple[OtherCalls, ...]:
    """Calls of several runs, ``(n_runs,)``, as one; those that a run did not make are none in it."""
    found: dict[tuple[str, str, int], list[OtherCalls]] = {}
    for run in runs:
        for one in run:
            key = one.operation, one.distance, int(one.message_bytes).bit_length()
            found.setdefault(key, []).append(one)
    return tuple(sorted((_mean(alike, len(runs)) for alike in found.values()), key=lambda c: -c.seconds))


def _mean(alike: Sequence[OtherCalls], n: int) -> OtherCalls:
    def mean(name: str) -> float:
        return math.fsum(getattr(one, name) for one in alike) / n

    calls = sum(one.calls for one in alike)
    return replace(
        alike[0],
        message_bytes=math.fsum(one.message_bytes * one.calls for one in alike) / max(calls, 1),
        calls=round(calls / n),
        calls_per_rank=mean("calls_per_rank"),
        seconds=mean("seconds"),
        seconds_low=mean("seconds_low"),
        seconds_high=mean("seconds_high"),
        completing_s=mean("completing_s"),
        timed=round(mean("timed")),
        derived=round(mean("derived")),
        histogram=mean_histogram([one.histogram for one in alike], n),
    )


def mean_histogram(histograms: Sequence[Histogram | None], n: int) -> Histogram | None:
    """The mean over ``n`` runs of those that there are; None: there is none."""
    sums: dict[float, float] = {}
    for one in histograms:
        for lower_s, calls in zip(one.lower_s, one.calls, strict=True) if one else ():
            sums[lower_s] = sums.get(lower_s, 0.0) + calls / n
    return Histogram(tuple(sorted(sums)), tuple(sums[key] for key in sorted(sums))) if sums else None
