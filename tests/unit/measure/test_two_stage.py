"""The length of a launch on planted components of variance."""

import math

import numpy as np
import pytest

from autotune.measure.two_stage import FREEDOM, Components, Launched, averaged, best_length_s, components


def launches(rng, n, between, within_s, measured_s, centre=0.0):
    """Launches of one setting, whose errors are those that their lengths leave."""
    error = math.sqrt(within_s / measured_s)
    values = centre + math.sqrt(between) * rng.normal(size=n) + error * rng.normal(size=n)
    return [Launched(value, error, measured_s) for value in values]


def test_planted_components_are_found():
    rng = np.random.default_rng(1)
    groups = [launches(rng, 20, 4e-4, 1e-4, 0.5, centre=group) for group in range(40)]
    found = components(groups)
    assert found.between == pytest.approx(4e-4, rel=0.15)
    assert found.within_s == pytest.approx(1e-4)
    assert found.freedom == 40 * 19


def test_a_few_launches_whose_errors_are_much_too_large_do_not_hide_how_launches_differ():
    """Where something changed while a launch measured, its reported error is as large as its time."""
    rng = np.random.default_rng(4)
    groups = [launches(rng, 5, 4e-4, 1e-4, 0.5, centre=group) for group in range(40)]
    for group in groups[::4]:
        group[0] = Launched(group[0].log_value, 1.0, 0.5)
    found = components(groups)
    assert found.between == pytest.approx(4e-4, rel=0.25)
    assert found.within_s == pytest.approx(1e-4)


def test_cells_of_a_launch_count_by_their_variances():
    """The cell with the largest variance, which most launches would be made for, nearly decides."""
    precise, noisy = Components(1e-6, 1e-8, 9), Components(1e-3, 1e-3, 6)
    both = averaged([precise, noisy])
    assert both.freedom == 15
    assert best_length_s(1.0, precise) == pytest.approx(0.1)
    assert best_length_s(1.0, both) == pytest.approx(best_length_s(1.0, noisy), rel=0.01)


def test_what_launches_err_by_themselves_is_no_difference_between_them():
    rng = np.random.default_rng(2)
    found = components([launches(rng, 20, 0.0, 1e-4, 0.5) for _ in range(40)])
    assert found.between < 2e-5


def test_without_a_setting_that_was_launched_twice_nothing_is_known():
    rng = np.random.default_rng(3)
    assert components([]) is None
    assert components([launches(rng, 1, 1e-4, 1e-4, 1.0) for _ in range(9)]) is None
    unknown = Launched(0.0, math.nan, 1.0)
    assert components([[unknown, unknown], [Launched(0.0, 0.1, 0.0)] * 2]) is None


@pytest.mark.parametrize("fixed_s", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("between", [1e-6, 1e-4])
def test_the_best_length_makes_most_of_a_given_time(fixed_s, between):
    within_s = 3e-4
    lengths = np.geomspace(1e-3, 1e4, 20_001)
    variance = (fixed_s + lengths) * (between + within_s / lengths)
    best_s = best_length_s(fixed_s, Components(between, within_s, FREEDOM))
    assert best_s == pytest.approx(lengths[variance.argmin()], rel=2e-3)
    for factor in (0.5, 2.0):
        worse = (fixed_s + factor * best_s) * (between + within_s / (factor * best_s))
        assert worse <= 1.25 * variance.min() * (1 + 1e-6)


def test_ends():
    assert best_length_s(1.0, Components(0.0, 1e-4, 9)) == math.inf
    assert best_length_s(0.0, Components(1e-4, 1e-4, 9)) == 0.0
    with pytest.raises(ValueError, match="-1"):
        best_length_s(-1.0, Components(1e-4, 1e-4, 9))
