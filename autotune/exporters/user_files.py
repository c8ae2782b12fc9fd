"""A recommendation in Open MPI's and UCX's files of a user or a site, and out again (after step 12)."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.guard import guard_of
from autotune.exporters.install import checksum, installed, merged, without
from autotune.exporters.launch_line import placed
from autotune.exporters.openmpi import CONF_FILE
from autotune.exporters.openmpi_files import UCX_FILE
from autotune.exporters.origin import verified_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, check_family, settings
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_bytes
from autotune.stacks import openmpi
from autotune.stacks.installation import Installation, find
from autotune.stacks.ucx import detect, site_file


@dataclass(frozen=True)
class ParameterFiles:
    """The parameter files of one user, or those for everybody."""

    conf: Path  # Open MPI's.
    ucx: Path | None  # UCX's; None: it is not known which one it reads.
    everybody: bool = False

    @property
    def rules(self) -> Path:
        """The rules of ``coll_tuned``, where no file of anybody's is in the way."""
        return self.conf.parent / "autotune" / RULES_FILE

    @property
    def beside(self) -> tuple[Path, ...]:
        """All rules files."""
        return tuple(self.rules.with_name(name) for name in (RULES_FILE, HAN_FILE))

    @cached_property
    def targets(self) -> dict[str, Path]:
        """Exported file → the file of the same kind here."""
        return {CONF_FILE: self.conf} | ({UCX_FILE: self.ucx} if self.ucx else {})

    @property
    def back(self) -> str:
        """The line that takes ours out."""
        return f"autotune uninstall{' --site' if self.everybody else ''}"

    def edited_rules(self) -> list[Path]:
        """The rules files that are not those that were installed."""
        beside = content(self.conf) or b""
        made = ((path, content(path)) for path in self.beside)
        return [p for p, text in made if text is not None and _said(p.name, text).encode() not in beside]

    def remove_empty_folders(self) -> None:
        """Those that only our files were in."""
        above_ucx = (self.ucx.parent, self.ucx.parent.parent) if self.everybody and self.ucx else ()
        for folder in (self.rules.parent, self.conf.parent, *above_ucx):
            with suppress(OSError):  # somebody's files are in it
                folder.rmdir()


def own() -> ParameterFiles:
    """The files in the user's home."""
    return ParameterFiles(Path.home() / ".openmpi" / "mca-params.conf", Path.home() / UCX_FILE)


def everybodys(here: Installation | None = None) -> ParameterFiles:
    """The files of an Open MPI, or of the one that is found, for all who use it.

    Raises:
        StackError: there is none.
    """
    here = here or find(stack="openmpi")
    return ParameterFiles(
        openmpi.site_folder(here.mpirun) / CONF_FILE, site_file(here.library), everybody=True
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """Files to write."""

    contents: Mapping[Path, bytes | str | None]  # File → what it will hold; None: it goes.
    keep: tuple[Path, ...]  # Of these a copy is kept, if they change.
    cleaned: tuple[Path, ...] = ()  # Parameter files that are rid of us.
    doubts: tuple[str, ...] = ()  # Why to ask before they are made: what they replace, and what is here.


def additions(recommendation: Recommendation, place: ParameterFiles) -> Changes | None:
    """Changes that add a recommendation to these files; None where the stack's own defaults stay.

    Raises:
        UserError: a campaign of another MPI, files that cannot be read, or no known one of UCX.
    """
    check_family(recommendation, "openmpi")
    deployed = settings(recommendation, place.rules.parent)
    if not deployed.mca and not deployed.other and not placed(recommendation):
        return None
    if deployed.ucx and place.ucx is None:
        raise UserError(
            f"UCX's settings ({', '.join(deployed.ucx)}) have no known place: it is not beside Open MPI",
            "export --prefix writes modules, which need no file of UCX's",
        )
    files = dict(exporter("openmpi_mca").export(recommendation, place.rules.parent))
    after: dict[Path, bytes | None] = {}
    for path in place.beside:
        after[path] = files[path.name].encode() if path.name in files else None
        if (rules := after[path]) is not None:
            files[CONF_FILE] += f"{_said(path.name, rules)}\n"
    keep = place.edited_rules()
    sets = {CONF_FILE: deployed.mca, UCX_FILE: deployed.ucx}
    for name, target in place.targets.items():
        before = content(target)
        rest = without(before)
        after[target] = merged(before, files[name]) if sets[name] else rest.content
        if rest.content is not None:
            keep.append(target)
    contents = {path: text for path, text in after.items() if text != content(path)}
    changed = [
        before for target in place.targets.values() if target in contents and (before := content(target))
    ]
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


def removals(place: ParameterFiles) -> Changes:
    """Changes that remove it from these files.

    Raises:
        UserError: there is none, or files that cannot be read.
    """
    contents = {target: content(target) for target in place.targets.values()}
    rests = {target: without(content) for target, content in contents.items() if installed(content)}
    if not rests:
        raise UserError(f"{place.conf} holds nothing of autotune's", "nothing was changed")
    edited = (*(target for target, rest in rests.items() if not rest.as_before), *place.edited_rules())
    changes = {target: rest.content for target, rest in rests.items()}
    return Changes({**changes, **dict.fromkeys(place.beside)}, edited, tuple(rests))


def in_force(place: ParameterFiles) -> Iterator[tuple[Path, int]]:
    """Files that hold parameters of ours, and how many."""
    for target in place.targets.values():
        if number := len(installed(content(target))):
            yield target, number


def in_effect(here: Installation) -> Iterator[Path]:
    """Files that hold parameters of ours and are read by what the user starts with this MPI."""
    places = (own(), everybodys(here)) if here.flavour == "openmpi" else (own(),)
    yield from (path for place in places for path, _ in in_force(place))


def elsewhere(recommendation: Recommendation, place: ParameterFiles) -> Iterator[str]:
    """Settings that no file can hold, a line each, how to take ours out, and the files for everybody."""
    deployed = settings(recommendation, place.rules.parent)
    for what in (*placed(recommendation), *deployed.environment_only):
        yield f"not in any file: {what}, which belongs on the command line or into the environment"
    for name, value in recommendation.provenance.boot:
        yield f"measured on nodes with {name}={value}, which is firmware"
    yield f"take them out again with: {place.back}"
    if place.everybody:
        return
    with suppress(StackError):
        others = everybodys()
        yield f"for all users of this machine: {others.conf} (not written; install --site)"
        if deployed.ucx:
            its = others.ucx or "etc/ucx/ucx.conf of the prefix that UCX was built for"
            yield f"and together with it UCX's: {its} (not written)"


def _said(name: str, rules: bytes) -> str:
    """The comment beside the parameters that shows whether somebody edited a rules file since."""
    return f"# {name}: {checksum(rules)}"


def content(path: Path) -> bytes | None:
    """Content of a file; None where there is none.

    Raises:
        UserError: it cannot be read.
    """
    with suppress(PermissionError):  # of a directory above: reading the file will report it
        if not path.exists():
            return None
    return user_bytes(path, hint="nothing was changed; expected a file", raised=UserError)
