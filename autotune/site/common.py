"""One job-wide setting for all jobs of a site, and the jobs that are better off with one of their own.

Place in the flow: what each measured job gains under each setting → the common one, and those apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

J = TypeVar("J")  # A job.
S = TypeVar("S")  # A job-wide setting.


@dataclass(frozen=True, slots=True)
class Offered:
    """One job under one job-wide setting, with the rules that belong to it."""

    gains: Sequence[float]  # ln(default / tuned) of each slot.
    loses: bool = False  # Whether a slot, or a launch, loses with confidence.

    @property
    def mean(self) -> float:
        """The mean gain of a slot."""
        return sum(self.gains) / len(self.gains) if self.gains else 0.0


def common(offers: Mapping[J, Mapping[S, Offered]], usual: S, others: Sequence[S]) -> S:
    """The setting that gains most on all jobs together, of those that lose at none.

    Args:
        offers: by job and setting; a setting that a job lacks was not measured there.
        usual: the library's own setting, under which it decides where nothing is known.
        others: settings of which is known how they do at the jobs that were not measured.
    """
    fit = [s for s in others if all(s in by and not by[s].loses for by in offers.values())]
    return max((usual, *fit), key=lambda s: sum(sum(by[s].gains) for by in offers.values()))


def apart(offers: Mapping[J, Mapping[S, Offered]], chosen: S, split_gain: float) -> dict[J, S]:
    """Jobs that gain so much more a slot, on the log scale, under another setting, and that setting."""
    found = {}
    for job, by in offers.items():
        best = max((s for s in by if not by[s].loses), key=lambda s: by[s].mean, default=chosen)
        if by[best].mean - by[chosen].mean > split_gain:
            found[job] = best
    return found
