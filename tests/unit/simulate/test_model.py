import numpy as np
import pytest

from autotune.errors import SpaceError
from autotune.simulate.algorithms import algorithms, model_of
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine
from autotune.simulate.model import predict
from autotune.simulate.settings import JobSettings, settings_from
from autotune.stacks.fixed_rules import ALLREDUCE, BCAST, fixed_choice

COLLECTIVES = ("allreduce", "reduce", "reduce_scatter", "barrier", "allgather", "alltoall", "bcast")
SIZES = [1 << i for i in range(0, 24, 3)]


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize(
    "cluster",
    [NodeLayout(1, 1), NodeLayout(2, 1), NodeLayout(1, 6), NodeLayout(3, 5), NodeLayout(4, 8)],
    ids=str,
)
def test_every_algorithm_and_component_takes_a_finite_time(
    machine: Machine, collective: str, cluster: NodeLayout
) -> None:
    for algorithm in algorithms(collective, cluster.ranks):
        for segment_bytes in (0, 4096):
            took = predict(
                Fabric(machine, cluster, JobSettings()), collective, algorithm, segment_bytes, SIZES
            )
            assert took.shape == (len(SIZES),)
            assert np.isfinite(took).all(), algorithm
            assert (took >= 0).all(), algorithm
            assert cluster.ranks == 1 or (took > 1e-8).all(), algorithm
    for component in ("han", "hcoll", "ucc"):
        took = predict(
            Fabric(machine, cluster, JobSettings(component=component)), collective, "default", 0, SIZES
        )
        assert np.isfinite(took).all()


def test_every_machine_runs(any_machine: Machine) -> None:
    took = predict(Fabric(any_machine, NodeLayout(4, 16), JobSettings()), "allreduce", "default", 0, SIZES)
    assert (np.diff(took) > -1e-6).sum() > 3
    assert 1e-6 < took[0] < 1e-3


def test_an_inter_node_latency_is_overheads_and_wire(machine: Machine) -> None:
    rc = machine.transports["rc"]
    took = predict(
        Fabric(machine, NodeLayout(2, 1), JobSettings(tls="self,sm,rc")), "barrier", "two_proc", 0, [0]
    )
    np.testing.assert_allclose(took, rc.latency_s + 2 * rc.overhead_s, rtol=1e-9)


def test_large_messages_move_at_the_bandwidth_of_the_nic(machine: Machine) -> None:
    size = 1 << 24
    took = predict(
        Fabric(machine, NodeLayout(2, 8), JobSettings(tls="self,sm,rc")), "alltoall", "linear", 0, [size]
    )
    floor = 8 * 8 * size / machine.transports["rc"].bytes_per_s
    assert floor < took[0] < 1.5 * floor


def test_small_and_large_messages_want_different_algorithms(machine: Machine) -> None:
    names = [name for name in algorithms("allreduce", 288) if name != "default"]
    curves = [
        predict(Fabric(machine, NodeLayout(8, 36), JobSettings()), "allreduce", name, 0, [4096, 1 << 22])
        for name in names
    ]
    small, large = np.argmin(curves, axis=0)
    assert names[small] != names[large]
    assert names[large] in ("ring", "segmented_ring", "rabenseifner")


def test_segments_help_a_pipeline_and_too_small_ones_do_not(machine: Machine) -> None:
    whole, good, tiny = (
        predict(Fabric(machine, NodeLayout(8, 4), JobSettings()), "bcast", "pipeline", segment, [1 << 22])[0]
        for segment in (0, 65536, 64)
    )
    assert good < whole / 3
    assert tiny > good


def test_a_component_answers_whatever_algorithm_is_forced(machine: Machine) -> None:
    ring, bruck = (
        predict(Fabric(machine, NodeLayout(4, 8), JobSettings(component="ucc")), "allgather", name, 0, SIZES)
        for name in ("ring", "bruck")
    )
    np.testing.assert_array_equal(ring, bruck)


def test_a_collective_that_a_component_lacks_falls_to_tuned(machine: Machine) -> None:
    han, tuned = (
        predict(
            Fabric(machine, NodeLayout(4, 8), JobSettings(component=component)),
            "alltoall",
            "default",
            0,
            SIZES,
        )
        for component in ("han", "tuned")
    )
    np.testing.assert_array_equal(han, tuned)


def test_two_level_components_win_for_small_allreduces_on_many_nodes(machine: Machine) -> None:
    sizes = [8, 64, 512]
    best = np.min(
        [
            predict(Fabric(machine, NodeLayout(8, 36), JobSettings()), "allreduce", a, 0, sizes)
            for a in algorithms("allreduce", 288)
        ],
        axis=0,
    )
    hcoll = predict(
        Fabric(machine, NodeLayout(8, 36), JobSettings(component="hcoll")), "allreduce", "default", 0, sizes
    )
    assert (hcoll < best).all()


@pytest.mark.parametrize(
    "point",
    [
        {"UCX_TLS": "self,sm,ud"},
        {"UCX_TLS": "self,sm,dc"},
        {"UCX_TLS": "self,sm,tcp"},
        {"UCX_RNDV_THRESH_INTRA": "4k"},
        {"UCX_RNDV_THRESH_INTER": "4k"},
        {"UCX_ZCOPY_THRESH": "128k"},
        {"component": "ucc"},
        {"mapping": "cyclic"},
        {"NPS": 2},
    ],
    ids=str,
)
def test_every_setting_of_the_space_matters_somewhere(machine: Machine, point: dict[str, str | int]) -> None:
    def curves(values: dict[str, str | int]) -> np.ndarray:
        settings = settings_from({"UCX_TLS": "self,sm,rc", **values})
        calls = [("alltoall", "pairwise"), ("allgather", "ring"), ("allreduce", "rabenseifner")]
        return np.array(
            [predict(Fabric(machine, NodeLayout(4, 16), settings), c, a, 0, SIZES) for c, a in calls]
        )

    assert np.abs(curves(point) / curves({}) - 1).max() > 0.03


def test_unknown_names_are_refused_with_what_is_known(machine: Machine) -> None:
    with pytest.raises(SpaceError, match="no model of 'gossip'"):
        predict(Fabric(machine, NodeLayout(2, 2), JobSettings()), "gossip", "default", 0, [8])
    with pytest.raises(SpaceError, match="did you mean 'ring'"):
        predict(Fabric(machine, NodeLayout(2, 2), JobSettings()), "allreduce", "rings", 0, [8])
    with pytest.raises(SpaceError, match="two_proc"):
        predict(Fabric(machine, NodeLayout(2, 2), JobSettings()), "alltoall", "two_proc", 0, [8])


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_fixed_rules_only_name_algorithms_that_exist(collective: str) -> None:
    for size in (2, 3, 5, 12, 20, 40, 100, 200, 288, 600, 1500, 3000, 36864):
        chosen = fixed_choice(model_of(collective).decisions, size, 2.0 ** np.arange(25))
        assert set(chosen) <= set(algorithms(collective, size))


def test_the_fixed_rules_are_those_of_the_library() -> None:
    assert fixed_choice(ALLREDUCE, 288, np.array([4095.0, 4096.0])) == ["nonoverlapping", "rabenseifner"]
    assert fixed_choice(BCAST, 20, np.array([4095.0, 4096.0, 2.0**20])) == [
        "knomial",
        "binomial",
        "scatter_allgather",
    ]
