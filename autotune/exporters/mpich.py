"""Files and variables for MPICH and what is made from it (step 12 of the flow)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from autotune.errors import UserError, allowed
from autotune.exporters.settings import algorithm_of, by_script, check_family, exports, one_algorithm, tables
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.recommend.front import Recommendation
from autotune.stacks import mpich
from autotune.stacks.installation import find

TREE_FILE = "mpich-selection.json"
"""Name of the selection tree; it can hold no comments, the script beside it does."""

SCRIPT = "mpich-env.sh"
"""Name of the script."""


class MpichCvars:
    """``MPIR_CVAR_*`` variables: one algorithm for each collective, for all sizes."""

    name = "mpich_cvars"
    summary = f"{SCRIPT}: MPIR_CVAR_* variables, one algorithm for each collective (MPICH 4, 5)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: sizes that differ in their algorithm, which only a tree can say, or an unknown one.
        """
        check_family(recommendation, "mpich")
        variables = {
            f"MPIR_CVAR_{collective.upper()}_INTRA_ALGORITHM": mpich.check(
                collective, one_algorithm(collective, by_size)
            )
            for collective, by_size in tables(recommendation.rules).items()
        }
        return exports(recommendation, directory / SCRIPT, variables)

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script."""
        return by_script(directory / SCRIPT)


class MpichSelection:
    """The whole collective-selection tree of the installed MPICH, with tuned subtrees."""

    name = "mpich_json"
    summary = f"{TREE_FILE}: collective-selection tree with tuned subtrees, and {SCRIPT} (MPICH 4, 5)"

    def __init__(self, generic: Callable[[], mpich.Tree] | None = None) -> None:
        self._generic = generic or (lambda: mpich.installed_tree(find().library))

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The tree and a script that points to it.

        Raises:
            UserError: an algorithm that a tree cannot name, or a collective that this MPICH's tree lacks.
            StackError: no MPICH is installed here whose tree could be taken.
        """
        check_family(recommendation, "mpich")
        tree = self._generic()
        for collective, by_size in tables(recommendation.rules).items():
            mpich.algorithms(collective)
            whole = tree.get(f"collective={collective}")
            if whole is None:
                known = [key.removeprefix("collective=") for key in tree]
                raise UserError(
                    f"the tree of the installed MPICH has no {collective}", allowed(collective, known)
                )
            generic = whole.get("comm_type=intra", whole)
            starts = table_starts(sorted(by_size))
            _, *ends = starts
            tuned: mpich.Tree = {}
            for owner, end in zip(starts.values(), [*ends, None], strict=True):
                condition = "comm_size=any" if end is None else f"comm_size<{end}"
                tuned[condition] = _sizes(collective, by_size[owner], generic, owner) if owner else generic
            inter = {k: v for k, v in whole.items() if k == "comm_type=inter"}
            tree[f"collective={collective}"] = {"comm_type=intra": tuned, **inter} if inter else tuned
        variables = {"MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE": str(directory.absolute() / TREE_FILE)}
        script = exports(recommendation, directory / SCRIPT, variables)
        return {TREE_FILE: json.dumps(tree, indent=1) + "\n", **script}

    def use(self, recommendation: Recommendation, directory: Path) -> str:
        """By sourcing the script."""
        return by_script(directory / SCRIPT)


def _sizes(collective: str, table: list[Rule], generic: mpich.Tree, comm_size: int) -> mpich.Tree:
    """One communicator size: conditions on the message size, counted as the tree can ask for it."""
    leaves = [mpich.leaf(collective, algorithm_of(rule), generic) for rule in table]
    if len(leaves) == 1:
        return leaves[0]
    condition, messages = mpich.size_condition(collective, comm_size)
    if not condition:
        return generic
    bounds = [rule.min_bytes * messages for rule in table[1:]]
    tree = {f"{condition}<{bound}": below for bound, below in zip(bounds, leaves, strict=False)}
    return {**tree, f"{condition}=any": leaves[-1]}
