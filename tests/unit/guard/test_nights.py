"""Claims of slower nights: none where nothing changed, soon where something did, and never by one night."""

import math

import numpy as np
import pytest

from autotune.guard.nights import (
    SHIFT,
    WANDERING,
    Rates,
    bounds_of_rise,
    components,
    log_claim_of_rise,
    log_evidence_of_rise,
    nights_wanted,
    of_all_sizes,
    of_launches,
    of_sizes,
)
from benchmarks.guard import claimed
from tests.unit.guard.nights_of import Machine


@pytest.mark.parametrize("walk", [0.0, 0.1, 3.0])
def test_the_evidence_is_an_e_value_whatever_level_scale_and_walk(walk):
    rng = np.random.default_rng(1)
    y = rng.normal(3.0, 7.0, (2, 18, 3_000)) + np.cumsum(
        rng.normal(0, 7.0 * math.sqrt(walk), (2, 18, 3_000)), 1
    )
    evidence = log_evidence_of_rise(y, 12, WANDERING)
    assert np.exp(evidence).mean() < 1.3  # its expectation is at most 1, of a heavy tail
    assert np.mean(evidence >= math.log(20)) < 0.05
    assert evidence == pytest.approx(log_evidence_of_rise(5 * y - 100, 12, WANDERING), abs=1e-3)


def test_a_walk_is_taken_for_a_change_where_none_is_expected_and_else_not():
    y = np.cumsum(np.random.default_rng(1).normal(0, 1, (1, 40, 500)), axis=1)
    wrong, right = (
        np.mean(log_evidence_of_rise(y, 33, walks) > math.log(100)) for walks in ((0.0,), WANDERING)
    )
    assert wrong > 0.1
    assert right < 0.01


def test_the_evidence_is_the_integral_over_all_rises_and_scales():
    y, since, k = np.array([0.3, -1.1, 0.4, 0.9, 2.1, 1.2]), 4, 5
    c, r = (x - x.mean() for x in ((np.arange(6) >= since).astype(float), y))
    scale, rise = np.exp(np.linspace(-4, 5, 600)), np.linspace(0.01, 49.99, 2_500)[:, None]

    def density(rise):  # of y less its mean, the scale's logarithm being anything
        squares = (r**2).sum() - 2 * scale * rise * (c @ r) + (scale * rise) ** 2 * (c @ c)
        return scale**-k * np.exp(-squares / scale**2 / 2)

    prior = np.exp(-((rise / SHIFT) ** 2) / 2)
    ratio = (prior * density(rise)).sum() / prior.sum() / density(0.0).sum()
    assert log_evidence_of_rise(y[None, :, None], since, (0.0,)) == pytest.approx(math.log(ratio), abs=1e-3)


def test_a_rise_far_beyond_all_nights_is_no_walk():
    y = np.random.default_rng(6).normal(0, 1, (1, 31, 50))
    y[:, 28:] += 30.0
    limit = Rates(0.01, 39).limit()
    assert log_claim_of_rise(y, 28, limit, WANDERING).min() >= limit
    assert log_evidence_of_rise(-y, 28, WANDERING).max() < 0


def test_what_a_night_does_to_everything_is_in_no_view_of_a_size():
    rng = np.random.default_rng(2)
    settings, default = rng.normal(0, 1, (2, 20, 4, 10))
    night = np.cumsum(rng.normal(0, 9, (20, 4, 1)), axis=0)
    moved = settings + night, default + night
    with_it, without = of_sizes(*moved), of_sizes(settings, default)
    assert np.diff(with_it, axis=1) == pytest.approx(np.diff(without, axis=1))
    assert of_all_sizes(*moved)[1] == pytest.approx(of_all_sizes(settings, default)[1])
    one = of_sizes(settings[..., :1], default[..., :1])  # of one size only the default is left
    assert one[0] == pytest.approx(one[1])


def test_no_half_of_the_nights_makes_a_claim_alone():
    y = np.random.default_rng(3).normal(0, 1, (2, 37, 50))
    y[:, [30, 33, 36]] += 1000.0
    for n in range(31, 38):
        assert log_claim_of_rise(y[:, :n], 30, 14.0).max() < 14.0, n
    assert log_evidence_of_rise(y[:, :31], 30).min() > 14
    y[:, 30:] += 1000.0
    assert log_claim_of_rise(y[:, :33], 30, 14.0).min() > 14.0


def test_nights_of_few_launches_are_not_as_exact_as_others():
    rng, launches = np.random.default_rng(4), np.r_[np.full(30, 64.0), np.full(3, 4.0)]
    y = rng.normal(0, 1, (1, 33, 3_000)) / np.sqrt(launches)[:, None]
    blind, seen = (
        np.mean(log_evidence_of_rise(y, 30, launches=one) > math.log(20)) for one in (None, launches)
    )
    assert blind > 0.05 > seen


ADVERSE = {
    "days, drift, exchanged nodes": Machine(day=0.02, drift=0.005, exchange=0.02),
    "weekends": Machine(weekend=0.05),
    "broken nodes": Machine(broken=0.02),
    "tails": Machine(tails=True),
    "sizes that wander": Machine(own_drift=0.005),
}


@pytest.mark.parametrize("machine", ADVERSE.values(), ids=ADVERSE.keys())
def test_nights_without_a_change_make_no_claim(machine):
    """Two series of 200 nights, each night as a check looks at it; ``benchmarks.guard`` has more."""
    sizes, all_sizes = claimed(machine.means(200, 2, np.random.default_rng(5)))
    assert not sizes.any()
    assert not all_sizes.any()


def test_without_earlier_nights_nothing_is_said():
    y = np.array([[[0.0], [9.0], [9.0]]])
    assert log_evidence_of_rise(y, 0).tolist() == [0.0]
    assert log_evidence_of_rise(y[:, :2], 1).tolist() == [0.0]


def test_a_year_of_openings_and_all_claims_share_the_rate():
    assert Rates(0.01, 5).limit() == pytest.approx(math.log(5 * 2 * 365 / 0.01))
    spent = sum(math.exp(-Rates(0.01, 1).limit(k)) for k in range(1, 10_000))
    assert spent == pytest.approx(0.0025, rel=1e-3)  # of all upgrades without end
    beside = sum(Rates(0.01, 9).of_change(k) for k in range(1, 10_000))
    assert beside + spent + 0.005 == pytest.approx(0.01, rel=1e-3)


def test_bounds_hold_the_rise():
    rng = np.random.default_rng(4)
    y = rng.normal(0, 0.02, (30, 200))
    y[28:] += 0.1
    low, high = bounds_of_rise(y, 28, 0.05)
    assert np.mean((low <= 0.1) & (high >= 0.1)) > 0.95
    assert np.median(high - low) < 0.2


def test_between_days_and_between_launches_are_told_apart():
    rng = np.random.default_rng(5)
    days = rng.normal(0, 0.03, (400, 1)) + rng.normal(0, 0.05, (400, 8))
    within = np.var(days, axis=1, ddof=1)[:, None]
    day, launch = components(days.mean(axis=1)[:, None], within, np.full(400, 8.0))
    assert day[0] == pytest.approx(0.03, rel=0.15)
    assert launch[0] == pytest.approx(0.05, rel=0.05)


def test_a_launch_that_was_disturbed_hardly_moves_its_night():
    y = np.zeros((8, 1)) + np.linspace(-0.01, 0.01, 8)[:, None]
    y[3] = 2.0
    assert abs(of_launches(y)[0][0]) < 0.01
    assert math.isnan(of_launches(np.empty((0, 1)))[0][0])


def test_noisy_days_want_more_nights_and_in_the_end_no_number_tells():
    asked = [nights_wanted(0.095, day, 0.05, 16, 3.7) for day in (0.0, 0.01, 0.02, 0.2)]
    assert asked == sorted(asked)
    assert math.isinf(asked[-1])
