"""Changes, arms and runs: the terms of the discovery.

Notation: a *change* is one factor at one level that is not its default; an *arm* is a setting from which
changes are counted (a parameter of UCX has an effect only where UCX carries the messages); a run makes few
changes at once in one arm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.space import Value

Change = tuple[str, Value]  # Name of the factor and its level.


@dataclass(frozen=True, slots=True)
class DiscoveryRule:
    """A discovery's assumptions about launches and the machine."""

    confirming: float = 1 / 3  # Share of the launches, and of the time, reserved for the confirmation.
    look_every: int = 24  # Launches of the screening after which the estimates are refreshed.
    surely: int = 3
    """Launches of a change alone after which its effect is taken as established: two may show it by luck."""
    fewest: int = 8  # Smallest number of successful launches of an arm to which a model is fitted.
    clip: float = 3.0  # Standard deviations at which residuals are clipped, because of heavy tails.
    huber: float = 1.5  # Standard deviations beyond which a launch counts less: 96 % efficient if normal.
    family: float = 0.05  # Probability that a change enters the joint fit where none matters.
    draws: int = 60  # Permutations for each entry into the joint fit.
    final_draws: int = 200  # Permutations for the probabilities at the end.
    relaxed: float = 4  # Multiple of the rate of false discoveries at which a change is suspected.
    sure: float = 2.5  # Standard errors by which a size counts as faster or slower.
    plain: float = 5.0
    """Standard errors beyond which a change is suspected whatever its probability: in a screening that made
    each change once or twice, outliers of other changes determine the probabilities."""
    won: float = -0.03  # Mean of ln(time ratio) over the sizes below which an arm counts as a gain overall.
    arm_loss: float = 0.05
    """Rate at which a change is suspected that may help where an arm that gains overall loses: it may remove
    the loss for which the arm would be refused."""


RULE = DiscoveryRule()


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm is a setting from which changes are counted, with the changes that are possible in it."""

    name: str  # Name in reports; empty where there is only one arm.
    changes: tuple[Change, ...]  # The possible changes, made one at a time or several at once.
    needs: Mapping[Change, frozenset[Change]] = field(default_factory=dict)
    """Change that has no effect by itself → the changes that it needs."""

    def complete(self, changes: frozenset[Change]) -> frozenset[Change]:
        """Return the changes together with those that they need."""
        return changes | self.brought(changes)

    def brought(self, changes: frozenset[Change]) -> frozenset[Change]:
        """Return the changes that these changes need directly."""
        return frozenset().union(*(self.needs.get(change, frozenset()) for change in changes))

    def needed(self, change: Change) -> frozenset[Change]:
        """Return all changes without which a change has no effect, including those that these need."""
        return self.complete(self.needs.get(change, frozenset()))


@dataclass(frozen=True, slots=True)
class Run:
    """A run is one launch of the discovery, made or planned."""

    arm: int  # Index of the arm.
    changes: frozenset[Change]  # The changes that were made; empty: the arm's default itself.
    block: int = 0  # 0: a run of the screening; else the number of the round of the confirmation.
    curve: tuple[float, ...] = ()
    """Logarithm of the time at each size; empty where the launch failed or is still planned."""

    @property
    def ok(self) -> bool:
        """Return whether the launch succeeded, so that there is a curve."""
        return bool(self.curve)


def set_aside(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that make launches fail.

    Each is, for some failed run, its only change that occurs in no successful run.
    """
    innocent = _innocent(runs, arm)
    suspected = (run.changes - innocent for run in runs if run.arm == arm and not run.ok)
    return frozenset(change for changes in suspected if len(changes) == 1 for change in changes)


def suspects(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that may have caused one failed run: the run with the fewest such changes.

    The result is empty where every failed run has a change that is set aside, or only changes that occur in
    successful runs too: then the machine was at fault, or a combination of changes.
    """
    innocent, guilty = _innocent(runs, arm), set_aside(runs, arm)
    failed = (run.changes for run in runs if run.arm == arm and not run.ok and not run.changes & guilty)
    return min(
        (suspected for changes in failed if len(suspected := changes - innocent) > 1),
        key=len,
        default=frozenset(),
    )


def _innocent(runs: Sequence[Run], arm: int) -> frozenset[Change]:
    """Return the changes that occur in a successful run of an arm."""
    return frozenset().union(*(run.changes for run in runs if run.arm == arm and run.ok))
