"""Export files and scripts for MPICH and Intel MPI (step 12 of the data flow)."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from autotune.errors import StackError
from autotune.exporters.export_check import Recipe
from autotune.exporters.launch_line import PROGRAM, sourced, starter
from autotune.exporters.settings import (
    EVERYWHERE,
    VariableScript,
    by_script,
    check_family,
    exports,
    values_in,
)
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.stacks import mpich, mpich_tree
from autotune.stacks.installation import find
from autotune.stacks.intel_ranges import adjustments
from autotune.stacks.ports import Rendering
from autotune.stacks.tables import tables

TREE_FILE = "mpich-selection.json"
"""Name of the file with the selection tree. It cannot contain comments; they are in the script next to it."""

SCRIPT = "mpich-env.sh"  # Name of the script that sets MPICH's variables.


class MpichCvars(VariableScript):
    """Exports ``MPIR_CVAR_*`` variables: one algorithm for each collective, for all sizes."""

    name = "mpich_cvars"
    summary = f"{SCRIPT}: MPIR_CVAR_* variables, one algorithm for each collective (MPICH 4, 5)"
    family, file = "mpich", SCRIPT

    def variables(self, collective: str, algorithm: str) -> dict[str, str]:
        """Return the variable that sets an algorithm of MPICH.

        Raises:
            UserError: MPICH has no such algorithm.
        """
        name = mpich.check(collective, algorithm)
        return {f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": name}

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """Return how the script is checked: each rank must have the variables that the script sets."""
        return _recipe(directory / SCRIPT)


class MpichSelection:
    """Exports the collective-selection tree of the installed MPICH, in which tuned subtrees are replaced."""

    name = "mpich_json"
    summary = f"{TREE_FILE}: collective-selection tree with tuned subtrees, and {SCRIPT} (MPICH 4, 5)"

    def __init__(self, generic: Callable[[], mpich.Tree] | None = None) -> None:
        self._generic = generic

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return texts by file name: the selection tree, and a script that points to it."""
        check_family(recommendation, "mpich")
        tree = mpich_tree.tuned(self._tree(recommendation), tables(recommendation.rules))
        variables = {mpich_tree.FILE_VARIABLE: str(directory.absolute() / TREE_FILE)}
        script = exports(recommendation, directory / SCRIPT, variables)
        return {TREE_FILE: mpich_tree.text(tree), **script}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the line that sources the script."""
        return by_script(directory / SCRIPT)

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """Return how the script is checked, also with a tree whose algorithms do not exist."""
        return _recipe(directory / SCRIPT, directory / TREE_FILE, invalid)

    def _tree(self, recommendation: Recommendation) -> mpich.Tree:
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
    """Exports for each communicator size a script with ``I_MPI_ADJUST_*`` variables by message size."""

    name = "intel"
    summary = (
        "intel-mpi-env.sh: I_MPI_ADJUST_* variables by message size, for one communicator size (Intel MPI)"
    )

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """Return a script for each communicator size with rules; if there are several, their names differ."""
        check_family(recommendation, "intelmpi")
        by_comm_size = adjustments(recommendation.rules)
        files: dict[str, str] = {}
        for comm_size, variables in sorted(by_comm_size.items()):
            name = f"intel-mpi-env-{comm_size}.sh" if len(by_comm_size) > 1 else "intel-mpi-env.sh"
            only = f"for communicators of {comm_size} ranks; Intel MPI obeys it in those of any size"
            files |= exports(recommendation, directory / name, variables, [only, EVERYWHERE])
        return files or exports(recommendation, directory / "intel-mpi-env.sh", {})

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """Return the command line that sources the script for the measured ranks, or else for the most ranks.

        If there are several scripts, the line also contains the script's number of ranks.
        """
        path = self._script(recommendation, directory)
        ranks = path.stem.rpartition("-")[2]
        command = f"{starter(recommendation, 'mpiexec')} -n {ranks} {PROGRAM}"
        return sourced(path, command) if ranks.isdigit() else by_script(path)

    def recipe(self, recommendation: Recommendation, directory: Path, invalid: Path) -> Recipe:
        """Return how the script for the measured ranks, or else for the most ranks, is checked."""
        return _recipe(self._script(recommendation, directory))

    def _script(self, recommendation: Recommendation, directory: Path) -> Path:
        names = list(self.export(recommendation, directory))
        name_for_ranks = f"intel-mpi-env-{recommendation.provenance.ranks}.sh"
        return directory / (name_for_ranks if name_for_ranks in names else names[-1])


def _recipe(script: Path, tree: Path | None = None, place: Path | None = None) -> Recipe:
    """Return how a script is checked: ranks must have its variables, and the library must read their values.

    No launch of these MPIs shows which message sizes reach which row of the rules, but MPICH refuses to start
    with an invalid selection tree. The invalid tree is a copy, in ``place``, of the ``tree`` that the script
    names; without these two only the variables are checked.
    """
    variables = values_in(script)

    def under(rendering: Rendering) -> Rendering:
        expect = rendering.expect
        cvars = {
            k: v
            for k, v in variables.items()
            if k.startswith("MPIR_CVAR_") and k not in mpich_tree.UNREADABLE
        }
        printed = [f"{k}={v}" for k, v in variables.items() if k.startswith("I_MPI_ADJUST_")]
        expected = replace(expect, env={**expect.env, **variables}, cvars={**expect.cvars, **cvars})
        env = {**rendering.env, **variables}
        return replace(rendering, env=env, expect=expected, must_print=(*rendering.must_print, *printed))

    if tree is None or place is None:
        return Recipe(tuple(variables), under, lambda _: {}, under, lambda _: False)
    invalid = {tree.name: user_text(tree).replace("algorithm=MPIR_", "algorithm=NO_")}

    def under_invalid(rendering: Rendering) -> Rendering:
        env = under(rendering).env
        tree_variable = (
            {mpich_tree.FILE_VARIABLE: str(place / tree.name)} if env.get(mpich_tree.FILE_VARIABLE) else {}
        )
        return replace(rendering, env={**env, **tree_variable})

    return Recipe(tuple(variables), under, lambda _: invalid, under_invalid, lambda _: False, as_a_whole=True)
