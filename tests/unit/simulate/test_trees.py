from functools import partial

import numpy as np
import pytest

from autotune.simulate import trees

SHAPES = {
    "linear": trees.linear,
    "chain": partial(trees.chains, fanout=4),
    "pipeline": partial(trees.chains, fanout=1),
    "binary": trees.binary,
    "in_order_binary": trees.in_order_binary,
    "binomial": trees.binomial,
    "knomial": partial(trees.knomial, radix=4),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 13, 36, 100])
def test_every_rank_is_reached_once_and_served_in_its_own_turn(name: str, size: int) -> None:
    tree = SHAPES[name](size)
    assert np.count_nonzero(tree.parent < 0) == 1
    served = np.concatenate([*tree.steps(), np.flatnonzero(tree.parent < 0)])
    assert sorted(served) == list(range(size))
    below = np.flatnonzero(tree.parent >= 0)
    assert len({(tree.parent[i], tree.turn[i]) for i in below}) == size - 1


@pytest.mark.parametrize(
    ("name", "size", "depth"),
    [("linear", 64, 1), ("pipeline", 64, 63), ("chain", 65, 16), ("binary", 63, 5), ("binomial", 64, 6)],
)
def test_depth(name: str, size: int, depth: int) -> None:
    assert SHAPES[name](size).depth().max() == depth


def test_an_in_order_tree_is_its_own_inorder_traversal() -> None:
    tree = trees.in_order_binary(13)

    def walk(rank: int) -> list[int]:
        children = sorted(np.flatnonzero(tree.parent == rank))
        return [rank_ for child in children for rank_ in walk(child)] + [rank]

    # Both subtrees come before their root, the left one whole before the right one.
    assert walk(12) == sorted(walk(12))


def test_segments_cover_the_message() -> None:
    size, count = trees.segments(np.array([0.0, 10.0, 4096.0, 5000.0]), 4096)
    np.testing.assert_array_equal(size, [0.0, 10.0, 4096.0, 4096.0])
    np.testing.assert_array_equal(count, [1, 1, 1, 2])
