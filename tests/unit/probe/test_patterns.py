import numpy as np
import pytest

from autotune.probe import patterns


def elements(sources, destination, message_bytes):
    return np.frombuffer(
        patterns.block(sources, destination, message_bytes), patterns.element_type(message_bytes)
    )


@pytest.mark.parametrize("message_bytes", [0, 3, 4, 8, 1024, 1026, 65536])
def test_a_block_is_as_long_as_its_message(message_bytes):
    assert len(patterns.block([0], 0, message_bytes)) == message_bytes


@pytest.mark.parametrize("message_bytes", [3, 8, 4096])
def test_blocks_show_their_sender_receiver_and_place(message_bytes):
    seen = {patterns.block([s], d, message_bytes) for s in range(8) for d in range(8)}
    assert len(seen) == 64
    data = elements([1], 2, message_bytes)
    assert not np.array_equal(data, np.roll(data, 1))


@pytest.mark.parametrize("message_bytes", [6, 64])
def test_the_closed_form_is_the_sum_of_the_blocks(message_bytes):
    ranks = [0, 1, 2, 5, 11]
    dtype = patterns.element_type(message_bytes)
    added = sum((elements([r], 3, message_bytes) for r in ranks), np.zeros((), dtype))
    assert np.array_equal(elements(ranks, 3, message_bytes), added.astype(dtype))


def test_sums_over_thirteen_thousand_ranks_are_exact_in_single_precision():
    data = elements(range(13_000), 0, 4 * 251)
    assert data.max() < 2**24
    assert np.unique(data).size == 251
