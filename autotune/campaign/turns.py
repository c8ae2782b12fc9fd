"""Launch the sides of a comparison (settings or environments) in turn: in what order, and until when.

Sides are compared by launches in blocks, in which each side has as many launches as the others. Their order
is drawn at random (``verification.orders``). The launches of a block are alive at once where the launcher can
do that, else they are made one after the other. All comparisons make their launches by this module; each of
them decides which sides take part, and when the result is clear.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from autotune.campaign.heats import at_once, observe_heat
from autotune.campaign.interruption import check
from autotune.campaign.observing import Observer
from autotune.history.trial import Observation, Status, Trial
from autotune.verification.orders import drawn, drawn_blocks
from autotune.verification.sequential import SequentialDesign


@dataclass(frozen=True, slots=True)
class Turn:
    """The position of one launch in a comparison."""

    number: int  # Number of the launch.
    block: int  # Number of its block, from 0.
    side: int  # Index of its side.
    seed: int  # Random seed of the launch.


@dataclass(frozen=True, slots=True)
class Side:
    """One of the environments or settings that are launched in turn."""

    name: str  # Name of the side in messages.
    observer: Observer  # Makes its launches.
    trial: Callable[[Turn], Trial]  # Returns the trial of this side at a position in the comparison.


class TimeLimit(Protocol):
    """The time that a comparison may take, in seconds."""

    @property
    def spent_s(self) -> float:
        """Return the time since the comparison began."""

    @property
    def left_s(self) -> float:
        """Return the remaining time; negative after the end."""

    def within(self, timeout_s: float) -> float:
        """Return the time limit of a launch, shortened to the remaining time."""


@dataclass
class BlockTime:
    """Decide whether there is time for another block, by the longest block so far."""

    expected_s: float = 0.0  # Estimated duration of a block, before any was launched.
    longest_s: float | None = None  # Duration of the longest block so far; None before the first.

    def fits(self, left_s: float) -> bool:
        """Return whether a block fits into the remaining seconds."""
        return left_s > 0 and left_s >= (self.expected_s if self.longest_s is None else self.longest_s)

    def add(self, took_s: float) -> None:
        """Record the duration of a block."""
        self.longest_s = max(self.longest_s or 0.0, took_s)


def are_heats(sides: Sequence[Side]) -> bool:
    """Return whether launches of these sides can be alive at once and measure in turns (a heat)."""
    return at_once(*(side.observer for side in sides))


def turns_of(
    design: SequentialDesign, n_sides: int, rng: np.random.Generator | None = None, first_number: int = 1
) -> tuple[tuple[Turn, ...], ...]:
    """Draw the launches of each block of a comparison.

    Args:
        design: Sets the launches of each side, and whether those of a block are alive at once.
        n_sides: Number of sides.
        rng: Generator of the draw; None: a new one, so that the order differs each time.
        first_number: Number of the first launch.
    """
    rng = rng or np.random.default_rng()
    number, blocks = first_number, list[tuple[Turn, ...]]()
    for block, order in enumerate(drawn_blocks(range(n_sides), design.widths(n_sides), rng)):
        turns = enumerate(order, start=number)
        blocks.append(tuple(Turn(n, block, side, int(rng.integers(2**31))) for n, side in turns))
        number += len(order)
    return tuple(blocks)


def launch_block(entrants: Sequence[tuple[Observer, Trial]], heats: bool) -> tuple[Observation, ...]:
    """Launch some trials at once (``heats``), or else one after the other, and return their observations.

    A launch that fails gives an observation with its status, and the other launches are still made.

    Raises:
        StackError: nothing can be launched at all, or some of these trials cannot be launched at once.
        SpaceError: the stack cannot express a parameter or a value of the space.
        Interrupted: the user ended the comparison.
    """
    if heats:
        check()
        return observe_heat(entrants)
    observations = []
    for observer, trial in entrants:
        check()
        observations.append(observer.observe(trial))
    return tuple(observations)


def launch_each_once(
    sides: Sequence[Side], heats: bool, rng: np.random.Generator, first_number: int
) -> tuple[tuple[Turn, Observation], ...]:
    """Launch each side once, in a random order, and return the observations with their positions.

    Args:
        sides: The sides of the comparison.
        heats: Whether to launch all sides at once.
        rng: Generator of the draw.
        first_number: Number of the first launch.

    Raises:
        StackError: as ``launch_block`` raises it.
        SpaceError: as ``launch_block`` raises it.
        Interrupted: the user ended the comparison.
    """
    order = drawn(range(len(sides)), 1, rng)
    turns = [Turn(n, 0, side, int(rng.integers(2**31))) for n, side in enumerate(order, start=first_number)]
    return tuple(zip(turns, launch_block(_entrants(sides, turns), heats), strict=True))


def _entrants(sides: Sequence[Side], turns: Sequence[Turn]) -> list[tuple[Observer, Trial]]:
    return [(sides[turn.side].observer, sides[turn.side].trial(turn)) for turn in turns]


def take_turns(
    sides: Sequence[Side],
    design: SequentialDesign,
    first_number: int = 1,
    time: TimeLimit | None = None,
    expected_s: float = 0.0,
) -> Iterator[tuple[tuple[Turn, Observation], ...]]:
    """Yield blocks of launches of all sides, until the design's launches are made or the time is used up.

    A block is begun only if the remaining time is at least that of the longest block so far. A block that the
    end of the time cuts short is not yielded.

    Args:
        sides: The sides of the comparison.
        design: Sets the launches of each side, and whether those of a block are alive at once.
        first_number: Number of the first launch.
        time: The time limit of all launches together; None: there is none.
        expected_s: Expected duration of the first block.

    Raises:
        StackError: as ``launch_block`` raises it.
        SpaceError: as ``launch_block`` raises it.
        Interrupted: the user ended the comparison.
    """
    block_time = BlockTime(expected_s)
    for turns in turns_of(design, len(sides), first_number=first_number):
        check()
        if time is not None and not block_time.fits(time.left_s):
            return
        began_s = time.spent_s if time is not None else 0.0
        observations: list[Observation] = []
        for group in [turns] if design.heats else [(turn,) for turn in turns]:
            entrants = _entrants(sides, group)
            if time is not None:
                entrants = [(o, replace(t, timeout_s=time.within(t.timeout_s))) for o, t in entrants]
            observations += launch_block(entrants, design.heats)
            cut_short = any(o.status is Status.TIMEOUT for o in observations)
            if time is not None and time.left_s <= 0 and cut_short:
                return  # the end of the time ended a launch, so its timeout is no result
        if time is not None:
            block_time.add(time.spent_s - began_s)
        yield tuple(zip(turns, observations, strict=True))
