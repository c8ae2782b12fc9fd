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


def curve(
    machine: Machine,
    cluster: NodeLayout,
    collective: str,
    algorithm: str = "default",
    sizes=SIZES,
    **settings,
) -> np.ndarray:
    return predict(Fabric(machine, cluster, JobSettings(**settings)), collective, algorithm, 0, sizes)


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
            assert ((took >= 0) & np.isfinite(took)).all(), algorithm
            assert cluster.ranks == 1 or (took > 1e-8).all(), algorithm
    for component in ("han", "hcoll", "ucc"):
        assert np.isfinite(curve(machine, cluster, collective, component=component)).all()


def test_every_machine_runs(any_machine: Machine) -> None:
    took = curve(any_machine, NodeLayout(4, 16), "allreduce")
    assert (np.diff(took) > -1e-6).sum() > 3
    assert 1e-6 < took[0] < 1e-3


def test_an_inter_node_latency_is_overheads_and_wire(machine: Machine) -> None:
    rc = machine.transports["rc"]
    took = curve(machine, NodeLayout(2, 1), "barrier", "two_proc", [0], tls="self,sm,rc")
    np.testing.assert_allclose(took, rc.latency_s + 2 * rc.overhead_s, rtol=1e-9)


def test_large_messages_move_at_the_bandwidth_of_the_nic(machine: Machine) -> None:
    size = 1 << 24
    took = curve(machine, NodeLayout(2, 8), "alltoall", "linear", [size], tls="self,sm,rc")
    floor = 8 * 8 * size / machine.transports["rc"].bytes_per_s
    assert floor < took[0] < 1.5 * floor


def test_small_and_large_messages_want_different_algorithms(machine: Machine) -> None:
    names = [name for name in algorithms("allreduce", 288) if name != "default"]
    sizes = [4096, 1 << 22]
    curves = [curve(machine, NodeLayout(8, 36), "allreduce", name, sizes) for name in names]
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
    cluster = NodeLayout(4, 8)
    ring, bruck = (curve(machine, cluster, "allgather", name, component="ucc") for name in ("ring", "bruck"))
    np.testing.assert_array_equal(ring, bruck)


def test_a_collective_that_a_component_lacks_falls_to_tuned(machine: Machine) -> None:
    cluster = NodeLayout(4, 8)
    han, tuned = (curve(machine, cluster, "alltoall", component=name) for name in ("han", "tuned"))
    np.testing.assert_array_equal(han, tuned)


def test_two_level_components_win_for_small_allreduces_on_many_nodes(machine: Machine) -> None:
    sizes, cluster = [8, 64, 512], NodeLayout(8, 36)
    curves = [curve(machine, cluster, "allreduce", a, sizes) for a in algorithms("allreduce", 288)]
    assert (
        curve(machine, cluster, "allreduce", sizes=sizes, component="hcoll") < np.min(curves, axis=0)
    ).all()


@pytest.mark.parametrize(
    "point",
    [
        *({"UCX_TLS": f"self,sm,{transport}"} for transport in ("ud", "dc", "tcp")),
        *({f"UCX_RNDV_THRESH_{where}": "4k"} for where in ("INTRA", "INTER")),
        *({"UCX_ZCOPY_THRESH": "128k"}, {"component": "ucc"}, {"mapping": "cyclic"}, {"NPS": 2}),
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
    for collective, algorithm, message in (
        ("gossip", "default", "no model of 'gossip'"),
        ("allreduce", "rings", "did you mean 'ring'"),
        ("alltoall", "two_proc", "two_proc"),
    ):
        with pytest.raises(SpaceError, match=message):
            curve(machine, NodeLayout(2, 2), collective, algorithm)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_fixed_rules_only_name_algorithms_that_exist(collective: str) -> None:
    for size in (2, 3, 5, 12, 20, 40, 100, 200, 288, 600, 1500, 3000, 36864):
        chosen = fixed_choice(model_of(collective).decisions, size, 2.0 ** np.arange(25))
        assert set(chosen) <= set(algorithms(collective, size))


def test_the_fixed_rules_are_those_of_the_library() -> None:
    assert fixed_choice(ALLREDUCE, 288, np.array([4095.0, 4096.0])) == ["nonoverlapping", "rabenseifner"]
    found = fixed_choice(BCAST, 20, np.array([4095.0, 4096.0, 2.0**20]))
    assert found == ["knomial", "binomial", "scatter_allgather"]
