"""Output to a terminal: texts of programs, files and journals lose all that a terminal would obey.

Everything that a verb prints goes through here: plain text by the streams, tables and bars by the console.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any, TextIO

from autotune.errors import printable

if TYPE_CHECKING:
    from rich.console import Console


class Plain:
    """A stream of text that writes nothing but what can be read."""

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    def write(self, text: str) -> int:
        """Write it, what would be obeyed as its number."""
        self.bare.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def bare(stream: TextIO) -> TextIO:
    """The stream below, for what the program itself has to say to a terminal."""
    return stream.bare if isinstance(stream, Plain) else stream


def agreed_to(question: str, out: TextIO) -> bool:
    """Whether somebody is there and says yes."""
    if not sys.stdin.isatty():
        return False
    out.write(f"{question} [y/N] ")
    out.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def hold_streams() -> None:
    """Have standard streams that were closed lead nowhere: what is opened next would take their numbers."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - to the end


@contextmanager
def plain_output() -> Iterator[None]:
    """Nothing but plain text by ``sys.stdout`` and ``sys.stderr`` meanwhile."""
    out: Any = Plain(bare(sys.stdout))
    errors: Any = Plain(bare(sys.stderr))
    with redirect_stdout(out), redirect_stderr(errors):
        yield


def console(**options: Any) -> "Console":
    """A console whose words are plain text, also in tables and bars: they are no markup of its own either."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for one in super().render(renderable, options):
                yield one if one.control else Segment(printable(one.text), one.style)

        def on_broken_pipe(self) -> None:
            """Go on without a word: whoever has read enough has not ended the work."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), bare(sys.stdout).fileno())

    return PlainConsole(file=bare(sys.stdout), markup=False, emoji=False, **options)
