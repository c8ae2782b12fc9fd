"""The tuning table as text, rows and a drawing."""

import re

from autotune.recommend.recommendation import Gain
from autotune.recommend.winners import SlotWinner
from autotune.space import Point
from autotune.views.tuning_table import Entry, tuning_page, tuning_rows, tuning_text

RING, TREE = Point.of({"algorithm": "ring"}), Point.of({"algorithm": "tree", "segsize": 8192})
HOSTILE = Point.of({"algorithm": "<script>alert(1)</script>"})


def entry(nodes, ranks, size, choice, rivals=(), default_us=2.0):
    slot = ("bcast", ranks, size)
    gain = Gain(slot, 1e-6, 1e-8, default_us * 1e-6, 1e-8) if default_us else None
    return Entry(nodes, SlotWinner(slot, choice, rivals, 1.1, gain))


TABLE = [
    entry(1, 4, 8, RING),
    entry(1, 4, 1024, TREE, (RING, Point())),
    entry(2, 8, 8, Point(), default_us=None),
]


def test_sizes_go_down_and_systems_across():
    lines = tuning_text(TABLE).splitlines()
    assert lines[0] == "bcast: the fastest choice at each message size"
    assert lines[1].split("  ")[1:] and "1 node, 4 ranks" in lines[1] and "2 nodes, 8 ranks" in lines[1]
    assert "ring 2.00×" in lines[2] and lines[2].rstrip().endswith("the stack's choice")
    assert "tree segsize=8192 2.00× ≈2" in lines[3]


def test_rows_name_all_ties_and_leave_empty_what_is_not_known():
    first, second, third = tuning_rows(TABLE)
    assert (first["algorithm"], first["segsize"], first["ties"], first["gain"]) == ("ring", "", "", 2.0)
    assert second["ties"] == "ring; the stack's choice"
    assert (third["nodes"], third["gain"], third["latency_us"]) == (2, "", "")


def test_ties_are_hatched_gains_are_strong_and_systems_have_a_row_each():
    page = tuning_page(TABLE, "two systems")
    assert set(re.findall(r'"shape":\["(.*?)"\]', page)) == {"", r"\u002f"}  # a slash, as JSON in a page
    assert "rgba(74,143,224,0.90)" in page  # twice as fast
    assert '"ticktext":["1 node, 4 ranks","2 nodes, 8 ranks"]' in page


def test_names_are_escaped():
    page = tuning_page([entry(1, 4, 8, HOSTILE)], "<script>alert(2)</script>")
    assert "<script>alert" not in page


def test_a_table_of_many_systems_keeps_to_80_columns_and_loses_none():
    table = [entry(nodes, 4 * nodes, size, TREE) for nodes in range(1, 9) for size in (8, 1024)]
    lines = tuning_text(table).splitlines()
    assert max(map(len, lines)) <= 80
    heads = " ".join(line for line in lines if line.startswith("  size "))
    assert [f"{n} node" in heads for n in range(1, 9)] == [True] * 8
