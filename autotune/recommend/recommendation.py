"""A recommendation: a setting with its rules, its gains and its origin (step 10 of the flow)."""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.history.objectives import Z95, Slot, ratio_of
from autotune.history.trial import Rule
from autotune.recommend.other_calls import OtherCall, scope_text
from autotune.space import Point, check_words


@dataclass(frozen=True, slots=True)
class Gain:
    """Compares the default with the tuned setting in one slot."""

    slot: Slot  # Collective, communicator size and message size.
    tuned_s: float  # Measured time of the recommendation.
    tuned_sem_s: float  # Standard error of that time.
    default_s: float  # Measured time of the stack's own defaults.
    default_sem_s: float  # Standard error of that time.
    other_loop: tuple[float, float, float] | None = None
    """Default / tuned in the probe's other loop with its 95 % interval; None: not measured."""
    compared: tuple[float, float, float] | None = None
    """Default / tuned with its 95 % interval by fresh launches side by side; None: there were none, and the
    ratio is that of the two measured times."""

    @property
    def ratio(self) -> float:
        """Return default / tuned; above one means that tuned is faster."""
        return self.compared[0] if self.compared else self.default_s / self.tuned_s

    @property
    def interval(self) -> tuple[float, float]:
        """Return the interval of about 95 % for the ratio."""
        if self.compared:
            return self.compared[1:]
        return self.ratio * ratio_of(-Z95 * self.error), self.ratio * ratio_of(Z95 * self.error)

    @property
    def saved(self) -> tuple[float, float, float]:
        """Return the share of the default's time that is saved, with the ends of its interval."""
        low, high = self.interval
        return 1.0 - 1.0 / self.ratio, 1.0 - 1.0 / low if low > 0 else -math.inf, 1.0 - 1.0 / high

    @property
    def error(self) -> float:
        """Return the standard error of the logarithm of the ratio.

        It follows from the interval of fresh launches where there is one, else from the errors of both times.
        """
        if self.compared:
            _, low, high = self.compared
            return math.log(high / low) / (2 * Z95) if low > 0 else math.inf
        return math.hypot(self.tuned_sem_s / self.tuned_s, self.default_sem_s / self.default_s)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One job-wide setting and a per-size table, which are exactly what parameter files can express."""

    point: Point
    """The job-wide values."""
    rules: tuple[Rule, ...]
    """The per-size table, sorted by collective, communicator size and message size."""
    gains: tuple[Gain, ...] = ()
    """The gain on the baseline in each slot."""
    provenance: "Provenance" = field(default_factory=lambda: Provenance())
    """The origin, for the comments in every exported file."""
    average: tuple[float, float, float] | None = None
    """Geometric mean of default / tuned with its 95 % interval, by pairs of fresh launches; None: no pair."""
    others: tuple[OtherCall, ...] = ()
    """Effects on calls that the setting was not tuned for, by fresh launches."""

    @property
    def scope(self) -> str:
        """Return for which programs the setting is, and its effect on other calls; empty: not measured."""
        return scope_text(self.others, (gain.slot[0] for gain in self.gains))

    @property
    def effects(self) -> tuple[Gain, ...]:
        """Return the gains of the tuned calls and of all other calls that were measured.

        An application saves the sum over all of its calls. Other calls count as measured on all ranks and
        between calls of other kinds, as programs make them.
        """
        between = (call for call in self.others if not call.tight)
        return (*self.gains, *(_as_gain(call, self.provenance.ranks) for call in between))

    @property
    def speedup(self) -> float:
        """Return the geometric mean of default / tuned over the slots; NaN without a baseline."""
        if self.average is not None:
            return self.average[0]
        if not self.gains:
            return math.nan
        return ratio_of(sum(math.log(g.ratio) for g in self.gains) / len(self.gains))


def _as_gain(call: OtherCall, ranks: int) -> Gain:
    """Return the effect on another call as a gain, with an interval of 95 % for this call by itself."""
    low, high = (call.ratio * ratio_of(side * Z95 * call.error) for side in (-1, 1))
    slot = (call.name, ranks, call.message_bytes)
    return Gain(slot, call.tuned_s, 0.0, call.default_s, 0.0, compared=(call.ratio, low, high))


class Checked(StrEnum):
    """How far a recommendation has been compared with the stack's own defaults on fresh launches."""

    NOT = "not"  # No launch was made to compare it.
    UNFINISHED = "unfinished"  # The comparison needs more launches.
    UNUSABLE = "unusable"  # No pair of launches could be compared.
    HOLDS = "holds"  # The recommendation is better than the defaults.
    REFUSED = "refused"  # No setting was better, so the defaults are recommended.

    @property
    def done(self) -> bool:
        """Return whether the verification is conclusive."""
        return self in (Checked.HOLDS, Checked.REFUSED)


@dataclass(frozen=True, slots=True)
class Part:
    """One campaign among those that were merged into a recommendation."""

    campaign: str  # Name of the campaign.
    date: str  # ISO date of its last launch.
    nodes: int  # Number of nodes of the campaign.
    tables: tuple[tuple[str, int], ...]  # (collective, communicator size) of the rules that come from it.


@dataclass(frozen=True, slots=True)
class Provenance:
    """Says where a recommendation comes from."""

    campaign: str = ""  # Name of the scenario.
    date: str = ""  # ISO date of the last launch.
    stack: str = ""  # MPI implementation and version, UCX version.
    nodes: int = 1  # Number of nodes of the campaign.
    ranks: int = 0  # Number of ranks of the campaign; 0: not known.
    commutative: bool = False  # Whether it is only for programs whose reduction operations all commute.
    stamp: str = ""  # ``SIMULATED (…)`` where no real MPI ran, else empty.
    verified: str = "UNVERIFIED"
    """Result of the verification, e.g. ``verified: 1.34× (1.31 … 1.37) on 6 fresh launches``."""
    checked: Checked = Checked.NOT  # Result of the verification as a value.
    choices: tuple[str, ...] = ()  # Settings that may be exported, this one among them, a line each.
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables that set the job-wide values as measured, with those that they depend on."""
    placement: tuple[tuple[str, str], ...] = ()
    """``map_by`` and ``bind_to`` where the recommendation sets them."""
    family: str = ""  # MPI implementation, as in ``Space.stack``; empty: not known.
    library: str = ""  # Path of the MPI library that was measured; empty: not known.
    both_sides: tuple[tuple[str, str], ...] = ()
    """Environment of every launch, those of the untouched stack included; no part of the recommendation."""
    boot: tuple[tuple[str, str], ...] = ()  # Values of the boot level: settings of the machine's firmware.
    parts: tuple[Part, ...] = ()  # The campaigns of a merged recommendation; empty where it is not merged.

    def __post_init__(self) -> None:
        """Refuse names and values that a script could misread, since they may come from a user's document.

        Raises:
            SpaceError: a name cannot be that of a variable, or a value is no placement or has several lines.
        """
        for name, value in (*self.env, *self.both_sides):  # ``both_sides`` appear in comments only.
            check_words("env" if (name, value) in self.env else "both sides", name, value)
        for name, value in self.placement:
            check_words(name, name, value)
