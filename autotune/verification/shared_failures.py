"""Suspect settings that share values with settings that fail (data flow: verification).

A fault is more often caused by one *level* (value of a parameter) than by a whole setting: of two settings
with the same faulty level, one may hang in a fifth of its launches, while the other was lucky. Consider all
settings that may fail more often than the untouched stack (the MPI's own defaults). The levels that all of
them have are suspected; if they have no level in common, all levels of each of them are suspected. A setting
with a suspected level is not exported until its own launches exclude the rate p at which these settings
failed (``failed.excludes_rate``): n launches without a failure exclude it if (1 − p)ⁿ ≤ 1/20.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from autotune.history.trial import Rule
from autotune.space import Point, Space
from autotune.verification.failed import Failures, excludes_rate

Levels = frozenset[tuple[str, Hashable]]
"""Pairs (parameter, value) that a setting sets; a rule counts as a pair (collective, choice)."""


@dataclass(frozen=True, slots=True)
class FailingSetting:
    """Hold the levels of a launched setting, and the failures among its launches."""

    levels: Levels
    failures: Failures


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Hold the levels that failing settings have in common, and how often these settings failed."""

    levels: Levels  # The levels that are suspected.
    failed: int  # Number of launches of these settings that failed.
    launches: int  # Number of launches of these settings.

    def concerns(self, levels: Levels, failures: Failures) -> bool:
        """Whether a setting has a suspected level, and its own launches do not exclude the failure rate."""
        if not self.levels & levels:
            return False
        rate = self.failed / self.launches
        return not excludes_rate(len(failures.deployed), failures.n_deployed, rate)

    def text(self, levels: Levels) -> str:
        """Return in words the levels that a setting shares with failing ones, and how often these failed."""
        shared = ", ".join(f"{name}={value}" for name, value in sorted(self.levels & levels, key=str))
        return f"shares {shared} with what failed in {self.failed} of {self.launches} launches"


def levels_of(space: Space, point: Point, rules: Iterable[Rule]) -> Levels:
    """Return a setting's levels: job-wide values that differ from the defaults, and choices of rules."""
    job = set(space.changes(point).items())
    return frozenset(job | {(rule.collective, rule.choice) for rule in rules if rule.sets})


def suspicions(settings: Iterable[FailingSetting]) -> tuple[Suspicion, ...]:
    """Return the suspicions raised by settings that may fail more often than the stack's own defaults."""
    failing = [setting for setting in settings if setting.failures.doubtful and not setting.failures.wrong]
    if not failing:
        return ()
    common = frozenset.intersection(*(setting.levels for setting in failing))
    if common:
        failed = sum(len(setting.failures.deployed) for setting in failing)
        return (Suspicion(common, failed, sum(setting.failures.n_deployed for setting in failing)),)
    return tuple(
        Suspicion(setting.levels, len(setting.failures.deployed), setting.failures.n_deployed)
        for setting in failing
    )
