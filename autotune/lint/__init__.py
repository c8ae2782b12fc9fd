"""What an MPI stack would silently ignore or misread in anybody's parameter files.

A function for each kind of file takes text and returns findings; ``lint`` tells the kinds apart and looks at
the files together, for a rules file means nothing without the parameters that point to it.

=================  =========================================
module             kind of file
=================  =========================================
``rules``          rules of ``coll_tuned``, classic and JSON
``parameters``     MCA parameter files, ``--tune`` files, scripts that export variables
``settings``       what such parameters mean together
``ucx``            ``ucx.conf``
=================  =========================================
"""

import re
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePath

from autotune.lint.finding import STACKS, Finding, version_of
from autotune.lint.parameters import Assignment, mca_file, shell_file, tune_file
from autotune.lint.rules import rules_file
from autotune.lint.settings import settings
from autotune.lint.ucx import ucx_file, variables

__all__ = ["STACKS", "Finding", "lint"]


_SCRIPTS = (".sh", ".csh", ".slurm", ".lua")


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
    found: list[Finding] = []
    assigned: list[Assignment] = []
    for path, text in files.items():
        kind = kind_of(path, text)
        if kind == "rules":
            found += rules_file(path, text, version)
        elif kind == "ucx":
            found += ucx_file(path, text)
        else:
            reader = {"tune": tune_file, "shell": shell_file, "mca": mca_file}[kind]
            assignments, findings = reader(path, text, version)
            assigned += assignments
            found += findings
    if nodes is None:
        nodes = max((n for text in files.values() for n in _campaign_nodes(text)), default=None)
    found += settings(assigned, version, known, exists, one_node=nodes == 1)
    found += variables([a for a in assigned if a.variable])
    order = list(files)
    return tuple(sorted(found, key=lambda f: (order.index(f.file), f.line)))


def _campaign_nodes(text: str) -> list[int]:
    """The nodes that a file of ours says, at its head, that it was measured on."""
    said = re.search(r"^\W*stack: .*; (\d+) nodes?, \d+ ranks$", text, re.MULTILINE)
    return [int(said[1])] if said else []


def kind_of(path: PurePath, text: str) -> str:
    """``rules``, ``ucx``, ``tune``, ``shell`` or ``mca``, by name and content."""
    lines = [line.strip() for line in text.splitlines()]
    said = [line for line in lines if line and not line.startswith("#")]
    first = said[0] if said else ""
    if path.name == "ucx.conf" or (first.startswith("UCX_") and "=" in first):
        return "ucx"
    if first[:1].isdigit() or first.startswith(("{", "rule-file-version")):
        return "rules"
    if first.startswith(("export ", "setenv ", "setenv(")) or path.suffix in _SCRIPTS:
        return "shell"
    if first.startswith("-"):
        return "tune"
    return "mca"
