"""Which rows of a per-size table hold after a comparison on fresh launches (step 11 of the flow)."""

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
    judged: Iterable[Comparison],
    stays: Collection[Slot] = (),
    one_row: Collection[str] = (),
) -> tuple[Rule, ...]:
    """The rules that hold: at every size that is not better with confidence the stack decides again.

    Between a size that holds and one that does not, the boundary lies where the line through both gains over
    ln size crosses zero; where it does not cross, the earlier one holds up to the later size.

    A table without any slot judged stays as it is. In the slots that stay the rule holds although it is not
    better, because without it, in the same job-wide setting, they would be slower. A collective of
    ``one_row``, for which the stack's files have one row for all sizes, keeps its rule as a whole, if it is
    better anywhere and loses nowhere.
    """
    tables: dict[tuple[str, int], list[Rule]] = defaultdict(list)
    for rule in sorted(rules, key=lambda r: (r.collective, r.comm_size, r.min_bytes)):
        tables[rule.collective, rule.comm_size].append(rule)
    seen: dict[tuple[str, int], list[tuple[int, float, bool]]] = defaultdict(list)
    losing: set[tuple[str, int]] = set()
    for c in sorted(judged, key=lambda c: c.slot):
        collective, comm_size, size = c.slot
        holds = c.decision is SlotDecision.STILL_BETTER or c.slot in stays
        seen[collective, comm_size].append((size, c.gain, holds))
        losing |= {(collective, comm_size)} if c.loses else set()
    for (collective, comm_size), sizes in seen.items():
        if collective in one_row:
            whole = (collective, comm_size) not in losing and any(holds for _, _, holds in sizes)
            seen[collective, comm_size] = [(size, gain, whole) for size, gain, _ in sizes]
    return tuple(
        rule
        for key, table in tables.items()
        for rule in _founded(_clipped(table, _switches(seen[key])), [size for size, _, _ in seen[key]])
    )


def _switches(sizes: Sequence[tuple[int, float, bool]]) -> list[tuple[int, bool]]:
    """(from this size on, whether the rules hold), the first from 0, out of (size, gain, holds)."""
    switches = [(0, not sizes or sizes[0][2])]
    for (low, before, held), (high, after, holds) in pairwise(sizes):
        if held != holds:
            share = before / (before - after) if low > 0 and before * after < 0 else 1.0
            bound = round(math.exp((1 - share) * math.log(max(low, 1)) + share * math.log(high)))
            switches.append((min(max(bound, low + 1), high), holds))
    return switches


def _clipped(table: Sequence[Rule], switches: Sequence[tuple[int, bool]]) -> list[Rule]:
    """A table with the empty choice wherever its rules do not hold."""
    clipped: list[Rule] = []
    first = table[0].min_bytes  # below, the stack decides
    bounds = {rule.min_bytes for rule in table} | {max(start, first) for start, _ in switches}
    for bound in sorted(bounds):
        holds = [held for start, held in switches if start <= bound][-1]
        rule = [rule for rule in table if rule.min_bytes <= bound][-1]
        choice = rule.choice if holds else Point()
        if not clipped or clipped[-1].choice != choice:
            clipped.append(replace(rule, min_bytes=bound, choice=choice))
    return clipped


def _founded(table: Sequence[Rule], sizes: Sequence[int]) -> list[Rule]:
    """A table without choices that no measured size reaches: the row before goes on there.

    Such a row is left where a choice began between two sizes and did not hold at the one it was meant for.
    """
    kept: list[Rule] = []
    for rule, after in zip(table, [*table[1:], None], strict=True):
        reached = any(rule.min_bytes <= s and (after is None or s < after.min_bytes) for s in sizes)
        if kept and ((rule.choice and sizes and not reached) or kept[-1].choice == rule.choice):
            continue
        kept.append(rule)
    return kept
