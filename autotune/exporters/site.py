"""A tree for everybody at a site: files of one version of Open MPI, with a guard (step 12 of the flow).

Ids and defaults differ between versions, and users load what they like: each way in asks ``mpirun`` first,
and sets nothing where it is another one.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.environment import SCRIPT, LmodModule, ModuleFile, ShellScript, forwarding, lua, tcl
from autotune.exporters.guard import guard_of
from autotune.exporters.launch_line import sourced
from autotune.exporters.origin import commented, remarks, verified_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, check_family, settings
from autotune.exporters.user_files import Changes, content
from autotune.recommend.recommendation import Recommendation

KEPT = "replaced"  # Below a prefix, where what was replaced is kept by date.


@dataclass(frozen=True, slots=True)
class SiteTree:
    """Files to write below a prefix."""

    prefix: Path  # Below which they lie.
    folder: Path  # Of all that is no module.
    files: Mapping[Path, str]  # File → text.
    stale: tuple[Path, ...]  # Files of a tree of this version that this one does not have.
    uses: tuple[str, ...]  # Lines that use it: with a module, and with a script.
    back: str  # The line that takes it back.


def site_tree(recommendation: Recommendation, prefix: Path, module: str) -> SiteTree:
    """The files below a prefix; those of other versions beside them are left alone.

    The module is the site's own of this MPI, which must be loaded; empty: it has none.

    Raises:
        UserError: not measured on a real Open MPI, rules that ``coll_tuned`` cannot say, or nothing to set.
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
    named = (folder, modules / loaded, modules / f"{loaded}.lua")
    back = f"rm -r {' '.join(shlex.quote(str(path)) for path in named)}"
    head = [*remarks(recommendation), "", *(f"use: {line}" for line in uses), f"take it back: {back}"]
    what = f"MPI collectives tuned by autotune on Open MPI {version}: {recommendation.provenance.verified}"
    script, tcl_lines, lua_lines = (
        [*language.asking(guard), *(language.line(*pair) for pair in deployed.environment.items())]
        for language in (ShellScript(), ModuleFile(), LmodModule())
    )
    tcl_head = ["#%Module1.0", *commented(head), f"module-whatis {tcl(what)}", "conflict autotune"]
    tcl_head += [f"prereq {tcl(module)}"] if module else []
    lua_head = [*commented(head, "--"), f"whatis({lua(what)})", 'conflict("autotune")']
    lua_head += [f"prereq({lua(module)})"] if module else []
    files = {
        folder / name: text
        for written in ("json", "summary")
        for name, text in exporter(written).export(recommendation, folder).items()
    }
    files |= {folder / name: text for name, text in deployed.files.items()}
    texts = ([*commented(head), *script], [*tcl_head, *tcl_lines], [*lua_head, *lua_lines])
    for path, lines in zip((folder / SCRIPT, *named[1:]), texts, strict=True):
        files[path] = "\n".join(lines) + "\n"
    stale = tuple(path for path in (folder / RULES_FILE, folder / HAN_FILE) if path not in files)
    return SiteTree(prefix, folder, files, stale, uses, back)


def replacing(tree: SiteTree, stamp: str) -> Changes:
    """Files to write for a tree; a tree of the same version is kept apart.

    Beside the files themselves copies would be modules, and loaded as the newest ones.

    Raises:
        UserError: a file of it cannot be read.
    """
    old = {path: text for path in (*tree.files, *tree.stale) if (text := content(path)) is not None}
    new = {path: text for path, text in tree.files.items() if old.get(path) != text.encode()}
    gone = [path for path in tree.stale if path in old]
    if not new and not gone:
        return Changes({}, ())
    kept = {tree.prefix / KEPT / stamp / path.relative_to(tree.prefix): text for path, text in old.items()}
    said = (
        verified_in(text.decode("utf-8", "replace")) for path, text in old.items() if path.suffix == ".sh"
    )
    return Changes(
        {**kept, **new, **dict.fromkeys(gone)},
        (),
        doubts=tuple(f"they replace others, {words}" for words in said if words),
    )


def differences(changes: Changes, new: bool = False) -> Iterator[str]:
    """Changes to each existing file, or also new ones, and to its lines that set something."""
    for path, text in changes.contents.items():
        if (old := content(path)) is None and not new:
            continue
        yield f"{path}: {'goes' if text is None else 'is new' if old is None else 'changes'}"
        if path.suffix in (".sh", ".conf"):
            lines = [*unified_diff(_telling(old), _telling(text), n=0, lineterm="")][2:]
            yield from (f"  {line}" for line in lines if not line.startswith("@@"))


def _telling(content: bytes | str | None) -> list[str]:
    text = content.decode("utf-8", "replace") if isinstance(content, bytes) else content or ""
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def bring_back(tree: SiteTree, stamp: str) -> str:
    """The line that puts back what a tree replaced."""
    kept = tree.prefix / KEPT / stamp
    copies = [
        f"cp -p {shlex.quote(str(kept / place.relative_to(tree.prefix)))}/* {shlex.quote(str(place))}"
        for place in dict.fromkeys(path.parent for path in tree.files)
    ]
    return " && ".join([tree.back, f"mkdir -m 755 {shlex.quote(str(tree.folder))}", *copies])
