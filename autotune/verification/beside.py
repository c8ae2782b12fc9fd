"""Effects of a setting on patterns that it was not tuned for (step 11 of the flow).

Files apply to every call of every job, and most of what is set for a whole job is a property of single
messages. So launches of the verification also glance at patterns (``verify.also``), in their last
milliseconds, in both loops: between calls of other sizes and patterns, which find caches and the other rank
cold, and back to back, as a program without pauses calls them. Nothing that is decided rests on it. Intervals
are Welch's of mean logarithms, together right with 95 % (Bonferroni).

References:
    B. L. Welch, "The generalization of 'Student's' problem when several different population variances are
    involved", Biometrika 34 (1947) 28–35.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from autotune.history.objectives import ratio_of
from autotune.history.trial import Observation, Subject
from autotune.verification.sequential import ONE_IN_TWENTY

_PREFIX = "beside "


@dataclass(frozen=True, slots=True)
class Beside:
    """One pattern at one size: how many times as fast as on the untouched stack."""

    pattern: str
    message_bytes: int
    ratio: float
    low: float  # Of its interval.
    high: float
    tight: bool = False  # Whether calls came back to back.

    @property
    def text(self) -> str:
        """In words."""
        interval = f"({self.low:.2f} … {self.high:.2f})"
        how = " back to back" if self.tight else ""
        return f"{self.ratio:.2f}× {interval} at {self.message_bytes} B of {self.pattern}{how}"


def beside(launches: Iterable[Observation]) -> tuple[Beside, ...]:
    """Effects in launches of one setting and of the untouched stack; empty where they measured no pattern."""
    from scipy.stats import ttest_ind

    sides: dict[str, tuple[list[float], list[float]]] = {}
    for one in {o.trial.number: o for o in launches if o.ok}.values():
        for name, seconds in one.extra.items():
            if name.startswith(_PREFIX) and seconds > 0:
                both = sides.setdefault(name.removeprefix(_PREFIX), ([], []))
                both[one.trial.subject is Subject.DEPLOYED].append(float(np.log(seconds)))
    known = {name: both for name, both in sides.items() if min(map(len, both)) > 2}  # their spread is known
    found = []
    for name, (untouched, deployed) in sorted(known.items()):
        gain = float(np.mean(untouched) - np.mean(deployed))
        if np.ptp(untouched) + np.ptp(deployed) > 0:
            test = ttest_ind(untouched, deployed, equal_var=False)
            low, high = map(float, test.confidence_interval(1 - ONE_IN_TWENTY / len(known)))
        else:
            low = high = gain
        pattern, size, *loop = name.split(" ")
        ratios = ratio_of(gain), ratio_of(low), ratio_of(high)
        found.append(Beside(pattern, int(size), *ratios, bool(loop)))
    return tuple(found)


def said(found: Iterable[Beside], margin: float) -> str:
    """Where patterns are slower in a loop, the worst first, with the other loop.

    Else those that lose no more than ``margin`` by their intervals, and those whose intervals are too wide.
    """
    ordered = sorted(found, key=lambda one: one.ratio)
    others = {(one.pattern, one.message_bytes, not one.tight): one for one in ordered}
    slower: list[Beside] = []
    for one in ordered:
        other = others.get((one.pattern, one.message_bytes, one.tight))
        if one.high < 1.0 and one not in slower:
            slower += [one] if other is None else [one, other]
    if slower:
        return f"; beside it slower: {', '.join(one.text for one in slower)}"
    unresolved = dict.fromkeys(one.pattern for one in ordered if one.low < 1.0 - margin)
    resolved = [one for one in ordered if one.pattern not in unresolved]
    parts = []
    if resolved:
        names = ", ".join(dict.fromkeys(one.pattern for one in resolved))
        worst = max(1.0 - min(one.low for one in resolved), 0.0)
        parts.append(f"; {names} at most {100 * worst:.0f} % slower")
    if unresolved:
        parts.append(f"; too few launches to say whether {' or '.join(unresolved)} is slower")
    return "".join(parts)
