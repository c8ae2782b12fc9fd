"""``install DIR`` and ``uninstall``: a recommendation in the user's own parameter files, and out again."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from autotune.campaign.directory import read_campaign
from autotune.errors import AutotuneError, StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.export_check import refuted
from autotune.exporters.install import checksum, installed, merged, without
from autotune.exporters.launch_line import placed
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.openmpi_files import UCX_FILE
from autotune.exporters.settings import RULES_FILE, check_family, settings
from autotune.exporters.writing import write_files
from autotune.recommend.front import Recommendation
from autotune.stacks.installation import find


def install(directory: Path, unasked: bool = False) -> None:
    """Merge the recommendation into the user's own files: Open MPI's and, where it is needed, UCX's.

    ``unasked``: without a question what no real MPI has shown, or what was not verified.

    Raises:
        AutotuneError: such a result, and nobody said yes.
        UserError: a campaign of another MPI, or files that cannot be read or written.
        StorageError: the disk is full or read-only.
    """
    recommendation = read_campaign(directory).recommended()
    check_family(recommendation, "openmpi")
    deployed = settings(recommendation, _rules().parent)
    if not deployed.mca and not deployed.other and not placed(recommendation):
        sys.stdout.write("nothing to install: the stack's own defaults stay\n")
        return
    if doubts := [*_doubts(recommendation, directory)]:
        _ask(doubts, unasked)
    files = dict(exporter("openmpi_mca").export(recommendation, _rules().parent))
    rules = files.get(RULES_FILE)
    if rules:
        files[CONF_FILE] += f"{_said(rules.encode())}\n"
    changes: dict[Path, bytes | str | None] = {_rules(): rules}
    keep = _edited_rules()
    sets = {CONF_FILE: deployed.mca, UCX_FILE: deployed.ucx}
    for name, target in _targets().items():
        before = _content(target)
        rest = without(before)
        after = merged(before, files[name]) if sets[name] else rest.content
        if after != before:
            changes[target] = after
        if rest.content is not None:
            keep.append(target)
    copies = write_files(changes, keep, parents=True)
    for path, copy in copies.items():
        sys.stdout.write(f"kept {path} as {copy}\n")
    for target in _targets().values():
        if number := len(installed(_content(target))):
            sys.stdout.write(f"{target}: {number} parameters [{recommendation.provenance.verified}]\n")
    for what in (*placed(recommendation), *deployed.environment_only):
        sys.stdout.write(
            f"not in any file: {what}, which belongs on the command line or into the environment\n"
        )
    for name, value in recommendation.provenance.boot:
        sys.stdout.write(f"measured on nodes with {name}={value}, which is firmware\n")
    sys.stdout.write("take them out again with: python -m autotune uninstall\n")
    with suppress(StackError):
        prefix = find().mpirun.resolve().parent.parent
        sys.stdout.write(f"for all users of this machine: {prefix / 'etc' / CONF_FILE} (not written)\n")


def uninstall() -> None:
    """Take the recommendation out of the user's own parameter files.

    Raises:
        UserError: there is none, or files that cannot be read or written.
        StorageError: the disk is full or read-only.
    """
    contents = {target: _content(target) for target in _targets().values()}
    rests = {target: without(content) for target, content in contents.items() if installed(content)}
    if not rests:
        raise UserError(f"{_targets()[CONF_FILE]} holds nothing of autotune's", "nothing was changed")
    edited = [*(target for target, rest in rests.items() if not rest.as_before), *_edited_rules()]
    changes = {target: rest.content for target, rest in rests.items()}
    copies = write_files({**changes, _rules(): None}, keep=edited)
    for path in dict.fromkeys([*rests, *edited]):
        if path in copies:
            sys.stdout.write(f"{path} was edited since: it was kept as {copies[path]}")
            sys.stdout.write(", and the edits outside of our lines stay\n" if path in rests else "\n")
        else:
            sys.stdout.write(f"{path}: as it was before\n")
    for folder in (_rules().parent, _folder()):
        with suppress(OSError):  # somebody's files are in it
            folder.rmdir()


def _doubts(recommendation: Recommendation, directory: Path) -> Iterator[str]:
    """Why it should not be installed without a question."""
    source = recommendation.provenance
    if source.stamp:
        yield f"these results are {source.stamp}: no MPI ran"
    if not source.checked.done:
        yield f"they were not verified on fresh launches: {source.verified}"
    if refuted(directory / "export"):
        yield "on fresh launches the exported files did not do what they say"


def _ask(doubts: list[str], unasked: bool) -> None:
    """Go on if the user wants that.

    Raises:
        AutotuneError: no, or nobody is there to be asked.
    """
    said = "; ".join(doubts)
    if unasked:
        sys.stdout.write(f"{said}\n")
        return
    if sys.stdin.isatty():
        sys.stdout.write(f"{said}\ninstall them all the same? [y/N] ")
        sys.stdout.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise AutotuneError(f"not installed: {said}", "nothing was written; --yes installs them all the same")


def _folder() -> Path:
    """Where Open MPI looks for a user's own files."""
    return Path.home() / ".openmpi"


def _rules() -> Path:
    """The rules, where no file of the user's is in the way."""
    return _folder() / "autotune" / RULES_FILE


def _targets() -> dict[str, Path]:
    """Exported file → the user's own file of the same kind."""
    return {CONF_FILE: _folder() / "mca-params.conf", UCX_FILE: Path.home() / UCX_FILE}


def _edited_rules() -> list[Path]:
    """The rules, if they are not those that were installed."""
    rules, beside = _content(_rules()), _content(_targets()[CONF_FILE]) or b""
    return [_rules()] if rules is not None and _said(rules).encode() not in beside else []


def _said(rules: bytes) -> str:
    """The comment beside the parameters that tells whether somebody edited the rules since."""
    return f"# {RULES_FILE}: {checksum(rules)}"


def _content(path: Path) -> bytes | None:
    """What is in a file; None where there is none.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise UserError(
            f"cannot read {path}: {exc.strerror}", "nothing was changed; expected a file"
        ) from exc
