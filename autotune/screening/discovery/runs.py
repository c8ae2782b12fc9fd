"""Changes and runs, in the terms of the discovery.

Notation: a *change* is one factor at one level that is not its default; an *arm* is a setting from which
changes are counted (a knob below UCX does something only where UCX carries the messages); a run makes few
changes at once in one arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.space import Value

Change = tuple[str, Value]  # (factor, level).


@dataclass(frozen=True, slots=True)
class DiscoveryRule:
    """A discovery's assumptions about launches and the machine."""

    confirming: float = 1 / 3  # Part of the launches, and of the time, kept for the confirmation.
    look_every: int = 24  # Launches of the screening after which it is looked again at what does something.
    surely: int = 3  # Launches of a change alone from which on it is believed: two may show it by luck.
    fewest: int = 8  # Good launches of an arm without which nothing is fitted.
    clip: float = 3.0  # Standard deviations beyond which a residual counts no further: heavy tails.
    huber: float = 1.5  # Standard deviations beyond which a launch counts less: 96 % efficient if normal.
    family: float = 0.05  # Chance that a change enters the joint fit where none matters.
    draws: int = 60  # Permutations for each entry into the joint fit.
    final_draws: int = 200  # Permutations for the probabilities at the end.
    neighbours: int = 41  # Launches over which the machine's speed is taken to be the same.
    relaxed: float = 4  # So many times the rate of false discoveries suspects what is then confirmed.
    sure: float = 2.5  # Standard errors by which a size counts as faster or slower.
    plain: float = 5.0
    """Standard errors from which on what was seen once is suspected, whatever else lies as far: the
    probabilities of a screening in which each change was made once or twice are those of its outliers."""
    won: float = -0.03  # Mean of ln over the sizes below which an arm gains on the whole.
    there: float = 0.05
    """Rate at which is suspected what may help where such an arm does not gain so much: it takes away the
    loss for which the arm would be refused."""


RULE = DiscoveryRule()


@dataclass(frozen=True, slots=True)
class Arm:
    """One setting from which changes are counted."""

    name: str  # For reports; empty where there is only one.
    changes: tuple[Change, ...]  # What can be turned there, one at a time or several at once.
    needs: Mapping[Change, frozenset[Change]] = field(default_factory=dict)
    """Changes that have no effect without others → these."""

    def complete(self, changes: frozenset[Change]) -> frozenset[Change]:
        """The changes together with those that they need."""
        return changes | self.brought(changes)

    def brought(self, changes: frozenset[Change]) -> frozenset[Change]:
        """Further changes that these changes need."""
        return frozenset().union(*(self.needs.get(change, frozenset()) for change in changes))

    def needed(self, change: Change) -> frozenset[Change]:
        """All changes together without which a change has no effect."""
        return self.complete(self.needs.get(change, frozenset()))


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of the discovery."""

    arm: int  # Which arm.
    changes: frozenset[Change]  # What was off its default; empty: the arm itself.
    block: int = 0  # 0: of the screening; else the round of the confirmation.
    curve: tuple[float, ...] = ()  # Logarithm of the time at each size; empty where the launch failed.
    cores: tuple[float, ...] = ()
    """Logarithms of times that no change affects and that describe the machine, as far as they are known."""

    apart: bool = False  # Whether its cores were further apart than usual: effects may differ there.

    @property
    def telling(self) -> bool:
        """Whether it shows what its changes do."""
        return self.ok and not self.apart

    @property
    def ok(self) -> bool:
        """Whether there is a curve."""
        return bool(self.curve)


def set_aside(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """The levels that make launches fail: each is the only one of a failed run that no good run holds."""
    innocent = _innocent(runs, arm)
    alone = (run.changes - innocent for run in runs if run.arm == arm and not run.ok)
    return frozenset(change for rest in alone if len(rest) == 1 for change in rest)


def suspects(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Changes that may have caused the failed run that is closest to being explained.

    Empty where every failed run holds a level that is set aside, or nothing but levels of good runs: then
    the machine was at fault, or a combination.
    """
    innocent, guilty = _innocent(runs, arm), set_aside(runs, arm)
    failed = (run.changes for run in runs if run.arm == arm and not run.ok and not run.changes & guilty)
    return min((rest for of in failed if len(rest := of - innocent) > 1), key=len, default=frozenset())


def _innocent(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    return frozenset().union(*(run.changes for run in runs if run.arm == arm and run.ok))
