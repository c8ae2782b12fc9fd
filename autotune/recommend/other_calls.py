"""Effects of a setting on calls for which it was not tuned, as a part of a recommendation.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

A job-wide setting acts on all calls of a job. Reports list calls that become slower next to the gains: users
of programs that mostly make the tuned calls may accept this cost, but a setting in the files for the jobs of
all users should not have it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

_NAMED = 3
"""Largest number of slower calls that a sentence names, the slowest first; tables list all of them."""


class OtherDecision(StrEnum):
    """Decision whether a setting makes one call slower."""

    SLOWER = "slower"  # The whole interval of the ratio shows a loss of more than ``max_loss``.
    NOT_SLOWER = "not slower"  # The interval excludes a loss of more than ``margin``.
    INCONCLUSIVE = "inconclusive"  # Neither of the two is shown; more launches may decide.


@dataclass(frozen=True, slots=True)
class OtherCall:
    """Times of one call at one message size, with a setting and with the defaults."""

    name: str
    """Name of the call in ``collectives.MEASURED``."""
    message_bytes: int
    """Message size in bytes, as in ``Cell``."""
    default_s: float
    """Arithmetic mean of the times of the calls with the defaults."""
    tuned_s: float
    """Arithmetic mean of the times of the calls with the setting."""
    ratio: float
    """Ratio default / tuned from launches of the same heats. A heat is a group of launches of both sides that
    run at the same time and take turns."""
    low: float
    """Lower end of the interval of the ratio; with 95 % confidence the intervals of all calls hold at the
    same time."""
    high: float
    """Upper end of the interval of the ratio."""
    error: float
    """Standard error of the logarithm of the ratio."""
    at_least: float
    """One-sided lower 95 % bound of the ratio, for this call alone."""
    decision: OtherDecision
    """Decision whether the call is slower with the setting."""
    tight: bool = False
    """Whether the calls were made back to back; otherwise calls of other sizes and kinds were made between
    them."""

    @property
    def place(self) -> str:
        """Return the message size and the name of the call as text, and whether it was made back to back."""
        size = f"{self.message_bytes} B of " if self.message_bytes else ""
        return f"{size}{self.name}{' back to back' if self.tight else ''}"

    @property
    def text(self) -> str:
        """Return the ratio with its interval and the place of the call, as text."""
        return f"{self.ratio:.2f}× ({self.low:.2f} … {self.high:.2f}) at {self.place}"


def slower(calls: Iterable[OtherCall]) -> tuple[OtherCall, ...]:
    """Return the calls that are slower, the slowest first."""
    return _decided(calls, OtherDecision.SLOWER)


def unresolved(calls: Iterable[OtherCall]) -> tuple[OtherCall, ...]:
    """Return the calls whose decision is inconclusive, the slowest first."""
    return _decided(calls, OtherDecision.INCONCLUSIVE)


def _decided(calls: Iterable[OtherCall], decision: OtherDecision) -> tuple[OtherCall, ...]:
    return tuple(sorted((c for c in calls if c.decision is decision), key=lambda c: c.ratio))


def slower_text(calls: Iterable[OtherCall]) -> str:
    """Name the slowest of the calls that became slower, with their ratios; empty if no call is slower."""
    slow = slower(calls)
    remainder = f" and {len(slow) - _NAMED} more" if len(slow) > _NAMED else ""
    return ", ".join(call.text for call in slow[:_NAMED]) + remainder


def unresolved_text(calls: Iterable[OtherCall]) -> str:
    """Return a sentence that names the inconclusive calls; empty if there is no such call."""
    names = dict.fromkeys(call.name for call in unresolved(calls))
    return f"too few launches to say whether {' or '.join(names)} is slower" if names else ""


def scope_text(calls: Sequence[OtherCall], tuned: Iterable[str]) -> str:
    """Return a sentence that says which programs a setting suits and how it affects other calls.

    ``tuned`` contains the names of the calls for which the setting was tuned. The text is empty if no other
    calls were measured.
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
    """Name the programs that gain from a setting although it makes other calls slower."""
    return f"for programs that mostly call {' and '.join(dict.fromkeys(tuned)) or 'what was tuned'}"
