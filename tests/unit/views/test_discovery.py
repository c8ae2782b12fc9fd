"""Findings of a discovery, in a table of sizes."""

import math

from autotune.screening.discovery import ChangeEffect, DiscoveryResult
from autotune.views.discovery import named, rows

HALVED, EVEN = -math.log(2), 0.0


def found(*ratios):
    effect = ChangeEffect(0, ("knob", "on"), ratios, (0.01,) * len(ratios), confirmed=True)
    return DiscoveryResult((effect,), (), (), (), (), (ratios,), 0.05)


def shown(slots, *ratios):
    return [(name, [text for text, _ in cells]) for _, name, cells in rows(found(*ratios), slots)]


def test_one_collective_is_one_row():
    slots = [("allreduce", 2, 8), ("allreduce", 2, 1024)]
    assert shown(slots, HALVED, EVEN) == [("knob = on", ["2.00", "1.00"])]
    assert named(slots) == ["8 B", "1 KiB"]


def test_each_pattern_has_its_own_row_below_the_size_it_is_of():
    slots = [("barrier", 2, 0), ("halo", 2, 8), ("halo", 2, 1024), ("pingpong", 2, 8), ("pingpong", 2, 1024)]
    assert shown(slots, EVEN, HALVED, EVEN, EVEN, HALVED) == [
        ("knob = on, barrier", ["1.00", "", ""]),
        ("knob = on, halo", ["", "2.00", "1.00"]),
        ("knob = on, pingpong", ["", "1.00", "2.00"]),
    ]
    assert named(slots)[1] == "8 B of halo"


def test_communicators_have_rows_too():
    slots = [("allreduce", 2, 8), ("allreduce", 4, 8)]
    assert shown(slots, HALVED, EVEN) == [("knob = on, 2 ranks", ["2.00"]), ("knob = on, 4 ranks", ["1.00"])]


def test_nothing_measured_is_no_row():
    assert shown(()) == []
