"""Rules by message size as MPICH's selection tree, for launches and exported files.

A tree decides like nested ``if``s. In a copy of the library's own tree (see ``stacks.mpich``), the subtree of
each tuned collective is replaced. The new subtree has conditions on the communicator size, and below these
conditions on the message size.
"""

import json
import re
from collections.abc import Mapping

from autotune.errors import UserError, allowed
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.stacks.asked import Answer, Asked
from autotune.stacks.json_lines import KeyPath, lines_in
from autotune.stacks.mpich import Tree, algorithms, leaf, size_condition
from autotune.stacks.tables import algorithm_of

FILE_VARIABLE = "MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE"
"""Variable with the path of the file whose tree replaces the library's tree."""

UNREADABLE = frozenset({FILE_VARIABLE, "MPIR_CVAR_CH4_NETMOD"})
"""Variables with texts as values that MPICH 5.0 uses, although reading them back gives an empty text."""


def tuned(generic: Tree, tables: Mapping[str, Mapping[int, list[Rule]]]) -> Tree:
    """Return the library's tree ``generic`` with the subtrees of some collectives replaced.

    ``tables`` maps a collective and a communicator size to rules, of which the first is for 0 bytes.

    Raises:
        UserError: a tree cannot name an algorithm, or the library's tree lacks a collective.
    """
    tree = dict(generic)
    for collective, by_size in tables.items():
        algorithms(collective)
        current = tree.get(f"collective={collective}")
        if current is None:
            collectives = [key.removeprefix("collective=") for key in tree]
            raise UserError(
                f"the tree of the installed MPICH has no {collective}", allowed(collective, collectives)
            )
        intra = current.get("comm_type=intra", current)
        starts = table_starts(sorted(by_size))
        _, *ends = starts
        branches: Tree = {}
        for owner, end in zip(starts.values(), [*ends, None], strict=True):
            condition = "comm_size=any" if end is None else f"comm_size<{end}"
            branches[condition] = _sizes(collective, by_size[owner], intra, owner) if owner else intra
        inter = {k: v for k, v in current.items() if k == "comm_type=inter"}
        tree[f"collective={collective}"] = {"comm_type=intra": branches, **inter} if inter else branches
    return tree


def text(tree: Tree) -> str:
    """Return the tree as the text of a file."""
    return json.dumps(tree, indent=1) + "\n"


def _sizes(collective: str, table: list[Rule], generic: Tree, comm_size: int) -> Tree:
    """Return the subtree of one communicator size, with conditions on the message or total size."""
    leaves = [leaf(collective, algorithm_of(rule), generic) for rule in table]
    if len(leaves) == 1:
        return leaves[0]
    condition, messages = size_condition(collective, comm_size)
    if not condition:
        return generic
    bounds = [rule.min_bytes * messages for rule in table[1:]]
    tree = {f"{condition}<{bound}": below for bound, below in zip(bounds, leaves, strict=False)}
    return {**tree, f"{condition}=any": leaves[-1]}


_LIMIT = re.compile(r"(\w+)(<=|<)(\d+|pow2)")  # A condition with an upper bound.


def reached(name: str, text: str, call: Asked) -> Answer:
    """Return the algorithm that a tree selects for a call, by the first condition that is met at each level.

    The operation is assumed to be built in and commutative, the ranks consecutive, and the buffers distinct.
    ``name`` is the name of the tree's file in the reasons.

    Raises:
        ValueError: the text is not JSON; the message says why.
    """
    tree, lines = lines_in(text)
    answer, node = Answer(call.collective), tree
    path: KeyPath = ()
    facts = {
        "collective": call.collective,
        "comm_type": "intra",
        "is_commutative": "yes",
        "is_op_built_in": "yes",
        "is_sendbuf_inplace": "no",
        "is_node_consecutive": "yes",
        "is_block_regular": "yes",
        "comm_hierarchy": "parent" if 1 < call.nodes < call.ranks else "flat",
    }
    while isinstance(node, dict) and node:
        key = next((key for key in node if _holds(key, facts, call)), None)
        if key is None:
            answer.why.append(f"{name}: no branch holds below {path[-1] if path else 'the top'}")
            return answer
        path, node = (*path, key), node[key]
        if key.startswith("algorithm="):
            answer.line, answer.algorithm = lines[path], key.removeprefix("algorithm=")
            answer.why.append(f"{name}:{answer.line}: {' → '.join(map(str, path[1:]))}")
            break
    return answer


def _holds(key: str, facts: Mapping[str, str], call: Asked) -> bool:
    """Whether a call meets a condition; an unknown condition is never met, and a leaf is always met."""
    if key.startswith(("algorithm=", "composition=")):
        return True
    numbers = {
        "comm_size": call.ranks,
        "comm_avg_ppn": call.ppn or call.ranks,
        "avg_msg_size": call.nbytes,
        "total_msg_size": call.total_bytes,
        "count": call.nbytes,
    }
    if limit := _LIMIT.fullmatch(key):
        quantity, sign, limit_word = limit.groups()
        bound = 1 << (call.ranks.bit_length() - 1) if limit_word == "pow2" else int(limit_word)
        return quantity in numbers and (
            numbers[quantity] < bound or (sign == "<=" and numbers[quantity] == bound)
        )
    quantity, _, limit_word = key.partition("=")
    if limit_word == "any":
        return True
    if (quantity, limit_word) == ("comm_size", "pow2"):
        return call.ranks & (call.ranks - 1) == 0
    return str(numbers.get(quantity, facts.get(quantity))) == limit_word
