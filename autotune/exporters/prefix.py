"""Make a tree of files for all users of a site, for one version of Open MPI (step 12 of the data flow).

Ids of algorithms and defaults differ between versions, and users may load any version. Each module and script
therefore first checks the version of ``mpirun``, and sets nothing if this is not the measured version.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.environment import SCRIPT, LmodModule, ModuleFile, ShellScript, forwarding, lua, tcl
from autotune.exporters.launch_line import sourced
from autotune.exporters.origin import commented, remarks, verified_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, check_family, settings
from autotune.exporters.user_files import Changes, content
from autotune.exporters.version_check import guard_of
from autotune.recommend.recommendation import Recommendation

KEPT = "replaced"  # Directory below a prefix that contains copies of replaced files, sorted by date.


@dataclass(frozen=True, slots=True)
class SiteTree:
    """Holds the files to write below a prefix (a directory of the site), and command lines that use them."""

    prefix: Path  # Directory of the tree.
    folder: Path  # Directory of all files except environment modules.
    files: Mapping[Path, str]  # Maps each file to its text.
    stale: tuple[Path, ...]
    """Rules files that this tree does not have, but that an earlier tree of this version may have written."""
    uses: tuple[str, ...]  # Command lines that use the tree, one with a module and one with a script.
    back: str  # Command line that removes the tree.


def site_tree(recommendation: Recommendation, prefix: Path, module: str) -> SiteTree:
    """Return the files to write below a prefix; files for other versions of Open MPI are not affected.

    ``module`` is the environment module with which the site loads this MPI (empty: there is none); the tree's
    own module requires it.

    Raises:
        UserError: The recommendation was not measured on a real Open MPI, contains rules that ``coll_tuned``
            cannot express, or sets nothing; or the prefix contains characters with which modules are not
            found.
    """
    check_family(recommendation, "openmpi")
    guard = guard_of(recommendation)
    if not guard:
        raise UserError(
            f"{recommendation.provenance.campaign} was not measured on a version of Open MPI "
            f"({recommendation.provenance.stack or 'unknown'})",
            "a site's tree holds for the version that was measured; --out DIR writes files without a guard",
        )
    version, prefix = guard.openmpi, prefix.absolute()
    if awkward := set(":${}") & set(str(prefix)):
        raise UserError(
            f"--prefix {prefix}: modules cannot be found below a directory with {' '.join(sorted(awkward))}",
            "MODULEPATH, a list of directories, can hold everything else",
        )
    folder, modules = prefix / f"openmpi-{version}", prefix / "modulefiles"
    deployed = settings(recommendation, folder)
    if not deployed.environment:
        raise UserError(
            f"{recommendation.provenance.campaign}: the stack's own defaults stay",
            "no variable is set, so a site has nothing to load",
        )
    loaded = f"autotune/{folder.name}"
    command = forwarding(recommendation, folder)
    uses = (
        f"module use {shlex.quote(str(modules))}; module load {loaded}; {command}",
        sourced(folder / SCRIPT, command),
    )
    removable = (folder, modules / loaded, modules / f"{loaded}.lua")
    back = f"rm -r {' '.join(shlex.quote(str(path)) for path in removable)}"
    head = [*remarks(recommendation), "", *(f"use: {line}" for line in uses), f"take it back: {back}"]
    whatis = f"MPI collectives tuned by autotune on Open MPI {version}: {recommendation.provenance.verified}"
    script, tcl_lines, lua_lines = (
        [*language.version_check(guard), *(language.line(*pair) for pair in deployed.environment.items())]
        for language in (ShellScript(), ModuleFile(), LmodModule())
    )
    tcl_head = ["#%Module1.0", *commented(head), f"module-whatis {tcl(whatis)}", "conflict autotune"]
    tcl_head += [f"prereq {tcl(module)}"] if module else []
    lua_head = [*commented(head, "--"), f"whatis({lua(whatis)})", 'conflict("autotune")']
    lua_head += [f"prereq({lua(module)})"] if module else []
    files = {
        folder / name: text
        for format_name in ("json", "summary")
        for name, text in exporter(format_name).export(recommendation, folder).items()
    }
    files |= {folder / name: text for name, text in deployed.files.items()}
    texts = ([*commented(head), *script], [*tcl_head, *tcl_lines], [*lua_head, *lua_lines])
    for path, lines in zip((folder / SCRIPT, *removable[1:]), texts, strict=True):
        files[path] = "\n".join(lines) + "\n"
    stale = tuple(path for path in (folder / RULES_FILE, folder / HAN_FILE) if path not in files)
    return SiteTree(prefix, folder, files, stale, uses, back)


def replacing(tree: SiteTree, stamp: str) -> Changes:
    """Return the files to write for a tree, and copies of the files of the same version that are replaced.

    The copies are in a separate directory with the name ``stamp``. Next to the new files, they would be
    environment modules too, and would be loaded as the newest version.

    Raises:
        UserError: An existing file cannot be read.
    """
    old = {path: text for path in (*tree.files, *tree.stale) if (text := content(path)) is not None}
    new = {path: text for path, text in tree.files.items() if old.get(path) != text.encode()}
    removed = [path for path in tree.stale if path in old]
    if not new and not removed:
        return Changes({}, ())
    copies = {tree.prefix / KEPT / stamp / path.relative_to(tree.prefix): text for path, text in old.items()}
    verdicts = (
        verified_in(text.decode("utf-8", "replace")) for path, text in old.items() if path.suffix == ".sh"
    )
    return Changes(
        {**copies, **new, **dict.fromkeys(removed)},
        (),
        doubts=tuple(f"they replace others, {verdict}" for verdict in verdicts if verdict),
    )


def differences(changes: Changes, new: bool = False) -> Iterator[str]:
    """Yield a line for each changed file (with ``new`` also for each new one), then its changed lines."""
    for path, text in changes.contents.items():
        if (old := content(path)) is None and not new:
            continue
        yield f"{path}: {'goes' if text is None else 'is new' if old is None else 'changes'}"
        if path.suffix in (".sh", ".conf"):
            lines = [*unified_diff(_setting_lines(old), _setting_lines(text), n=0, lineterm="")][2:]
            yield from (f"  {line}" for line in lines if not line.startswith("@@"))


def _setting_lines(content: bytes | str | None) -> list[str]:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content or ""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def bring_back(tree: SiteTree, stamp: str) -> str:
    """Return the command line that restores the files that a tree replaced."""
    stored = tree.prefix / KEPT / stamp
    copies = [
        f"cp -p {shlex.quote(str(stored / target.relative_to(tree.prefix)))}/* {shlex.quote(str(target))}"
        for target in dict.fromkeys(path.parent for path in tree.files)
    ]
    return " && ".join([tree.back, f"mkdir -m 755 {shlex.quote(str(tree.folder))}", *copies])
