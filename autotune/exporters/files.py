"""Writing what exporters say (step 12 of the flow)."""

from collections.abc import Sequence
from pathlib import Path

from autotune.exporters import exporter
from autotune.exporters.launch_line import parted
from autotune.exporters.origin import is_ours
from autotune.exporters.settings import FAMILIES
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text


def export_files(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Write the files of all formats into a directory, over no link in it; each path once, in order.

    Raises:
        UserError: an unknown format, a recommendation that a format cannot say, or no place for files.
        StorageError: the disk is full or read-only.
    """
    texts: dict[str, str] = {}
    beside: set[str] = set()
    for made in map(exporter, formats):
        texts.update(made.export(recommendation, directory.absolute()))
        beside.update(getattr(made, "beside", ()))
    files = {directory / name: text for name, text in texts.items()}
    # What an earlier export needed beside the same files and this one does not: nothing points to it now.
    named = (directory / name for name in beside - texts.keys())
    stale = [path for path in named if path.is_file() and not path.is_symlink()]
    ours = {path: None for path in stale if is_ours(user_text(path, lenient=True))}
    write_files({**files, **ours}, parents=True, below=directory)
    return tuple(files)


def sets_nothing(recommendation: Recommendation) -> bool:
    """Whether the stack's own defaults stay, so that files have nothing to say."""
    source = recommendation.provenance
    ruled = any(rule.sets for rule in recommendation.rules)
    return source.family in FAMILIES and not (ruled or source.env or source.placement or source.boot)


def unused(recommendation: Recommendation, directory: Path) -> str:
    """Why there is no line, in words."""
    if sets_nothing(recommendation):
        return "they set nothing: the stack's own defaults stay"
    unread = f"no MPI reads these files; the setting in them: {recommendation.point or 'the defaults'}"
    return parted(directory) or unread


def how_to_use(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> str:
    """The line of the first format that has one; empty: nothing is set, or no MPI reads what was written."""
    source = recommendation.provenance
    lines = (exporter(name).use(recommendation, directory.absolute()) for name in formats)
    line = "" if sets_nothing(recommendation) else next(filter(None, lines), "")
    if not line:
        return ""
    firmware = (f"{name}={value}" for name, value in source.boot)
    also = [f"on nodes with {it}, which is firmware: no file sets it" for it in firmware]
    return "\n  ".join([line, *also])
