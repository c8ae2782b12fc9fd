"""A recommendation: a setting with its rules, its gains, and its origin (step 10)."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.history.objectives import Z95, Slot, ratio_of
from autotune.history.trial import Rule
from autotune.space import Point, check_words


@dataclass(frozen=True, slots=True)
class Gain:
    """Default against tuned in one slot: the times as measured, and the speed-up as far as it is believed."""

    slot: Slot  # Where.
    tuned_s: float  # Measured time of the recommendation.
    tuned_sem_s: float  # Its standard error.
    default_s: float  # Measured time of the stack's own defaults.
    default_sem_s: float  # Its standard error.
    other_loop: tuple[float, float, float] | None = None
    """Default / tuned in the probe's other loop with its 95 % interval; None: not measured."""
    compared: tuple[float, float, float] | None = None
    """Default / tuned with its 95 % interval by fresh launches side by side; None: both times alone."""

    @property
    def ratio(self) -> float:
        """Default / tuned: above one means faster than the default."""
        return self.compared[0] if self.compared else self.default_s / self.tuned_s

    @property
    def interval(self) -> tuple[float, float]:
        """About 95 % for the ratio."""
        if self.compared:
            return self.compared[1:]
        return self.ratio * ratio_of(-Z95 * self.error), self.ratio * ratio_of(Z95 * self.error)

    @property
    def saved(self) -> tuple[float, float, float]:
        """Share of the default's time that is saved, with the ends of its interval."""
        low, high = self.interval
        return 1.0 - 1.0 / self.ratio, 1.0 - 1.0 / low if low > 0 else -math.inf, 1.0 - 1.0 / high

    @property
    def error(self) -> float:
        """Standard error of the logarithm of the ratio, by the interval or by those of both times."""
        if self.compared:
            _, low, high = self.compared
            return math.log(high / low) / (2 * Z95) if low > 0 else math.inf
        return math.hypot(self.tuned_sem_s / self.tuned_s, self.default_sem_s / self.default_s)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One job-wide setting and a per-size table: exactly what parameter files can say."""

    point: Point
    """The job-wide values."""
    rules: tuple[Rule, ...]
    """The per-size table, sorted by collective, communicator size and size."""
    gains: tuple[Gain, ...] = ()
    """Against the baseline in each slot."""
    provenance: "Provenance" = field(default_factory=lambda: Provenance())
    """For the comments in every exported file."""
    average: tuple[float, float, float] | None = None
    """Default / tuned on the whole with its 95 % interval, as pairs of fresh launches show it; else None."""

    @property
    def speedup(self) -> float:
        """Geometric mean of default / tuned over the slots; NaN without a baseline."""
        if self.average is not None:
            return self.average[0]
        if not self.gains:
            return math.nan
        return ratio_of(sum(math.log(g.ratio) for g in self.gains) / len(self.gains))


class Checked(StrEnum):
    """How far a recommendation has been compared with the stack's own defaults on fresh launches."""

    NOT = "not"  # No launch was made for it.
    UNFINISHED = "unfinished"  # More launches are wanted.
    UNUSABLE = "unusable"  # No pair of launches could be compared.
    HOLDS = "holds"  # It is better.
    REFUSED = "refused"  # Nothing was: what is recommended are the defaults.

    @property
    def done(self) -> bool:
        """Whether the verification is conclusive."""
        return self in (Checked.HOLDS, Checked.REFUSED)


@dataclass(frozen=True, slots=True)
class Part:
    """One campaign among those that were merged."""

    campaign: str  # Its name.
    date: str  # ISO date of its last launch.
    nodes: int  # Of the campaign.
    tables: tuple[tuple[str, int], ...]  # (collective, communicator size) of the rules that come from it.


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a recommendation comes from."""

    campaign: str = ""  # Name of the scenario.
    date: str = ""  # ISO date of the last launch.
    stack: str = ""  # MPI implementation and version, UCX version.
    nodes: int = 1  # Of the campaign.
    ranks: int = 0  # Of the campaign.
    stamp: str = ""  # ``SIMULATED (…)`` where no real MPI ran, else empty.
    verified: str = "UNVERIFIED"
    """Result of the verification, e.g. ``verified: 1.34× (1.31 … 1.37) on 6 fresh launches``."""
    checked: Checked = Checked.NOT  # The same as a value.
    choices: tuple[str, ...] = ()  # Settings that may be exported, this one among them, a line each.
    env: tuple[tuple[str, str], ...] = ()
    """Environment that holds the job-wide values, as measured, with what they mean nothing without."""
    placement: tuple[tuple[str, str], ...] = ()
    """``map_by`` and ``bind_to`` where the recommendation sets them."""
    family: str = ""  # MPI implementation, as in ``Space.stack``; empty: not known.
    library: str = ""  # Path of the MPI library that was measured; empty: not known.
    both_sides: tuple[tuple[str, str], ...] = ()
    """Environment of every launch, the untouched ones too: no part of the recommendation."""
    boot: tuple[tuple[str, str], ...] = ()  # Values of the boot level: what the machine's firmware was set to
    parts: tuple[Part, ...] = ()  # Of a merged one: the campaigns.

    def __post_init__(self) -> None:
        """Refuse what a script could take for something else: it may come out of anybody's document.

        Raises:
            SpaceError: names that no variable has, or values that are no placement or of several lines.
        """
        for name, value in (*self.env, *self.both_sides):  # the latter are comments alone
            check_words("env" if (name, value) in self.env else "both sides", name, value)
        for name, value in self.placement:
            check_words(name, name, value)
