"""Test whether a setting fails more often than the untouched stack (the MPI's own defaults).

A launch that failed has no time, so it says nothing about speed; it is counted here. Let F of N launches have
failed, and let n of the N launches and f of the F failures be the setting's. If both sides fail alike, the
probability of so many or more failures of the setting is that of a hypergeometric distribution (Fisher's
exact test, one-sided):

    p = Σ_{k ≥ f} C(n, k) C(N − n, F − k) / C(N, F).

All launches of the untouched stack so far count, whatever setting they were compared with. If p is at most
one in twenty, the setting *fails more often*, and is refused. A single failure does not show how often a
setting fails, so one failure decides nothing. Yet a job that dies costs more than any gain, so the burden of
proof is on the setting: launches continue while p ≤ 1/2. If all launches are used up with two or more
failures and p < 1/2, the setting *may fail more often*, and is refused. A single wrong result is enough to
refuse a setting.

A launch that ended well after an attempt that was lost is no failure, unless such attempts are significantly
more frequent with the setting, at one in twenty: otherwise a setting that kills every fifth node would never
be refused. A launch whose job never started is not counted.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from autotune.history.trial import Observation, Status, Subject
from autotune.verification.sequential import ONE_IN_TWENTY

_EVEN = 0.5 + 1e-9
"""Largest p at which the setting has more than its share of the failures, with an allowance for rounding."""
_LEAST = 2
"""Least number of failures that shows how often a setting fails: a single failure may be a rare event."""
_WORDS = {Status.TIMEOUT: "hung", Status.WRONG_RESULT: "gave wrong results", Status.LOST: "were lost"}


def failure(observation: Observation, attempts: bool = False) -> Status | None:
    """Return how a launch failed, as a whole or by a wrong result of some call; None if it did not fail.

    ``attempts`` says whether a launch that ended well after lost attempts counts as lost, too.
    """
    if attempts and observation.ok and observation.lost_before:
        return Status.LOST
    if any(e.status is Status.WRONG_RESULT for e in observation.estimates):
        return Status.WRONG_RESULT
    return None if observation.ok else observation.status


@dataclass(frozen=True, slots=True)
class Failures:
    """Hold the failures among launches of a setting, and among launches with the stack's own defaults."""

    deployed: tuple[Status, ...] = ()  # How launches of the setting failed, one status each.
    n_deployed: int = 0  # Number of launches of the setting.
    untouched: tuple[Status, ...] = ()  # How launches with the stack's own defaults failed, one status each.
    n_untouched: int = 0  # Number of launches with the stack's own defaults.

    @classmethod
    def of(cls, launches: Iterable[Observation]) -> "Failures":
        """Count the failures in these launches of a setting and of the stack's own defaults."""
        observations = list(launches)
        sides = {side: [o for o in observations if o.trial.subject is side] for side in Subject}
        return cls.between(sides[Subject.DEPLOYED], sides[Subject.UNTOUCHED])

    @classmethod
    def between(cls, tuned: Iterable[Observation], reference: Iterable[Observation]) -> "Failures":
        """Count the failures in launches of a setting, and in those of the reference."""
        ran = [[o for o in side if not o.never_ran] for side in (tuned, reference)]
        excused = [[o for o in side if o.ok and o.lost_before] for side in ran]
        lost = [tuple(Status.LOST for _ in side) for side in excused]
        lost_more = cls(lost[0], len(ran[0]), lost[1], len(ran[1])).surely_more(ONE_IN_TWENTY)
        sides = [[failure(o, lost_more) for o in side] for side in ran]
        deployed, untouched = (tuple(s for s in side if s is not None) for side in sides)
        return cls(deployed, len(sides[0]), untouched, len(sides[1]))

    @property
    def any(self) -> bool:
        """Whether any launch of the setting or of the defaults failed."""
        return bool(self.deployed or self.untouched)

    @property
    def wrong(self) -> bool:
        """Whether the setting gave a wrong result."""
        return Status.WRONG_RESULT in self.deployed

    @property
    def more(self) -> bool:
        """Whether the setting surely fails more often than the defaults, or gives wrong results."""
        return self.surely_more(ONE_IN_TWENTY)

    @property
    def doubtful(self) -> bool:
        """Whether the setting may fail more often, so that it is not exported."""
        return self.wrong or (len(self.deployed) >= _LEAST and self._chance() < 1 - _EVEN)

    @property
    def unsettled(self) -> bool:
        """Whether more launches are needed, since the setting has more than its share of the failures."""
        return self.wrong or (bool(self.deployed) and self._chance() <= _EVEN)

    def surely_more(self, alpha: float) -> bool:
        """Whether the setting fails more often than the defaults, significant at the error rate ``alpha``."""
        return self.wrong or (len(self.deployed) >= _LEAST and self._chance() <= alpha)

    def starts_to_exclude(self, rate: float) -> int:
        """Return how many more launches without a failure would exclude a failure rate of the setting.

        No launches are needed if the defaults fail too and the setting fails no more often: then the machine
        is at fault. To exclude a rate of one in ten takes 29 launches, or 46 if one of them failed.
        """
        if rate >= 1.0 or (self.untouched and not self.unsettled):
            return 0
        needed = self.n_deployed
        while not excludes_rate(len(self.deployed), needed, rate):
            needed += 1
        return needed - self.n_deployed

    @property
    def objection(self) -> str:
        """Return the objection to the setting, as the end of a sentence; empty if there is none."""
        if self.wrong:
            return "gave wrong results"
        how = "fails" if self.more else "may fail" if self.doubtful else ""
        return how and f"{how} more often than the untouched stack"

    def _chance(self) -> float:
        """Return p, the probability of so many or more failures of the setting if both sides fail alike."""
        from scipy.stats import hypergeom

        failed, launches = len(self.deployed) + len(self.untouched), self.n_deployed + self.n_untouched
        return float(hypergeom.sf(len(self.deployed) - 1, launches, failed, self.n_deployed))

    @property
    def text(self) -> str:
        """Return in words how often each side failed, and how; empty if neither failed."""
        if not self.any:
            return ""
        tuned_text = f"{_counted(self.deployed)} of its {self.n_deployed} launches"
        return f"{tuned_text}, {_counted(self.untouched)} of the {self.n_untouched} untouched ones"

    def between_text(self, tuned: str, reference: str) -> str:
        """Return how often each of two named settings failed, and how; empty if neither did."""
        sides = (tuned, self.deployed, self.n_deployed), (reference, self.untouched, self.n_untouched)
        each = [f"{name}: {_counted(failed)} of {launches} launches" for name, failed, launches in sides]
        return "; ".join(each) if self.any else ""


NO_FAILURES = Failures()  # Failures of no launches.


def excludes_rate(failed: int, launches: int, rate: float) -> bool:
    """Whether so many failed launches exclude a failure rate: P(Bin(launches, rate) ≤ failed) ≤ 1/20.

    References:
        C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
        binomial", Biometrika 26 (1934) 404–413.
    """
    from scipy.stats import binom

    return float(binom.cdf(failed, launches, rate)) <= ONE_IN_TWENTY


def _counted(failed: Iterable[Status]) -> str:
    """Return failures in words, such as ``2 crashed, 1 hung``."""
    each = Counter(failed).items()
    return ", ".join(f"{n} {_WORDS.get(how, str(how).replace('_', ' '))}" for how, n in each) or "none"
