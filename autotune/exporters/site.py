"""A tree for everybody at a site: files of one version of Open MPI, with a guard (step 12 of the flow).

Ids and defaults differ between versions, and users load what they like: each way in asks ``mpirun`` first,
and sets nothing where it is another one.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.exporters.environment import SCRIPT, LmodModule, ModuleFile, ShellScript, forwarding, lua, tcl
from autotune.exporters.launch_line import sourced
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import check_family, settings
from autotune.recommend.front import Recommendation


@dataclass(frozen=True, slots=True)
class Tree:
    """What is written below a prefix."""

    files: Mapping[Path, str]
    """File → text."""
    uses: tuple[str, ...]
    """Lines that use it: with a module, and with a script."""
    back: str
    """The line that takes it back."""


def site_tree(recommendation: Recommendation, prefix: Path, module: str) -> Tree:
    """The files below a prefix; those of other versions beside them are left alone.

    The module is the site's own of this MPI, which must be loaded; empty: it has none.

    Raises:
        UserError: not measured on a real Open MPI, rules that ``coll_tuned`` cannot say, or nothing to set.
    """
    check_family(recommendation, "openmpi")
    found = re.search(r"^Open MPI (\d+[\w.]*)", recommendation.provenance.stack)
    if not found:
        raise UserError(
            f"{recommendation.provenance.campaign} was not measured on a version of Open MPI "
            f"({recommendation.provenance.stack or 'unknown'})",
            "a site's tree holds for the version that was measured; --out DIR writes files without a guard",
        )
    version, prefix = found[1], prefix.absolute()
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
    values = deployed.environment.items()
    wrong = f"autotune: measured on Open MPI {version}, the mpirun here is another one: nothing is set"
    what = f"MPI collectives tuned by autotune on Open MPI {version}: {recommendation.provenance.verified}"
    script = [
        *commented(head),
        'case "$(mpirun --version 2>/dev/null) " in',
        f'  *"(Open MPI) {version}"[!0-9A-Za-z.]*) ;;',
        f"  *) echo {shlex.quote(wrong)} >&2; return 1 2>/dev/null || exit 1 ;;",
        "esac",
        *(ShellScript().line(name, value) for name, value in values),
    ]
    in_tcl = [
        "#%Module1.0",
        *commented(head),
        f"module-whatis {tcl(what)}",
        "conflict autotune",
        *([f"prereq {tcl(module)}"] if module else []),
        "if {[module-info mode load]} {",
        "  set found {}",
        "  if {[auto_execok mpirun] ne {}} {catch {exec -ignorestderr mpirun --version} found}",
        f"  if {{![regexp {{\\(Open MPI\\) {re.escape(version)}(?![\\w.])}} $found]}} {{",
        f"    puts stderr {tcl(wrong)}",
        "    break",
        "  }",
        "}",
        *(ModuleFile().line(name, value) for name, value in values),
    ]
    in_lua = [
        *commented(head, "--"),
        f"whatis({lua(what)})",
        'conflict("autotune")',
        *([f"prereq({lua(module)})"] if module else []),
        'if mode() == "load" then',
        '  local found = capture("mpirun --version 2>/dev/null") or ""',
        f'  if found:match("%(Open MPI%) ([%w.]+)") ~= {lua(version)} then',
        f"    LmodError({lua(wrong)})",
        "  end",
        "end",
        *(LmodModule().line(name, value) for name, value in values),
    ]
    files = {
        folder / name: text
        for written in ("json", "summary")
        for name, text in exporter(written).export(recommendation, folder).items()
    }
    files |= {folder / name: text for name, text in deployed.files.items()}
    lines = dict(zip((folder / SCRIPT, *named[1:]), (script, in_tcl, in_lua), strict=True))
    return Tree(files | {path: "\n".join(text) + "\n" for path, text in lines.items()}, uses, back)
