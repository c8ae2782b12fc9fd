"""Clocks with planted offsets and drifts; validity codes."""

import numpy as np
import pytest

from autotune.measure.windows import (
    Clock,
    Validity,
    clock_drift,
    clock_offset,
    run_time,
    validity,
)


def exchanges(rng, at_s, offset_s, drift=0.0, n=50, one_way_s=1e-6):
    """Ping-pongs with skewed delays on both ways; the reference shows x + offset + drift · x."""
    there, back = one_way_s + rng.exponential(one_way_s, (2, n))
    send = at_s + np.cumsum(there + back) + np.arange(n) * 1e-6
    remote = send + there
    return send, remote + offset_s + drift * remote, send + there + back


def test_offset_is_inside_its_bound_and_bound_below_the_round_trip():
    rng = np.random.default_rng(5)
    for true in (-3.0, 0.0, 1234.5):
        o = clock_offset(*exchanges(rng, 100.0, true))
        assert o.consistent
        assert abs(o.offset_s - true) <= o.bound_s
        assert 2 * o.bound_s < 3e-6  # no round trip is below 2 µs, hardly one of 50 above 3


def test_one_asymmetric_exchange_is_bounded_by_half_its_round_trip():
    o = clock_offset([10.0], [15.0], [10.004])
    assert o.offset_s == pytest.approx(4.998)
    assert o.bound_s == pytest.approx(0.002)


def test_a_stepped_clock_is_told_and_the_shortest_exchange_counts():
    o = clock_offset([0.0, 1.0, 2.0], [5.05, 6.01, 12.05], [0.1, 1.02, 2.1])
    assert not o.consistent
    assert (o.offset_s, o.bound_s) == (pytest.approx(5.0), pytest.approx(0.01))


@pytest.mark.parametrize("rows", [([], [], []), ([1.0], [1.0, 2.0], [2.0]), ([2.0], [1.0], [1.0])])
def test_impossible_exchanges(rows):
    with pytest.raises(ValueError, match="exchange"):
        clock_offset(*rows)


def test_drift_is_found():
    rng = np.random.default_rng(6)
    offsets = [clock_offset(*exchanges(rng, at, 2.0, 3e-6)) for at in np.linspace(0.0, 10.0, 12)]
    clock = clock_drift(offsets)
    assert clock.drift == pytest.approx(3e-6, abs=1e-7)
    later = 20.0
    assert clock.to_reference([later])[0] == pytest.approx(later + 2.0 + 3e-6 * later, abs=3e-6)


def test_one_offset_has_no_drift_and_none_is_refused():
    o = clock_offset([10.0], [15.0], [10.004])
    assert clock_drift([o]) == Clock(o.offset_s, 0.0, o.at_s, o.bound_s)
    with pytest.raises(ValueError, match="no clock offsets"):
        clock_drift([])


def test_there_and_back():
    clock = Clock(offset_s=-7.0, drift=4e-5, at_s=3.0, bound_s=0.0)
    x = np.array([0.0, 3.0, 1e4])
    np.testing.assert_allclose(clock.to_local(clock.to_reference(x)), x, atol=1e-9)


def test_run_time_is_last_exit_minus_first_entry():
    np.testing.assert_array_equal(run_time([[0.0, 5.0], [1.0, 4.0]], [[2.0, 7.0], [3.0, 6.0]]), [3.0, 3.0])


def test_each_flag_alone_and_together():
    window = np.array([0.0, 10.0, 20.0, 30.0])
    start = np.array([window, window + np.array([0.0, 2.0, 0.0, 2.0])])
    stop = np.array([window + 3.0, window + np.array([3.0, 3.0, 9.0, 9.0])])
    late, over = int(Validity.STARTED_LATE), int(Validity.OVERRAN)
    codes = validity(window, 5.0, start, stop, lateness_s=1.0)
    assert list(codes) == [0, late, over, late + over]
    assert list(validity(window, np.inf, start, stop, lateness_s=1.0)) == [0, late, 0, late]
    assert list(validity(window, np.inf, start, stop, lateness_s=2.0)) == [0, 0, 0, 0]
    unsure = validity(window, np.inf, start, stop, lateness_s=2.0, clock_bound_s=0.5)
    assert list(unsure) == [int(Validity.CLOCK_UNSURE)] * 2 + [0, 0]
