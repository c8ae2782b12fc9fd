"""The simulated cluster answers trials as a probe on a cluster would."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from autotune.campaign.heats import at_once, observe_heat
from autotune.campaign.observing import Measurement
from autotune.errors import StackError
from autotune.history.trial import Phase, Rule, Subject, Trial
from autotune.probe.protocol import CellSamples
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import Machine, machine_from
from autotune.simulate.model import predict
from autotune.simulate.noise import QUIET, RELIABLE, Faults, NoiseModel
from autotune.simulate.settings import settings_from
from autotune.space import Level, Parameter, Point, Space
from autotune.stacks.ports import START_S, LaunchOutcome, Placement
from hydra_plugins.autotune._simulated import Simulated
from tests.asking import probe_request

STILL = NoiseModel(within=0.0, launch=0.0, moment=0.0, between=0.0, spike_rate=0.0)
SIZES = (8, 4096, 1 << 20)
FOUR_BY_EIGHT = Placement(32, nodes=4, ppn=8)
NAMES = ("default", "recursive_doubling", "ring")


MACHINES = Path(__file__).parents[3] / "conf" / "machine"


@pytest.fixture(scope="module")
def machine() -> Machine:
    return machine_from(yaml.safe_load((MACHINES / "bm_optimized3_36.yaml").read_text()))


SPACE = Space("modelled", (Parameter("algorithm", NAMES, "default", level=Level.CALL, per_size=True),))


def simulated(machine, noise=QUIET, faults=RELIABLE, placement=FOUR_BY_EIGHT, **probe) -> Simulated:
    asked = probe_request(**{"collectives": ("allreduce",), "sizes_bytes": SIZES, **probe})
    return Simulated(machine, placement, Measurement(asked, 60.0), SPACE, noise, faults)


def trial_of(point=None, subject=Subject.SWEEP, rules=(), seed=0) -> Trial:
    values = {"component": "tuned"} if point is None else point
    return Trial(1, Phase.SEARCH, Point.of(values), subject, seed=seed, rules=rules)


def cells(outcome: LaunchOutcome) -> list[CellSamples]:
    assert outcome.status == "ok", outcome.reason
    assert outcome.result is not None
    return list(outcome.result.cells)


def test_every_cell_that_was_asked_for_has_the_time_of_the_model(machine: Machine) -> None:
    found = cells(simulated(machine, STILL).run(trial_of()))
    fabric = Fabric(machine, NodeLayout(4, 8), settings_from({"component": "tuned"}))
    expected = [predict(fabric, "allreduce", name, 0, SIZES) for name in NAMES]
    assert [(c.values["algorithm"], c.message_bytes) for c in found] == [(a, s) for a in NAMES for s in SIZES]
    np.testing.assert_allclose([c.samples_s[0] for c in found], np.ravel(expected))


def test_launches_of_a_heat_share_their_moment(machine: Machine) -> None:
    """Moments that differ by half leave ratios within a heat as they were, and none of launches apart."""
    noise = replace(STILL, moment=0.5)
    observer = replace(simulated(machine, noise), at_once=True)
    assert at_once(observer)
    trials = [replace(trial_of(subject=Subject.UNTOUCHED), number=number) for number in (5, 6, 7)]
    heat = observe_heat([(observer, trial) for trial in trials])
    assert [o.trial for o in heat] == trials
    both = (heat, map(observer.observe, trials))
    together, apart = ([[e.median_s for e in o.usable] for o in made] for made in both)
    np.testing.assert_allclose(together, [together[0]] * 3)
    assert np.ptp(np.log(apart), axis=0) == pytest.approx([np.ptp(np.log(apart)[:, 0])] * 3)
    assert np.ptp(np.log(apart)[:, 0]) > 0.1
    assert sum(o.duration_s for o in heat) < START_S + 3 * observer.measurement.heat_s


def test_a_machine_that_starts_one_launch_at_a_time_has_no_heats(machine: Machine) -> None:
    alone, other = simulated(machine), replace(simulated(machine), at_once=True)
    assert not at_once(alone)
    assert not at_once(alone, other)
    with pytest.raises(StackError, match="alive at once"):
        observe_heat([(alone, trial_of())])


def test_samples_are_as_many_as_the_precision_needs(machine: Machine) -> None:
    for precision, n in ((0.1, 10), (0.02, 38)):
        found = cells(simulated(machine, NoiseModel(within=0.05), precision=precision).run(trial_of()))
        assert {len(c.samples_s) for c in found} == {n}


def test_a_seed_is_a_job(machine: Machine) -> None:
    observer = simulated(machine)
    first, again, other = (
        np.concatenate([c.samples_s for c in cells(observer.run(trial_of(seed=seed)))]) for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert np.median(other / first) != pytest.approx(1.0, abs=1e-3)


def test_untouched_is_the_stack_with_its_own_component(machine: Machine) -> None:
    found = cells(simulated(machine, STILL).run(trial_of(subject=Subject.UNTOUCHED)))
    han = predict(Fabric(machine, NodeLayout(4, 8), settings_from({})), "allreduce", "default", 0, SIZES)
    np.testing.assert_allclose([c.samples_s[0] for c in found], han)
    assert all(c.values == {} for c in found)


def test_a_deployed_table_chooses_by_size(machine: Machine) -> None:
    rules = (
        Rule("allreduce", 32, 0, Point.of({"algorithm": "recursive_doubling"})),
        Rule("allreduce", 32, 65536, Point.of({"algorithm": "ring"})),
        Rule("bcast", 32, 0, Point.of({"algorithm": "linear"})),
    )
    observer = simulated(machine, STILL)
    measured = cells(observer.run(trial_of()))
    swept = {(c.values["algorithm"], c.message_bytes): c.samples_s[0] for c in measured}
    found = cells(observer.run(trial_of(subject=Subject.DEPLOYED, rules=rules)))
    chosen = zip(("recursive_doubling", "recursive_doubling", "ring"), SIZES, strict=True)
    assert [c.samples_s[0] for c in found] == [swept[which] for which in chosen]


def test_smaller_communicators_are_measured_too(machine: Machine) -> None:
    found = cells(simulated(machine, STILL, comm_sizes=(2, 12, 32)).run(trial_of()))
    small = [c for c in found if c.values == {"algorithm": "ring"} and c.message_bytes == 8]
    rings = {c.comm_size: c.samples_s[0] for c in small}
    assert rings[2] < rings[12] < rings[32]


def test_a_barrier_has_one_size(machine: Machine) -> None:
    found = cells(simulated(machine, collectives=("barrier",)).run(trial_of(subject=Subject.UNTOUCHED)))
    assert [c.message_bytes for c in found] == [0]


@pytest.mark.parametrize(
    ("point", "placement", "reason"),
    [
        ({"UCX_TLS": "self,carrier_pigeon"}, Placement(8, nodes=2, ppn=4), "carrier_pigeon"),
        ({}, Placement(74, nodes=2, ppn=37), "37 ranks per node"),
    ],
)
def test_what_the_machine_cannot_do_is_an_invalid_launch(machine, point, placement, reason):
    outcome = simulated(machine, placement=placement).run(trial_of(point))
    assert outcome.status == "invalid"
    assert reason in outcome.reason


def test_what_the_model_does_not_know_is_an_invalid_cell(machine: Machine) -> None:
    found = cells(simulated(machine, collectives=("allreduce", "scan")).run(trial_of()))
    assert {c.collective for c in found if c.status == "invalid"} == {"scan"}
    assert {c.collective for c in found if c.status == "ok"} == {"allreduce"}


@pytest.mark.parametrize(
    ("faults", "status"),
    [(Faults(hang=1.0), "timeout"), (Faults(crash=1.0), "crashed"), (Faults(lost_node=1.0), "lost")],
)
def test_faults_end_a_launch(machine: Machine, faults: Faults, status: str) -> None:
    outcome = simulated(machine, faults=faults).run(trial_of())
    assert (outcome.status, outcome.result) == (status, None)
    assert outcome.reason
    assert (outcome.duration_s == 60.0) == (status == "timeout")


def test_a_wrong_result_spoils_one_cell(machine: Machine) -> None:
    found = cells(simulated(machine, faults=Faults(wrong_result=1.0)).run(trial_of()))
    assert [c.status for c in found].count("wrong_result") == 1
    assert all(len(c.samples_s) == (0 if c.status == "wrong_result" else 14) for c in found)


def test_everything_is_stamped(machine: Machine) -> None:
    for source, stamp in (("", "uncalibrated"), ("osu.txt", "calibrated from osu.txt")):
        result = simulated(replace(machine, calibrated_from=source)).run(trial_of()).result
        assert result.notes == (f"SIMULATED ({stamp})",)
        assert result.library.startswith("SIMULATED")


def test_a_launch_that_would_take_too_long_is_ended_at_its_limit(machine: Machine) -> None:
    trial = replace(trial_of({"component": "tuned"}), timeout_s=1.6)
    model = simulated(machine, STILL, sizes_bytes=(1 << 28,), min_samples=20)
    ended = model.run(trial)
    assert (ended.status, ended.duration_s) == ("timeout", 1.6)
    assert model.run(replace(trial, timeout_s=1e6)).status == "ok"
