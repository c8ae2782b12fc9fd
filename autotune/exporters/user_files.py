"""A recommendation in the files that Open MPI and UCX read in a home, and out again (after step 12)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.guard import guard_of
from autotune.exporters.install import checksum, installed, merged, without
from autotune.exporters.launch_line import placed
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.openmpi_files import UCX_FILE
from autotune.exporters.origin import verified_in
from autotune.exporters.settings import RULES_FILE, check_family, settings
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_bytes
from autotune.stacks.installation import find
from autotune.stacks.ucx import detect, site_file


@dataclass(frozen=True, slots=True)
class Changes:
    """Files to write."""

    contents: Mapping[Path, bytes | str | None]  # File → what it will hold; None: it goes.
    keep: tuple[Path, ...]  # Of these a copy is kept, if they change.
    cleaned: tuple[Path, ...] = ()  # Parameter files that are rid of us.
    doubts: tuple[str, ...] = ()  # Why to ask before they are made: what they replace, and what is here.


def additions(recommendation: Recommendation) -> Changes | None:
    """Changes that add a recommendation to the user's files; None where the stack's own defaults stay.

    Raises:
        UserError: a campaign of another MPI, or files that cannot be read.
    """
    check_family(recommendation, "openmpi")
    deployed = settings(recommendation, _rules().parent)
    if not deployed.mca and not deployed.other and not placed(recommendation):
        return None
    files = dict(exporter("openmpi_mca").export(recommendation, _rules().parent))
    rules = files.get(RULES_FILE)
    if rules:
        files[CONF_FILE] += f"{_said(rules.encode())}\n"
    contents: dict[Path, bytes | str | None] = {_rules(): rules}
    keep = _edited_rules()
    sets = {CONF_FILE: deployed.mca, UCX_FILE: deployed.ucx}
    for name, target in _targets().items():
        before = content(target)
        rest = without(before)
        after = merged(before, files[name]) if sets[name] else rest.content
        if after != before:
            contents[target] = after
        if rest.content is not None:
            keep.append(target)
    changed = [before for target in _targets().values() if target in contents and (before := content(target))]
    said = {verified_in(before.decode("utf-8", "replace")) for before in changed if installed(before)}
    replaced = [f"they replace others, {words}" for words in sorted(said) if words]
    return Changes(contents, tuple(keep), doubts=(*replaced, *_other_versions(recommendation)))


def _other_versions(recommendation: Recommendation) -> Iterator[str]:
    """In words, what is here in place of the versions that were measured: no file can ask as scripts do."""
    guard = guard_of(recommendation)
    if guard is None:
        return
    with suppress(StackError):
        here = find(stack="openmpi")
        if here.version != guard.openmpi:
            yield f"they were measured on Open MPI {guard.openmpi}, and {here.version} is here"
        over = detect(here.library) if guard.ucx else None
        if over and over.version != guard.ucx:
            yield f"they were measured over UCX {guard.ucx}, and {over.version} is here"


def removals() -> Changes:
    """Changes that remove it from the user's files.

    Raises:
        UserError: there is none, or files that cannot be read.
    """
    contents = {target: content(target) for target in _targets().values()}
    rests = {target: without(content) for target, content in contents.items() if installed(content)}
    if not rests:
        raise UserError(f"{_targets()[CONF_FILE]} holds nothing of autotune's", "nothing was changed")
    edited = (*(target for target, rest in rests.items() if not rest.as_before), *_edited_rules())
    changes = {target: rest.content for target, rest in rests.items()}
    return Changes({**changes, _rules(): None}, edited, tuple(rests))


def remove_empty_folders() -> None:
    """Those that only our files were in."""
    for folder in (_rules().parent, _folder()):
        with suppress(OSError):  # somebody's files are in it
            folder.rmdir()


def in_force() -> Iterator[tuple[Path, int]]:
    """The user's files that hold parameters of ours, and how many."""
    for target in _targets().values():
        if number := len(installed(content(target))):
            yield target, number


def elsewhere(recommendation: Recommendation) -> Iterator[str]:
    """Settings that no file of the user can hold, a line each, and the place of a file for everybody."""
    environment = settings(recommendation, _rules().parent).environment_only
    for what in (*placed(recommendation), *environment):
        yield f"not in any file: {what}, which belongs on the command line or into the environment"
    for name, value in recommendation.provenance.boot:
        yield f"measured on nodes with {name}={value}, which is firmware"
    yield "take them out again with: python -m autotune uninstall"
    with suppress(StackError):
        here = find(stack="openmpi")
        file = here.mpirun.resolve().parent.parent / "etc" / CONF_FILE
        yield f"for all users of this machine: {file} (not written)"
        if settings(recommendation, _rules().parent).ucx:
            own = site_file(here.library) or "etc/ucx/ucx.conf of the prefix that UCX was built for"
            yield f"and together with it UCX's: {own} (not written)"


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
    rules, beside = content(_rules()), content(_targets()[CONF_FILE]) or b""
    return [_rules()] if rules is not None and _said(rules).encode() not in beside else []


def _said(rules: bytes) -> str:
    """The comment beside the parameters that shows whether somebody edited the rules since."""
    return f"# {RULES_FILE}: {checksum(rules)}"


def content(path: Path) -> bytes | None:
    """Content of a file; None where there is none.

    Raises:
        UserError: it cannot be read.
    """
    with suppress(PermissionError):  # of a directory above: reading the file will report it
        if not path.exists():
            return None
    return user_bytes(path, hint="nothing was changed; expected a file", raised=UserError)
