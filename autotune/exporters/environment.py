"""Export scripts and environment modules that set environment variables (step 12 of the data flow).

``srun`` reads no parameter file, so the settings of a job must be in the job's environment. Some variables
contain the path of a rules file; this rules file is in the same directory as the exported file.
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from autotune.errors import printable
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import PROGRAM, mpirun, sourced
from autotune.exporters.openmpi import recipe
from autotune.exporters.origin import commented, remarks
from autotune.exporters.settings import HAN_FILE, RULES_FILE, settings, values_in
from autotune.exporters.version_check import Guard, guard_of
from autotune.recommend.recommendation import Recommendation
from autotune.stacks.srun import CPU_BINDS, DISTRIBUTIONS

SCRIPT = "autotune-env.sh"  # Name of the script for sh.
_ARGUMENTS = '"$@"'  # The arguments with which a ``sh`` script was started.
_WHATIS = "MPI collectives tuned by autotune: "


def lua(text: str) -> str:
    """Return a text as a string literal of Lua."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def tcl(text: str) -> str:
    """Return a text as a quoted word of Tcl."""
    special = set('\\"$[]{};')
    escaped = "".join("\\" + c if c in special else c for c in text)
    return f'"{escaped}"'.replace("\n", "\\n")


class Script:
    """Exports a file with a line for each variable, in the syntax of sh; subclasses have other syntaxes."""

    name = file = ""
    sign = "#"  # Sign that begins a comment.
    form = "export {}={}"  # Format of a line that sets a variable, given its name and its quoted value.
    quoted: "ClassVar[staticmethod[[str], str]]" = staticmethod(shlex.quote)  # Function that quotes a value.
    companions = (RULES_FILE, HAN_FILE)

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return texts by file name: the file and, if choices differ by message size, the rules file."""
        deployed = settings(recommendation, directory.absolute())
        ways = self.usage(recommendation, directory.absolute())
        use = [f"{'or' if i else 'use'}: {text}" for i, text in enumerate(ways)]
        head = commented([*remarks(recommendation), "", *use], self.sign)
        lines = [self.line(name, value) for name, value in deployed.environment.items()]
        guard_lines = self.version_check(guard) if (guard := guard_of(recommendation)) else []
        text = "\n".join([*head, *guard_lines, *lines]) + "\n"
        return {self.file: self.complete(text, recommendation), **deployed.files}

    def usage(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """Return the command lines that use the file, for the comment at its beginning."""
        return [self.use(recommendation, directory)]

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that loads the file as an environment module."""
        folder = shlex.quote(str(directory.absolute()))
        return f"module use {folder}; module load autotune; {forwarding(recommendation, directory)}"

    def version_check(self, guard: Guard) -> list[str]:
        """Return the lines that end a script for sh if the MPI's version is not the measured one."""
        return [
            f"{guard.command} || {{ echo {shlex.quote(guard.wrong)} >&2; return 1 2>/dev/null || exit 1; }}"
        ]

    def line(self, name: str, value: str) -> str:
        """Return the line that sets a variable."""
        return self.form.format(name, self.quoted(value))

    def complete(self, text: str, recommendation: Recommendation) -> str:
        """Return the text of the file with lines that its language needs at the beginning or the end."""
        return text


class ShellScript(Script):
    """Exports a script for sh, bash, zsh and ksh."""

    name, file = "env_sh", SCRIPT
    summary = f"{SCRIPT}: environment for srun or mpirun, to be sourced (sh, bash)"

    def usage(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """Return the command lines that use the file, with ``mpirun`` and with ``srun``."""
        srun = sourced(directory / SCRIPT, _srun(recommendation, PROGRAM))
        return [self.use(recommendation, directory), srun]

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the line that sources the script."""
        return sourced(directory / SCRIPT, forwarding(recommendation, directory))

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """Return how variables and rules are checked; an invalid rule has an id that no algorithm has."""
        return recipe(recommendation, directory, invalid, self.export, lambda at: values_in(at / self.file))


class CShellScript(Script):
    """Exports a script for csh and tcsh, which take ``!`` for an earlier command even inside quotes."""

    name, file = "env_csh", "autotune-env.csh"
    form, quoted = "setenv {} {}", staticmethod(lambda value: shlex.quote(value).replace("!", "\\!"))
    summary = "autotune-env.csh: the same for csh and tcsh"

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the line that sources the script."""
        command = forwarding(recommendation, directory)
        return sourced(directory / self.file, command, "source").replace("!", "\\!")

    def version_check(self, guard: Guard) -> list[str]:
        """Return the lines that end the script if the MPI's version is not the measured one.

        In csh, ``exit`` ends only the script that is being sourced, and the shell goes on.
        """
        return [
            guard.command.replace("!", "\\!"),
            "if ($status != 0) then",
            f"  sh -c {shlex.quote(f'echo {shlex.quote(guard.wrong)} >&2')}",
            "  exit 1",
            "endif",
        ]


class SlurmSnippet(Script):
    """Exports a batch script for Slurm; its lines can also be copied into another batch script."""

    name, file = "slurm", "autotune.slurm"
    summary = "autotune.slurm: a Slurm batch script that starts any program, placement included"

    def usage(self, recommendation: Recommendation, directory: Path) -> Sequence[str]:
        """Return the command that submits the file, and how to copy its lines into another batch script."""
        for_own_script = "put these lines into your batch script, the last one in place of its srun"
        return [self.use(recommendation, directory), f'{for_own_script}, with your program for "$@"']

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command that submits the file, followed by the user's program."""
        return f"sbatch {shlex.quote(str(directory.absolute() / self.file))} {PROGRAM}"

    def complete(self, text: str, recommendation: Recommendation) -> str:
        """Return the text between the line that ``sbatch`` needs and the line that starts the program."""
        return f"#!/bin/sh\n{text}{_srun(recommendation, _ARGUMENTS)}\n"


class LmodModule(Script):
    """Exports an environment module in Lua, for Lmod."""

    name, file, sign = "lmod", "autotune.lua", "--"
    form, quoted = 'setenv("{}", {})', staticmethod(lua)
    summary = "autotune.lua: module file for Lmod"

    def version_check(self, guard: Guard) -> list[str]:
        """Return the lines that refuse to load the module under another version than the measured one."""
        return [
            f'if mode() == "load" and not capture({lua(f"{guard.command} && echo same")}):find("same") then',
            f"  LmodError({lua(guard.wrong)})",
            "end",
        ]

    def complete(self, text: str, recommendation: Recommendation) -> str:
        """Return the text followed by the line that ``module whatis`` shows."""
        return f"{text}whatis({lua(_whatis(recommendation))})\n"


class ModuleFile(Script):
    """Exports an environment module in Tcl."""

    name, file = "modulefile", "autotune"
    form, quoted = "setenv {} {}", staticmethod(tcl)
    summary = "autotune: module file for Environment Modules (Tcl; Lmod reads it too)"

    def version_check(self, guard: Guard) -> list[str]:
        """Return the lines that refuse to load the module under another version than the measured one."""
        return [
            f"if {{[module-info mode load] && [catch {{exec -ignorestderr sh -c {tcl(guard.command)}}}]}} {{",
            f"  puts stderr {tcl(guard.wrong)}",
            "  break",
            "}",
        ]

    def complete(self, text: str, recommendation: Recommendation) -> str:
        """Return the text between the first line of a module file and the line for ``module whatis``."""
        return f"#%Module1.0\n{text}module-whatis {tcl(_whatis(recommendation))}\n"


def _whatis(recommendation: Recommendation) -> str:
    return _WHATIS + printable(recommendation.provenance.verified)


def forwarding(recommendation: Recommendation, directory: Path) -> str:
    """Return a command line of ``mpirun`` with ``-x`` for each variable that it does not forward itself."""
    return mpirun(recommendation, forwarded=settings(recommendation, directory).other)


def _srun(recommendation: Recommendation, program: str) -> str:
    return " ".join(["srun", "--mpi=pmix", *_placement(recommendation), program])


def _placement(recommendation: Recommendation) -> list[str]:
    """Return the placement as options of ``srun``; values for which it has no option are left out."""
    options = []
    for name, value in recommendation.provenance.placement:
        if name == "bind_to" and value in CPU_BINDS:
            options.append(f"--cpu-bind={CPU_BINDS[value]}")
        elif name == "map_by" and value in DISTRIBUTIONS:
            options.append(f"--distribution={DISTRIBUTIONS[value]}")
        elif name == "map_by" and value.startswith("ppr:") and value.endswith(":node"):
            options.append(f"--ntasks-per-node={value.split(':')[1]}")
    return options
