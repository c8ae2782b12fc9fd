import numpy as np
import pytest

from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine
from autotune.simulate.schedule import Group, exchange, makespan, ring
from autotune.simulate.settings import JobSettings

SIZES = 8.0 * 4.0 ** np.arange(10)


@pytest.mark.parametrize("rounds", [1, 5, 31, 62, 200])
@pytest.mark.parametrize("mapping", ["block", "cyclic"])
def test_the_closed_form_of_a_ring_is_its_walk(machine: Machine, rounds: int, mapping: str) -> None:
    group = group_of(machine, NodeLayout(4, 8), JobSettings(mapping=mapping), len(SIZES))
    t = group.start()
    for _ in range(rounds):
        t = exchange(group, t, (np.arange(group.size) + 1) % group.size, SIZES, work_s=1e-7)
    closed = ring(group, group.start(), SIZES, rounds, work_s=1e-7)
    np.testing.assert_allclose(makespan(closed), makespan(t), rtol=0.1)


def test_ranks_that_neither_send_nor_receive_lose_no_time(machine: Machine) -> None:
    group = group_of(machine, NodeLayout(1, 4), JobSettings())
    t = exchange(group, group.start(), np.array([1, 1, 2, 3]), np.array([64.0]))
    assert t[0, 0] > 0
    assert t[1, 0] > t[0, 0]
    np.testing.assert_array_equal(t[2:], 0.0)


def test_an_eager_sender_goes_on_and_a_synchronous_one_waits(machine: Machine) -> None:
    target, size = np.array([1, 1]), np.array([65536.0])
    late = np.array([[0.0], [1e-3]])
    eager, rendezvous = (
        exchange(group_of(machine, NodeLayout(2, 1), JobSettings(rndv_inter_bytes=n)), late, target, size)
        for n in (1e9, 0)
    )
    assert eager[0, 0] < 1e-4
    assert rendezvous[0, 0] > 1e-3


def group_of(machine: Machine, cluster: NodeLayout, settings: JobSettings, n_sizes: int = 1) -> Group:
    fabric = Fabric(machine, cluster, settings)
    return Group(fabric, np.arange(cluster.ranks), np.zeros(n_sizes))
