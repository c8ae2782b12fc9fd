"""Write the rules file of Open MPI's ``coll_han``, which says which component runs a call.

The component depends on the collective, the level (inside a node, between nodes, whole communicator), the
number of ranks and the message size. At the level of the whole communicator, a rule lets another component,
such as ``coll_tuned`` with its own rules, run the calls of one collective from some number of ranks and bytes
on; ``coll_han`` runs all other calls. The job-wide parameter ``coll_han_priority`` cannot choose by call:
with 0, ``coll_han`` runs no call at all.

References:
    Open MPI 5.0, ``ompi/mca/coll/han/coll_han_dynamic.c`` and ``coll_han_dynamic_file.h``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from autotune.errors import UserError
from autotune.history.lookup import table_starts
from autotune.history.trial import Rule
from autotune.space import Point
from autotune.stacks import coll_tuned
from autotune.stacks.tables import tables

COMPONENTS = ("self", "basic", "libnbc", "tuned", "sm", "adapt", "han")  # Components that a rule can name.

COMPONENT = "component"  # Per-size parameter whose value is the component for a whole communicator.
LEVELS: Mapping[str, int] = {"han_intra": 0, "han_inter": 1, COMPONENT: 2}
"""Maps a per-size parameter to its topological level: inside a node, between nodes, whole communicator."""

PRIORITY = "OMPI_MCA_coll_han_priority"  # Variable with ``coll_han``'s priority; 0: ``coll_han`` is off.


def rules_file(rules: Iterable[Rule], comments: Sequence[str] = ()) -> str:
    """Return the rules as a rules file of ``coll_han``; empty if no rule names a component.

    The file begins with ``comments``, given without the ``#``.

    Raises:
        UserError: ``coll_han`` has no rules for a collective, or does not know a component.
    """
    blocks: dict[str, list[str]] = {}
    for collective, by_size in tables(rules).items():
        levels = {k for table in by_size.values() for r in table for k in r.choice if k in LEVELS}
        if not levels:
            continue
        if collective not in coll_tuned.HAN:
            supported = ", ".join(sorted(coll_tuned.HAN))
            raise UserError(f"coll_han has no rules for {collective}", f"it has: {supported}")
        ordered = sorted(levels, key=LEVELS.__getitem__)
        lines = [f"{len(ordered)}  # levels"]
        for level in ordered:
            lines += [f"{LEVELS[level]}  # {level}", *_level(level, by_size)]
        blocks[collective] = lines
    if not blocks:
        return ""
    lines = [*(f"# {line}".rstrip() for line in comments), f"{len(blocks)}  # collectives"]
    for collective, block in blocks.items():
        lines += [collective, *block]
    return "\n".join(lines) + "\n"


def handed_over(rule: Rule) -> Rule:
    """Return the rule with ``coll_tuned`` as its component, where ``coll_han`` has rules for the collective.

    A rule for any other collective is returned unchanged.
    """
    if rule.collective not in coll_tuned.HAN:
        return rule
    return replace(rule, choice=Point.of({**rule.choice, COMPONENT: "tuned"}))


def _level(level: str, by_size: Mapping[int, list[Rule]]) -> list[str]:
    """Return the lines of one level of a collective, with a table for each communicator size.

    ``coll_han`` requires that the first table is for 1 rank, and the first row of a table for 0 bytes. For
    the levels inside and between nodes, ``coll_han`` counts only the ranks of the level, and a campaign does
    not know their number. So the table of the largest communicator is used for any number of ranks. Message
    sizes are per rank or block.
    """
    starts = {1: max(by_size)}
    if level == COMPONENT:
        starts = table_starts(sorted(by_size))
        starts = {1: 0, **{start: owner for start, owner in starts.items() if (start, owner) != (2, 0)}}
    lines = [f"{len(starts)}  # sizes"]
    for start, owner in starts.items():
        rows: list[tuple[int, str]] = []
        for rule in by_size[owner] if owner else ():
            name = str(rule.choice.get(level, "han" if level == COMPONENT else "tuned"))
            if name not in COMPONENTS:
                raise UserError(f"coll_han knows no component {name!r}", f"it knows {', '.join(COMPONENTS)}")
            if not rows or rows[-1][1] != name:
                rows.append((rule.min_bytes, name))
        rows = rows or [(0, "han")]
        lines += [f"{start}  # ranks and more", f"{len(rows)}  # rows"]
        lines += [f"{bound} {name}" for bound, name in rows]
    return lines
