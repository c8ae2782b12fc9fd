"""``install DIR`` and ``uninstall``: a recommendation in the user's own parameter files, and out again."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.commands.site_directory import recommended
from autotune.commands.terminal import agreed_to
from autotune.errors import AutotuneError
from autotune.exporters.export_check import refuted
from autotune.exporters.user_files import (
    Changes,
    additions,
    elsewhere,
    in_force,
    removals,
    remove_empty_folders,
)
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation


def install(directory: Path, unasked: bool = False) -> None:
    """Merge the recommendation into the user's own files.

    ``unasked``: without a question what no real MPI has shown, or what was not verified.

    Raises:
        AutotuneError: such a result, and nobody said yes.
        UserError: a campaign of another MPI, or files that cannot be read or written.
        StorageError: the disk is full or read-only.
    """
    recommendation = recommended(directory)
    changes = additions(recommendation)
    if changes is None:
        sys.stdout.write("nothing to install: the stack's own defaults stay\n")
        return
    agreed(recommendation, (directory,), changes, unasked)
    for path, copy in write_files(changes.contents, changes.keep, parents=True).items():
        sys.stdout.write(f"kept {path} as {copy}\n")
    for path, number in in_force():
        sys.stdout.write(f"{path}: {number} parameters [{recommendation.provenance.verified}]\n")
    sys.stdout.writelines(f"{line}\n" for line in elsewhere(recommendation))


def uninstall() -> None:
    """Take the recommendation out of the user's own parameter files.

    Raises:
        UserError: there is none, or files that cannot be read or written.
        StorageError: the disk is full or read-only.
    """
    changes = removals()
    copies = write_files(changes.contents, changes.keep)
    for path in dict.fromkeys([*changes.cleaned, *changes.keep]):
        said = ": as it was before"
        if path in copies:
            stay = ", and the edits outside of our lines stay" if path in changes.cleaned else ""
            said = f" was edited since: it was kept as {copies[path]}{stay}"
        sys.stdout.write(f"{path}{said}\n")
    remove_empty_folders()


def agreed(
    recommendation: Recommendation, directories: Sequence[Path], changes: Changes, unasked: bool
) -> None:
    """Go on if nothing is doubtful, or the user wants it all the same.

    Raises:
        AutotuneError: no, or nobody is there to be asked.
    """
    doubts = "; ".join(_doubts(recommendation, directories, changes))
    if doubts and unasked:
        sys.stdout.write(f"{doubts}\n")
    elif doubts and not agreed_to(f"{doubts}\ninstall them all the same?", sys.stdout):
        hint = "nothing was written; --yes installs them all the same"
        raise AutotuneError(f"not installed: {doubts}", hint)


def _doubts(recommendation: Recommendation, directories: Sequence[Path], changes: Changes) -> Iterator[str]:
    """Why it should not be installed without a question."""
    source = recommendation.provenance
    if source.stamp:
        yield f"these results are {source.stamp}: no MPI ran"
    if not source.checked.done:
        yield f"they were not verified on fresh launches: {source.verified}"
    if any(refuted(directory / "export") for directory in directories):
        yield "on fresh launches the exported files did not do what they say"
    yield from changes.doubts
