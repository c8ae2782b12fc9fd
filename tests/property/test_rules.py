"""Whatever the curves: rules keep the gain, are as few as can be, and change between measured sizes."""

import itertools
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.history.objectives import Winner
from autotune.history.trial import Rule
from autotune.recommend.rules import rules_of
from autotune.space import Point
from autotune.stacks import coll_tuned

CHOICES = [Point.of({"algorithm": name}) for name in ("linear", "ring", "rabenseifner")]
TIMES = st.lists(
    st.lists(st.floats(0.5, 4.0), min_size=len(CHOICES), max_size=len(CHOICES)), min_size=1, max_size=6
)


def table(times):
    return {
        ("allreduce", 4, 8 * 4**j): {k: Winner(t, 0.0, k) for k, t in zip(CHOICES, row, strict=True)}
        for j, row in enumerate(times)
    }


def in_force(rules, size):
    return [r.choice for r in rules if r.min_bytes <= size][-1]


def loss(curves, choices):
    return sum(
        math.log(at[choice].median_s / min(w.median_s for w in at.values()))
        for at, choice in zip(curves.values(), choices, strict=True)
    )


@given(TIMES, st.floats(1.0, 3.0))
@settings(max_examples=60)
def test_the_fewest_rules_that_keep_the_gain(times, slower):
    curves = table(times)
    baseline = {
        s: Winner(slower * min(w.median_s for w in at.values()), 0.0, Point()) for s, at in curves.items()
    }
    allowed = 0.01 * len(curves) * math.log(slower) + 1e-9
    rules = rules_of(curves, baseline)
    chosen = [in_force(rules, size) for _, _, size in curves]
    assert loss(curves, chosen) <= allowed
    fewer = [
        c
        for c in itertools.product(CHOICES, repeat=len(curves))
        if 1 + sum(a != b for a, b in itertools.pairwise(c)) < sum(bool(rule.choice) for rule in rules)
    ]
    assert all(loss(curves, c) > allowed - 2e-9 for c in fewer)


@given(TIMES)
@settings(max_examples=60)
def test_tables_end_beyond_what_was_measured_and_boundaries_ascend(times):
    sizes = [size for _, _, size in table(times)]
    *rules, end = rules_of(table(times))
    bounds = [r.min_bytes for r in (*rules, end)]
    assert all(r.choice for r in rules)
    assert not end.choice
    assert (bounds[0], bounds[-1]) == (-(-min(sizes) // 2), 2 * max(sizes) + 1)
    assert bounds == sorted(set(bounds))


@st.composite
def tables(draw):
    collective = draw(st.sampled_from(sorted(set(coll_tuned.ALGORITHMS) - coll_tuned.ONE_ROW)))
    names = [n for n in coll_tuned.algorithms(collective) if n != coll_tuned.PAIRS_ONLY]
    rules = []
    for comm_size in draw(st.lists(st.integers(2, 300), min_size=1, max_size=4, unique=True)):
        bounds = draw(st.lists(st.integers(1, 1 << 22), max_size=4, unique=True))
        for bound in sorted([0, *bounds]):
            choice = Point.of({"algorithm": draw(st.sampled_from(names)), "segsize": draw(st.integers(0, 9))})
            rules.append(Rule(collective, comm_size, bound, choice))
    return rules


@given(tables(), st.integers(0, 1 << 23))
@settings(max_examples=100)
def test_open_mpi_finds_the_rule_that_was_meant(rules, size):
    """Looked up as Open MPI does: the largest communicator size and then the largest threshold that fits."""
    collective = rules[0].collective
    by_size = coll_tuned.table(rules).get(collective, {2: (coll_tuned.TunedRow(0, 0),)})
    assert list(by_size) == sorted(by_size)
    for comm_size in {r.comm_size for r in rules}:
        rows = by_size[max((n for n in by_size if n <= comm_size), default=min(by_size))]
        threshold = coll_tuned.threshold_bytes(collective, size, comm_size)
        row = [r for r in rows if r.threshold_bytes <= threshold][-1]
        meant = in_force([r for r in rules if r.comm_size == comm_size], size)
        assert row.algorithm == coll_tuned.algorithm_id(collective, meant["algorithm"])
        if row.algorithm:
            assert row.segment_bytes == meant["segsize"]
