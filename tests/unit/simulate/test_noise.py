from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import ScenarioError
from autotune.simulate.noise import QUIET, Faults, NoiseModel, launch_factor, sample


def test_samples_lie_around_the_prediction(rng: np.random.Generator) -> None:
    times = sample(1e-5, 20_000, rng, noise=NoiseModel(within=0.03, spike_rate=0.01))
    assert np.median(times) == pytest.approx(1e-5, rel=0.01)
    quartiles = np.quantile(times, [0.25, 0.75])
    assert np.log(quartiles[1] / quartiles[0]) == pytest.approx(2 * 0.6745 * 0.03, rel=0.1)
    assert np.mean(times > 1.3e-5) == pytest.approx(0.01, rel=0.3)


def test_jobs_differ_as_on_quiet_systems(rng: np.random.Generator) -> None:
    quiet = replace(QUIET, launch=0.0, launches_per_job=1)
    factors = np.array([launch_factor(quiet, 5, n, rng) for n in range(1, 2001)]).reshape(400, 5)
    assert np.median(factors) == pytest.approx(1.0, abs=0.01)
    assert 1.04 < np.median(factors.max(axis=1) / factors.min(axis=1)) < 1.20


def test_without_noise_samples_are_the_prediction(rng: np.random.Generator) -> None:
    still = NoiseModel(within=0.0, launch=0.0, moment=0.0, between=0.0, spike_rate=0.0)
    factor = launch_factor(still, 3, 7, rng)
    np.testing.assert_array_equal(sample(2.5e-6, 5, rng, noise=still, factor=factor), 2.5e-6)


def test_launches_of_one_job_share_its_factor(rng: np.random.Generator) -> None:
    noise = NoiseModel(launch=0.0, moment=0.0, launches_per_job=4)
    factors = [launch_factor(noise, 11, number, rng) for number in range(1, 13)]
    assert len(set(factors[:4])) == len(set(factors[4:8])) == len(set(factors[8:])) == 1
    assert len(set(factors)) == 3
    assert factors != [launch_factor(noise, 12, number, rng) for number in range(1, 13)]


def test_a_machine_that_warms_up_is_slower_from_launch_to_launch(rng: np.random.Generator) -> None:
    noise = NoiseModel(launch=0.0, moment=0.0, between=0.0, drift=0.1)
    factors = [launch_factor(noise, 1, number, rng) for number in (100, 200)]
    assert np.log(factors) == pytest.approx([0.1, 0.2])


def test_launches_of_one_job_differ_less_than_jobs(rng: np.random.Generator) -> None:
    noise = NoiseModel(launches_per_job=500)
    launches = np.log([launch_factor(noise, 1, number, rng) for number in range(1, 501)])
    jobs = np.log([launch_factor(NoiseModel(launches_per_job=1), 1, number, rng) for number in range(1, 501)])
    assert launches.std() == pytest.approx(0.02, rel=0.1)
    assert jobs.std() == pytest.approx(np.hypot(0.02, 0.05), rel=0.1)


def test_launches_of_one_moment_differ_by_what_a_launch_keeps_alone(rng: np.random.Generator) -> None:
    noise = NoiseModel(launch=0.01, moment=0.1, between=0.0)
    apart = np.log([launch_factor(noise, 1, number, rng) for number in range(1, 501)])
    together = np.log([launch_factor(noise, 1, 7, rng) for _ in range(500)])
    assert apart.std() == pytest.approx(np.hypot(0.01, 0.1), rel=0.1)
    assert together.std() == pytest.approx(0.01, rel=0.1)


def test_faults_come_as_often_as_they_are_told_to(rng: np.random.Generator) -> None:
    faults = Faults(hang=0.1, crash=0.2, wrong_result=0.3, lost_node=0.1)
    drawn = [faults.draw(rng) for _ in range(4000)]
    for name, rate in [("hang", 0.1), ("crash", 0.2), ("wrong_result", 0.3), ("lost_node", 0.1), ("ok", 0.3)]:
        assert drawn.count(name) / 4000 == pytest.approx(rate, abs=0.03)
    assert {Faults().draw(rng) for _ in range(50)} == {"ok"}


def test_impossible_rates_are_refused() -> None:
    with pytest.raises(ScenarioError, match="fault rates"):
        Faults(hang=0.7, crash=0.7)
    for wrong in ({"within": -0.1}, {"moment": -0.1}, {"launches_per_job": 0}):
        with pytest.raises(ScenarioError, match="noise out of range"):
            NoiseModel(**wrong)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)
