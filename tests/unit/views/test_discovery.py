"""Findings of a discovery, in a table of sizes."""

import math

import pytest

from autotune.screening.discovery import ChangeEffect, DiscoveryResult
from autotune.views.discovery import named, rows

HALVED, EVEN = -math.log(2), 0.0


def found(*ratios):
    effect = ChangeEffect(0, ("knob", "on"), ratios, (0.01,) * len(ratios), confirmed=True)
    return DiscoveryResult((effect,), (), (), (), (), (ratios,), 0.05)


@pytest.mark.parametrize(
    ("slots", "ratios", "table", "named_last"),
    [
        ([("allreduce", 2, 8), ("allreduce", 2, 1024)], (HALVED, EVEN), {"": ["2.00", "1.00"]}, "1 KiB"),
        (
            [("barrier", 2, 0), ("halo", 2, 8), ("halo", 2, 1024)],
            (EVEN, HALVED, EVEN),
            {", barrier": ["1.00", "", ""], ", halo": ["", "2.00", "1.00"]},
            "1 KiB of halo",
        ),
        (
            [("allreduce", 2, 8), ("allreduce", 4, 8)],
            (HALVED, EVEN),
            {", 2 ranks": ["2.00"], ", 4 ranks": ["1.00"]},
            "8 B",
        ),
    ],
)
def test_each_collective_and_communicator_has_a_row(slots, ratios, table, named_last):
    made = [(name, [text for text, _ in cells]) for _, name, cells in rows(found(*ratios), slots)]
    assert made == [(f"knob = on{suffix}", cells) for suffix, cells in table.items()]
    assert named(slots)[-1] == named_last
    assert rows(found(), ()) == []
