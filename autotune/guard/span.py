"""Time limit of a whole ``guard`` command, and how much of it each launch may take."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")
_LEAST_S = 1.0
"""Smallest time limit in seconds of a launch, which could not even start with less."""


@dataclass
class Span:
    """Time of a whole ``guard`` command: of querying libraries, waiting in queues, and all launches."""

    minutes: float
    """Time limit in minutes."""
    clock: Callable[[], float] = time.monotonic
    """Function that returns the time in seconds."""
    launch_s: float = 0.0
    """Seconds that the longest launch so far took, including its wait in a queue; 0 before the first
    launch."""
    began_s: float = field(init=False)
    """Value of ``clock`` when the command began."""

    def __post_init__(self) -> None:
        """Start the clock."""
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
        """Return the time limit of a launch in seconds, shortened to the remaining time of the command."""
        return min(timeout_s, max(self.left_s, _LEAST_S))

    def timed(self, launch: Callable[[], _T]) -> _T:
        """Make a launch and return its result; its duration serves as an estimate for the next launches."""
        started_s = self.clock()
        result = launch()
        self.launch_s = max(self.launch_s, self.clock() - started_s)
        return result

    def shortage_text(self, launches: int) -> str:
        """Return a message that the time was used up, with the minutes that ``launches`` would have needed.

        Before the first launch that time is unknown, and the message gives no number of minutes.
        """
        minutes = math.ceil((self.spent_s + launches * self.launch_s) / 60)
        message = f"--minutes {self.minutes:g} was used up before a first block of launches"
        return f"{message}: about {minutes} would do" if self.launch_s else f"{message}: more are wanted"
