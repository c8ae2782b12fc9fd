"""Decide which rows of a per-size table to keep after a comparison on fresh launches."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from autotune.history.objectives import Slot
from autotune.history.trial import Rule
from autotune.space import Point
from autotune.verification.comparison import Comparison, SlotDecision


def kept_rules(
    rules: Sequence[Rule],
    comparisons: Iterable[Comparison],
    stays: Collection[Slot] = (),
    one_row: Collection[str] = (),
) -> tuple[Rule, ...]:
    """Return the rules to keep; at every size at which a rule is not surely better the stack decides again.

    Between a size at which a rule is kept and one at which it is dropped, the boundary is where the line
    through both gains over ln size crosses zero; if it does not cross zero, the decision at the smaller size
    applies up to the larger one. A table without any comparison is returned unchanged.

    Args:
        rules: The rules of the setting.
        comparisons: One comparison for each slot (collective, communicator size, message size).
        stays: Slots in which a rule is kept even if it is not better, because with the job-wide values alone
            these slots would be slower.
        one_row: Collectives for which the stack's files have one row for all sizes. The rule of such a
            collective is kept as a whole if it is better at some size and loses at none.
    """
    tables: dict[tuple[str, int], list[Rule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)):
        tables[rule.collective, rule.comm_size].append(rule)
    sizes_of: dict[tuple[str, int], list[tuple[int, float, bool]]] = defaultdict(list)
    losing: set[tuple[str, int]] = set()
    for c in sorted(comparisons, key=lambda c: c.slot):
        collective, comm_size, size = c.slot
        holds = c.decision is SlotDecision.STILL_BETTER or c.slot in stays
        sizes_of[collective, comm_size].append((size, c.gain, holds))
        losing |= {(collective, comm_size)} if c.loses else set()
    for (collective, comm_size), sizes in sizes_of.items():
        if collective in one_row:
            holds_as_a_whole = (collective, comm_size) not in losing and any(holds for _, _, holds in sizes)
            sizes_of[collective, comm_size] = [(size, gain, holds_as_a_whole) for size, gain, _ in sizes]
    return tuple(
        rule
        for key, table in tables.items()
        for rule in _founded(
            _clipped(table, _switches(sizes_of[key])), [size for size, _, _ in sizes_of[key]]
        )
    )


def _switches(sizes: Sequence[tuple[int, float, bool]]) -> list[tuple[int, bool]]:
    """Return pairs (first size, whether the rules are kept from there on); the first pair begins at 0.

    ``sizes`` are triples (size, gain, whether the rule is kept).
    """
    switches = [(0, not sizes or sizes[0][2])]
    for (low, low_gain, held_before), (high, high_gain, holds) in pairwise(sizes):
        if held_before != holds:
            share = low_gain / (low_gain - high_gain) if low > 0 and low_gain * high_gain < 0 else 1.0
            bound = round(math.exp((1 - share) * math.log(max(low, 1)) + share * math.log(high)))
            switches.append((min(max(bound, low + 1), high), holds))
    return switches


def _clipped(table: Sequence[Rule], switches: Sequence[tuple[int, bool]]) -> list[Rule]:
    """Return a table with the empty choice wherever its rules are dropped."""
    clipped: list[Rule] = []
    first = table[0].min_bytes  # the stack decides below this size
    bounds = {rule.min_bytes for rule in table} | {max(start, first) for start, _ in switches}
    for bound in sorted(bounds):
        holds = [rule_holds for start, rule_holds in switches if start <= bound][-1]
        rule = [rule for rule in table if rule.min_bytes <= bound][-1]
        choice = rule.choice if holds else Point()
        if not clipped or clipped[-1].choice != choice:
            clipped.append(replace(rule, min_bytes=bound, choice=choice))
    return clipped


def _founded(table: Sequence[Rule], sizes: Sequence[int]) -> list[Rule]:
    """Return a table without choices in whose range no size was measured; the row before is extended instead.

    Such a choice arises if a row began between two measured sizes and was dropped at the larger one.
    """
    rows: list[Rule] = []
    for rule, next_rule in zip(table, [*table[1:], None], strict=True):
        reached = any(rule.min_bytes <= s and (next_rule is None or s < next_rule.min_bytes) for s in sizes)
        if rows and ((rule.choice and sizes and not reached) or rows[-1].choice == rule.choice):
            continue
        rows.append(rule)
    return rows
