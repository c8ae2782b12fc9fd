"""What tables are about, by their names."""

import pytest

from autotune.text_table import named_in


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("coll_tuned_allreduce_algorithm", "allreduce"),
        ("Reduce-Scatter 8 nodes.csv", "reduce_scatter"),
        ("alltoallv4.csv", "alltoallv"),
        ("target.csv", ""),
        ("alltoallw.csv", ""),
    ],
)
def test_a_name_may_stand_in_a_text(text, name):
    assert named_in(text) == name
