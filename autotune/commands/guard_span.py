"""Time of a whole ``guard`` verb, and how it is shared by what the verb does."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

_T = TypeVar("_T")
_LEAST_S = 1.0
"""A launch is given so long, or it could not even start."""


@dataclass
class Span:
    """Time for a whole verb: for asking libraries, waiting in queues, proving and launching."""

    minutes: float
    """How long."""
    clock: Callable[[], float] = time.monotonic
    """In seconds."""
    launch_s: float = 0.0
    """The longest launch so far, with its waiting; 0: none was made."""
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin."""
        self.began_s = self.clock()

    @property
    def spent_s(self) -> float:
        """Since it began."""
        return self.clock() - self.began_s

    @property
    def left_s(self) -> float:
        """Until it ends."""
        return 60 * self.minutes - self.spent_s

    def within(self, timeout_s: float) -> float:
        """A time limit that does not reach beyond the end."""
        return min(timeout_s, max(self.left_s, _LEAST_S))

    def timed(self, launch: Callable[[], _T]) -> _T:
        """The result of a launch, whose time counts for what the next ones are expected to take."""
        started_s = self.clock()
        result = launch()
        self.launch_s = max(self.launch_s, self.clock() - started_s)
        return result

    def wanted(self, launches: int) -> str:
        """The minutes that so many launches would have taken, in words."""
        minutes = math.ceil((self.spent_s + launches * self.launch_s) / 60)
        return f"--minutes {self.minutes:g} was used up before {launches} launches: about {minutes} would do"
