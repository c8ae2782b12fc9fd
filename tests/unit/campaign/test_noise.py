"""What is said of the noise of a campaign."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.directory import read_campaign
from autotune.campaign.noise import disturbed, remarks, resolution, spread
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Trial
from autotune.measure.machine import Disturbance
from autotune.space import Point
from tests.golden.test_campaigns import GOLDEN


@pytest.fixture(scope="module")
def campaign():
    return read_campaign(GOLDEN / "simulated")


def test_launches_beside_other_work_are_counted_and_the_worst_is_told(campaign):
    quiet, busy = Disturbance(2, 0.01).figures, Disturbance(2, 1.3).figures
    made = campaign.history.observations
    history = History((replace(made[0], extra=quiet), replace(made[1], extra=busy), *made[2:]))
    assert [disturbed(o) for o in history][:3] == ["", "other work on 1.3 of 2 cores", ""]
    (said,) = (r for r in remarks(campaign.about, history) if r.subject == "interference")
    assert said.grave
    assert said.text == "1 of 2 launches disturbed; at most other work on 1.3 of 2 cores"
    calm = History((replace(made[0], extra=quiet),))
    assert [(r.text, r.grave) for r in remarks(campaign.about, calm) if r.subject == "interference"] == [
        ("0 of 1 launches disturbed", False)
    ]
    assert not [r for r in remarks(campaign.about, campaign.history) if r.subject == "interference"]


def test_a_resolution_that_launches_cannot_give_is_said_in_numbers(campaign):
    def asked(launches, max_loss):
        verify = replace(campaign.about.scenario.verify, launches=launches, max_loss=max_loss)
        return replace(campaign.about, scenario=replace(campaign.about.scenario, verify=verify))

    impossible = resolution(asked(16, 0.01), 0.03)
    assert impossible.grave
    assert impossible.text == (
        "launches of one setting differ by 3.0 %; 16 fresh launches of each side resolve 2.1 % at one size "
        "(95 %); "
        "verify.max_loss=0.01 needs verify.launches=72"
    )
    assert not resolution(asked(72, 0.01), 0.03).grave
    assert resolution(asked(68, 0.01), 0.03).grave
    assert resolution(asked(0, 0.01), 0.03) is None


def test_one_disturbed_launch_in_five_does_not_widen_what_fresh_ones_tell():
    rng = np.random.default_rng(5)

    def launch(number, level):
        times = 1e-6 * np.exp(level + rng.normal(0, 0.03, 20))
        estimates = tuple(Estimate(Cell("allreduce", 2, 8 * k), t, 1e-9, 20) for k, t in enumerate(times, 1))
        return Observation(Trial(number, Phase.VERIFY, Point()), Status.OK, estimates)

    calm = [launch(n, 0.0) for n in range(1, 9)]
    disturbed = [*calm, launch(9, 0.8), launch(10, 1.1)]
    assert spread(History(tuple(calm[:3]))) is None
    assert spread(History(tuple(disturbed))) == pytest.approx(0.03, rel=0.5)
