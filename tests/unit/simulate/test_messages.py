"""Times of pairs and neighbours in the model."""

import numpy as np
import pytest

from autotune.collectives import COLLECTIVES, PATTERNS, Pattern
from autotune.simulate import messages
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine
from autotune.simulate.model import predict
from autotune.simulate.settings import JobSettings

SIZES = [1 << i for i in range(0, 24, 3)]


TWO_SIDED = [name for name in messages.PATTERNS if COLLECTIVES[name].pattern is not Pattern.ONE_SIDED]


@pytest.mark.parametrize("pattern", [*messages.PATTERNS, *messages.BLOCKING])
@pytest.mark.parametrize("cluster", [NodeLayout(1, 2), NodeLayout(2, 1), NodeLayout(3, 5), NodeLayout(4, 8)])
def test_a_time_is_finite_and_grows_with_the_size(
    machine: Machine, pattern: str, cluster: NodeLayout
) -> None:
    took = predict(Fabric(machine, cluster, JobSettings()), pattern, "default", 0, SIZES)
    assert (took > 1e-8).all()
    assert (took < 1).all()
    # A protocol that UCX takes too early or too late can make a larger message faster, never by much.
    assert (np.diff(took) > -0.3 * took[1:]).all()


@pytest.mark.parametrize("pattern", TWO_SIDED)
def test_a_forced_rendezvous_slows_small_messages(machine: Machine, pattern: str) -> None:
    forced = JobSettings(rndv_intra_bytes=0, rndv_inter_bytes=0)
    slow, usual = (
        predict(Fabric(machine, NodeLayout(2, 1), settings), pattern, "default", 0, [8, 1 << 22])
        for settings in (forced, JobSettings())
    )
    small, large = slow / usual
    assert small > 1.5
    assert large == pytest.approx(1.0, abs=0.05)


def test_half_of_a_round_trip_is_overheads_and_wire(machine: Machine) -> None:
    rc = machine.transports["rc"]
    fabric = Fabric(machine, NodeLayout(2, 1), JobSettings(tls="self,sm,rc"))
    (took,) = predict(fabric, "pingpong", "default", 0, [0])
    assert took == pytest.approx(rc.latency_s + 2 * rc.overhead_s, rel=1e-9)


def test_many_messages_in_a_row_move_at_the_bandwidth_of_the_nic(machine: Machine) -> None:
    size, rc = 1 << 24, machine.transports["rc"]
    fabric = Fabric(machine, NodeLayout(2, 8), JobSettings(tls="self,sm,rc"))
    (took,) = predict(fabric, "multipair", "default", 0, [size])
    assert took == pytest.approx(8 * size / rc.bytes_per_s, rel=0.1)


def test_every_pattern_of_the_probe_has_a_model() -> None:
    assert {*messages.PATTERNS, *messages.BLOCKING} == set(PATTERNS)


def test_a_rank_alone_has_no_partner(machine: Machine) -> None:
    fabric = Fabric(machine, NodeLayout(1, 1), JobSettings())
    with pytest.raises(Exception, match="no model of 'pingpong'"):
        predict(fabric, "pingpong", "default", 0, [8])


def predicted(machine: Machine, pattern: str, sizes: list[int], **settings: float) -> np.ndarray:
    return predict(Fabric(machine, NodeLayout(4, 2), JobSettings(**settings)), pattern, "default", 0, sizes)


def test_computation_hides_an_eager_halo_and_no_rendezvous(machine: Machine) -> None:
    eager, rendezvous = {"rndv_inter_bytes": np.inf}, {"rndv_inter_bytes": 0.0}
    both = ("halo", "halo_overlap")
    halo, exposed = (predicted(machine, name, [8, 4096], **eager) for name in both)
    assert (exposed < 0.8 * halo).all()
    halo, exposed = (predicted(machine, name, [8, 4096], **rendezvous) for name in both)
    assert (exposed == halo).all()


def test_one_sided_operations_cost_what_is_added_to_a_put(machine: Machine) -> None:
    sizes = [8, 1 << 20]
    put, locked, fenced, summed = (
        predicted(machine, name, sizes) for name in ("put", "put_lock", "put_fence", "accumulate")
    )
    assert (put < locked).all()
    assert (locked < fenced).all()  # eight ranks: a barrier has three rounds
    assert summed[1] > 1.1 * put[1]
    no_handshake = predicted(machine, "put", sizes, rndv_inter_bytes=0.0)
    assert (no_handshake == put).all()
