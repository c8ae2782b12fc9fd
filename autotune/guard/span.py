"""Time limit of a whole ``guard`` verb, and its division among the verb's launches."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")
_LEAST_S = 1.0
"""Time limit in seconds that a launch gets at least, because with less it could not even start."""


@dataclass
class Span:
    """Time for a whole verb: for querying libraries, waiting in queues, proving and launching."""

    minutes: float
    """Time limit in minutes."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    launch_s: float = 0.0
    """Seconds of the longest launch so far, with its waiting in a queue; 0 where none was made."""
    began_s: float = field(init=False)
    """Time of the clock when the verb began."""

    def __post_init__(self) -> None:
        """Start the clock."""
        self.began_s = self.clock()

    @property
    def spent_s(self) -> float:
        """Return the seconds since the verb began."""
        return self.clock() - self.began_s

    @property
    def left_s(self) -> float:
        """Return the seconds until the verb has to end; negative after that."""
        return 60 * self.minutes - self.spent_s

    def within(self, timeout_s: float) -> float:
        """Return a time limit in seconds that does not reach beyond the end of the verb."""
        return min(timeout_s, max(self.left_s, _LEAST_S))

    def timed(self, launch: Callable[[], _T]) -> _T:
        """Return the result of a launch, and note its time as an estimate for the next launches."""
        started_s = self.clock()
        result = launch()
        self.launch_s = max(self.launch_s, self.clock() - started_s)
        return result

    def shortage_text(self, launches: int) -> str:
        """Return a message that the time was used up, with the minutes that ``launches`` would have needed.

        Without a launch so far the minutes are unknown, and the message holds no figure.
        """
        minutes = math.ceil((self.spent_s + launches * self.launch_s) / 60)
        message = f"--minutes {self.minutes:g} was used up before a first block of launches"
        return f"{message}: about {minutes} would do" if self.launch_s else f"{message}: more are wanted"
