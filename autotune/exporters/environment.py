"""Scripts and module files that set the environment (step 12 of the flow).

Under ``srun`` no parameter file is read: what a job shall see must be in its environment. Each format lies
beside the rules file that the variables point to.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from autotune.errors import printable
from autotune.exporters.export_check import Recipe
from autotune.exporters.guard import Guard, guard_of
from autotune.exporters.launch_line import PROGRAM, mpirun, sourced
from autotune.exporters.openmpi import recipe
from autotune.exporters.origin import commented, remarks
from autotune.exporters.script_check import values_in
from autotune.exporters.settings import HAN_FILE, RULES_FILE, settings
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.srun import CPU_BINDS, DISTRIBUTIONS

SCRIPT = "autotune-env.sh"  # Name of the script for sh.
_WORDS = '"$@"'  # Of whoever starts a script, in ``sh``.
_WHAT = "MPI collectives tuned by autotune: "


class Script:
    """A file with a line for each variable, beside the rules file; each language says what differs."""

    name = file = ""
    sign = "#"
    beside = (RULES_FILE, HAN_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The file and, where sizes differ, the rules file."""
        deployed = settings(recommendation, directory.absolute())
        how = self.how(recommendation, directory.absolute())
        use = [f"{'or' if i else 'use'}: {text}" for i, text in enumerate(how)]
        head = commented([*remarks(recommendation), "", *use], self.sign)
        lines = [self.line(name, value) for name, value in deployed.environment.items()]
        asked = self.asking(guard) if (guard := guard_of(recommendation)) else []
        text = "\n".join([*head, *asked, *lines]) + "\n"
        return {self.file: self.whole(text, recommendation), **deployed.files}

    def how(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """The ways to use it, for its head."""
        return [self.use(recommendation, directory)]

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By loading it as a module."""
        folder = shlex.quote(str(directory.absolute()))
        return f"module use {folder}; module load autotune; {forwarding(recommendation, directory)}"

    def asking(self, guard: Guard) -> list[str]:
        """Lines that end it where another version is here, for a POSIX shell."""
        return [
            f"{guard.command} || {{ echo {shlex.quote(guard.wrong)} >&2; return 1 2>/dev/null || exit 1; }}"
        ]

    def line(self, name: str, value: str) -> str:
        """One variable, as a POSIX shell sets it."""
        return f"export {name}={shlex.quote(value)}"

    def whole(self, text: str, recommendation: Recommendation) -> str:
        """Text before and after head and lines."""
        return text


class ShellScript(Script):
    """A script for sh, bash, zsh and ksh."""

    name, file = "env_sh", SCRIPT
    summary = f"{SCRIPT}: environment for srun or mpirun, to be sourced (sh, bash)"

    def how(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """Under ``mpirun``, and under ``srun``."""
        srun = sourced(directory / SCRIPT, _srun(recommendation, PROGRAM))
        return [self.use(recommendation, directory), srun]

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing it."""
        return sourced(directory / SCRIPT, forwarding(recommendation, directory))

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """By its variables; rules are made invalid by an id that no collective has."""
        return recipe(recommendation, directory, invalid, self.export, lambda at: values_in(at / self.file))


class CShellScript(Script):
    """The same for csh and tcsh; inside their quotes an exclamation mark still recalls history."""

    name, file = "env_csh", "autotune-env.csh"
    summary = "autotune-env.csh: the same for csh and tcsh"

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing it."""
        command = forwarding(recommendation, directory)
        return sourced(directory / self.file, command, "source").replace("!", "\\!")

    def asking(self, guard: Guard) -> list[str]:
        """The same; ``exit`` ends the script that is sourced, where a csh reads one, and leaves the shell."""
        return [
            guard.command.replace("!", "\\!"),
            "if ($status != 0) then",
            f"  sh -c {shlex.quote(f'echo {shlex.quote(guard.wrong)} >&2')}",
            "  exit 1",
            "endif",
        ]

    def line(self, name: str, value: str) -> str:
        """One variable."""
        return f"setenv {name} {shlex.quote(value)}".replace("!", "\\!")


class SlurmSnippet(Script):
    """Lines for a batch script."""

    name, file = "slurm", "autotune.slurm"
    summary = "autotune.slurm: a Slurm batch script that starts any program, placement included"

    def how(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """As it is, or in the words of somebody who has a batch script."""
        own = "put these lines into your batch script, the last one in place of its srun"
        return [self.use(recommendation, directory), f'{own}, with your program for "$@"']

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By handing it in, with the program behind it."""
        return f"sbatch … {shlex.quote(str(directory.absolute() / self.file))} your_program"

    def whole(self, text: str, recommendation: Recommendation) -> str:
        """With the first line that ``sbatch`` wants, and the one that starts the program."""
        return f"#!/bin/sh\n{text}{_srun(recommendation, _WORDS)}\n"


class LmodModule(Script):
    """A module file in Lua."""

    name, file, sign = "lmod", "autotune.lua", "--"
    summary = "autotune.lua: module file for Lmod"

    def asking(self, guard: Guard) -> list[str]:
        """The same, as it is loaded."""
        return [
            f'if mode() == "load" and not capture({lua(f"{guard.command} && echo same")}):find("same") then',
            f"  LmodError({lua(guard.wrong)})",
            "end",
        ]

    def line(self, name: str, value: str) -> str:
        """One variable."""
        return f"setenv({lua(name)}, {lua(value)})"

    def whole(self, text: str, recommendation: Recommendation) -> str:
        """With what ``module whatis`` shows."""
        return f"{text}whatis({lua(_shown(recommendation))})\n"


class ModuleFile(Script):
    """A module file in Tcl."""

    name, file = "modulefile", "autotune"
    summary = "autotune: module file for Environment Modules (Tcl; Lmod reads it too)"

    def asking(self, guard: Guard) -> list[str]:
        """The same, as it is loaded."""
        return [
            f"if {{[module-info mode load] && [catch {{exec -ignorestderr sh -c {tcl(guard.command)}}}]}} {{",
            f"  puts stderr {tcl(guard.wrong)}",
            "  break",
            "}",
        ]

    def line(self, name: str, value: str) -> str:
        """One variable."""
        return f"setenv {name} {tcl(value)}"

    def whole(self, text: str, recommendation: Recommendation) -> str:
        """With the first line that marks such a file, and what ``module whatis`` shows."""
        return f"#%Module1.0\n{text}module-whatis {tcl(_shown(recommendation))}\n"


def _shown(recommendation: Recommendation) -> str:
    """A line of ``module whatis``."""
    return _WHAT + printable(recommendation.provenance.verified)


def forwarding(recommendation: Recommendation, directory: Path) -> str:
    """A line of ``mpirun`` that forwards what it does not forward by itself."""
    return mpirun(recommendation, forwarded=settings(recommendation, directory).other)


def _srun(recommendation: Recommendation, program: str) -> str:
    return " ".join(["srun", "--mpi=pmix", *_placement(recommendation), program])


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
