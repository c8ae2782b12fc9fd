"""Figures in words."""

import math

import pytest

from autotune.campaign.costs import Share
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Gain, Recommendation
from autotune.space import Point
from autotune.views.text import (
    advice_text,
    changed_text,
    clock_text,
    cost_text,
    duration_text,
    figure_text,
    gain_text,
    p_text,
    ratio_text,
    size_text,
    value_text,
    verdict,
)


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(0, "0 B"), (8, "8 B"), (1000, "1000 B"), (1024, "1 KiB"), (1536, "1536 B"), (8 << 20, "8 MiB")],
)
def test_sizes_are_exact(n_bytes, text):
    assert size_text(n_bytes) == text


@pytest.mark.parametrize(
    ("value", "sem", "text"),
    [
        (1.3514, math.nan, "1.35"),
        (1.3514, 0.02, "1.35 ± 0.02"),
        (1.3514, 0.0041, "1.351 ± 0.004"),
        (217.83, 0.42, "217.8 ± 0.4"),
        (217.83, 12.0, "218 ± 12"),
        (12345.6, 30.0, "12346 ± 30"),
        (0.0312, 0.0001, "0.0312 ± 0.0001"),
        (5.0, 0.0, "5.00 ± 0.00"),
        (math.nan, 0.1, "—"),
    ],
)
def test_figures_have_the_digits_that_their_errors_allow(value, sem, text):
    assert figure_text(value, sem) == text
    assert figure_text(value, sem, "µs") == (text if text == "—" else f"{text} µs")


def test_speed_ups():
    assert ratio_text(1.3449) == "1.34×"
    assert ratio_text(1.3449, (1.309, 1.371)) == "1.34× (1.31 … 1.37)"
    assert ratio_text(1.3449, (math.nan, math.nan)) == "1.34×"
    assert ratio_text(250.2) == "250×"
    assert ratio_text(27.03, (0.046, 15730.0)) == "27× (0.05 … >1000)"
    assert ratio_text(1.33, (1e-300, 1e300)) == "1.33×"  # launches too few for any bound
    assert ratio_text(math.nan) == "—"


def test_where_nothing_differs_there_is_no_ratio():
    def compared(*ratio):
        return Gain(("bcast", 2, 8), 1e-6, 0.0, 1e-6, 0.0, compared=ratio)

    assert gain_text(compared(1.02, 0.97, 1.07)) == "~ (0.97 … 1.07)"
    assert gain_text(compared(1.02, 0.97, 1.07), with_interval=False) == "~"
    assert gain_text(compared(1.02, 1.01, 1.03)) == "1.02× (1.01 … 1.03)"
    assert gain_text(compared(0.9, 0.8, 0.99), with_interval=False) == "0.90×"
    assert gain_text(compared(1.3, math.nan, math.nan)) == "1.30×"  # not known whether it differs


@pytest.mark.parametrize(("tuned_s", "word"), [(1e-6, "faster"), (2e-6, "even"), (4e-6, "slower")])
def test_a_speed_up_is_judged_by_its_interval(tuned_s, word):
    assert verdict(Gain(("bcast", 2, 8), tuned_s, tuned_s / 50, 2e-6, 4e-8)) == word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.6, "1 min 0 s"),
        (48, "48 s"),
        (200, "3 min 20 s"),
        (1500, "25 min"),
        (7500, "2 h 5 min"),
        (-3, "0 s"),
        (math.inf, "—"),
    ],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text


def test_small_p_values_do_not_read_zero():
    assert [p_text(p) for p in (0.00004, 0.0312, 1.0, math.nan)] == ["<0.001", "0.031", "1.000", "—"]


def test_only_what_differs_from_the_default_is_named():
    default = Point.of({"a": "auto", "b": 1})
    assert changed_text(Point.of({"a": "4k", "b": 1, "c": True}), default) == "a=4k, c=True"
    assert changed_text(default, default) == "nothing"


def test_advice_says_what_is_to_be_changed():
    default = Point.of({"UCX_TLS": "all"})
    ring, nothing = (Rule("bcast", 2, 0, Point.of(values)) for values in ({"algorithm": "ring"}, {}))
    assert (
        advice_text(Recommendation(default.replace(UCX_TLS="tcp"), (ring,)), default) == "change UCX_TLS=tcp"
    )
    assert "per message size" in advice_text(Recommendation(default, (ring,)), default)
    assert advice_text(Recommendation(default, (nothing,)), default).startswith("leave")


def test_a_value_alone_is_never_an_empty_cell() -> None:
    assert [value_text(v) for v in ("", None, 0, "auto")] == ["(empty)", "not active", "0", "auto"]


def test_what_a_campaign_costs_names_the_limit_on_all_of_it():
    phases = (Share("search", 10, 10, 1.5), Share("verification", 16, 64, 1.5))
    text = cost_text(phases)
    assert text == (
        "26 to 74 launches: search 10, verification 16 to 64\n"
        f"{duration_text(39.0)} of measuring, without starting ranks"
    )
    assert cost_text(phases, 240.0) == f"{text}; time limit {duration_text(240.0)}"


def test_launches_that_time_has_no_room_for_are_not_promised():
    phases = (Share("discovery", 560, 560, 0.2, 90.0), Share("search", 10, 10, 1.0))
    assert cost_text(phases, 240.0).startswith(
        "at most 570 launches: discovery up to 560 in 1 min 30 s, search 10\n1 min 40 s of measuring"
    )


def test_a_clock_has_hours_where_there_are_some():
    spans = (0.4, 48.2, 92, 3599.6, 7510, float("inf"))
    assert [clock_text(s) for s in spans] == ["0:00", "0:48", "1:32", "1:00:00", "2:05:10", "—"]
