"""Per-size rules as MPICH's selection tree (used by steps 5 and 12).

A tree decides like nested ``if``s; single collectives of the library's own tree are exchanged (see
``stacks.mpich``), each by conditions on the communicator size and in them on the message size.
"""

import json
from collections.abc import Mapping

from autotune.errors import UserError, allowed
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.stacks.mpich import Tree, algorithms, leaf, size_condition
from autotune.stacks.tables import algorithm_of

FILE_VARIABLE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"  # Names the file that replaces the library's tree

UNREADABLE = frozenset({FILE_VARIABLE, "MPIR_CVAR_CH4_NETMOD"})
"""Variables of texts, which MPICH 5.0 obeys and reads back as empty."""


def tuned(generic: Tree, tables: Mapping[str, Mapping[int, list[Rule]]]) -> Tree:
    """The library's tree with these tables (collective → communicator size → rules, each from 0 bytes on).

    Raises:
        UserError: an algorithm that a tree cannot name, or a collective that this MPICH's tree lacks.
    """
    tree = dict(generic)
    for collective, by_size in tables.items():
        algorithms(collective)
        whole = tree.get(f"collective={collective}")
        if whole is None:
            known = [key.removeprefix("collective=") for key in tree]
            raise UserError(
                f"the tree of the installed MPICH has no {collective}", allowed(collective, known)
            )
        own = whole.get("comm_type=intra", whole)
        starts = table_starts(sorted(by_size))
        _, *ends = starts
        branches: Tree = {}
        for owner, end in zip(starts.values(), [*ends, None], strict=True):
            condition = "comm_size=any" if end is None else f"comm_size<{end}"
            branches[condition] = _sizes(collective, by_size[owner], own, owner) if owner else own
        inter = {k: v for k, v in whole.items() if k == "comm_type=inter"}
        tree[f"collective={collective}"] = {"comm_type=intra": branches, **inter} if inter else branches
    return tree


def text(tree: Tree) -> str:
    """The tree as a file."""
    return json.dumps(tree, indent=1) + "\n"


def _sizes(collective: str, table: list[Rule], generic: Tree, comm_size: int) -> Tree:
    """One communicator size: conditions on the message size, counted as the tree can ask for it."""
    leaves = [leaf(collective, algorithm_of(rule), generic) for rule in table]
    if len(leaves) == 1:
        return leaves[0]
    condition, messages = size_condition(collective, comm_size)
    if not condition:
        return generic
    bounds = [rule.min_bytes * messages for rule in table[1:]]
    tree = {f"{condition}<{bound}": below for bound, below in zip(bounds, leaves, strict=False)}
    return {**tree, f"{condition}=any": leaves[-1]}
