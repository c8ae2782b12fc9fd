"""Whether a setting fails more often than the untouched stack (step 11 of the flow).

A launch that failed shows no time, so the pair it was one of says nothing of speed; it counts here. Where
both sides fail alike, those of F failures among N launches that fall on the n launches of the setting are
hypergeometric (Fisher's exact test, one-sided):

    p = Σ_{k ≥ f} C(n, k) C(N − n, F − k) / C(N, F).

All launches of the untouched stack so far count, whatever setting they were beside. Where p is below one in
twenty the setting *fails more often*, and is refused. One failure shows nothing of how often, so nothing is
said from one. The burden is the setting's all the same: a job that dies costs more than any gain. So where
p ≤ 1/2, launches go on, and where they are used up with two failures or more and p < 1/2, it *may fail more
often*, and is refused. A wrong result is no matter of how often: it refuses at once.
Lost launches whose cores lay far apart say themselves that it was the
machine, unless they are the setting's beyond one in twenty: what binds ranks says where they run. The same
holds of those that ended well after an attempt that was lost: else a setting that kills every fifth node
would never be refused. A launch whose job never started is none.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from autotune.history.trial import Observation, Status, Subject
from autotune.verification.sequential import ONE_IN_TWENTY

_EVEN = 0.5 + 1e-9
"""The chance at which more failures are on the setting's side than belong there, rounding aside."""
_LEAST = 2
"""Failures from which how often a setting fails is spoken of: one in n launches may be one in any number."""
_WORDS = {Status.TIMEOUT: "hung", Status.WRONG_RESULT: "gave wrong results", Status.LOST: "were lost"}


def failure(observation: Observation, attempts: bool = False) -> Status | None:
    """How a launch failed, as a whole or by a wrong result of some call; None: it did not.

    ``attempts``: count one that ended well after attempts that were lost as lost, too.
    """
    if attempts and observation.ok and observation.lost_before:
        return Status.LOST
    if any(e.status is Status.WRONG_RESULT for e in observation.estimates):
        return Status.WRONG_RESULT
    return None if observation.ok else observation.status


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures of a setting's launches, and of the untouched ones so far."""

    deployed: tuple[Status, ...] = ()  # How launches of the setting failed.
    n_deployed: int = 0  # Its launches.
    untouched: tuple[Status, ...] = ()  # How launches of the untouched stack failed.
    n_untouched: int = 0  # Its launches.

    @classmethod
    def of(cls, launches: Iterable[Observation]) -> "Failures":
        """Failures in these launches of both sides."""
        made = list(launches)
        sides = {side: [o for o in made if o.trial.subject is side] for side in Subject}
        return cls.between(sides[Subject.DEPLOYED], sides[Subject.UNTOUCHED])

    @classmethod
    def between(cls, mine: Iterable[Observation], others: Iterable[Observation]) -> "Failures":
        """Failures in launches of a setting, and in those of the reference."""
        every = [[o for o in side if not o.never_ran] for side in (mine, others)]
        excused = [[o for o in side if o.disturbed or (o.ok and o.lost_before)] for side in every]
        lost = [tuple(Status.LOST for _ in side) for side in excused]
        its_own = cls(lost[0], len(every[0]), lost[1], len(every[1])).surely_more(ONE_IN_TWENTY)
        sides = [[failure(o, its_own) for o in side if its_own or not o.disturbed] for side in every]
        failed, beside = (tuple(s for s in side if s is not None) for side in sides)
        return cls(failed, len(sides[0]), beside, len(sides[1]))

    @property
    def any(self) -> bool:
        """Whether any launch failed, of either side."""
        return bool(self.deployed or self.untouched)

    @property
    def wrong(self) -> bool:
        """Whether the setting gave a wrong result."""
        return Status.WRONG_RESULT in self.deployed

    @property
    def more(self) -> bool:
        """Whether the setting surely fails more often than the untouched stack, or is wrong."""
        return self.surely_more(ONE_IN_TWENTY)

    @property
    def doubtful(self) -> bool:
        """Whether the setting may fail more often, so that it is not exported."""
        return self.wrong or (len(self.deployed) >= _LEAST and self._chance() < 1 - _EVEN)

    @property
    def unsettled(self) -> bool:
        """Whether launches should go on, as the setting failed where the untouched stack did not as often."""
        return self.wrong or (bool(self.deployed) and self._chance() <= _EVEN)

    def surely_more(self, alpha: float) -> bool:
        """Whether that is no chance any more, at this rate."""
        return self.wrong or (len(self.deployed) >= _LEAST and self._chance() <= alpha)

    @property
    def objection(self) -> str:
        """The objection to the setting, as the end of a sentence; empty: none."""
        if self.wrong:
            return "gave wrong results"
        how = "fails" if self.more else "may fail" if self.doubtful else ""
        return how and f"{how} more often than the untouched stack"

    def _chance(self) -> float:
        """Probability of as many failures on the setting's side, or more, where both sides fail alike."""
        from scipy.stats import hypergeom

        failed, launches = len(self.deployed) + len(self.untouched), self.n_deployed + self.n_untouched
        return float(hypergeom.sf(len(self.deployed) - 1, launches, failed, self.n_deployed))

    @property
    def text(self) -> str:
        """How often each side failed, and how; empty: none did."""
        if not self.any:
            return ""
        mine = f"{_counted(self.deployed)} of its {self.n_deployed} launches"
        return f"{mine}, {_counted(self.untouched)} of the {self.n_untouched} untouched ones"

    def between_text(self, tuned: str, reference: str) -> str:
        """The same of two settings by name; empty: none did."""
        sides = (tuned, self.deployed, self.n_deployed), (reference, self.untouched, self.n_untouched)
        each = [f"{name}: {_counted(failed)} of {launches} launches" for name, failed, launches in sides]
        return "; ".join(each) if self.any else ""


NO_FAILURES = Failures()  # No launches.


def _counted(failed: Iterable[Status]) -> str:
    """Such as ``2 crashed, 1 hung``."""
    each = Counter(failed).items()
    return ", ".join(f"{n} {_WORDS.get(how, str(how).replace('_', ' '))}" for how, n in each) or "none"
