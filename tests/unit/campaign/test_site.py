"""Ranks and the cores for them."""

import pytest

from autotune.campaign.site import check_cores
from autotune.errors import ScenarioError
from tests.campaigns import scenario


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr("autotune.campaign.site.os.sched_getaffinity", lambda pid: {0, 1})


def test_more_ranks_than_cores_are_refused_with_what_allows_them():
    with pytest.raises(ScenarioError, match=r"64 ranks, but 2 cores .*\n.*cluster.oversubscribe=true"):
        check_cores(scenario(cluster={"ranks": 64}))


@pytest.mark.parametrize(
    "cluster",
    [
        {},
        {"ranks": 2},
        {"ranks": 64, "oversubscribe": True},
        {"ranks": 64, "nodes": 8},
        {"ranks": 64, "hosts": ["node1"]},
    ],
    ids=str,
)
def test_what_fits_what_is_allowed_and_what_is_elsewhere_is_not(cluster):
    check_cores(scenario(cluster=cluster))
