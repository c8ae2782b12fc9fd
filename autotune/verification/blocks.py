"""Group the launches of a verification in blocks (data flow: verification).

A *block* has equally many launches of each side, in a random order that ``orders`` draws. Earlier versions
launched in the orders A B B A or B A A B; the launches in their journals are treated as if any order could
have been drawn. A *slot* is one (collective, communicator size, message size).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean

from autotune.history.objectives import Slot, slot_of
from autotune.history.trial import Estimate, Observation
from autotune.verification.interruptions import interrupted_more


@dataclass(frozen=True, slots=True)
class Block:
    """Hold the launches of two sides (setting and reference) in one block, in random order."""

    tuned: tuple[bool, ...]
    """Whether each launch, in order, is one of the setting; if not, it is one of the reference."""
    logs: tuple[tuple[tuple[Slot, float], ...], ...]
    """For each launch, pairs of slot and ln of the typical time in seconds; empty for a failed launch."""
    means: tuple[tuple[tuple[Slot, float], ...], ...] = ()
    """For each launch, pairs of slot and ln of the mean time of its calls; if empty, ``logs`` are used."""

    @property
    def slots(self) -> frozenset[Slot]:
        """Return the slots that any launch measured."""
        return frozenset(slot for launch in self.logs for slot, _ in launch)

    def gains(self, slot: Slot) -> list[float]:
        """Return ln of the speed-up of each launch of the setting over the reference's mean, in one slot."""
        log_times = [
            (dict(launch).get(slot), tuned) for launch, tuned in zip(self.logs, self.tuned, strict=True)
        ]
        reference = [y for y, tuned in log_times if y is not None and not tuned]
        return (
            [fmean(reference) - y for y, tuned in log_times if y is not None and tuned] if reference else []
        )

    def within(self, slots: Collection[Slot]) -> "Block":
        """Return the same launches, reduced to these slots."""
        logs, means = (
            tuple(tuple(y for y in launch if y[0] in slots) for launch in values)
            for values in (self.logs, self.means)
        )
        return replace(self, logs=logs, means=means)


def blocks_of(
    reference: Iterable[Observation], tuned: Iterable[Observation], other_loop: bool = False
) -> tuple[Block, ...]:
    """Return the blocks with the launches of both sides, in order.

    Mean times leave out calls that other work interrupted, except in slots where the setting is interrupted
    more often than the reference; there all calls count.

    Args:
        reference: Launches of the reference.
        tuned: Launches of the setting.
        other_loop: Whether to use the times of the probe's other loop.
    """
    reference, tuned = tuple(reference), tuple(tuned)
    all_calls = interrupted_more(reference, tuned)

    def mean_s(estimate: Estimate) -> float:
        return estimate.mean_s if slot_of(estimate.cell) in all_calls else estimate.uninterrupted_mean_s

    by_block: dict[int, list[tuple[bool, Observation]]] = defaultdict(list)
    for side, launches in ((False, reference), (True, tuned)):
        for o in launches:
            by_block[o.trial.block].append((side, o))
    blocks = []
    for _, block in sorted(by_block.items()):
        block.sort(key=lambda side_launch: side_launch[1].trial.number)
        sides, launched = zip(*block, strict=True)
        medians, means, other_loop_logs = (
            tuple(_logs(o, seconds) for o in launched)
            for seconds in (attrgetter("median_s"), mean_s, attrgetter("other_loop_s"))
        )
        blocks.append(Block(sides, *((other_loop_logs, ()) if other_loop else (medians, means))))
    return tuple(blocks)


def _logs(
    observation: Observation, seconds_of: Callable[[Estimate], float]
) -> tuple[tuple[Slot, float], ...]:
    times = ((slot_of(e.cell), seconds_of(e)) for e in observation.usable)
    return tuple((slot, math.log(seconds)) for slot, seconds in times if seconds > 0)
