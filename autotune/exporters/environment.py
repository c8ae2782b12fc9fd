"""Scripts and module files that set the environment (step 12 of the flow).

Under ``srun`` no parameter file is read: what a job shall see must be in its environment. Each format lies
beside the rules file that the variables point to.
"""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path

from autotune.exporters.origin import commented, mapping, remarks
from autotune.exporters.settings import settings
from autotune.recommend.front import Recommendation
from autotune.stacks.srun import CPU_BINDS, DISTRIBUTIONS


class ShellScript:
    """A script for sh, bash, zsh and ksh."""

    name = "env_sh"
    summary = "autotune-env.sh: environment for srun or mpirun, to be sourced (sh, bash)"
    use = ("autotune-env.sh", ". {path}")

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / "autotune-env.sh"
        mpirun = " ".join(["mpirun", *mapping(recommendation), "…"])
        use = f"use: . {shlex.quote(str(path))}; srun …   (or {mpirun})"
        return _script(recommendation, path, use, lambda n, v: f"export {n}={shlex.quote(v)}")


class CShellScript:
    """The same for csh and tcsh."""

    name = "env_csh"
    summary = "autotune-env.csh: the same for csh and tcsh"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / "autotune-env.csh"
        # Inside quotes of csh an exclamation mark still recalls history.
        return _script(
            recommendation,
            path,
            f"use: source {shlex.quote(str(path))}; srun …",
            lambda n, v: f"setenv {n} {shlex.quote(v)}".replace("!", "\\!"),
        )


class SlurmSnippet:
    """Lines for a batch script."""

    name = "slurm"
    summary = "autotune.slurm: lines for a Slurm batch script, placement included"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The snippet and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        files = _script(
            recommendation,
            directory.absolute() / "autotune.slurm",
            "use: put these lines before srun in the batch script",
            lambda n, v: f"export {n}={shlex.quote(v)}",
        )
        options = " ".join(["srun", "--mpi=pmix", *_placement(recommendation), "…"])
        return files | {
            "autotune.slurm": files["autotune.slurm"] + options.replace("…", "your_program") + "\n"
        }


class LmodModule:
    """A module file in Lua."""

    name = "lmod"
    summary = "autotune.lua: module file for Lmod"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The module file and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / "autotune.lua"
        use = f"use: module use {shlex.quote(str(path.parent))}; module load {path.stem}"
        files = _script(recommendation, path, use, lambda n, v: f"setenv({_lua(n)}, {_lua(v)})", "--")
        what = f"whatis({_lua('MPI collectives tuned by autotune: ' + recommendation.provenance.verified)})"
        return files | {path.name: files[path.name] + what + "\n"}


class ModuleFile:
    """A module file in Tcl."""

    name = "modulefile"
    summary = "autotune: module file for Environment Modules (Tcl; Lmod reads it too)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The module file and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / "autotune"
        use = f"use: module use {shlex.quote(str(path.parent))}; module load {path.name}"
        files = _script(recommendation, path, use, lambda n, v: f"setenv {n} {_tcl(v)}")
        what = _tcl("MPI collectives tuned by autotune: " + recommendation.provenance.verified)
        return files | {path.name: f"#%Module1.0\n{files[path.name]}module-whatis {what}\n"}


def _script(
    recommendation: Recommendation,
    path: Path,
    use: str,
    line: Callable[[str, str], str],
    sign: str = "#",
) -> dict[str, str]:
    """A file with one line for each variable, and the rules file."""
    deployed = settings(recommendation, path.parent)
    head = commented([*remarks(recommendation), "", use], sign)
    lines = [line(name, value) for name, value in deployed.environment.items()]
    return {path.name: "\n".join([*head, *lines]) + "\n", **deployed.files}


def _placement(recommendation: Recommendation) -> list[str]:
    """The placement in the words of ``srun``; what it has no word for is left out (the remarks name it)."""
    options = []
    for name, value in recommendation.provenance.placement:
        if name == "bind_to" and value in CPU_BINDS:
            options.append(f"--cpu-bind={CPU_BINDS[value]}")
        elif name == "map_by" and value in DISTRIBUTIONS:
            options.append(f"--distribution={DISTRIBUTIONS[value]}")
        elif name == "map_by" and value.startswith("ppr:") and value.endswith(":node"):
            options.append(f"--ntasks-per-node={value.split(':')[1]}")
    return options


def _lua(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _tcl(text: str) -> str:
    special = set('\\"$[]{};')
    return '"' + "".join("\\" + c if c in special else c for c in text) + '"'
