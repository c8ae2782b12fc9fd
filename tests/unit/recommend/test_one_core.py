"""The tuner computes on one core, and what it launches knows nothing of it."""

import os

import numpy as np
from threadpoolctl import threadpool_info

from autotune.recommend.one_core import on_one_core


def threads():
    return {one["filepath"]: one["num_threads"] for one in threadpool_info()}


def test_every_library_has_one_thread_inside_and_as_many_as_before_afterwards():
    np.linalg.inv(np.eye(3))
    with on_one_core():
        pass  # loads them
    before, environment = threads(), dict(os.environ)
    with on_one_core():
        assert set(threads().values()) == {1}
        assert dict(os.environ) == environment
    assert threads() == before
