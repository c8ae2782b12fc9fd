"""Seconds of launches by nodes and ranks: what starts them adds up, and few jobs show it."""

import math

import pytest

from autotune.site.costs import call_s, duration_s, timed


def test_what_a_launcher_a_daemon_and_a_process_take_is_found():
    """Four jobs with known parts say those of a job sixteen times as large."""
    parts = {job: 1.2 + 0.1 * job[0] + 0.02 * job[0] * job[1] for job in [(1, 8), (1, 36), (2, 36), (4, 36)]}
    assert duration_s(parts, (64, 36)) == pytest.approx(1.2 + 6.4 + 46.08)
    assert duration_s(parts, (64, 8)) == pytest.approx(1.2 + 6.4 + 10.24)


def test_steps_of_a_tree_grow_with_the_doublings_and_what_each_rank_sends_each_with_the_ranks():
    """Three jobs say both apart."""
    parts = {(n, 4): 1e-5 + 2e-6 * math.log2(4 * n) + 3e-7 * 4 * n for n in (1, 2, 4)}
    assert call_s(parts, (64, 4)) == pytest.approx(1e-5 + 2e-6 * 8 + 3e-7 * 256)


def test_what_goes_between_nodes_is_in_no_job_of_one_node():
    between = {(n, 4): 1e-3 * 4 * n + 0.1 * 4 * (n - 1) for n in (1, 2, 4)}
    assert call_s(between, (16, 4)) == pytest.approx(6.064)
    assert call_s({(1, n): float(n) for n in (2, 4, 8)}, (1, 16)) == pytest.approx(16)


def test_no_part_is_negative_and_errors_are_relative():
    """Of 3 s on one node and 2 s on two a constant is left: the least squares of relative errors."""
    assert duration_s({(1, 2): 3.0, (2, 2): 2.0}, (64, 2)) == pytest.approx((1 / 3 + 1 / 2) / (1 / 9 + 1 / 4))


def test_one_job_says_the_same_of_all_and_a_measured_one_its_own():
    assert duration_s({(2, 8): 3.0}, (64, 8)) == 3
    assert duration_s({(1, 8): 1.0, (2, 8): 9.0, (4, 8): 2.0}, (2, 8)) == 9


@pytest.mark.parametrize(
    ("jobs", "few"),
    [
        ([(n, p) for n in (1, 2, 4, 8, 64) for p in (8, 36)], [(1, 8), (1, 36), (2, 36), (4, 36)]),
        ([(n, 2) for n in (1, 2, 4, 8)], [(1, 2), (2, 2), (4, 2)]),
        ([(2, 1), (2, 4)], [(2, 1), (2, 4)]),
    ],
)
def test_the_jobs_that_are_timed_are_small_and_few(jobs, few):
    assert timed(tuple(jobs)) == few
