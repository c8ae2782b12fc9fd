from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import ScenarioError
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine
from autotune.simulate.protocols import DOMAIN, NETWORK, NODE, SELF, SOCKET
from autotune.simulate.settings import JobSettings

MIB = np.array([float(1 << 20)])
CACHED, SPILLED = np.zeros(1), np.ones(1)


def test_block_fills_a_domain_before_the_next_and_cyclic_deals_them_out(machine: Machine) -> None:
    block = Fabric(machine, NodeLayout(1, 36), JobSettings(numa_per_socket=2))
    cyclic = Fabric(machine, NodeLayout(1, 36), JobSettings(numa_per_socket=2, mapping="cyclic"))
    np.testing.assert_array_equal(block.domain, np.repeat([0, 1, 2, 3], 9))
    np.testing.assert_array_equal(cyclic.domain[:8], [0, 2, 1, 3, 0, 2, 1, 3])
    np.testing.assert_array_equal(np.bincount(cyclic.domain), [9, 9, 9, 9])


def test_few_ranks_stay_on_the_first_socket_when_laid_out_in_blocks(machine: Machine) -> None:
    assert set(Fabric(machine, NodeLayout(2, 8), JobSettings()).socket) == {0}
    assert set(Fabric(machine, NodeLayout(2, 8), JobSettings(mapping="cyclic")).socket) == {0, 1}


def test_distances(machine: Machine) -> None:
    fabric = Fabric(machine, NodeLayout(2, 36), JobSettings(numa_per_socket=2))
    ones = np.zeros(5, dtype=np.intp)
    far = fabric.distance(ones, np.array([0, 1, 9, 18, 36]))
    np.testing.assert_array_equal(far, [SELF, DOMAIN, SOCKET, NODE, NETWORK])


def test_messages_of_one_node_share_its_nic(machine: Machine) -> None:
    fabric = Fabric(machine, NodeLayout(2, 8), JobSettings())
    alone = fabric.costs(np.array([0]), np.array([8]), MIB, CACHED).port[0, 0]
    together = fabric.costs(np.arange(8), np.arange(8, 16), MIB, CACHED).port[:, 0]
    np.testing.assert_allclose(together, 8 * alone, rtol=1e-6)


def test_copies_of_one_domain_share_its_memory_once_the_caches_are_full(machine: Machine) -> None:
    narrow = replace(machine, memory=replace(machine.memory, socket_bytes_per_s=20e9))
    fabric = Fabric(narrow, NodeLayout(1, 36), JobSettings(rndv_intra_bytes=np.inf))
    ranks = np.arange(18)
    alone = fabric.costs(np.array([0]), np.array([1]), MIB, SPILLED).send[0, 0]
    together = fabric.costs(ranks, np.roll(ranks, 1), MIB, SPILLED).send[0, 0]
    cached = fabric.costs(ranks, np.roll(ranks, 1), MIB, CACHED).send[0, 0]
    assert together > 5 * alone
    assert cached < alone


def test_thresholds_switch_protocols(machine: Machine) -> None:
    settings = JobSettings(rndv_intra_bytes=4096, rndv_inter_bytes=65536, zcopy_bytes=8192)
    fabric = Fabric(machine, NodeLayout(2, 2), settings)
    sizes = np.array([4095.0, 4096.0, 8192.0, 65535.0, 65536.0])
    inside = fabric.costs(np.array([0]), np.array([1]), sizes, np.zeros(5))
    between = fabric.costs(np.array([0]), np.array([2]), sizes, np.zeros(5))
    np.testing.assert_array_equal(inside.synchronous[0], [False, True, True, True, True])
    np.testing.assert_array_equal(between.synchronous[0], [False, False, False, False, True])
    np.testing.assert_array_equal(between.release[0] > 0, [False, False, True, True, False])


def test_the_automatic_thresholds_are_finite_where_there_is_rdma(any_machine: Machine) -> None:
    protocols = Fabric(any_machine, NodeLayout(2, 2), JobSettings()).protocols
    assert 4096 < protocols.rndv_intra_bytes < 1 << 20
    if "rc" in any_machine.transports:
        assert 8192 < protocols.rndv_inter_bytes < 1 << 20
        assert 512 < protocols.zcopy_bytes <= 8192


def test_all_transports_means_rc_until_there_are_too_many_endpoints(machine: Machine) -> None:
    few, many = (Fabric(machine, NodeLayout(nodes, 36), JobSettings()) for nodes in (7, 8))
    assert few.protocols.transport is machine.transports["rc"]
    assert many.protocols.transport is machine.transports["dc"]


def test_what_does_not_fit_is_refused(machine: Machine) -> None:
    with pytest.raises(ScenarioError, match="37 ranks per node on bm_optimized3_36"):
        Fabric(machine, NodeLayout(2, 37), JobSettings())
    with pytest.raises(ScenarioError, match="0 nodes"):
        NodeLayout(0, 4)
    wired = replace(machine, transports={"tcp": machine.transports["tcp"]})
    with pytest.raises(ScenarioError, match="has no rc"):
        Fabric(wired, NodeLayout(2, 4), JobSettings(tls="self,sm,rc"))
    assert Fabric(wired, NodeLayout(1, 4), JobSettings(tls="self,sm,rc")).cluster.ranks == 4
