"""Show how far a campaign has come: below the lines of a terminal, or in the output of a notebook.

A bar has a text on the campaign's place, the share of its time that is over, and a text on the best so far.
"""

import math
from html import escape
from importlib import import_module
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn


class Bar(Protocol):
    """Shows the progress of a campaign."""

    def show(self, place: str, elapsed_s: float, left_s: float) -> None:
        """Show the place of the campaign in words, and its time; ``left_s`` is infinite if it is unknown."""

    def best(self, text: str) -> None:
        """Show the best so far in words; before the first ``show`` nothing is shown."""

    def stop(self) -> None:
        """Remove the bar."""


class TerminalBar:
    """A bar below the lines of a terminal."""

    def __init__(self, console: Console) -> None:
        self._task = TaskID(0)
        self._bar = Progress(
            TextColumn("{task.fields[place]}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[best]}", markup=False),
            console=console,
            transient=True,
        )

    def show(self, place: str, elapsed_s: float, left_s: float) -> None:
        """Draw the bar anew."""
        if not self._bar.tasks:
            self._task = self._bar.add_task("", total=1, place=place, best="")
            self._bar.start()
        total_s = elapsed_s + left_s
        total = total_s if 0 < total_s < math.inf else None
        self._bar.update(self._task, completed=elapsed_s, total=total, place=place)

    def best(self, text: str) -> None:
        """Draw the bar with another text behind it."""
        if self._bar.tasks:
            self._bar.update(self._task, best=text)

    def stop(self) -> None:
        """Remove the bar."""
        self._bar.stop()


class NotebookBar:
    """A bar in the output of a notebook's cell, as HTML that is replaced."""

    def __init__(self, display: Any) -> None:
        """Prepare the bar; ``display`` is the module ``IPython.display``."""
        self._display = display
        self._handle: Any = None
        self._place, self._best, self._share = "", "", math.nan

    def show(self, place: str, elapsed_s: float, left_s: float) -> None:
        """Replace the bar."""
        self._place, total_s = place, elapsed_s + left_s
        self._share = elapsed_s / total_s if 0 < total_s < math.inf else math.nan
        self._draw(bar_html(place, self._share, self._best))

    def best(self, text: str) -> None:
        """Replace the text behind the bar."""
        self._best = text
        if self._handle is not None:
            self._draw(bar_html(self._place, self._share, text))

    def stop(self) -> None:
        """Leave the cell without the bar."""
        if self._handle is not None:
            self._draw("")

    def _draw(self, html: str) -> None:
        if self._handle is None:
            self._handle = self._display.display(self._display.HTML(html), display_id=True)
        else:
            self._handle.update(self._display.HTML(html))


def bar_html(place: str, share: float, best: str) -> str:
    """Return a bar as HTML; ``share`` is NaN if it is unknown."""
    value = "" if math.isnan(share) else f' value="{share:.3f}"'
    return f"<div>{escape(place)} <progress{value}></progress> {escape(best)}</div>"


def bar_for(console: Console) -> Bar | None:
    """Return a bar for the place where a console prints; None for a file, a pipe or a log."""
    if type(console.file).__module__.partition(".")[0] == "ipykernel":  # also where colour is forced
        return NotebookBar(import_module("IPython.display"))  # which every such kernel has imported
    return TerminalBar(console) if console.is_terminal else None
