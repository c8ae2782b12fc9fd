"""Changes, arms and runs: the terms of a discovery.

A *change* is one factor at a level that is not its default. An *arm* is a setting from which changes are
made: a parameter of UCX, for example, has an effect only in an arm in which UCX sends the messages. A *run*
is a launch that makes a few changes in one arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.space import Value

Change = tuple[str, Value]  # Name of the factor and its level.


@dataclass(frozen=True, slots=True)
class DiscoveryRule:
    """Assumptions and thresholds of a discovery."""

    confirming: float = 1 / 3
    """Share of the launches, and of the time, that is reserved for the confirmation."""
    look_every: int = 24  # Number of launches of the screening between two estimates of the effects.
    surely: int = 3
    """Number of launches that make a change alone, from which a significant effect counts as established; two
    launches may show an effect by chance."""
    fewest: int = 8  # Smallest number of successful launches of an arm for which a model is fitted.
    clip: float = 3.0
    """Residuals beyond this number of standard deviations are clipped, because of heavy tails."""
    huber: float = 1.5
    """Number of standard deviations beyond which a launch has less weight in Huber's method; with 1.5 the
    method is 96 % efficient for normal distributions."""
    family: float = 0.05  # Probability that any change is added to the joint fit if no change has an effect.
    draws: int = 60  # Number of permutations that decide whether a change is added to the joint fit.
    final_draws: int = 200  # Number of permutations for the final p-values.
    relaxed: float = 4
    """A change is launched again for confirmation if it is a discovery at this multiple of the accepted rate
    of false discoveries."""
    sure: float = 2.5  # Number of standard errors beyond which a change counts as faster or slower at a size.
    plain: float = 5.0
    """A change is launched again for confirmation, whatever its p-value, if its effect is beyond this number
    of standard errors: if a screening made each change only once or twice, p-values depend on outliers of
    other changes."""
    won: float = -0.03
    """An arm counts as a gain overall if its mean ln(time ratio) over the sizes is below this."""
    arm_loss: float = 0.05
    """p-value of a gain below which a change is launched again for confirmation if the gain is at sizes at
    which its arm is slower, although the arm is faster on average: the change may remove the loss because of
    which the arm would be refused."""


RULE = DiscoveryRule()  # The assumptions and thresholds of all discoveries.


@dataclass(frozen=True, slots=True)
class Arm:
    """A setting from which changes are made, and the changes that are possible in it."""

    name: str  # Name in reports; empty if there is only one arm.
    changes: tuple[Change, ...]  # The changes that runs of this arm can make.
    needs: Mapping[Change, frozenset[Change]] = field(default_factory=dict)
    """Maps a change that has no effect by itself to the other changes that it needs to have an effect."""

    def complete(self, changes: frozenset[Change]) -> frozenset[Change]:
        """Return these changes together with the changes that they need to have an effect."""
        return changes | self.brought(changes)

    def brought(self, changes: frozenset[Change]) -> frozenset[Change]:
        """Return the changes that these changes need directly, not those that are needed in turn."""
        return frozenset().union(*(self.needs.get(change, frozenset()) for change in changes))

    def needed(self, change: Change) -> frozenset[Change]:
        """Return all changes that a change needs to have an effect, directly or through another change."""
        return self.complete(self.needs.get(change, frozenset()))


@dataclass(frozen=True, slots=True)
class Run:
    """One launch of a discovery, made or planned."""

    arm: int  # Index of the arm.
    changes: frozenset[Change]  # Changes that the launch makes; empty if it has the arm's defaults.
    block: int = 0  # Number of the round of the confirmation; 0 in the screening.
    curve: tuple[float, ...] = ()
    """Logarithm of the time at each message size; empty if the launch failed or is only planned."""

    @property
    def ok(self) -> bool:
        """Return whether the launch was made and succeeded."""
        return bool(self.curve)


def set_aside(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that make launches of an arm fail.

    Such a change is the only change of some failed run that does not occur in any successful run.
    """
    innocent = _innocent(runs, arm)
    suspected = (run.changes - innocent for run in runs if run.arm == arm and not run.ok)
    return frozenset(change for changes in suspected if len(changes) == 1 for change in changes)


def suspects(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that may have caused one failure: that of the run with the fewest such changes.

    The result is empty if each failed run contains a change that is known to make launches fail, or has only
    changes that also occur in successful runs. In the latter case the machine or a combination of changes was
    the cause.
    """
    innocent, guilty = _innocent(runs, arm), set_aside(runs, arm)
    failed = (run.changes for run in runs if run.arm == arm and not run.ok and not run.changes & guilty)
    return min(
        (suspected for changes in failed if len(suspected := changes - innocent) > 1),
        key=len,
        default=frozenset(),
    )


def _innocent(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that occur in at least one successful run of an arm."""
    return frozenset().union(*(run.changes for run in runs if run.arm == arm and run.ok))
