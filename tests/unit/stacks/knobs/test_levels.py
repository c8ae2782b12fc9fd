"""Levels from the type."""

import pytest

from autotune.stacks.knobs import Knob, KnobKind, levels
from autotune.stacks.knobs.levels import default_level

SIZES = (8, 4096, 65536, 1048576)


def knob(kind, default, allowed=(), keys=()):
    return Knob("ucx", "1.20.1", "X", kind, default, allowed=allowed, keys=keys)


@pytest.mark.parametrize(
    ("kind", "default", "allowed", "expected"),
    [
        (KnobKind.BOOLEAN, "y", ("y", "n"), ("y", "n")),
        (KnobKind.ENUMERATOR, "auto", ("auto", "am"), ("auto", "am")),
        (KnobKind.ENUMERATOR, "n", ("yes", "no", "try"), ("yes", "no", "try")),
        (KnobKind.TEXT, "anything", (), ("anything",)),
        (KnobKind.INTEGER, "16", (), (4, 8, 16, 32, 64)),
        (KnobKind.INTEGER, "1", (), (1, 2, 4)),
        (KnobKind.INTEGER, "-1", (), (-1, 1, 4, 16)),
        (KnobKind.INTEGER, "auto", ("inf", "auto"), (1, 4, 16, "auto", "inf")),
        (KnobKind.INTEGER, "", (), (1, 4, 16, "default")),
        (KnobKind.REAL, "1.000", (), (0.25, 0.5, 1.0, 2.0, 4.0)),
        (KnobKind.BYTES, "8K", ("inf", "auto"), (512, 2048, 8192, 32768, 131072, "inf", "auto")),
        (KnobKind.BYTES, "auto", ("inf", "auto"), (8, 4096, 65536, 1048576, "auto", "inf")),
        (KnobKind.BYTES, "18446744073709551615", (), (8, 4096, 65536, 1048576, 18446744073709551615)),
        (KnobKind.BYTES, "0", (), (0, 8, 4096, 65536, 1048576)),
        (KnobKind.BYTES, "100", (), (6, 25, 100, 400, 1600)),
        (KnobKind.DURATION, "0.30us", (), ("0.0375us", "0.15us", "0.30us", "0.6us", "2.4us")),
        (KnobKind.DURATION, "auto", ("inf", "auto"), ("auto", "inf")),
        (KnobKind.BANDWIDTH, "15360.00MBps", ("auto",),
         ("1920MBps", "7680MBps", "15360.00MBps", "30720MBps", "122900MBps", "auto")),
        (KnobKind.LIST, "a,b", ("a", "b", "c"), ("a,b", "b", "a", "a,b,c")),
        (KnobKind.LIST, "all", (), ("all",)),
        (KnobKind.LIST, "", ("a", "b"), ("", "a", "b")),
    ],
)  # fmt: skip
def test_levels_follow_from_the_type(kind, default, allowed, expected):
    assert levels(knob(kind, default, allowed), SIZES) == expected


def test_sizes_far_from_a_default_and_close_to_each_other_are_left_out():
    near = levels(knob(KnobKind.BYTES, "4096"), (1, 2048, 6000, 65536, 262144, 8388608))
    assert near == (256, 1024, 4096, 16384, 65536, 262144)


def test_pairs_move_together_and_where_they_are_costs_each_alone():
    threshold = knob(KnobKind.BYTES, "intra:auto,inter:auto", ("inf", "auto"), ("intra", "inter"))
    assert levels(threshold, (4096,)) == ("intra:auto,inter:auto", 4096, "inf")
    cost = knob(KnobKind.DURATION, "a:0.10us,b:0us", (), ("a", "b"))
    found = levels(cost, ())
    assert found[:2] == ("a:0.10us,b:0us", "a:0.0125us,b:0us")
    assert len(found) == len(set(found)) == 5


@pytest.mark.parametrize("kind", KnobKind)
@pytest.mark.parametrize("default", ["", "7", "1.5", "auto", "a,b", "12.00MBps"])
def test_the_default_is_always_among_the_levels(kind, default):
    one = knob(kind, default, ("auto",))
    found = levels(one, SIZES)
    assert default_level(one) in found
    assert len(set(map(str, found))) == len(found)
