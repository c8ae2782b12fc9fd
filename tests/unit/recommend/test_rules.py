"""Tables with few rules, and boundaries where curves cross."""

import pytest

from autotune.history.lookup import choice_at
from autotune.history.objectives import Winner
from autotune.recommend.rules import crossing, rules_of
from autotune.space import Point

TREE, RING, LINE = (Point.of({"algorithm": name}) for name in ("tree", "ring", "linear"))


def slot(size, collective="allreduce", comm_size=8):
    return (collective, comm_size, size)


def curves(times, sem=0.0, collective="allreduce"):
    """size → {choice: seconds} as alternatives with one relative standard error."""
    return {
        slot(size, collective): {k: Winner(t, sem * t, k) for k, t in choices.items()}
        for size, choices in times.items()
    }


def baseline(times):
    return {slot(size): Winner(t, 0.0, Point()) for size, t in times.items()}


def said(rules):
    return [(r.min_bytes, r.choice.get("algorithm")) for r in rules]


def test_the_boundary_lies_where_the_curves_cross():
    # On log-log axes tree rises from 1 to 16 and ring from 2 to 8 over 16 … 4096 bytes: they meet in the
    # middle of ln 2 (ahead) and ln 2 (behind), at 256 bytes.
    found = rules_of(curves({16: {TREE: 1.0, RING: 2.0}, 4096: {TREE: 16.0, RING: 8.0}}))
    assert said(found) == [(8, "tree"), (256, "ring"), (8193, None)]


def test_a_curve_that_is_not_known_is_not_extrapolated():
    found = rules_of(curves({16: {TREE: 1.0}, 4096: {TREE: 16.0, RING: 8.0}}))
    assert said(found) == [(8, "tree"), (4096, "ring"), (8193, None)]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        ({TREE: 1.0, RING: 1.0}, {TREE: 2.0, RING: 1.0}, 17),  # a tie at the lower end
        ({TREE: 1.0, RING: 2.0}, {TREE: 1.0, RING: 1.0}, 4096),  # a tie at the upper end
        ({TREE: 1.0, RING: 1.0}, {TREE: 1.0, RING: 1.0}, 4096),  # no difference at all
    ],
)
def test_the_boundary_stays_between_the_measured_sizes(low, high, expected):
    at_low, at_high = ({k: Winner(t, 0.0, k) for k, t in c.items()} for c in (low, high))
    assert crossing(16, 4096, at_low, at_high, TREE, RING) == expected


def test_a_winner_at_one_size_within_noise_gets_no_rule():
    times = {2**i: {TREE: 1.0, RING: 1.1} for i in range(10)}
    times[64] = {TREE: 1.0, RING: 0.99}
    assert said(rules_of(curves(times, sem=0.01))) == [(1, "tree"), (1025, None)]
    assert len(rules_of(curves(times, sem=0.0001))) == 3 + 1


def test_a_winner_at_one_size_beyond_noise_keeps_its_rule():
    times = {2**i: {TREE: 1.0, RING: 1.1} for i in range(10)}
    times[64] = {TREE: 1.0, RING: 0.8}
    assert len(rules_of(curves(times, sem=0.01))) == 3 + 1


def test_a_rule_that_adds_less_than_one_per_cent_of_the_gain_is_left_out():
    times = {2**i: {TREE: 1.0, RING: 1.1} for i in range(10)}
    times[64] = {TREE: 1.0, RING: 0.98}
    slow = baseline({2**i: 2.0 for i in range(10)})  # Σ gain ≈ 6.9, 1 % of it ≈ 0.069 > ln(1/0.98)
    assert said(rules_of(curves(times), slow)) == [(1, "tree"), (1025, None)]
    near = baseline({2**i: 1.02 for i in range(10)})  # Σ gain ≈ 0.2
    assert len(rules_of(curves(times), near)) == 3 + 1
    assert len(rules_of(curves(times), slow, keep=1.0)) == 3 + 1


def test_where_sizes_cannot_be_told_apart_the_best_single_choice_is_taken():
    times = {8: {TREE: 1.0, RING: 1.5, LINE: 1.2}, 4096: {TREE: 9.0, RING: 5.0, LINE: 5.5}}
    found = rules_of(curves(times, collective="scan"), one_row={"scan"})
    assert said(found) == [(0, "linear")]


def test_where_no_choice_was_measured_everywhere_and_one_must_do_the_stack_decides():
    found = rules_of(curves({8: {TREE: 1.0}, 64: {RING: 1.0}}, collective="scan"), one_row={"scan"})
    assert [r.choice for r in found] == [Point()]


def test_tables_are_separate_and_end_a_factor_of_two_beyond_what_was_measured():
    both = curves({8: {TREE: 1.0}}) | curves({8: {RING: 1.0}}, collective="bcast")
    both[("allreduce", 16, 8)] = {LINE: Winner(1.0, 0.0, LINE)}
    assert [(r.collective, r.comm_size, r.min_bytes, r.choice) for r in rules_of(both)] == [
        ("allreduce", 8, 4, TREE),
        ("allreduce", 8, 17, Point()),
        ("allreduce", 16, 4, LINE),
        ("allreduce", 16, 17, Point()),
        ("bcast", 8, 4, RING),
        ("bcast", 8, 17, Point()),
    ]


def test_a_rule_does_not_reach_sizes_that_nobody_measured():
    rules = rules_of(curves({8192: {RING: 1.0}}))
    asked = {
        size: choice_at(rules, slot(size)) for size in (0, 8, 20, 4095, 4096, 8192, 16384, 16385, 1 << 30)
    }
    assert {size for size, choice in asked.items() if choice} == {4096, 8192, 16384}


def test_what_has_no_size_or_no_end_has_no_bounds():
    assert said(rules_of(curves({0: {TREE: 1.0}}, collective="barrier"))) == [(0, "tree")]
    assert said(rules_of(curves({8192: {TREE: 1.0}}), one_row={"allreduce": 1})) == [(0, "tree")]


def test_a_rule_that_gains_less_than_one_per_cent_leaves_it_to_the_stack():
    own = Point.of({"algorithm": "default"})

    def found(ratio):
        times = {2**i: {TREE: 1.0, own: ratio, RING: 1.004} for i in range(8)}
        return said(rules_of(curves(times), baseline({2**i: 2.0 for i in range(8)}), says=lambda c: c != own))

    assert found(1.008) == [(0, "default")]
    assert found(1.05) == [(1, "tree"), (257, None)]
