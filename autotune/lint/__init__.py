"""What an MPI stack would silently ignore or misread in anybody's parameter files.

A function for each kind of file takes text and returns findings; ``lint`` tells the kinds apart and looks at
the files together, for a rules file means nothing without the parameters that point to it.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules of ``coll_tuned``; ``json_rules``: those in JSON
``parameters``     MCA parameter files, ``--tune`` files
``scripts``        scripts and module files: what they export; ``launch``: their ``mpirun`` and ``srun`` lines
``settings``       what such parameters mean together; those of the launcher: ``runtime``
``ucx``            ``ucx.conf``
``ucc``            ``ucc.conf``; ``nccl``: tables of NCCL's example tuner
``vendors``        variables of MPICH's family, libfabric, UCC and NCCL
=================  =========================================
"""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path, PurePath

from autotune.errors import UserError
from autotune.exporters.origin import nodes_of
from autotune.lint.assignment import Assignment, Read
from autotune.lint.finding import STACKS, Finding, version_of
from autotune.lint.nccl import is_table, nccl_file
from autotune.lint.parameters import mca_file, tune_file
from autotune.lint.rules import rules_file
from autotune.lint.scripts import shell_file
from autotune.lint.settings import settings
from autotune.lint.ucc import ucc_file
from autotune.lint.ucx import ucx_file, variables
from autotune.lint.vendors import vendors
from autotune.stacks import ucc

__all__ = ["STACKS", "Finding", "environment_of", "lint"]

_READERS: Mapping[str, Callable[[PurePath, str, tuple[int, int]], Read]] = {
    "mca": mca_file,
    "tune": tune_file,
    "shell": shell_file,
    "other": lambda path, text, version: ([], []),
}
"""Kind of file that assigns → what reads it; ``other`` is nothing that a stack reads."""

_WHOLE: Mapping[str, Callable[[PurePath, str], list[Finding]]] = {
    "ucx": ucx_file,
    "ucc": ucc_file,
    "nccl": nccl_file,
}
"""Kind of file that another library reads → what judges it."""

_SCRIPTS = (".sh", ".csh", ".slurm", ".sbatch", ".batch", ".bash", ".job", ".lua")
_OTHER = (".md", ".html", ".txt", ".csv", ".jsonl", ".py")
_SHELL = re.compile(r"(export|setenv|module|source|\.|srun|mpirun|mpiexec) |setenv\(")
_RULES_KEY = re.compile(r'"(collectives|rule_file_version|module)"')

_CARRIED = {
    **dict.fromkeys(
        ("mca", "tune"), "becomes part of each value: the job aborts where that names a component"
    ),
    "shell": "becomes part of each value, and the interpreter in the first line is not found",
}
"""Kind of file → what a carriage return does there; rules files and ``ucx.conf`` skip it."""


def lint(
    files: Mapping[PurePath, str],
    mpi: str = "openmpi5",
    known: Collection[str] | None = None,
    exists: Callable[[str], bool] | None = None,
    nodes: int | None = None,
) -> tuple[Finding, ...]:
    """Everything in these files that the stack would ignore, misread or refuse, in order of file and line.

    Args:
        files: Path → text.
        mpi: One of ``STACKS``.
        known: Names of all MCA parameters of the stack; None: only those that this project knows are judged.
        exists: Whether a file that a parameter names is there; None: not asked.
        nodes: Of the jobs that use the files; None: of the campaign that exported them, else several.

    Raises:
        UserError: a stack that is not known.
    """
    version = version_of(mpi)
    findings: list[Finding] = []
    assigned: list[Assignment] = []
    for path, said in files.items():
        kind = kind_of(path, said)
        if "\r\n" in said and kind in _CARRIED:
            line = 1 + said[: said.index("\r\n")].count("\n")
            effect = f"lines end in a carriage return, which {_CARRIED[kind]}"
            findings.append(Finding(path, line, effect, "write Unix line ends (dos2unix)"))
        text = said.replace("\r\n", "\n")
        if kind == "rules":
            findings += rules_file(path, text, version)
        elif kind in _WHOLE:
            findings += _WHOLE[kind](path, text)
        else:
            assignments, wrong = _READERS[kind](path, text, version)
            assigned += assignments
            findings += wrong
    if nodes is None:
        nodes = max((n for n in map(nodes_of, files.values()) if n is not None), default=None)
    findings += settings(assigned, version, known, exists, one_node=nodes == 1)
    findings += variables([a for a in assigned if a.variable])
    findings += vendors(assigned, files.values(), _of_ucc(files))
    order = list(files)
    return tuple(sorted(findings, key=lambda f: (order.index(f.file), f.line)))


def _of_ucc(files: Mapping[PurePath, str]) -> set[str]:
    """What is set in any section of a ``ucc.conf`` among the files."""
    names: set[str] = set()
    for path, text in files.items():
        if kind_of(path, text) == "ucc":
            with suppress(UserError):
                names.update(name for part in ucc.sections(text) for name in part.values)
    return names


def kind_of(path: PurePath, text: str) -> str:
    """``rules``, ``ucx``, ``ucc``, ``nccl``, ``tune``, ``shell``, ``mca``, ``other``: by name and content."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    first = said[0] if said else ""
    if is_table(path, first):
        return "nccl"
    if path.suffix in _OTHER:
        return "other"
    if path.suffix in _SCRIPTS:
        return "shell"
    if path.name == "ucx.conf" or (re.match(r"UCX_\w+=", first) and "mca" not in path.name):
        return "ucx"
    if path.name == "ucc.conf" or re.match(r"UCC_\w+=|\[(vendor|model|team_size|ppn|sock|nnodes)=", first):
        return "ucc"
    if first.startswith("{") and not _RULES_KEY.search(text):
        return "other"
    if first[:1].isdigit() or first.startswith(("{", "rule-file-version")):
        return "rules"
    if _SHELL.match(first) or (lines and lines[0].startswith(("#!", "#%Module"))):
        return "shell"
    if first.startswith("-"):
        return "tune"
    return "mca"


def environment_of(path: PurePath, text: str) -> dict[str, str]:
    """What somebody's file sets, as the environment variables that set the same."""
    kind = kind_of(path, text)
    if kind == "rules":
        return {
            "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
            "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(Path(path).absolute()),
        }
    if kind in _WHOLE:  # of a file with sections what holds for all teams
        head = re.split(r"^\[", text, maxsplit=1, flags=re.MULTILINE)[0]
        pairs = (line.strip().partition("=") for line in head.splitlines())
        return {name.strip(): value.strip() for name, _, value in pairs if name.startswith(("UCX_", "UCC_"))}
    assignments, _ = _READERS[kind](path, text, (5, 0))
    return {a.name if a.variable else f"OMPI_MCA_{a.name}": a.value for a in assignments}
