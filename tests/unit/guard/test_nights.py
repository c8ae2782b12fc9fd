"""Claims of slower nights: none where nothing changed, soon where something did, and never by one night."""

import math

import numpy as np
import pytest

from autotune.guard.nights import (
    Rates,
    bounds_of_rise,
    components,
    log_evidence_of_rise,
    nights_wanted,
    of_launches,
)


def test_the_evidence_is_an_e_value_whatever_level_and_scale():
    rng = np.random.default_rng(1)
    y = rng.normal(3.0, 7.0, (18, 3_000))
    mean = np.exp(log_evidence_of_rise(y, 12)).mean()
    assert mean < 1.3  # its expectation is 1, of a heavy tail
    assert np.mean(log_evidence_of_rise(y, 12) >= math.log(20)) < 0.05
    assert log_evidence_of_rise(y, 12) == pytest.approx(log_evidence_of_rise(5 * y - 100, 12), abs=1e-6)


def test_so_it_is_around_a_line_over_what_all_sizes_have_in_common():
    rng = np.random.default_rng(2)
    level = np.cumsum(rng.normal(0, 1, 20))
    y = rng.normal(0, 1, (20, 3_000)) + 3 * level[:, None]
    assert np.exp(log_evidence_of_rise(y, 15, np.broadcast_to(level[:, None], y.shape))).mean() < 1.3
    y[15:] += 4
    assert np.median(log_evidence_of_rise(y, 15, np.broadcast_to(level[:, None], y.shape))) > 5


def test_no_night_adds_more_than_it_may():
    y = np.random.default_rng(3).normal(0, 1, (31, 50))
    y[30] += 1000
    assert log_evidence_of_rise(y, 30).min() > 20
    assert log_evidence_of_rise(y, 30, cap=7.0).max() <= 7.0


def test_without_earlier_nights_nothing_is_said():
    y = np.array([[0.0], [9.0], [9.0]])
    assert log_evidence_of_rise(y, 0).tolist() == [0.0]
    assert log_evidence_of_rise(y[:2], 1).tolist() == [0.0]


def test_a_year_of_openings_and_all_claims_share_the_rate():
    assert Rates(0.01, 5).limit() == pytest.approx(math.log(5 * 2 * 365 / 0.01))
    spent = sum(math.exp(-Rates(0.01, 1).limit(k)) for k in range(1, 10_000))
    assert spent == pytest.approx(0.005, rel=1e-3)  # of all upgrades without end


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
