"""Whether a setting shares what failing settings have in common (step 11 of the flow).

A fault belongs to a level of a factor more often than to one setting: the twin of a setting that hangs in a
fifth of its launches, alike but for one value, may hang as often and have been lucky. So of settings that
may fail more often than the untouched stack, the levels that all of them have are suspected; where they
have none in common, each setting's own are. A setting with a suspected level is not exported until its own
launches exclude the rate p at which those failed: with k failures of its n launches,

    P(Bin(n, p) ≤ k) ≤ 1/20, so that without a failure (1 − p)ⁿ ≤ 1/20.

References:
    C. J. Clopper, E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26 (1934) 404–413.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from autotune.history.trial import Rule
from autotune.space import Point, Space
from autotune.verification.failed import Failures
from autotune.verification.sequential import ONE_IN_TWENTY

Levels = frozenset[tuple[str, Hashable]]
"""The values that a setting sets, by factor; what rules choose is a level of their collective."""


@dataclass(frozen=True, slots=True)
class FailingSetting:
    """A setting with the failures among its launches."""

    levels: Levels  # What it sets.
    failures: Failures  # Of its launches.


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Levels that failing settings have in common, and how often these failed."""

    levels: Levels
    failed: int  # Launches of these settings that failed.
    launches: int  # Launches of these settings.

    def concerns(self, levels: Levels, failures: Failures) -> bool:
        """Whether a setting has one of the levels, and its own launches do not exclude the rate."""
        from scipy.stats import binom

        if not self.levels & levels:
            return False
        rate = self.failed / self.launches
        return float(binom.cdf(len(failures.deployed), failures.n_deployed, rate)) > ONE_IN_TWENTY

    def text(self, levels: Levels) -> str:
        """The levels that a setting shares with the failing ones, and how often these failed."""
        shared = ", ".join(f"{name}={value}" for name, value in sorted(self.levels & levels, key=str))
        return f"shares {shared} with what failed in {self.failed} of {self.launches} launches"


def levels_of(space: Space, point: Point, rules: Iterable[Rule]) -> Levels:
    """The job-wide values that differ from the stack's own, and the choices of rules, by collective."""
    job = set(space.changes(point).items())
    return frozenset(job | {(rule.collective, rule.choice) for rule in rules if rule.sets})


def suspicions(settings: Iterable[FailingSetting]) -> tuple[Suspicion, ...]:
    """Suspicions by settings that may fail more often than the untouched stack."""
    failing = [one for one in settings if one.failures.doubtful and not one.failures.wrong]
    if not failing:
        return ()
    common = frozenset.intersection(*(one.levels for one in failing))
    if common:
        failed = sum(len(one.failures.deployed) for one in failing)
        return (Suspicion(common, failed, sum(one.failures.n_deployed for one in failing)),)
    return tuple(
        Suspicion(one.levels, len(one.failures.deployed), one.failures.n_deployed) for one in failing
    )
