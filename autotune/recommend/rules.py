"""The per-size table of one job-wide setting: few rules, boundaries where curves cross (part of step 10).

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
"""Least gain of a rule, on the log scale."""
Choices = Mapping[Point, Winner]  # Of one slot.


@dataclass(frozen=True, slots=True)
class _Path:
    """The cheapest way to assign choices to the first sizes of a table."""

    excess: float  # Σ of the losses beyond noise.
    loss: float  # Σ of the losses as measured.
    choices: tuple[Point, ...]  # One for each size so far.

    @property
    def cost(self) -> tuple[float, float]:
        return self.excess, self.loss

    def then(self, excess: float, loss: float, choice: Point) -> "_Path":
        return _Path(self.excess + excess, self.loss + loss, (*self.choices, choice))


def rules_of(
    curves: Alternatives,
    baseline: Envelope | None = None,
    keep: float = 0.99,
    one_row: Collection[str] = (),
    says: Callable[[Point], bool] = bool,
) -> tuple[Rule, ...]:
    """The fewest rules that keep almost the whole gain, with boundaries where the curves cross.

    For each table the numbers of rules 1, 2, … are tried; for each, dynamic programming finds the assignment
    with the smallest Σ of losses beyond noise, and among equals the smallest Σ of losses. The first number
    whose Σ is at most (1 − keep) · Σ ln(baseline / best) is taken. A loss counts only as far as it exceeds
    1.96 · sqrt(s_k² + s_best²), relative standard errors: so a winner at a single size within noise
    of its neighbours' winner gets no rule of its own. The stack's own choice, of which ``says`` is False,
    counts as 1 % faster than it was seen: a rule that gains less is not worth having, and where another
    component takes the calls, no rule gains anything.

    A table ends where nothing is known any more (see ``history.lookup``), by a row with the empty choice.

    Without a baseline no gain is known and only noise is smoothed away; ``one_row`` names collectives for
    which files have one row: one choice for all, or as many as a mapping says; their
    tables have no ends, as the stack cannot be left to decide beyond them.
    """
    tables: dict[tuple[str, int], dict[int, Choices]] = defaultdict(dict)
    for (collective, comm_size, message_bytes), choices in sorted(curves.items()):
        if collective not in PATTERNS:  # no rule reaches one
            tables[collective, comm_size][message_bytes] = choices
    rules: list[Rule] = []
    for (collective, comm_size), by_size in sorted(tables.items()):
        gain = sum(
            math.log(reference.median_s / _best(choices).median_s)
            for size, choices in by_size.items()
            if (reference := (baseline or {}).get((collective, comm_size, size))) is not None
        )
        most = len(by_size)
        if collective in one_row:
            most = min(most, one_row[collective] if isinstance(one_row, Mapping) else 1)
        path = _assign(list(by_size.values()), (1.0 - keep) * max(gain, 0.0), most, says)
        sizes = list(by_size)
        ends = collective not in one_row and sizes[-1] > 0
        low, beyond = size_reach(sizes)
        start = low if ends and says(path[0]) else 0
        for j, choice in enumerate(path):
            if j and choice == path[j - 1]:
                continue
            if j:
                here, there = sizes[j - 1], sizes[j]
                start = crossing(here, there, by_size[here], by_size[there], path[j - 1], choice)
            rules.append(Rule(collective, comm_size, start, choice))
        if ends and says(path[-1]):
            rules.append(Rule(collective, comm_size, beyond, Point()))
    return tuple(rules)


def crossing(
    low_bytes: int, high_bytes: int, at_low: Choices, at_high: Choices, before: Point, after: Point
) -> int:
    """The first message size between two measured ones from which ``after`` is the better choice.

    Where one of the two curves is not known at both ends, it is the larger size: the earlier choice is kept
    until the next one was seen to be better.
    """
    known = all(choice in curve for choice in (before, after) for curve in (at_low, at_high))
    if not known or low_bytes < 1:
        return high_bytes
    ahead = math.log(at_low[after].median_s / at_low[before].median_s)
    behind = math.log(at_high[before].median_s / at_high[after].median_s)
    if ahead + behind <= 0.0:
        return high_bytes
    share = min(max(ahead / (ahead + behind), 0.0), 1.0)
    size = round(math.exp((1.0 - share) * math.log(low_bytes) + share * math.log(high_bytes)))
    return min(max(size, low_bytes + 1), high_bytes)


def _assign(
    sizes: Sequence[Choices], allowance: float, most: int, says: Callable[[Point], bool]
) -> tuple[Point, ...]:
    """One choice for each size: the fewest rules, at most ``most``, whose loss beyond noise is allowed.

    Where no choice was measured at all sizes and one rule must do, the stack is left to decide.
    """
    by_changes: dict[int, dict[Point, _Path]] = {}
    for j, choices in enumerate(sizes):
        best = _best(choices)
        following: dict[int, dict[Point, _Path]] = defaultdict(dict)
        for choice, mine in choices.items():
            cost = _costs(mine, best, 0.0 if says(choice) else _WORTH)
            if j == 0:
                following[0][choice] = _Path(*cost, (choice,))
            for changes, paths in by_changes.items():
                if choice in paths:
                    _improve(following[changes], paths[choice].then(*cost, choice))
                # Changing from the cheapest path is enough: where that ends in this very choice, staying on
                # it costs less and changes less often.
                cheapest = min(paths.values(), key=lambda p: p.cost)
                if cheapest.choices[-1] != choice:
                    _improve(following[changes + 1], cheapest.then(*cost, choice))
        by_changes = following
    allowed = [paths.values() for changes, paths in sorted(by_changes.items()) if changes < most]
    optima = [min(paths, key=lambda p: p.cost) for paths in allowed]
    if not optima:
        return (Point(),) * len(sizes)
    affordable = (path for path in optima if path.excess <= allowance)
    return next(affordable, min(optima, key=lambda p: p.cost)).choices


def _improve(paths: dict[Point, _Path], path: _Path) -> None:
    rival = paths.get(path.choices[-1])
    if rival is None or path.cost < rival.cost:
        paths[path.choices[-1]] = path


def _costs(mine: Winner, best: Winner, worth: float) -> tuple[float, float]:
    loss = math.log(mine.median_s / best.median_s) - worth
    # Single samples (a recorded table) say nothing about noise; then a difference is taken as it is.
    alone = mine.n == 1 or best.n == 1
    spread = 0.0 if alone else math.hypot(mine.sem_s / mine.median_s, best.sem_s / best.median_s)
    return max(loss - Z95 * spread, 0.0), loss


def _best(choices: Choices) -> Winner:
    return min(choices.values(), key=lambda w: w.median_s)
