"""Choose one job-wide setting for all jobs of a site, and find jobs that gain from a setting of their own.

Place in the flow: the gains of each measured job under each setting → the common setting, and the exceptions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

J = TypeVar("J")  # Type of a job.
S = TypeVar("S")  # Type of a job-wide setting.


@dataclass(frozen=True, slots=True)
class Offered:
    """The gains of one job under one job-wide setting and its rules."""

    gains: Sequence[float]
    """ln(default time / tuned time) of each slot (collective, communicator size, message size)."""
    loses: bool = False  # Whether the job is significantly slower with the setting.

    @property
    def mean(self) -> float:
        """Return the mean gain over the slots; 0 if there are none."""
        return sum(self.gains) / len(self.gains) if self.gains else 0.0


def common(offers: Mapping[J, Mapping[S, Offered]], usual: S, candidates: Sequence[S]) -> S:
    """Return the setting with the largest sum of gains over all jobs, among those that slow no job.

    The library's own setting ``usual`` is always allowed. If the offers of a job lack a setting, the setting
    was not measured on that job, and is not allowed.
    """
    fit = [s for s in candidates if all(s in by and not by[s].loses for by in offers.values())]
    return max((usual, *fit), key=lambda s: sum(sum(by[s].gains) for by in offers.values()))


def apart(offers: Mapping[J, Mapping[S, Offered]], common_setting: S, split_gain: float) -> dict[J, S]:
    """Return the jobs that need a setting of their own, each with that setting.

    A job needs one if its mean gain under its best setting exceeds its mean gain under the common setting by
    more than ``split_gain``.
    """
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
