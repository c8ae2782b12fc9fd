"""Writing what exporters say (step 12 of the flow)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from autotune.exporters import FORMATS, exporter
from autotune.recommend.front import Recommendation


@runtime_checkable
class Usable(Protocol):
    """A format with a line that puts its file into force."""

    use: tuple[str, str]
    """Name of the file, and the line with ``{path}`` for where it lies."""


def export_files(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Write the files of all formats into a directory; each path once, in order.

    Raises:
        UserError: an unknown format, or a recommendation that a format cannot say.
    """
    texts: dict[str, str] = {}
    for name in formats:
        texts.update(exporter(name).export(recommendation, directory.absolute()))
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (directory / name).write_text(text)
    return tuple(directory / name for name in texts)


def how_to_use(recommendation: Recommendation | None, directory: Path) -> str:
    """The one line that puts the exported files into force."""
    usable = (made for name in FORMATS if isinstance(made := exporter(name), Usable))
    for file, line in (made.use for made in usable):
        path = directory.absolute() / file
        if path.exists():
            return line.format(path=path)
    return str(recommendation.point) if recommendation else ""
