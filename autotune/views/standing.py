"""Hold how a campaign stands as facts, and say it in four lines: use now, promising, why, go on with.

The facts are stored; the lines name the campaign's directory as the caller wrote it, and the Python that runs
when they are written. This module imports no heavy modules, so that ``status`` starts quickly.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.views.text import about_text, own_line

if TYPE_CHECKING:
    from autotune.recommend.recommendation import Line


@dataclass(frozen=True, slots=True)
class Ending:
    """Hold the words for how a campaign stands; empty texts are not shown."""

    use_now: str  # The verified setting with the path of its files, or the stack's own defaults.
    promising: str = ""  # The best setting that is not verified, its speed-up, the size that keeps it open.
    why: str = ""  # What keeps the campaign from a verdict.
    command: str = ""  # The command that goes on, as a line of a shell; empty: nothing is left to do.
    seconds: float = math.nan  # Expected time until a verdict; NaN or infinite if it is not known.

    @property
    def lines(self) -> "tuple[Line, ...]":
        """Return the lines (label, text, command) that are not empty; most have no command."""
        go_on = f"{about_text(self.seconds) or 'some time'} more:"
        lines = (
            ("Use now", self.use_now, ""),
            ("Promising", self.promising, ""),
            ("Why", self.why, ""),
            ("Go on with", go_on if self.command else "", self.command),
        )
        return tuple(line for line in lines if line[1])


@dataclass(frozen=True, slots=True)
class Standing:
    """Hold how a campaign stands, without what depends on who asks."""

    use_now: str  # As in ``Ending``, without the path.
    promising: str = ""  # As in ``Ending``.
    why: str = ""  # As in ``Ending``.
    seconds: float = math.nan  # As in ``Ending``.
    exported: bool = False  # Whether the directory has files of the setting to use now.
    unfinished: bool = False  # Whether a command goes on with the campaign.

    def told(self, directory: Path) -> Ending:
        """Return how the campaign in a directory stands, in the words of whoever asks now."""
        files = f"; files in {directory / 'export'}" if self.exported else ""
        command = own_line(str(directory)) if self.unfinished else ""
        return Ending(f"{self.use_now}{files}", self.promising, self.why, command, self.seconds)
