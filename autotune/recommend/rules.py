"""The per-size table of one job-wide setting: few rules with boundaries where curves cross (part of step 10).

Notation: within one table (a collective on one communicator size) the measured sizes are
``x_1 < … < x_m``; ``t_k(x_j)`` is the time of choice ``k`` there, ``s_k`` its standard error; the *loss* of
a choice at a size is ln(t_k / t_best). All interpolation is linear in (ln x, ln t).
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
"""Smallest gain that justifies a rule, as a logarithm of the ratio of times."""
Choices = Mapping[Point, Winner]  # The per-size choices of one slot with their times.


@dataclass(frozen=True, slots=True)
class _Path:
    """The cheapest way to assign choices to the first sizes of a table."""

    excess: float  # Sum of the losses beyond noise.
    loss: float  # Sum of the losses as measured.
    choices: tuple[Point, ...]  # One choice for each size so far.

    @property
    def cost(self) -> tuple[float, float]:
        """Return what paths are compared by: the excess, then the loss."""
        return self.excess, self.loss

    def extended(self, excess: float, loss: float, choice: Point) -> "_Path":
        """Return the path with a choice for the next size."""
        return _Path(self.excess + excess, self.loss + loss, (*self.choices, choice))


def rules_of(
    curves: Alternatives,
    baseline: Envelope | None = None,
    keep: float = 0.99,
    one_row: Collection[str] = (),
    says: Callable[[Point], bool] = bool,
) -> tuple[Rule, ...]:
    """Return the fewest rules that keep almost the whole gain, with boundaries where the curves cross.

    For each table the numbers of rules 1, 2, … are tried; for each, dynamic programming finds the assignment
    with the smallest sum of losses beyond noise, and among equals the smallest sum of losses. The first
    number whose sum of losses beyond noise is at most (1 − keep) · Σ ln(baseline / best) is taken. A loss
    counts only as far as it exceeds 1.96 · sqrt(s_k² + s_best²), with relative standard errors: so a winner
    at a single size that is within noise of its neighbours' winner gets no rule of its own. The stack's own
    choice, for which ``says`` is False, counts as 1 % faster than measured: a rule that gains less is not
    worthwhile, and where another component carries out the calls, no rule gains anything.

    A table ends where its measurements are no evidence any more (see ``history.lookup``), by a row with the
    empty choice.

    Args:
        curves: Every per-size choice of the setting in each slot.
        baseline: Times of the stack's own defaults; None: no gain is known, so that only noise is smoothed.
        keep: Share of the gain that the rules have to keep.
        one_row: Collectives for which files have a single row, or as many as a mapping says. Their tables
            have no ends, as the stack cannot be left to decide beyond them.
        says: Whether a choice sets anything, so that it is not the stack's own.
    """
    tables: dict[tuple[str, int], dict[int, Choices]] = defaultdict(dict)
    for (collective, comm_size, message_bytes), choices in sorted(curves.items()):
        if collective not in PATTERNS:  # Rules do not apply to patterns.
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
    """Return the first message size between two measured ones from which ``upper`` is the better choice.

    ``lower`` is the choice at ``low_bytes`` and ``upper`` that at ``high_bytes``. Where one of their two
    curves is not known at both sizes, the result is ``high_bytes``: the lower choice holds until the upper
    one was measured to be better.
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
    """Return one choice for each size: the fewest rules whose loss beyond noise is within the allowance.

    Where no number of rules up to ``max_rules`` is within it, the one with the smallest loss is taken. Where
    none is possible, since no choice was measured at all sizes, the choices are empty: the stack decides.
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
                # Only a change from the cheapest path matters: where that path ends in this choice, extending
                # it costs less and has fewer changes.
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
    """Enter a path under its last choice if it is cheaper than the path that is there."""
    rival = paths.get(path.choices[-1])
    if rival is None or path.cost < rival.cost:
        paths[path.choices[-1]] = path


def _costs(winner: Winner, best: Winner, bonus: float) -> tuple[float, float]:
    """Return the loss of a choice beyond noise and as measured, both reduced by ``bonus``."""
    loss = math.log(winner.median_s / best.median_s) - bonus
    # Single samples (a recorded table) say nothing about noise; then a difference is taken as it is.
    single = winner.n == 1 or best.n == 1
    spread = 0.0 if single else math.hypot(winner.sem_s / winner.median_s, best.sem_s / best.median_s)
    return max(loss - Z95 * spread, 0.0), loss


def _best(choices: Choices) -> Winner:
    """Return the fastest choice of a slot."""
    return min(choices.values(), key=lambda w: w.median_s)
