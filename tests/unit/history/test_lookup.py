"""Which rule is in force at a call."""

import pytest

from autotune.history.lookup import choice_at, last_up_to, rule_at, table_starts
from autotune.history.trial import Rule
from autotune.space import Point


@pytest.mark.parametrize(
    ("measured", "exact", "expected"),
    [
        ([], (), {2: 0}),
        ([2], (), {2: 2, 4: 0}),
        ([2], (2,), {2: 2, 3: 0}),
        ([8], (), {2: 0, 5: 8, 16: 0}),
        ([2, 8], (), {2: 2, 4: 0, 5: 8, 16: 0}),
        ([8, 12], (), {2: 0, 5: 8, 12: 12, 24: 0}),
        ([8, 16], (), {2: 0, 5: 8, 16: 16, 32: 0}),
        ([2, 3], (2,), {2: 2, 3: 3, 6: 0}),
    ],
)
def test_from_where_each_table_holds(measured, exact, expected):
    found = table_starts(measured, exact)
    assert list(found.items()) == list(expected.items())


@pytest.mark.parametrize(("value", "expected"), [(0, None), (1, "a"), (3, "a"), (4, "b"), (99, "b")])
def test_an_entry_holds_up_to_the_next_one(value, expected):
    assert last_up_to({4: "b", 1: "a"}, value) == expected


RING, TREE = Point.of({"algorithm": "ring"}), Point.of({"algorithm": "binomial"})
RULES = (
    Rule("bcast", 8, 0, Point()),
    Rule("bcast", 8, 1024, TREE),
    Rule("bcast", 8, 65536, RING),
    Rule("bcast", 64, 4096, RING),
    Rule("allreduce", 0, 0, RING),
)


@pytest.mark.parametrize(
    ("slot", "expected"),
    [
        (("bcast", 8, 0), 0),
        (("bcast", 8, 1023), 0),
        (("bcast", 8, 1024), 1),
        (("bcast", 8, 1 << 30), 2),
        (("bcast", 4, 2048), None),
        (("bcast", 5, 2048), 1),
        (("bcast", 15, 2048), 1),
        (("bcast", 16, 2048), None),
        (("bcast", 64, 2048), None),
        (("bcast", 64, 4096), 3),
        (("bcast", 128, 4096), None),
        (("allreduce", 0, 8), 4),
        (("reduce", 8, 8), None),
    ],
)
def test_the_rule_of_the_nearest_table_within_a_factor_of_two(slot, expected):
    rule = None if expected is None else RULES[expected]
    assert rule_at(RULES, slot) == rule
    assert rule_at(tuple(reversed(RULES)), slot) == rule
    assert choice_at(RULES, slot) == (rule.choice if rule else Point())
