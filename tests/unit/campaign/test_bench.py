"""Ranks and the cores for them, and the space for what is measured."""

import pytest

from autotune.campaign.bench import check_cores, named_space
from autotune.errors import ScenarioError
from tests.campaigns import scenario


@pytest.fixture(autouse=True)
def two_cores(monkeypatch):
    monkeypatch.setattr("autotune.campaign.bench.os.sched_getaffinity", lambda pid: {0, 1})


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


@pytest.mark.parametrize(
    ("measured", "there"),
    [
        (["allreduce"], set()),
        (["put_fence"], {"osc_rdma_buffer_size"}),
        (["halo"], {"UCX_MM_FIFO_SIZE", "UCX_MM_SEG_SIZE", "UCX_CMA_SEG_SIZE"}),
        (["multipair"], {"UCX_MM_FIFO_SIZE", "UCX_MM_SEG_SIZE", "UCX_CMA_SEG_SIZE"}),
        (["iallreduce_overlap"], set()),
        (["iallreduce", "allreduce"], {"coll_libnbc_iallreduce_algorithm"}),
    ],
)
def test_parameters_of_a_pattern_are_there_where_it_is_measured(measured, there):
    space = named_space(scenario(collective=measured, space="openmpi_ucx_local"))
    ours = {"osc_rdma_buffer_size", "coll_libnbc_iallreduce_algorithm", "UCX_MM_FIFO_SIZE"}
    assert {p.name for p in space.parameters} & (ours | {"UCX_MM_SEG_SIZE", "UCX_CMA_SEG_SIZE"}) == there
    assert not [fact for p in space.parameters for fact in p.requires if fact.startswith("pattern:")]
    dropped = {one.parameter: one.reason for one in space.dropped}
    assert (dropped.get("osc_rdma_buffer_size") == "needs pattern:one_sided") == (measured != ["put_fence"])


@pytest.mark.parametrize(("nodes", "component"), [(1, False), (2, True)])
def test_algorithms_are_asked_for_where_another_component_is_not_there(nodes, component):
    """On one node of Open MPI 5 han steps aside, so that the algorithm depends on nothing."""
    facts = {"openmpi:5", "coll:han", "coll:tuned"} | {f"nodes:{n}" for n in range(1, nodes + 1)}
    space = named_space(scenario(space="openmpi_algorithms")).restrict(frozenset(facts))
    names = {p.name for p in space.parameters}
    assert ("component" in names, "algorithm" in names) == (component, True)
    swept = [len(space.choices("allreduce", point)) > 1 for point in space.points()]
    assert sorted(swept) == ([False, True] if component else [True])
