"""For which communicators a table holds."""

import pytest

from autotune.stacks.comm_sizes import reaches


@pytest.mark.parametrize(
    ("measured", "exact", "expected"),
    [
        ([], (), [(2, 0)]),
        ([2], (), [(2, 2), (4, 0)]),
        ([2], (2,), [(2, 2), (3, 0)]),
        ([8], (), [(2, 0), (5, 8), (16, 0)]),
        ([2, 8], (), [(2, 2), (4, 0), (5, 8), (16, 0)]),
        ([8, 12], (), [(2, 0), (5, 8), (12, 12), (24, 0)]),
        ([8, 16], (), [(2, 0), (5, 8), (16, 16), (32, 0)]),
        ([2, 3], (2,), [(2, 2), (3, 3), (6, 0)]),
    ],
)
def test_reaches(measured, exact, expected):
    assert reaches(measured, exact) == expected
