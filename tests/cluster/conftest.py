"""Fixtures of the suite that needs the proving ground; without one every test is skipped and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from .configuration import Shape
from .ground import Cluster, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``cluster`` where there can be none."""
    if not any(item.get_closest_marker("cluster") for item in items) or not missing():
        return
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason=missing()))


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster shared by tests that leave it as they found it."""
    ground = Cluster.up()
    yield ground
    ground.down()


@pytest.fixture
def raised() -> Iterator[Callable[..., Cluster]]:
    """Brings clusters up by what is special about their shapes; they go with the test."""
    with ExitStack() as down:

        def up(**shape: Any) -> Cluster:
            ground = Cluster.up(Shape(**shape))
            down.callback(ground.down)
            return ground

        yield up


@pytest.fixture
def fresh_cluster(raised: Callable[..., Cluster]) -> Cluster:
    """A cluster of one's own, to be broken."""
    return raised()


@pytest.fixture
def nine_nodes(raised: Callable[..., Cluster]) -> Cluster:
    """One more than a launch needs."""
    return raised(n_nodes=9)
