"""Bandwidth formulas against numbers worked out by hand."""

import numpy as np
import pytest

from autotune.errors import UserError
from autotune.measure.bandwidth import OPERATIONS, bandwidth, operation_bytes

# 1000 bytes, 4 ranks, 1 second: operation → (algorithm, bus).
BY_HAND = {
    "allreduce": (1000, 1500),
    "reduce": (1000, 1000),
    "bcast": (1000, 1000),
    "allgather": (4000, 3000),
    "allgatherv": (4000, 3000),
    "alltoall": (4000, 3000),
    "alltoallv": (4000, 3000),
    "gather": (4000, 3000),
    "scatter": (4000, 3000),
    "reduce_scatter": (4000, 3000),
    "reduce_scatter_block": (4000, 3000),
    "barrier": (0, 0),
    "scan": (1000, 1000),
    "exscan": (1000, 1000),
    "pingpong": (1000, 1000),
    "put": (1000, 1000),
    "get": (1000, 1000),
    "accumulate": (1000, 1000),
}


def test_every_operation_has_a_number_by_hand():
    assert sorted(BY_HAND) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", sorted(BY_HAND))
def test_by_hand(operation):
    b = bandwidth(operation, 1000, 4, 1.0)
    assert (float(b.algorithm_Bps), float(b.bus_Bps)) == BY_HAND[operation]


def test_a_ring_allreduce_at_link_speed_shows_the_link_for_any_ranks():
    p = np.array([2, 8, 512])
    link, size = 12.5e9, 1e9
    time = 2 * (p - 1) * (size / p) / link  # 2(p − 1) steps of one block each
    np.testing.assert_allclose(bandwidth("allreduce", size, p, time).bus_Bps, link)


def test_a_whole_table_at_once():
    b = bandwidth("alltoall", np.array([[8], [16]]), np.array([2, 4]), 2.0)
    np.testing.assert_array_equal(b.algorithm_Bps, [[8, 16], [16, 32]])
    np.testing.assert_array_equal(operation_bytes("barrier", [1, 2], 4), [0, 0])


def test_refusals():
    with pytest.raises(UserError, match="did you mean 'allreduce'"):
        bandwidth("all_reduce", 8, 2, 1.0)
    with pytest.raises(ValueError, match="above 0"):
        bandwidth("bcast", 8, 2, 0.0)
