"""One job-wide setting for all jobs of a site, and the jobs that gain from one of their own.

Place in the flow: each measured job's gains under each setting → the common setting, and the exceptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

J = TypeVar("J")  # Type of a job.
S = TypeVar("S")  # Type of a job-wide setting.


@dataclass(frozen=True, slots=True)
class Offered:
    """One job under one job-wide setting, with the rules that belong to it."""

    gains: Sequence[float]  # ln(default / tuned) of each slot.
    loses: bool = False  # Whether a slot, or a launch, is significantly slower.

    @property
    def mean(self) -> float:
        """Return the mean gain of a slot; 0 without slots."""
        return sum(self.gains) / len(self.gains) if self.gains else 0.0


def common(offers: Mapping[J, Mapping[S, Offered]], usual: S, candidates: Sequence[S]) -> S:
    """Return the setting with the largest sum of gains over all jobs, of those that lose at none.

    Args:
        offers: Offers by job and setting; a setting that a job lacks was not measured there.
        usual: The library's own setting, under which it decides where nothing is known.
        candidates: Settings for which predictions at the unmeasured jobs exist.
    """
    fit = [s for s in candidates if all(s in by and not by[s].loses for by in offers.values())]
    return max((usual, *fit), key=lambda s: sum(sum(by[s].gains) for by in offers.values()))


def apart(offers: Mapping[J, Mapping[S, Offered]], common_setting: S, split_gain: float) -> dict[J, S]:
    """Return the jobs whose mean gain under another setting is larger by ``split_gain``, and that setting."""
    exceptions = {}
    for job, by_setting in offers.items():
        best = max(
            (s for s in by_setting if not by_setting[s].loses),
            key=lambda s: by_setting[s].mean,
            default=common_setting,
        )
        if by_setting[best].mean - by_setting[common_setting].mean > split_gain:
            exceptions[job] = best
    return exceptions
