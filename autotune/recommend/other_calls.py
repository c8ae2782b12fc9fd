"""Effects of a setting on calls that it was not tuned for: a part of a recommendation (step 10).

A setting of a whole job acts on all of its calls. Calls that it slows down are listed with its gains: users
of programs that mostly make the tuned calls may accept that cost; files for all users' jobs should not.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_NAMED = 3  # Number of slower calls that a sentence names, the slowest first; the tables have them all.


class OtherDecision(StrEnum):
    """Says whether a setting makes one call slower."""

    SLOWER = "slower"  # The interval of the ratio lies beyond a loss of ``max_loss``.
    NOT_SLOWER = "not slower"  # A loss of more than ``margin`` is excluded.
    INCONCLUSIVE = "inconclusive"  # Neither holds; more launches may be conclusive.


@dataclass(frozen=True, slots=True)
class OtherCall:
    """Says how fast one call at one size is with a setting, and by default."""

    name: str
    """Name of the call in ``collectives.MEASURED``."""
    message_bytes: int
    """Message size in bytes, as in ``Cell``."""
    default_s: float
    """Plain mean time of the calls by default."""
    tuned_s: float
    """Plain mean time of the calls with the setting."""
    ratio: float
    """Default / tuned, by launches of the same heats."""
    low: float
    """Lower end of the interval of the ratio; the intervals of all calls hold together with 95 %."""
    high: float
    """Upper end of this interval."""
    error: float
    """Standard error of the logarithm of the ratio."""
    at_least: float
    """One-sided lower bound of this ratio by itself with 95 %."""
    decision: OtherDecision
    """Whether the call is slower."""
    tight: bool = False
    """Whether calls came back to back; else they came between calls of other sizes and kinds."""

    @property
    def place(self) -> str:
        """Return call, size and loop in words."""
        size = f"{self.message_bytes} B of " if self.message_bytes else ""
        return f"{size}{self.name}{' back to back' if self.tight else ''}"

    @property
    def text(self) -> str:
        """Return the ratio with its interval, and the call, in words."""
        return f"{self.ratio:.2f}× ({self.low:.2f} … {self.high:.2f}) at {self.place}"


def slower(calls: Iterable[OtherCall]) -> tuple[OtherCall, ...]:
    """Return the calls that are slower, the slowest first."""
    return _decided(calls, OtherDecision.SLOWER)


def unresolved(calls: Iterable[OtherCall]) -> tuple[OtherCall, ...]:
    """Return the calls whose decision is inconclusive, the slowest first."""
    return _decided(calls, OtherDecision.INCONCLUSIVE)


def _decided(calls: Iterable[OtherCall], decision: OtherDecision) -> tuple[OtherCall, ...]:
    """Return the calls with a decision, the slowest first."""
    return tuple(sorted((c for c in calls if c.decision is decision), key=lambda c: c.ratio))


def slower_text(calls: Iterable[OtherCall]) -> str:
    """Return the slowest of the calls that are slower, with their ratios, as text; empty where none is."""
    slow = slower(calls)
    remainder = f" and {len(slow) - _NAMED} more" if len(slow) > _NAMED else ""
    return ", ".join(call.text for call in slow[:_NAMED]) + remainder


def unresolved_text(calls: Iterable[OtherCall]) -> str:
    """Return a sentence that names the inconclusive calls; empty where none is."""
    names = dict.fromkeys(call.name for call in unresolved(calls))
    return f"too few launches to say whether {' or '.join(names)} is slower" if names else ""


def scope_text(calls: Sequence[OtherCall], tuned: Iterable[str]) -> str:
    """Return a sentence on the programs that a setting is for, and on its effect on other calls.

    ``tuned`` names the calls that the setting was tuned for. The text is empty where no other call was
    measured.
    """
    open_text = unresolved_text(calls)
    if slow_text := slower_text(calls):
        first = f"{mostly_text(tuned)}: it makes other calls slower, {slow_text}"
        return "; ".join(filter(None, (first, open_text)))
    names = dict.fromkeys(call.name for call in unresolved(calls))
    safe = [call for call in calls if call.name not in names]
    if not safe:
        return open_text
    worst = max(1.0 - min(call.at_least for call in safe), 0.0)
    listed = ", ".join(dict.fromkeys(call.name for call in safe))
    first = f"other calls ({listed}) at most {100 * worst:.0f} % slower (95 %)"
    return "; ".join(filter(None, (first, open_text)))


def mostly_text(tuned: Iterable[str]) -> str:
    """Return which programs gain from a setting that makes other calls slower, in words."""
    return f"for programs that mostly call {' and '.join(dict.fromkeys(tuned)) or 'what was tuned'}"
