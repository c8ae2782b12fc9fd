"""``install``: add settings to parameter files of a user or a site, or remove them (``--remove``)."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from autotune.commands.everybody import for_everybody
from autotune.commands.terminal import agreed_to
from autotune.errors import AutotuneError
from autotune.exporters import user_files
from autotune.exporters.export_check import refuted
from autotune.exporters.prefix import differences
from autotune.exporters.writing import write_files
from autotune.recommend.recommendation import Recommendation
from autotune.verification.choices import ChoiceKind


def install(
    directory: Path, unasked: bool = False, everybody: bool = False, kind: str = ChoiceKind.HARMLESS
) -> tuple[Path, ...]:
    """Merge the recommendation into the user's own parameter files, or into those for all users.

    Return the files that now contain installed parameters. ``kind`` names the setting: ``harmless`` or
    ``recommended``. If ``unasked``, a doubtful result (simulated, not verified) is installed without a
    question.

    Raises:
        AutotuneError: the result is doubtful and the user did not agree, or every verified setting slows
            other calls.
        UserError: the campaign tuned another MPI, or a file cannot be read or written.
    """
    recommendation = for_everybody(directory, ChoiceKind(kind))
    place = _place(everybody)
    changes = user_files.additions(recommendation, place)
    if changes is None:
        sys.stdout.write("nothing to install: the stack's own defaults stay\n")
        return ()
    if everybody:
        sys.stdout.writelines(f"{line}\n" for line in differences(changes, new=True))
    confirm(recommendation, (directory,), changes, unasked)
    for path, copy in write_files(changes.contents, changes.keep, parents=True, public=everybody).items():
        sys.stdout.write(f"kept {path} as {copy}\n")
    files = tuple(user_files.in_force(place))
    for path, number in files:
        sys.stdout.write(f"{path}: {number} parameters [{recommendation.provenance.verified}]\n")
    sys.stdout.writelines(f"{line}\n" for line in user_files.elsewhere(recommendation, place))
    return tuple(path for path, _ in files)


def uninstall(everybody: bool = False) -> None:
    """Remove the recommendation from the user's own parameter files, or from those for all users.

    Raises:
        UserError: nothing is installed, or a file cannot be read or written.
    """
    place = _place(everybody)
    changes = user_files.removals(place)
    copies = write_files(changes.contents, changes.keep)
    for path in dict.fromkeys([*changes.cleaned, *changes.keep]):
        edits = ", and the edits outside of our lines stay" if path in changes.cleaned else ""
        edited = path in copies
        remark = (
            f" was edited since: it was kept as {copies[path]}{edits}" if edited else ": as it was before"
        )
        sys.stdout.write(f"{path}{remark}\n")
    place.remove_empty_folders()


def _place(everybody: bool) -> user_files.ParameterFiles:
    return user_files.everybodys() if everybody else user_files.own()


def confirm(
    recommendation: Recommendation, directories: Sequence[Path], changes: user_files.Changes, unasked: bool
) -> None:
    """Ask the user whether to install doubtful results; return at once if nothing about them is doubtful.

    If ``unasked``, the doubts are only printed.

    Raises:
        AutotuneError: the user did not agree, or there is no terminal to ask at.
    """
    doubts = "; ".join((*_doubts(recommendation, directories), *changes.doubts)) if changes.contents else ""
    if doubts and unasked:
        sys.stdout.write(f"{doubts}\n")
    elif doubts and not agreed_to(f"{doubts}\ninstall them all the same?", sys.stdout):
        hint = "nothing was written; --yes installs them all the same"
        raise AutotuneError(f"not installed: {doubts}", hint)


def mention(recommendation: Recommendation, directories: Sequence[Path], verb: str, unasked: bool) -> None:
    """Say whether a result that acts on nobody yet was not verified, and at a terminal ask whether to go on.

    ``verb`` says what would be done with the result; if ``unasked``, no question is asked.

    Raises:
        AutotuneError: the user did not agree.
    """
    doubts = "; ".join(_unverified(recommendation, directories))
    if doubts and (unasked or not sys.stdin.isatty()):
        sys.stderr.write(f"{doubts}\n")
    elif doubts and not agreed_to(f"{doubts}\n{verb} it all the same?", sys.stderr):
        raise AutotuneError(f"nothing was written: {doubts}", f"--yes makes {verb} ask no question")


def _doubts(recommendation: Recommendation, directories: Sequence[Path]) -> Iterator[str]:
    source = recommendation.provenance
    if source.stamp:
        yield f"these results are {source.stamp}: no MPI ran"
    yield from _unverified(recommendation, directories)


def _unverified(recommendation: Recommendation, directories: Sequence[Path]) -> Iterator[str]:
    source = recommendation.provenance
    if not source.checked.done:
        yield f"they were not verified on fresh launches: {source.verified}"
    if any(refuted(directory / "export") for directory in directories):
        yield "on fresh launches the exported files did not do what they say"
