"""Writing what exporters say (step 12 of the flow)."""

from collections.abc import Sequence
from pathlib import Path

from autotune.exporters import exporter
from autotune.exporters.launch_line import parted
from autotune.exporters.settings import FAMILIES
from autotune.exporters.writing import write_files
from autotune.recommend.front import Recommendation
from autotune.stacks.tables import left_to_the_stack


def export_files(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Write the files of all formats into a directory; each path once, in order.

    Raises:
        UserError: an unknown format, a recommendation that a format cannot say, or no place for files.
        StorageError: the disk is full or read-only.
    """
    texts: dict[str, str] = {}
    for name in formats:
        texts.update(exporter(name).export(recommendation, directory.absolute()))
    files = {directory / name: text for name, text in texts.items()}
    write_files(files, parents=True)
    return tuple(files)


def how_to_use(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> str:
    """The line of the first format that has one, which puts its files into force; empty: nothing is set."""
    source = recommendation.provenance
    stays = all(map(left_to_the_stack, recommendation.rules))
    if stays and not (source.env or source.placement or source.boot) and source.family in FAMILIES:
        return ""
    lines = (exporter(name).use(recommendation, directory.absolute()) for name in formats)
    line = next(filter(None, lines), parted(directory) or str(recommendation.point))
    firmware = (f"{name}={value}" for name, value in source.boot)
    return "\n  ".join(
        [line, *(f"on nodes with {it}, which is firmware: no file sets it" for it in firmware)]
    )
