"""Per-size rules as MPICH's selection tree (used by steps 5 and 12).

A tree decides like nested ``if``s; single collectives of the library's own tree are exchanged (see
``stacks.mpich``), each by conditions on the communicator size and in them on the message size.
"""

import json
import re
from collections.abc import Mapping

from autotune.errors import UserError, allowed
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.stacks.asked import Answer, Asked
from autotune.stacks.json_lines import Where, lines_in
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


_LIMIT = re.compile(r"(\w+)(<=|<)(\d+|pow2)")


def reached(name: str, text: str, call: Asked) -> Answer:
    """Which leaf of a file of that name a call reaches: at each level the first condition that holds.

    The operation is taken to be built in and commutative, the ranks to be consecutive, the buffers apart.

    Raises:
        ValueError: no JSON; in words.
    """
    tree, lines = lines_in(text)
    answer, node = Answer(call.collective), tree
    where: Where = ()
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
            answer.why.append(f"{name}: no branch holds below {where[-1] if where else 'the top'}")
            return answer
        where, node = (*where, key), node[key]
        if key.startswith("algorithm="):
            answer.line, answer.algorithm = lines[where], key.removeprefix("algorithm=")
            answer.why.append(f"{name}:{answer.line}: {' → '.join(map(str, where[1:]))}")
            break
    return answer


def _holds(key: str, facts: Mapping[str, str], call: Asked) -> bool:
    """Whether a condition holds; what cannot be known does not, and a leaf always does."""
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
        what, sign, said = limit.groups()
        bound = 1 << (call.ranks.bit_length() - 1) if said == "pow2" else int(said)
        return what in numbers and (numbers[what] < bound or (sign == "<=" and numbers[what] == bound))
    what, _, said = key.partition("=")
    if said == "any":
        return True
    if (what, said) == ("comm_size", "pow2"):
        return call.ranks & (call.ranks - 1) == 0
    return str(numbers.get(what, facts.get(what))) == said
