"""Scripts and module files that set the environment (step 12 of the flow).

Under ``srun`` no parameter file is read: what a job shall see must be in its environment. Each format lies
beside the rules file that the variables point to.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import PROGRAM, mpirun, sourced
from autotune.exporters.openmpi import recipe
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import settings
from autotune.recommend.front import Recommendation
from autotune.stacks.srun import CPU_BINDS, DISTRIBUTIONS

SCRIPT = "autotune-env.sh"
"""Name of the script for sh."""


class ShellScript:
    """A script for sh, bash, zsh and ksh."""

    name = "env_sh"
    summary = f"{SCRIPT}: environment for srun or mpirun, to be sourced (sh, bash)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / SCRIPT
        how = [self.use(recommendation, directory), sourced(path, _srun(recommendation, PROGRAM))]
        return _script(recommendation, path, how, lambda n, v: f"export {n}={shlex.quote(v)}")

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing it."""
        return sourced(directory / SCRIPT, forwarding(recommendation, directory))

    def recipe(self, recommendation: Recommendation, directory: Path, spoilt: Path) -> Recipe:
        """By its variables; rules are spoilt by an id that no collective has."""
        return recipe(
            recommendation,
            directory,
            spoilt,
            self.export,
            lambda place: settings(recommendation, place).environment,
        )


class CShellScript:
    """The same for csh and tcsh."""

    name = "env_csh"
    summary = "autotune-env.csh: the same for csh and tcsh"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        # Inside quotes of csh an exclamation mark still recalls history.
        return _script(
            recommendation,
            directory.absolute() / "autotune-env.csh",
            [self.use(recommendation, directory)],
            lambda n, v: f"setenv {n} {shlex.quote(v)}".replace("!", "\\!"),
        )

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing it."""
        command = forwarding(recommendation, directory)
        return sourced(directory / "autotune-env.csh", command, "source").replace("!", "\\!")


class SlurmSnippet:
    """Lines for a batch script."""

    name = "slurm"
    summary = "autotune.slurm: lines for a Slurm batch script, placement included"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The snippet and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path = directory.absolute() / "autotune.slurm"
        how = ["put these lines into the batch script, the last one in place of its srun"]
        files = _script(recommendation, path, how, lambda n, v: f"export {n}={shlex.quote(v)}")
        return files | {path.name: f"{files[path.name]}{_srun(recommendation, 'your_program')}\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing it, less its last line."""
        path = shlex.quote(str(directory.absolute() / "autotune.slurm"))
        return f"put the lines of {path} into the batch script, the last one in place of its srun"


class LmodModule:
    """A module file in Lua."""

    name = "lmod"
    summary = "autotune.lua: module file for Lmod"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The module file and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path, how = directory.absolute() / "autotune.lua", [self.use(recommendation, directory)]
        files = _script(recommendation, path, how, lambda n, v: f"setenv({lua(n)}, {lua(v)})", "--")
        what = f"whatis({lua('MPI collectives tuned by autotune: ' + recommendation.provenance.verified)})"
        return files | {path.name: files[path.name] + what + "\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By loading it."""
        return _loading(recommendation, directory)


class ModuleFile:
    """A module file in Tcl."""

    name = "modulefile"
    summary = "autotune: module file for Environment Modules (Tcl; Lmod reads it too)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The module file and, where sizes are told apart, the rules file.

        Raises:
            UserError: rules that ``coll_tuned`` cannot say.
        """
        path, how = directory.absolute() / "autotune", [self.use(recommendation, directory)]
        files = _script(recommendation, path, how, lambda n, v: f"setenv {n} {tcl(v)}")
        what = tcl("MPI collectives tuned by autotune: " + recommendation.provenance.verified)
        return files | {path.name: f"#%Module1.0\n{files[path.name]}module-whatis {what}\n"}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By loading it."""
        return _loading(recommendation, directory)


def _loading(recommendation: Recommendation, directory: Path) -> str:
    folder = shlex.quote(str(directory.absolute()))
    return f"module use {folder}; module load autotune; {forwarding(recommendation, directory)}"


def forwarding(recommendation: Recommendation, directory: Path) -> str:
    """A line of ``mpirun`` that forwards what it does not forward by itself."""
    return mpirun(recommendation, forwarded=settings(recommendation, directory).other)


def _srun(recommendation: Recommendation, program: str) -> str:
    return " ".join(["srun", "--mpi=pmix", *_placement(recommendation), program])


def _script(
    recommendation: Recommendation,
    path: Path,
    how: Sequence[str],
    line: Callable[[str, str], str],
    sign: str = "#",
) -> dict[str, str]:
    """A file with one line for each variable, and the rules file."""
    deployed = settings(recommendation, path.parent)
    use = [f"{'or' if i else 'use'}: {text}" for i, text in enumerate(how)]
    head = commented([*remarks(recommendation), "", *use], sign)
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


def lua(text: str) -> str:
    """A string of Lua."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def tcl(text: str) -> str:
    """A word of Tcl."""
    special = set('\\"$[]{};')
    escaped = "".join("\\" + c if c in special else c for c in text)
    return f'"{escaped}"'.replace("\n", "\\n")
