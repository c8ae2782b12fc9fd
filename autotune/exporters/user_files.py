"""Install a recommendation in parameter files of a user or a site, and remove it again (after step 12).

The files are the parameter files of Open MPI and of UCX.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from autotune.errors import StackError, UserError
from autotune.exporters import exporter
from autotune.exporters.install import checksum, installed, merged, without
from autotune.exporters.launch_line import placed
from autotune.exporters.openmpi import CONF_FILE, UCX_FILE
from autotune.exporters.origin import verified_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, check_family, settings
from autotune.exporters.version_check import guard_of
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_bytes
from autotune.stacks import openmpi
from autotune.stacks.installation import Installation, find
from autotune.stacks.ucx import detect, site_file


@dataclass(frozen=True)
class ParameterFiles:
    """Names the parameter files of one user, or those for all users of an MPI (``everybody``)."""

    conf: Path  # Open MPI's parameter file.
    ucx: Path | None  # UCX's parameter file; None if it is not known which file UCX reads.
    everybody: bool = False

    @property
    def rules(self) -> Path:
        """Return the path of the rules file of ``coll_tuned``, in a folder that only autotune uses."""
        return self.conf.parent / "autotune" / RULES_FILE

    @property
    def rules_files(self) -> tuple[Path, ...]:
        """Return the paths of all rules files."""
        return tuple(self.rules.with_name(name) for name in (RULES_FILE, HAN_FILE))

    @cached_property
    def targets(self) -> dict[str, Path]:
        """Return a mapping from the name of each exported file to the file that gets its settings."""
        return {CONF_FILE: self.conf} | ({UCX_FILE: self.ucx} if self.ucx else {})

    @property
    def back(self) -> str:
        """Return the command line that removes the recommendation from these files."""
        return f"autotune install --remove{' --site' if self.everybody else ''}"

    def edited_rules(self) -> list[Path]:
        """Return the rules files that were edited after they were installed."""
        conf = content(self.conf) or b""
        rules = ((path, content(path)) for path in self.rules_files)
        return [
            p for p, text in rules if text is not None and _checksum_line(p.name, text).encode() not in conf
        ]

    def remove_empty_folders(self) -> None:
        """Remove the folders that are empty after the installed files were removed."""
        above_ucx = (self.ucx.parent, self.ucx.parent.parent) if self.everybody and self.ucx else ()
        for folder in (self.rules.parent, self.conf.parent, *above_ucx):
            with suppress(OSError):  # the folder still contains other files
                folder.rmdir()


def own() -> ParameterFiles:
    """Return the parameter files in the user's home."""
    return ParameterFiles(Path.home() / ".openmpi" / "mca-params.conf", Path.home() / UCX_FILE)


def everybodys(installation: Installation | None = None) -> ParameterFiles:
    """Return the parameter files of an Open MPI (None: the one that is found here) for all its users.

    Raises:
        StackError: No Open MPI was found.
    """
    installation = installation or find(stack="openmpi")
    return ParameterFiles(
        openmpi.site_folder(installation.mpirun) / CONF_FILE, site_file(installation.library), everybody=True
    )


@dataclass(frozen=True, slots=True)
class Changes:
    """Describes which files are written or removed, which are copied before, and what to ask the user."""

    contents: Mapping[Path, bytes | str | None]  # Maps each file to its new content; None removes the file.
    keep: tuple[Path, ...]  # Files of which a copy is saved before they change.
    cleaned: tuple[Path, ...] = ()  # Parameter files from which the recommendation is removed.
    doubts: tuple[str, ...] = ()
    """Reasons to ask the user first: verified settings that would be replaced, and versions that differ."""


def additions(recommendation: Recommendation, place: ParameterFiles) -> Changes | None:
    """Return the changes that add a recommendation to parameter files; None if there is nothing to set.

    Raises:
        UserError: The campaign tuned another MPI, a file cannot be read, or the path of UCX's file is not
            known.
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
    new_contents: dict[Path, bytes | None] = {}
    for path in place.rules_files:
        new_contents[path] = files[path.name].encode() if path.name in files else None
        if (rules := new_contents[path]) is not None:
            files[CONF_FILE] += f"{_checksum_line(path.name, rules)}\n"
    keep = place.edited_rules()
    sets = {CONF_FILE: deployed.mca, UCX_FILE: deployed.ucx}
    for name, target in place.targets.items():
        old = content(target)
        remaining = without(old)
        new_contents[target] = merged(old, files[name]) if sets[name] else remaining.content
        if remaining.content is not None:
            keep.append(target)
    contents = {path: text for path, text in new_contents.items() if text != content(path)}
    changed = [old for target in place.targets.values() if target in contents and (old := content(target))]
    verdicts = {verified_in(old.decode("utf-8", "replace")) for old in changed if installed(old)}
    replaced = [f"they replace others, {verdict}" for verdict in sorted(verdicts) if verdict]
    return Changes(contents, tuple(keep), doubts=(*replaced, *_other_versions(recommendation)))


def _other_versions(recommendation: Recommendation) -> Iterator[str]:
    """Yield a doubt for each library of another version than measured; parameter files cannot check this."""
    guard = guard_of(recommendation)
    if guard is None:
        return
    with suppress(StackError):
        installation = find(stack="openmpi")
        if installation.version != guard.openmpi:
            yield f"they were measured on Open MPI {guard.openmpi}, and {installation.version} is here"
        ucx = detect(installation.library) if guard.ucx else None
        if ucx and ucx.version != guard.ucx:
            yield f"they were measured over UCX {guard.ucx}, and {ucx.version} is here"


def removals(place: ParameterFiles) -> Changes:
    """Return the changes that remove a recommendation from parameter files.

    Raises:
        UserError: The files contain nothing that autotune installed, or a file cannot be read.
    """
    contents = {target: content(target) for target in place.targets.values()}
    remainders = {target: without(content) for target, content in contents.items() if installed(content)}
    if not remainders:
        raise UserError(f"{place.conf} holds nothing of autotune's", "nothing was changed")
    edited = (
        *(target for target, remaining in remainders.items() if not remaining.as_before),
        *place.edited_rules(),
    )
    changes = {target: remaining.content for target, remaining in remainders.items()}
    return Changes({**changes, **dict.fromkeys(place.rules_files)}, edited, tuple(remainders))


def in_force(place: ParameterFiles) -> Iterator[tuple[Path, int]]:
    """Yield each file that contains installed parameters, with the number of these parameters."""
    for target in place.targets.values():
        if number := len(installed(content(target))):
            yield target, number


def in_effect(installation: Installation) -> Iterator[Path]:
    """Yield the files with installed parameters that affect this user's launches with an MPI."""
    places = (own(), everybodys(installation)) if installation.flavour == "openmpi" else (own(),)
    yield from (path for place in places for path, _ in in_force(place))


def elsewhere(recommendation: Recommendation, place: ParameterFiles) -> Iterator[str]:
    """Yield lines to print after an installation.

    They name each setting that no file can contain, the command that removes the installed parameters and,
    after an installation for one user, the files for all users.
    """
    deployed = settings(recommendation, place.rules.parent)
    for setting in (*placed(recommendation), *deployed.environment_only):
        yield f"not in any file: {setting}, which belongs on the command line or into the environment"
    for name, value in recommendation.provenance.boot:
        yield f"measured on nodes with {name}={value}, which is firmware"
    yield f"take them out again with: {place.back}"
    if place.everybody:
        return
    with suppress(StackError):
        site_files = everybodys()
        yield f"for all users of this machine: {site_files.conf} (not written; install --site)"
        if deployed.ucx:
            ucx_file = site_files.ucx or "etc/ucx/ucx.conf of the prefix that UCX was built for"
            yield f"and together with it UCX's: {ucx_file} (not written)"


def _checksum_line(name: str, rules: bytes) -> str:
    """Return the comment by which later edits of a rules file are detected."""
    return f"# {name}: {checksum(rules)}"


def content(path: Path) -> bytes | None:
    """Return the content of a file; None if there is no file.

    Raises:
        UserError: The file cannot be read.
    """
    with suppress(PermissionError):  # ``user_bytes`` reports a directory that cannot be read
        if not path.exists():
            return None
    return user_bytes(path, hint="nothing was changed; expected a file", raised=UserError)
