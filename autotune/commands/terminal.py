"""Print to a terminal without control characters, which texts from programs, files and journals may contain.

Everything that a verb prints goes through this module: plain text through ``Plain`` streams, tables and
progress bars through ``console``.
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
    """Wraps a text stream, and writes only printable characters to it."""

    def __init__(self, bare: TextIO) -> None:
        self.bare = bare

    def write(self, text: str) -> int:
        """Write a text in which each control character is replaced by its number."""
        self.bare.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.bare, name)


def bare(stream: TextIO) -> TextIO:
    """Return the stream that a ``Plain`` stream writes to, which accepts control characters too.

    Any other stream is returned unchanged.
    """
    return stream.bare if isinstance(stream, Plain) else stream


def agreed_to(question: str, out: TextIO) -> bool:
    """Ask a question on a stream, and return whether the user agrees.

    If standard input is not a terminal, no question is asked and False is returned.
    """
    if not sys.stdin.isatty():
        return False
    out.write(f"{question} [y/N] ")
    out.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def hold_streams() -> None:
    """Open the null device in place of each standard stream that is closed.

    Otherwise the next file that is opened would get the file descriptor of the closed stream, and this file
    would receive the program's output.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - stays open


@contextmanager
def plain_output() -> Iterator[None]:
    """Replace ``sys.stdout`` and ``sys.stderr`` by ``Plain`` streams inside the context."""
    out: Any = Plain(bare(sys.stdout))
    errors: Any = Plain(bare(sys.stderr))
    with redirect_stdout(out), redirect_stderr(errors):
        yield


def console(**options: Any) -> "Console":
    """Return a console that prints text without control characters or markup, also in tables and bars."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PlainConsole(Console):
        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                yield segment if segment.control else Segment(printable(segment.text), segment.style)

        def on_broken_pipe(self) -> None:
            """Continue without output: the work goes on although the reader has closed the pipe."""
            self.quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), bare(sys.stdout).fileno())

    return PlainConsole(file=bare(sys.stdout), markup=False, emoji=False, **options)
