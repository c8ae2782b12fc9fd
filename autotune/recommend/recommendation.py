"""A recommendation: a setting with its per-size rules, its gains over the defaults, and its origin.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from autotune.history.objectives import Z95, Slot, known_end, place_text, ratio_of
from autotune.history.trial import Rule
from autotune.recommend.other_calls import OtherCall, scope_text
from autotune.space import Point, check_words
from autotune.text_table import html_table


@dataclass(frozen=True, slots=True)
class Gain:
    """Times in one slot with the defaults and with the recommendation."""

    slot: Slot  # Collective, communicator size and message size.
    tuned_s: float  # Measured time with the recommendation, in seconds.
    tuned_sem_s: float  # Standard error of ``tuned_s``.
    default_s: float  # Measured time with the stack's own defaults, in seconds.
    default_sem_s: float  # Standard error of ``default_s``.
    other_loop: tuple[float, float, float] | None = None
    """Ratio default / tuned, with the ends of its 95 % interval, in the probe's other loop around the calls;
    None if it was not measured."""
    compared: tuple[float, float, float] | None = None
    """Ratio default / tuned, with the ends of its 95 % interval, from fresh launches in turn; None if there
    were no such launches, so that ``ratio`` is that of the two measured times."""

    @property
    def ratio(self) -> float:
        """Return the ratio default / tuned of the times; above 1 the recommendation is faster."""
        return self.compared[0] if self.compared else self.default_s / self.tuned_s

    @property
    def interval(self) -> tuple[float, float]:
        """Return the ends of an interval of about 95 % for the ratio."""
        if self.compared:
            return self.compared[1:]
        return self.ratio * ratio_of(-Z95 * self.error), self.ratio * ratio_of(Z95 * self.error)

    @property
    def saved(self) -> tuple[float, float, float]:
        """Return the saved share of the default's time, and the ends of the interval of this share."""
        low, high = self.interval
        least = -math.inf if math.isnan(known_end(low)) else 1.0 - 1.0 / low
        return 1.0 - 1.0 / self.ratio, least, 1.0 - 1.0 / high

    @property
    def error(self) -> float:
        """Return the standard error of the logarithm of the ratio.

        The error follows from the interval of ``compared`` if there is one, else from the errors of the two
        measured times.
        """
        if self.compared:
            _, low, high = self.compared
            return math.log(high / low) / (2 * Z95) if low > 0 else math.inf
        return math.hypot(self.tuned_sem_s / self.tuned_s, self.default_sem_s / self.default_s)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One job-wide setting with per-size rules: no more than parameter files can express."""

    point: Point
    """Job-wide values."""
    rules: tuple[Rule, ...]
    """Per-size rules, sorted by collective, communicator size and message size."""
    gains: tuple[Gain, ...] = ()
    """Gain over the defaults in each slot (collective, communicator size, message size)."""
    provenance: "Provenance" = field(default_factory=lambda: Provenance())
    """Origin of the recommendation, for the comments in exported files."""
    average: tuple[float, float, float] | None = None
    """Geometric mean of default / tuned, with the ends of its 95 % interval, from pairs of fresh launches;
    None if there are no such pairs."""
    others: tuple[OtherCall, ...] = ()
    """Effects on calls for which the setting was not tuned, from fresh launches."""

    @property
    def scope(self) -> str:
        """Return which programs the setting suits and how it affects other calls; empty if not measured."""
        return scope_text(self.others, (gain.slot[0] for gain in self.gains))

    @property
    def effects(self) -> tuple[Gain, ...]:
        """Return the gains of the tuned calls, and those of all other calls that were measured.

        An application saves the sum over all of its calls. Other calls were measured on all ranks, both back
        to back and between calls of different kinds. Only the latter measurements are used, because programs
        make calls in this way.
        """
        between = (call for call in self.others if not call.tight)
        return (*self.gains, *(_as_gain(call, self.provenance.ranks) for call in between))

    @property
    def speedup(self) -> float:
        """Return the geometric mean of default / tuned over the slots; NaN if there are no gains."""
        if self.average is not None:
            return self.average[0]
        if not self.gains:
            return math.nan
        return ratio_of(sum(math.log(g.ratio) for g in self.gains) / len(self.gains))

    def _repr_html_(self) -> str:
        """Return the setting and its gains as a table, which a notebook shows."""
        setting = ", ".join(f"{name}={value}" for name, value in self.point.items()) or "the defaults"
        header = ("call", "tuned [µs]", "default [µs]", "speed-up", "95 %")
        rows = [
            (
                *(place_text(g.slot), f"{g.tuned_s * 1e6:.3g}", f"{g.default_s * 1e6:.3g}"),
                *(f"{g.ratio:.2f}×", f"{g.interval[0]:.2f} … {g.interval[1]:.2f}"),
            )
            for g in self.gains
        ]
        return html_table(f"{setting} [{self.provenance.verified}]", header, rows)


def _as_gain(call: OtherCall, ranks: int) -> Gain:
    """Return the effect on another call as a ``Gain``, with a 95 % interval for this call alone."""
    low, high = (call.ratio * ratio_of(side * Z95 * call.error) for side in (-1, 1))
    slot = (call.name, ranks, call.message_bytes)
    return Gain(slot, call.tuned_s, 0.0, call.default_s, 0.0, compared=(call.ratio, low, high))


class Checked(StrEnum):
    """State of the verification, which compares a recommendation with the defaults on fresh launches."""

    NOT = "not"  # No launch was made for the verification.
    UNFINISHED = "unfinished"  # The verification needs more launches.
    UNUSABLE = "unusable"  # No pair of launches could be compared.
    HOLDS = "holds"  # The recommendation is better than the defaults.
    REFUSED = "refused"  # No setting was better, so the defaults are recommended.

    @property
    def done(self) -> bool:
        """Return whether the verification is conclusive."""
        return self in (Checked.HOLDS, Checked.REFUSED)


Line = tuple[str, str, str]
"""A labelled line: label, text, and a command line of a shell, which stands alone below it; empty: none."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of several campaigns that were merged into a recommendation."""

    campaign: str
    date: str  # ISO date of the campaign's last launch.
    nodes: int
    tables: tuple[tuple[str, int], ...]
    """Tables whose rules come from this campaign, as (collective, communicator size)."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of a recommendation: the campaign, the machine, and the result of the verification."""

    campaign: str = ""  # Name of the campaign's scenario.
    date: str = ""  # ISO date of the last launch.
    stack: str = ""  # MPI implementation and version, UCX version.
    nodes: int = 1
    ranks: int = 0  # Number of ranks of the campaign; 0 if unknown.
    commutative: bool = False
    """Whether the rules are valid only for programs whose reduction operations commute."""
    stamp: str = ""  # ``SIMULATED (…)`` if no real MPI ran; otherwise empty.
    verified: str = "UNVERIFIED"
    """Result of the verification as text, such as ``verified: 1.34× (1.31 … 1.37) on 6 fresh launches``."""
    verdict: tuple[tuple[str, str], ...] = ()
    """Result of a verification that holds, as lines (label, text): its speed-up, and what bounds it."""
    checked: Checked = Checked.NOT  # Result of the verification as a value.
    choices: tuple[str, ...] = ()
    """Texts on the settings that may be exported, including this one: one line for each."""
    ending: tuple[Line, ...] = ()
    """How the campaign stands: what to use now, what is promising, why, and how to go on."""
    env: tuple[tuple[str, str], ...] = ()
    """Environment variables that set the job-wide values as they were measured, and further variables that
    these need."""
    placement: tuple[tuple[str, str], ...] = ()
    """Values of ``map_by`` and ``bind_to``, if the recommendation sets them."""
    family: str = ""  # MPI implementation, as in ``Space.stack``; empty if unknown.
    library: str = ""  # Path of the measured MPI library; empty if unknown.
    mpirun: str = ""  # Path of the measured MPI's mpirun; empty if unknown.
    both_sides: tuple[tuple[str, str], ...] = ()
    """Environment variables that every launch had, including launches with the stack's defaults. They are not
    part of the recommendation."""
    boot: tuple[tuple[str, str], ...] = ()  # Recommended settings of the machine's firmware.
    parts: tuple[Part, ...] = ()
    """Campaigns of which the recommendation was merged; empty if it comes from a single campaign."""

    def __post_init__(self) -> None:
        """Raise an error for names and values, possibly from a user's file, that a script could misread.

        Raises:
            SpaceError: a name cannot be that of a variable, or a value is not a placement or has several
                lines.
        """
        for name, value in (*self.env, *self.both_sides):  # ``both_sides`` appear in comments only.
            check_words("env" if (name, value) in self.env else "both sides", name, value)
        for name, value in self.placement:
            check_words(name, name, value)
