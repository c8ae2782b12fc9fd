"""What must hold of the model for any machine, placement and size."""

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import yaml
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.simulate.algorithms import algorithms
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.model import predict
from autotune.simulate.settings import JobSettings

_FILE = Path(__file__).parents[2] / "conf" / "machine" / "bm_optimized3_36.yaml"
MACHINE = machine_from(yaml.safe_load(_FILE.read_text()))
COLLECTIVES = ("allreduce", "reduce", "reduce_scatter", "allgather", "alltoall", "bcast")
SIZES = np.array([8.0 * 4**i for i in range(10)])

BY_RULES = {
    ("allreduce", "linear"),
    ("allreduce", "nonoverlapping"),
    ("allgather", "linear"),
    ("reduce_scatter", "nonoverlapping"),
}
"""Algorithms whose second half is what the fixed rules take, and those change it from size to size."""

clusters = st.builds(NodeLayout, nodes=st.integers(1, 5), ppn=st.sampled_from([1, 2, 3, 8]))
cases = clusters.flatmap(
    lambda cluster: st.sampled_from(COLLECTIVES).flatmap(
        lambda collective: st.tuples(
            st.just(cluster), st.just(collective), st.sampled_from(algorithms(collective, cluster.ranks))
        )
    )
)


@given(cases, st.sampled_from(["block", "cyclic"]), st.sampled_from([1, 2]))
@settings(max_examples=60)
def test_with_one_protocol_and_one_algorithm_more_bytes_never_take_less_time(case, mapping, nps):
    cluster, collective, algorithm = case
    eager = JobSettings(
        rndv_intra_bytes=inf, rndv_inter_bytes=inf, zcopy_bytes=inf, mapping=mapping, numa_per_socket=nps
    )
    assume((collective, algorithm) not in BY_RULES and algorithm != "default")
    # Above the size from which vectors can be split among the ranks.
    sizes = SIZES[8 * cluster.ranks <= SIZES]
    took = predict(Fabric(MACHINE, cluster, eager), collective, algorithm, 0, sizes)
    assert (np.diff(took) >= -1e-12).all()


@given(cases, st.floats(1.0, 20.0), st.sampled_from([None, 4096.0, 65536.0]))
@settings(max_examples=60)
def test_more_bandwidth_is_never_slower(case, factor, rndv):
    cluster, collective, algorithm = case
    # Fixed thresholds: the automatic ones follow the machine, and may follow it to a worse place.
    chosen = JobSettings(
        tls="self,sm,rc", rndv_intra_bytes=rndv or inf, rndv_inter_bytes=rndv or inf, zcopy_bytes=8192
    )
    slow = predict(Fabric(MACHINE, cluster, chosen), collective, algorithm, 0, SIZES)
    fast = predict(Fabric(_faster(MACHINE, factor), cluster, chosen), collective, algorithm, 0, SIZES)
    assert (fast <= slow * (1 + 1e-9)).all()


@given(cases)
@settings(max_examples=40)
def test_one_node_does_not_care_about_the_network(case):
    cluster, collective, algorithm = case
    alone = NodeLayout(1, cluster.ppn)
    assume(algorithm in algorithms(collective, alone.ranks))
    a, b = (
        predict(Fabric(MACHINE, alone, JobSettings(tls=tls)), collective, algorithm, 0, SIZES)
        for tls in ("self,sm,rc", "self,sm,tcp")
    )
    np.testing.assert_array_equal(a, b)


@given(st.integers(2, 6), st.sampled_from(COLLECTIVES))
@settings(max_examples=20)
def test_with_one_rank_a_node_the_layout_does_not_matter(nodes, collective):
    layout = NodeLayout(nodes, 1)
    block, cyclic = (
        predict(Fabric(MACHINE, layout, JobSettings(mapping=mapping)), collective, "default", 0, SIZES)
        for mapping in ("block", "cyclic")
    )
    np.testing.assert_array_equal(block, cyclic)


def _faster(machine: Machine, factor: float) -> Machine:
    rc = machine.transports["rc"]
    rates = {name: getattr(rc, name) * factor for name in ("bytes_per_s", "flow_bytes_per_s")}
    return replace(machine, transports={**machine.transports, "rc": replace(rc, **rates)})
