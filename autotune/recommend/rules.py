"""Per-size rules of one job-wide setting: few rules, with boundaries where the curves of choices cross.

Place in the flow of ``autotune/__init__.py``: step 10, recommend.

A rule selects a choice (values of the per-size parameters, such as an algorithm) from a message size on.

Notation: within one table (a collective on one communicator size) the measured sizes are ``x_1 < … < x_m``.
``t_k(x_j)`` is the time of choice ``k`` at the size ``x_j``, and ``s_k`` its standard error. The *loss* of a
choice at a size is ln(t_k / t_best). All interpolation is linear in (ln x, ln t).
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from autotune.collectives import PATTERNS
from autotune.history.lookup import size_reach
from autotune.history.objectives import Z95, Alternatives, Envelope, Winner
from autotune.history.trial import Rule
from autotune.space import Point

_WORTH = 0.01
"""Smallest gain, as a logarithm of the ratio of times, for which a rule is worthwhile."""
Choices = Mapping[Point, Winner]  # Maps each per-size choice in one slot to its time.


@dataclass(frozen=True, slots=True)
class _Path:
    """An assignment of choices to the first sizes of a table, with its cost."""

    excess: float  # Sum of those parts of the losses that exceed noise.
    loss: float  # Sum of the measured losses.
    choices: tuple[Point, ...]  # The choice for each size so far.

    @property
    def cost(self) -> tuple[float, float]:
        """Return the pair of numbers by which assignments are compared: the excess, then the loss."""
        return self.excess, self.loss

    def extended(self, excess: float, loss: float, choice: Point) -> "_Path":
        """Return this assignment extended by a choice for the next size, with the losses of this choice."""
        return _Path(self.excess + excess, self.loss + loss, (*self.choices, choice))


def rules_of(
    curves: Alternatives,
    baseline: Envelope | None = None,
    keep: float = 0.99,
    one_row: Collection[str] = (),
    says: Callable[[Point], bool] = bool,
) -> tuple[Rule, ...]:
    """Return the fewest rules that preserve almost all of the gain, with boundaries where the curves cross.

    For each table the numbers of rules 1, 2, … are tried in turn. For each number, dynamic programming finds
    the assignment of choices with the smallest sum of losses beyond noise and, among equals, the smallest sum
    of losses. The first number is used with which the sum of losses beyond noise is at most (1 − keep) · Σ
    ln(baseline / best). The part of a loss beyond noise is the part that exceeds 1.96 · sqrt(s_k² + s_best²),
    with relative standard errors. So a size gets no rule of its own if the choice of its neighbours is within
    noise of its best choice. The stack's own choice, for which ``says`` returns False, counts as 1 % faster
    than measured: a rule that gains less is not worthwhile, and rules have no effect at all if another
    component runs the calls.

    The last row of a table has the empty choice, which leaves larger messages to the library, because the
    measurements say nothing about them (see ``history.lookup``).

    Args:
        curves: The times of every per-size choice of the setting in each slot.
        baseline: Times of the stack's own defaults. If it is None, no gain is known, and rules only smooth
            noise.
        keep: Share of the gain that the rules have to preserve.
        one_row: Collectives whose files of rules have a single row, or a mapping from collectives to their
            number of rows. The tables of these collectives have no last row with the empty choice.
        says: Function that returns whether a choice sets any value; otherwise it is the stack's own choice.
    """
    tables: dict[tuple[str, int], dict[int, Choices]] = defaultdict(dict)
    for (collective, comm_size, message_bytes), choices in sorted(curves.items()):
        # Rules have no effect on communication patterns, which are not collectives.
        if collective not in PATTERNS:
            tables[collective, comm_size][message_bytes] = choices
    rules: list[Rule] = []
    for (collective, comm_size), by_size in sorted(tables.items()):
        gain = sum(
            math.log(reference.median_s / _best(choices).median_s)
            for size, choices in by_size.items()
            if (reference := (baseline or {}).get((collective, comm_size, size))) is not None
        )
        max_rules = len(by_size)
        if collective in one_row:
            max_rules = min(max_rules, one_row[collective] if isinstance(one_row, Mapping) else 1)
        path = _assign(list(by_size.values()), (1.0 - keep) * max(gain, 0.0), max_rules, says)
        sizes = list(by_size)
        ends = collective not in one_row and sizes[-1] > 0
        low, beyond = size_reach(sizes)
        start = low if ends and says(path[0]) else 0
        for j, choice in enumerate(path):
            if j and choice == path[j - 1]:
                continue
            if j:
                low_size, high_size = sizes[j - 1], sizes[j]
                at_low, at_high = by_size[low_size], by_size[high_size]
                start = crossing(low_size, high_size, at_low, at_high, path[j - 1], choice)
            rules.append(Rule(collective, comm_size, start, choice))
        if ends and says(path[-1]):
            rules.append(Rule(collective, comm_size, beyond, Point()))
    return tuple(rules)


def crossing(
    low_bytes: int, high_bytes: int, at_low: Choices, at_high: Choices, lower: Point, upper: Point
) -> int:
    """Return the smallest message size, between two measured sizes, at which ``upper`` is the better choice.

    ``lower`` is the best choice at ``low_bytes``, and ``upper`` the best choice at ``high_bytes``. If one of
    these choices was not measured at both sizes, the result is ``high_bytes``, because only there a
    measurement shows that ``upper`` is better.
    """
    complete = all(choice in curve for choice in (lower, upper) for curve in (at_low, at_high))
    if not complete or low_bytes < 1:
        return high_bytes
    low_gap = math.log(at_low[upper].median_s / at_low[lower].median_s)
    high_gap = math.log(at_high[lower].median_s / at_high[upper].median_s)
    if low_gap + high_gap <= 0.0:
        return high_bytes
    share = min(max(low_gap / (low_gap + high_gap), 0.0), 1.0)
    size = round(math.exp((1.0 - share) * math.log(low_bytes) + share * math.log(high_bytes)))
    return min(max(size, low_bytes + 1), high_bytes)


def _assign(
    sizes: Sequence[Choices], allowance: float, max_rules: int, says: Callable[[Point], bool]
) -> tuple[Point, ...]:
    """Return a choice for each size, using the fewest rules whose loss beyond noise is within the allowance.

    If even ``max_rules`` rules exceed the allowance, the assignment with the smallest loss is returned. If no
    assignment is possible, because no choice was measured at all sizes, all choices are empty, which leaves
    all sizes to the library.
    """
    by_changes: dict[int, dict[Point, _Path]] = {}
    for j, choices in enumerate(sizes):
        best = _best(choices)
        following: dict[int, dict[Point, _Path]] = defaultdict(dict)
        for choice, winner in choices.items():
            cost = _costs(winner, best, 0.0 if says(choice) else _WORTH)
            if j == 0:
                following[0][choice] = _Path(*cost, (choice,))
            for changes, paths in by_changes.items():
                if choice in paths:
                    _improve(following[changes], paths[choice].extended(*cost, choice))
                # A new rule with this choice may follow the cheapest assignment so far. If that assignment
                # already ends in the same choice, extending it without a new rule costs less.
                cheapest = min(paths.values(), key=lambda p: p.cost)
                if cheapest.choices[-1] != choice:
                    _improve(following[changes + 1], cheapest.extended(*cost, choice))
        by_changes = following
    allowed = [paths.values() for changes, paths in sorted(by_changes.items()) if changes < max_rules]
    optima = [min(paths, key=lambda p: p.cost) for paths in allowed]
    if not optima:
        return (Point(),) * len(sizes)
    affordable = (path for path in optima if path.excess <= allowance)
    return next(affordable, min(optima, key=lambda p: p.cost)).choices


def _improve(paths: dict[Point, _Path], path: _Path) -> None:
    """Store an assignment under its last choice, unless a cheaper one is already stored there."""
    rival = paths.get(path.choices[-1])
    if rival is None or path.cost < rival.cost:
        paths[path.choices[-1]] = path


def _costs(winner: Winner, best: Winner, bonus: float) -> tuple[float, float]:
    """Return the part of a choice's loss that exceeds noise, and the whole loss, both less ``bonus``."""
    loss = math.log(winner.median_s / best.median_s) - bonus
    # A single sample (as in a recorded table) says nothing about noise, so the whole difference counts as
    # loss.
    single = winner.n == 1 or best.n == 1
    spread = 0.0 if single else math.hypot(winner.sem_s / winner.median_s, best.sem_s / best.median_s)
    return max(loss - Z95 * spread, 0.0), loss


def _best(choices: Choices) -> Winner:
    return min(choices.values(), key=lambda w: w.median_s)
