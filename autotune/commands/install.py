"""``install DIR`` and ``uninstall``: parameter files of a user or a site, and out again."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.commands.site_directory import recommended
from autotune.commands.terminal import agreed_to
from autotune.errors import AutotuneError
from autotune.exporters import user_files
from autotune.exporters.export_check import refuted
from autotune.exporters.site import differences
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation


def install(directory: Path, unasked: bool = False, everybody: bool = False) -> None:
    """Merge the recommendation into the user's own files, or into those for everybody.

    ``unasked``: without a question what no real MPI has shown, or what was not verified.

    Raises:
        AutotuneError: such a result, and nobody said yes.
        UserError: a campaign of another MPI, or files that cannot be read or written.
    """
    recommendation = recommended(directory)
    place = _place(everybody)
    changes = user_files.additions(recommendation, place)
    if changes is None:
        sys.stdout.write("nothing to install: the stack's own defaults stay\n")
        return
    if everybody:
        sys.stdout.writelines(f"{line}\n" for line in differences(changes, new=True))
    agreed(recommendation, (directory,), changes, unasked)
    for path, copy in write_files(changes.contents, changes.keep, parents=True, public=everybody).items():
        sys.stdout.write(f"kept {path} as {copy}\n")
    for path, number in user_files.in_force(place):
        sys.stdout.write(f"{path}: {number} parameters [{recommendation.provenance.verified}]\n")
    sys.stdout.writelines(f"{line}\n" for line in user_files.elsewhere(recommendation, place))


def uninstall(everybody: bool = False) -> None:
    """Take the recommendation out of the user's own parameter files, or of those for everybody.

    Raises:
        UserError: there is none, or files that cannot be read or written.
    """
    place = _place(everybody)
    changes = user_files.removals(place)
    copies = write_files(changes.contents, changes.keep)
    for path in dict.fromkeys([*changes.cleaned, *changes.keep]):
        said = ": as it was before"
        if path in copies:
            stay = ", and the edits outside of our lines stay" if path in changes.cleaned else ""
            said = f" was edited since: it was kept as {copies[path]}{stay}"
        sys.stdout.write(f"{path}{said}\n")
    place.remove_empty_folders()


def _place(everybody: bool) -> user_files.ParameterFiles:
    return user_files.everybodys() if everybody else user_files.own()


def agreed(
    recommendation: Recommendation, directories: Sequence[Path], changes: user_files.Changes, unasked: bool
) -> None:
    """Go on if nothing is doubtful, or the user wants it all the same.

    Raises:
        AutotuneError: no, or nobody is there to be asked.
    """
    doubts = "; ".join(_doubts(recommendation, directories, changes)) if changes.contents else ""
    if doubts and unasked:
        sys.stdout.write(f"{doubts}\n")
    elif doubts and not agreed_to(f"{doubts}\ninstall them all the same?", sys.stdout):
        hint = "nothing was written; --yes installs them all the same"
        raise AutotuneError(f"not installed: {doubts}", hint)


def _doubts(
    recommendation: Recommendation, directories: Sequence[Path], changes: user_files.Changes
) -> Iterator[str]:
    """Why it should not be installed without a question."""
    source = recommendation.provenance
    if source.stamp:
        yield f"these results are {source.stamp}: no MPI ran"
    if not source.checked.done:
        yield f"they were not verified on fresh launches: {source.verified}"
    if any(refuted(directory / "export") for directory in directories):
        yield "on fresh launches the exported files did not do what they say"
    yield from changes.doubts
