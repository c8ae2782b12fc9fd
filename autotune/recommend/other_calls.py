"""Effects of a setting on calls for which it was not tuned: a part of a recommendation.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

A setting of a whole job acts on all of the job's calls. Calls that become slower are listed next to the
gains: users of programs that mostly make the tuned calls may accept this cost, but files for the jobs of all
users should not contain such a setting.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_NAMED = 3  # Number of slower calls that a sentence names, the slowest first; the tables list all of them.


class OtherDecision(StrEnum):
    """Says whether a setting makes one call slower."""

    SLOWER = "slower"  # The whole interval of the ratio is beyond a loss of ``max_loss``.
    NOT_SLOWER = "not slower"  # The interval excludes a loss of more than ``margin``.
    INCONCLUSIVE = "inconclusive"  # Neither is shown; more launches may be conclusive.


@dataclass(frozen=True, slots=True)
class OtherCall:
    """The time of one call at one message size, with a setting and with the defaults."""

    name: str
    """Name of the call in ``collectives.MEASURED``."""
    message_bytes: int
    """Message size in bytes, as in ``Cell``."""
    default_s: float
    """Plain mean time of the calls with the defaults."""
    tuned_s: float
    """Plain mean time of the calls with the setting."""
    ratio: float
    """Default / tuned, from launches of the same heats (launches of both sides that are alive at the same
    time)."""
    low: float
    """Lower end of the interval of the ratio. With 95 % confidence the intervals of all calls are true at
    once."""
    high: float
    """Upper end of the interval of the ratio."""
    error: float
    """Standard error of the logarithm of the ratio."""
    at_least: float
    """One-sided lower 95 % bound of the ratio of this call alone."""
    decision: OtherDecision
    """Whether the call is slower with the setting."""
    tight: bool = False
    """Whether the calls were made back to back; if not, between calls of other sizes and kinds."""

    @property
    def place(self) -> str:
        """Return the name of the call, its message size, and whether it was made back to back, as text."""
        size = f"{self.message_bytes} B of " if self.message_bytes else ""
        return f"{size}{self.name}{' back to back' if self.tight else ''}"

    @property
    def text(self) -> str:
        """Return the ratio with its interval, and the call, as text."""
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
    """Return the calls that became slower by most, with their ratios, as text; empty if none is slower."""
    slow = slower(calls)
    remainder = f" and {len(slow) - _NAMED} more" if len(slow) > _NAMED else ""
    return ", ".join(call.text for call in slow[:_NAMED]) + remainder


def unresolved_text(calls: Iterable[OtherCall]) -> str:
    """Return a sentence that names the inconclusive calls; empty if there are none."""
    names = dict.fromkeys(call.name for call in unresolved(calls))
    return f"too few launches to say whether {' or '.join(names)} is slower" if names else ""


def scope_text(calls: Sequence[OtherCall], tuned: Iterable[str]) -> str:
    """Return a sentence on which programs a setting suits, and on its effect on other calls.

    ``tuned`` contains the names of the calls for which the setting was tuned. The text is empty if no other
    call was measured.
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
