"""Launch several environments in turn until the time limit of a ``guard`` command is reached.

A block is a group of launches of all environments in random order. In a heat, the launches of a block are
alive at the same time and measure in turns.
"""

import math
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from autotune.campaign.observing import Measurement, Observer
from autotune.campaign.turns import Side, Turn, are_heats, take_turns
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.space import Point
from autotune.verification.sequential import SequentialDesign

_T = TypeVar("_T")
_LEAST_S = 1.0  # Smallest time limit of a launch, in seconds; a launch cannot even start in less.
_FIRST_NUMBER = 100
"""Number of the first launch; the launches that check whether files take effect have smaller numbers."""


@dataclass
class Span:
    """Time limit of a ``guard`` command, for querying libraries, waiting in queues and all launches."""

    minutes: float  # Time limit in minutes.
    clock: Callable[[], float] = time.monotonic  # Returns the time in seconds.
    launch_s: float = 0.0
    """Seconds of the longest launch so far, including its wait in a queue; 0 before the first launch."""
    began_s: float = field(init=False)  # Value of ``clock`` when the command began.

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    @property
    def spent_s(self) -> float:
        """Return the seconds since the command began."""
        return self.clock() - self.began_s

    @property
    def left_s(self) -> float:
        """Return the seconds until the command has to end; negative after that."""
        return 60 * self.minutes - self.spent_s

    def within(self, timeout_s: float) -> float:
        """Return the limit ``timeout_s`` of a launch, shortened to the time that is left for the command."""
        return min(timeout_s, max(self.left_s, _LEAST_S))

    def timed(self, launch: Callable[[], _T]) -> _T:
        """Make a launch and return its result; its duration is used to estimate that of the next launches."""
        started_s = self.clock()
        result = launch()
        self.launch_s = max(self.launch_s, self.clock() - started_s)
        return result

    def shortage_text(self, launches: int) -> str:
        """Return a message that the time was used up, with the minutes that this number of launches needs."""
        minutes = math.ceil((self.spent_s + launches * self.launch_s) / 60)
        message = f"--minutes {self.minutes:g} was used up before a first block of launches"
        return f"{message}: about {minutes} would do" if self.launch_s else f"{message}: more are wanted"


def alone(measurement: Measurement) -> Measurement:
    """Return the measurement without the further calls and loops that a verification also measures."""
    return replace(measurement, other_calls=(), other_loop="")


def environment_side(name: str, observer: Observer, limit_s: float) -> Side:
    """Return the side of a comparison that launches MPI in one environment.

    Each launch takes at most ``limit_s`` seconds. The trials themselves change nothing in MPI; ``observer``
    changes the environment of each launch.
    """

    def trial(turn: Turn) -> Trial:
        about = (Phase.VERIFY, Point(), Subject.UNTOUCHED, turn.block, turn.seed)
        return Trial(turn.number, *about, timeout_s=limit_s)

    return Side(name, observer, trial)


def blocks_in_time(
    sides: Sequence[Side], per_side: int, span: Span
) -> Iterator[tuple[tuple[int, Observation], ...]]:
    """Yield blocks of launches of all sides, each launch with the index of its side, and report each block.

    The first block begins only if the time is long enough to make its launches one after the other. Each side
    is launched ``per_side`` times at most.
    """
    design = SequentialDesign(setting_launches=per_side, heats=are_heats(sides))
    expected_s = span.launch_s * design.widths(len(sides))[0] * len(sides)
    began_s = span.spent_s
    for number, block in enumerate(take_turns(sides, design, _FIRST_NUMBER, span, expected_s), start=1):
        failed: dict[str, dict[str, None]] = defaultdict(dict)
        for turn, observation in block:
            if not observation.ok:
                failed[sides[turn.side].name][f"{observation.status}: {observation.reason}"] = None
        outcome = "; ".join(f"{name}  {', '.join(why)}" for name, why in failed.items()) or "ok"
        took_s = span.spent_s - began_s
        sys.stderr.write(f"block {number}, {len(block)} launches, {took_s:.1f} s  {outcome}\n")
        yield tuple((turn.side, observation) for turn, observation in block)
        began_s = span.spent_s
