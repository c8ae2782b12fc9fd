"""Files and variables for MPICH and Intel MPI (step 12 of the flow)."""

from collections.abc import Callable, Mapping
from pathlib import Path

from autotune.errors import StackError
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import PROGRAM, sourced
from autotune.exporters.script_check import by_script_recipe
from autotune.exporters.settings import (
    EVERYWHERE,
    VariableScript,
    by_script,
    check_family,
    exports,
)
from autotune.recommend.recommendation import Recommendation
from autotune.stacks import mpich, mpich_tree
from autotune.stacks.installation import find
from autotune.stacks.intel_ranges import adjustments
from autotune.stacks.tables import tables

TREE_FILE = "mpich-selection.json"
"""Name of the selection tree; it can hold no comments, the script beside it does."""

SCRIPT = "mpich-env.sh"  # Name of the script.


class MpichCvars(VariableScript):
    """``MPIR_CVAR_*`` variables: one algorithm for each collective, for all sizes."""

    name = "mpich_cvars"
    summary = f"{SCRIPT}: MPIR_CVAR_* variables, one algorithm for each collective (MPICH 4, 5)"
    family, file = "mpich", SCRIPT

    def variables(self, collective: str, algorithm: str) -> dict[str, str]:
        """One of MPICH's, where it has one of that name."""
        name = mpich.check(collective, algorithm)
        return {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name}

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """The script, as each rank sees it."""
        return by_script_recipe(directory / SCRIPT)


class MpichSelection:
    """The whole collective-selection tree of the installed MPICH, with tuned subtrees."""

    name = "mpich_json"
    summary = f"{TREE_FILE}: collective-selection tree with tuned subtrees, and {SCRIPT} (MPICH 4, 5)"

    def __init__(self, generic: Callable[[], mpich.Tree] | None = None) -> None:
        self._generic = generic

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The tree and a script that points to it.

        Raises:
            UserError: an algorithm that a tree cannot name, or a collective that this MPICH's tree lacks.
            StackError: no MPICH is installed here whose tree could be taken.
        """
        check_family(recommendation, "mpich")
        tree = mpich_tree.tuned(self._tree(recommendation), tables(recommendation.rules))
        variables = {mpich_tree.FILE_VARIABLE: str(directory.absolute() / TREE_FILE)}
        script = exports(recommendation, directory / SCRIPT, variables)
        return {TREE_FILE: mpich_tree.text(tree), **script}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script."""
        return by_script(directory / SCRIPT)

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """The script, as each rank sees it, and a tree of algorithms that do not exist."""
        return by_script_recipe(directory / SCRIPT, directory / TREE_FILE, invalid)

    def _tree(self, recommendation: Recommendation) -> mpich.Tree:
        """The tree of the library that was measured, where it lies here, else of the MPICH that is found."""
        if self._generic:
            return self._generic()
        measured = recommendation.provenance.library
        try:
            return mpich.installed_tree(Path(measured) if measured else find(stack="mpich").library)
        except StackError:
            if not measured:
                raise
        return mpich.installed_tree(find(stack="mpich").library)


class IntelMpi:
    """``I_MPI_ADJUST_*`` with ranges of message sizes, a script for each communicator size."""

    name = "intel"
    summary = (
        "intel-mpi-env.sh: I_MPI_ADJUST_* variables by message size, for one communicator size (Intel MPI)"
    )

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """A script for each communicator size with rules, named after it where there are several.

        Raises:
            UserError: an algorithm that Intel MPI has no id for, or sizes that are left to the library.
        """
        check_family(recommendation, "intelmpi")
        by_comm_size = adjustments(recommendation.rules)
        files: dict[str, str] = {}
        for comm_size, variables in sorted(by_comm_size.items()):
            name = f"intel-mpi-env-{comm_size}.sh" if len(by_comm_size) > 1 else "intel-mpi-env.sh"
            only = f"for communicators of {comm_size} ranks; Intel MPI obeys it in those of any size"
            files |= exports(recommendation, directory / name, variables, [only, EVERYWHERE])
        return files or exports(recommendation, directory / "intel-mpi-env.sh", {})

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script; of several the one for most ranks, whose number the line says."""
        names = list(self.export(recommendation, directory))
        path = directory / names[-1]
        if len(names) == 1:
            return by_script(path)
        ranks = path.stem.rpartition("-")[2]
        return sourced(path, f"mpiexec -n {ranks} {PROGRAM}")

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """The script for most ranks, as each rank sees it."""
        return by_script_recipe(directory / list(self.export(recommendation, directory))[-1])
