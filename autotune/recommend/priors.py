"""Derive expectations from the names of parameters' values, before anything was measured.

The proposer ``curve`` uses two kinds of expectations: how similar two values of a parameter are, and how fast
an algorithm of a known family should be at each message size.

Notation: p ranks, message size m (counted as in ``Cell``), start-up time α, time per byte β. An algorithm
with ``rounds`` messages that depend on each other, and with ``volume`` · m bytes through the busiest rank,
takes about rounds · α + volume · m · β.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.collectives import COLLECTIVES
from autotune.history.objectives import Slot
from autotune.space import Parameter, Point, Value

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class NamePriors:
    """Assumptions behind the expectations from names, on the log scale unless stated otherwise."""

    alpha_s: float = 1.5e-6
    """α: start-up time in seconds of a message between nodes, as is typical of today's networks."""
    beta_s: float = 1e-10  # β: time per byte in seconds; the value corresponds to 10 GB/s.
    ranks: int = 64  # Number of ranks that is assumed if the number is not known.
    adaptive: float = 0.3  # Expected cost of an MPI stack's own choice, relative to the best family.
    departure: float = 0.1
    """Expected cost of changing a parameter whose values' names say nothing, because vendors test their
    defaults."""
    unknown: float = 0.2
    """Expected cost, relative to the best family, of an algorithm whose name belongs to no family."""
    family_weight: float = 4.0
    """Weight of a common family in the similarity of two names, relative to the weight of the rarest common
    word."""


NAMES = NamePriors()


# Maps each kind of collective to its families of algorithms, each given as (pattern, rounds, volume). A name
# belongs to the first family whose pattern occurs in the name. Rounds and volume are each given by three
# numbers: the coefficient of log2 p, the coefficient of p − 1, and a constant.
_Cost = tuple[float, float, float]
_Family = tuple[str, _Cost, _Cost]
_FAMILIES: dict[str, tuple[_Family, ...]] = {
    "allreduce": (
        (r"ring|bucket", (0, 2, 0), (0, 0, 2)),
        (r"rabenseifner|reduce.?scatter|redscat|bdw|bandwidth|\bbw\b|halving", (2, 0, 0), (0, 0, 2)),
        (r"recursive.?doubling|recdoub|butterfly|lat\b|latency|\bl$", (1, 0, 0), (1, 0, 0)),
        (r"linear|basic", (0, 0.5, 0), (0, 2, 0)),
        (r"nonoverlapping|reduce.?b|rdbc|binomial|tree|bruck", (2, 0, 0), (2, 0, 0)),
    ),
    "rooted": (
        (r"scatter.*ring", (1, 1, 0), (0, 0, 2)),
        (r"scatter|rabenseifner|bdw|bandwidth|\bbw\b|halving", (2, 0, 0), (0, 0, 2)),
        (r"k.?nomial", (0.8, 0, 0), (1, 0, 0)),
        (r"chain|pipeline", (0, 1, 0), (0, 0, 1.5)),
        (r"trinary|trix", (1, 0, 0), (0, 0, 1)),
        (r"binary|bintree|in.?order", (1.5, 0, 0), (0, 0, 3)),
        (r"binomial|recursive.?doubling|lat\b|latency", (1, 0, 0), (1, 0, 0)),
        (r"linear|basic", (0, 0.5, 0), (0, 1, 0)),
    ),
    "blocks": (
        # These algorithms have few steps, but send each block as a separate message.
        (r"by.?block|doubling.?blocks|sparbit", (1, 0.4, 0), (0, 1, 0)),
        (r"ring|pairwise", (0, 1, 0), (0, 1, 0)),
        (r"neighbo", (0, 0.5, 0), (0, 1, 0)),
        (r"gtbc|gather.?bcast|nonoverlapping", (2, 0, 0), (0, 3, 0)),
        (r"linear|basic", (0, 0.5, 0), (0, 1, 0)),
        (r"bruck", (1, 0, 0), (0, 1.5, 0)),
        (r"recursive|halving|doubling|recdoub|butterfly|binomial|bine", (1, 0, 0), (0, 1, 0)),
    ),
    "alltoall": (
        (r"bruck", (1, 0, 0), (0.5, 0.5, 0)),
        (r"hierarchical|leader", (1, 0.5, 0), (0, 3, 0)),
        (r"pairwise|ring", (0, 1, 0), (0, 1, 0)),
        (r"linear|basic|scatter|nonblocking", (0, 0.5, 0), (0, 1, 0)),
    ),
}


def coded(parameters: Sequence[Parameter], points: Sequence[Point]) -> Floats:
    """Return points as one-hot codes, ``(n_points, V)``.

    Each parameter has a column for each of its values, and a last column for "not active".
    """
    codes = np.zeros((len(points), sum(len(p.values) + 1 for p in parameters)))
    rows, values, start = np.arange(len(points)), [dict(point.items_).get for point in points], 0
    for p in parameters:
        at: dict[Value | None, int] = {v: i for i, v in enumerate(p.values, start)}
        start += len(at) + 1
        codes[rows, [at.get(value_of(p.name), start - 1) for value_of in values]] = 1.0
    return codes


def expected_excess(parameters: Sequence[Parameter], slots: Sequence[Slot]) -> Floats:
    """Return for each value by how much ln t should exceed that of the best family, ``(V, n_slots)``.

    The expectation for points is the sum over their values: ``coded(parameters, points)`` times this matrix.
    If the names of a parameter's values say nothing, each value except the default costs ``NAMES.departure``.
    The values of a parameter that exists only under a condition then cost nothing, because nobody has tested
    its default.
    """
    tables = [_value_costs(p, slots) for p in parameters]
    return np.vstack([np.zeros((0, len(slots))), *tables])


def _value_costs(parameter: Parameter, slots: Sequence[Slot]) -> Floats:
    """Return the rows of ``expected_excess`` that belong to one parameter, ``(n_values + 1, n_slots)``."""
    inactive, default = np.zeros(len(slots)), parameter.default
    by_value = [_family_costs(parameter, v, slots) for v in parameter.values]
    named = [costs for costs in by_value if costs is not None]
    if len(named) >= 2:
        best = np.min(named, axis=0)
        unnamed = [
            np.full(len(slots), NAMES.adaptive if v == default else NAMES.unknown) for v in parameter.values
        ]
        pairs = zip(unnamed, by_value, strict=True)
        return np.array(
            [*(unnamed_costs if costs is None else costs - best for unnamed_costs, costs in pairs), inactive]
        )
    if parameter.when:  # nobody has tested the default of a parameter that exists only under a condition
        return np.zeros((len(by_value) + 1, len(slots)))
    changed = [NAMES.departure * (v != default) for v in parameter.values]
    return np.outer([*changed, NAMES.departure], np.ones(len(slots)))


def dissimilarity(parameter: Parameter, collectives: Collection[str] = ()) -> Floats:
    """Return the dissimilarity, from 0 to 1, of each two values, ``(n_values + 1, n_values + 1)``.

    The dissimilarity of two values on a scale is their distance on the scale. That of two other values is one
    minus the weighted share of words that their names have in common. A word has less weight, the more values
    contain it. The family of an algorithm (for each of the collectives) counts as an additional word with the
    largest weight. The last row and column stand for "not active", whose dissimilarity to all values is 1.
    The dissimilarity of a value on the scale and a value that is not on the scale is also 1.
    """
    values = parameter.values
    unlike = np.ones((len(values) + 1, len(values) + 1))
    positions = parameter.positions()
    words = [set[str]() if v in positions else _words(v) for v in values]
    families = [{f for c in collectives if (f := _family(parameter, v, c)) is not None} for v in values]
    count = Counter(word for value_words in words for word in value_words)
    weight: dict[object, float] = {word: math.log((1 + len(values)) / n) for word, n in count.items()}
    weight.update((f, NAMES.family_weight * math.log(1 + len(values))) for kin in families for f in kin)
    traits: list[set[object]] = [
        {*value_words, *kin} for value_words, kin in zip(words, families, strict=True)
    ]
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            if a in positions and b in positions:
                unlike[i, j] = abs(positions[a] - positions[b])
            elif a not in positions and b not in positions:
                either = sum(weight[t] for t in traits[i] | traits[j])
                common = sum(weight[t] for t in traits[i] & traits[j])
                unlike[i, j] = 1 - common / either if either else float(i != j)
    np.fill_diagonal(unlike, 0.0)
    return unlike


def _words(value: Value) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", str(value).lower()))


def _family(parameter: Parameter, value: Value, collective: str) -> _Family | None:
    entry = COLLECTIVES.get(collective)
    ids = ("default", *entry.openmpi.algorithms) if entry and entry.openmpi else ()
    numbered = isinstance(value, int) and "algorithm" in parameter.name and 0 <= value < len(ids)
    name = (ids[int(value)] if numbered else str(value)).lower().replace("_", " ")
    families = _FAMILIES.get(entry.costs if entry else "", ())
    return next((family for family in families if re.search(family[0], name)), None)


def _family_costs(parameter: Parameter, value: Value, slots: Sequence[Slot]) -> Floats | None:
    """Return ln of an algorithm's expected time in each slot; None if its name belongs to no family.

    The logarithm is 0 for collectives without families.
    """
    costs: list[float] = []
    for collective, comm_size, message_bytes in slots:
        family = _family(parameter, value, collective)
        if collective not in COLLECTIVES or not COLLECTIVES[collective].costs:
            costs.append(0.0)
        elif family is None:
            return None
        else:
            p = comm_size if comm_size > 1 else NAMES.ranks
            rounds, volume = (a * math.log2(p) + b * (p - 1) + c for a, b, c in family[1:])
            costs.append(math.log(rounds * NAMES.alpha_s + volume * message_bytes * NAMES.beta_s))
    return np.array(costs)
