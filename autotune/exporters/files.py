"""Write exported files, and return the command line that uses them (step 12 of the data flow)."""

from collections.abc import Sequence
from pathlib import Path

from autotune.exporters import exporter
from autotune.exporters.launch_line import PROGRAM, REPLACED, parted
from autotune.exporters.origin import is_ours
from autotune.exporters.settings import FAMILIES
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text


def export_files(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> tuple[Path, ...]:
    """Write the files of all formats into a directory, and return their paths without duplicates.

    Links in the directory are not followed. Rules files of an earlier export that no file points to any
    longer are removed.

    Raises:
        UserError: A format is unknown or cannot express the recommendation, or files cannot be written into
            the directory.
        StorageError: The disk is full or read-only.
    """
    texts: dict[str, str] = {}
    companions: set[str] = set()
    for format_exporter in map(exporter, formats):
        texts.update(format_exporter.export(recommendation, directory.absolute()))
        companions.update(getattr(format_exporter, "companions", ()))
    files = {directory / name: text for name, text in texts.items()}
    unwritten = (directory / name for name in companions - texts.keys())
    stale = [path for path in unwritten if path.is_file() and not path.is_symlink()]
    removals = {path: None for path in stale if is_ours(user_text(path, lenient=True))}
    write_files({**files, **removals}, parents=True, below=directory)
    return tuple(files)


def sets_nothing(recommendation: Recommendation) -> bool:
    """Return whether the MPI's own defaults stay, so that exported files set nothing."""
    source = recommendation.provenance
    ruled = any(rule.sets for rule in recommendation.rules)
    return source.family in FAMILIES and not (ruled or source.env or source.placement or source.boot)


def unused(recommendation: Recommendation, directory: Path) -> str:
    """Return the reason, in words, why there is no command line that uses the files."""
    if sets_nothing(recommendation):
        return "they set nothing: the stack's own defaults stay"
    unread = f"no MPI reads these files; the setting in them: {recommendation.point or 'the defaults'}"
    return parted(directory) or unread


def how_to_use(recommendation: Recommendation, formats: Sequence[str], directory: Path) -> str:
    """Return the command line that uses the exported files, from the first format that has such a line.

    The line is that of a shell, without notes (``notes_on``). It is empty if the files set nothing, or if no
    MPI reads them.
    """
    lines = (exporter(name).use(recommendation, directory.absolute()) for name in formats)
    return "" if sets_nothing(recommendation) else next(filter(None, lines), "")


def notes_on(recommendation: Recommendation, line: str) -> tuple[str, ...]:
    """Return what to know about a command line that uses exported files; nothing without a line."""
    if not line:
        return ()
    firmware = (f"{name}={value}" for name, value in recommendation.provenance.boot)
    preconditions = (f"on nodes with {setting}, which is firmware: no file sets it" for setting in firmware)
    return (*([REPLACED] if PROGRAM in line else []), *preconditions)
