"""Which rules of a table hold after a comparison."""

from dataclasses import replace

from autotune.history.trial import Rule
from autotune.space import Point
from autotune.verification.comparison import Comparison, SlotDecision
from autotune.verification.kept_rules import kept_rules

RING = Point.of({"algorithm": "ring"})


def comparison(size, gain, decision):
    return Comparison(("allreduce", 2, size), 4, gain, 0.01, gain - 0.02, gain + 0.02, decision)


BETTER, GONE, UNKNOWN = SlotDecision.STILL_BETTER, SlotDecision.NO_LONGER, SlotDecision.INCONCLUSIVE
TABLE = (Rule("allreduce", 2, 0, RING), Rule("allreduce", 2, 3000, Point.of({"algorithm": "tree"})))


def said(rules):
    return [(r.min_bytes, r.choice.get("algorithm")) for r in rules]


def test_rules_that_hold_everywhere_stay():
    judged = [comparison(size, 0.2, BETTER) for size in (16, 4096)]
    assert kept_rules(TABLE, judged) == TABLE
    assert kept_rules(TABLE, []) == TABLE


def test_a_choice_that_no_measured_size_reaches_any_more_is_left_out():
    """ring began before 64 KiB for the sake of 64 KiB, where it does not hold; in between nobody knows."""
    table = (
        Rule("allreduce", 2, 0, Point.of({"algorithm": "tree"})),
        Rule("allreduce", 2, 30000, Point.of({"algorithm": "ring"})),
    )
    judged = [comparison(1024, 0.2, BETTER), comparison(65536, 0.05, UNKNOWN)]
    assert said(kept_rules(table, judged)) == [(0, "tree"), (65536, None)]


def test_where_a_rule_is_not_better_the_stack_decides_from_where_the_gain_is_gone():
    judged = [comparison(16, 0.1, BETTER), comparison(4096, -0.1, GONE)]
    assert said(kept_rules(TABLE, judged)) == [(0, "ring"), (256, None)]


def test_where_nothing_crosses_the_earlier_size_reaches_to_the_later():
    judged = [comparison(16, 0.01, UNKNOWN), comparison(4096, 0.1, BETTER)]
    assert said(kept_rules(TABLE, judged)) == [(0, None), (4096, "tree")]


def test_a_rule_stays_where_the_default_would_be_worse():
    judged = [comparison(16, 0.01, UNKNOWN), comparison(4096, 0.1, BETTER)]
    assert kept_rules(TABLE, judged, stays={("allreduce", 2, 16)}) == TABLE


def test_where_sizes_cannot_be_told_apart_a_rule_holds_as_a_whole():
    rule = (Rule("allreduce", 2, 0, RING),)
    judged = [comparison(16, 0.0, GONE), comparison(4096, 0.1, BETTER)]
    assert kept_rules(rule, judged, one_row={"allreduce"}) == rule
    losing = replace(comparison(16, -0.3, GONE), loses=True)
    assert said(kept_rules(rule, [losing, judged[1]], one_row={"allreduce"})) == [(0, None)]
    assert said(kept_rules(rule, judged[:1], one_row={"allreduce"})) == [(0, None)]


def test_other_tables_are_left_alone():
    other = Rule("bcast", 2, 0, RING)
    judged = [comparison(16, -0.1, GONE)]
    assert kept_rules((*TABLE, other), judged) == (Rule("allreduce", 2, 0, Point()), other)
