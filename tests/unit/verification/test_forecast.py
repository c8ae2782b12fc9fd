"""What further launches are expected to show, against launches that are drawn."""

import math

import numpy as np
import pytest

from autotune.verification.forecast import Forecast
from autotune.verification.planned import Drawn

QUIET = [0.0, 0.004, -0.003, 0.001, -0.002, 0.003, -0.001, 0.002, 0.0]


@pytest.mark.parametrize(("gain", "least", "most"), [(-0.045, 0.3, 1.0), (-0.2, 0.0, 0.05)])
def test_a_slot_like_all_others_is_expected_to_return_to_them(gain, least, most):
    """Of ten slots one is 2 standard errors below; it would need 8 to be of its own."""
    slots = Forecast([*QUIET, gain], [0.02] * 10, 8, 64)
    assert least <= slots.exceeds(gain, 0.02, -0.01, -2.5) <= most


def test_a_clear_gain_at_one_slot_is_expected_to_stay():
    slots = Forecast([*QUIET, 0.2], [0.02] * 10, 8, 64)
    assert slots.exceeds(0.2, 0.02, 0.0, 3.5) > 0.95
    assert slots.exceeds(0.03, 0.02, 0.0, 3.5) < 0.1  # the luckiest of ten


@pytest.mark.parametrize("gain", [-0.04, 0.0, 0.03])
def test_few_slots_say_nothing_of_each_other(gain):
    """With a flat prior the final mean lies around the one so far, with the error of what is to come."""
    rng = np.random.default_rng(0)
    true = gain + 0.02 * rng.standard_t(15, 200_000)
    to_come = true + 0.02 * math.sqrt(16 / 48) * rng.standard_t(15, true.size)
    final = (16 * gain + 48 * to_come) / 64
    assert Forecast([gain], [0.02], 16, 64).exceeds(gain, 0.02, 0.0, 0.0) == pytest.approx(
        (final > 0.0).mean(), abs=0.02
    )


def test_without_an_error_everything_is_possible():
    assert Forecast([], [], 4, 16).exceeds(-1.0, math.nan, 0.0, 2.0) == 1.0
    assert Forecast([], [], 4, 16).exceeds(-1.0, 0.0, 0.0, 2.0) == 0.0


@pytest.mark.parametrize("each", [2, 4])
def test_standard_errors_are_those_of_launches_that_are_drawn(each):
    """Blocks of two and of four launches a side, whose moments lie far apart."""
    rng = np.random.default_rng(1)
    y = 0.04 * rng.normal(size=(400 // each, 2 * each, 20)) + rng.normal(size=(400 // each, 1, 20))
    tuned = np.tile(np.arange(2 * each) < each, (len(y), 1))
    drawn = Drawn(y, tuned)
    assert np.mean(drawn.spread) == pytest.approx(0.04, rel=0.05)
    assert np.mean(drawn.errors) == pytest.approx(0.04 * math.sqrt(2 / 400), rel=0.05)
