"""The judge of settings, against what was planted."""

import numpy as np
import pytest

from autotune.recommend.posterior import Posterior, pooled, posterior
from autotune.space import Parameter, Space

SCALE = tuple(2**k for k in range(8))
SPACE = Space("s", (Parameter("x", SCALE, 1, ordered=True), Parameter("y", ("a", "b", "c"), "a")))
POINTS = list(SPACE.points())
TRUTH = np.array([0.05 * (SCALE.index(p["x"]) - 3) ** 2 + 0.3 * (p["y"] != "b") for p in POINTS])


def test_what_is_chosen_is_better_than_what_was_luckiest() -> None:
    rng = np.random.default_rng(0)
    lost = []
    for _ in range(30):
        logs = TRUTH + 0.1 * rng.standard_normal(len(POINTS))
        found = posterior(SPACE, POINTS, list(logs), [1] * len(POINTS))
        lost.append((TRUTH[np.argmin(found.mean)], TRUTH[np.argmin(logs)]))
    believed, luckiest = np.mean(lost, axis=0) - TRUTH.min()
    assert believed < 0.8 * luckiest


def test_many_launches_are_believed_and_few_settings_are_taken_as_they_are() -> None:
    found = posterior(SPACE, POINTS, list(TRUTH), [1000] * len(POINTS))
    assert found.mean == pytest.approx(TRUTH, abs=0.01)
    few = posterior(SPACE, POINTS[:3], [3.0, 1.0, 2.0], [1, 1, 1])
    assert list(few.mean) == [3.0, 1.0, 2.0]


def test_another_launch_goes_to_what_can_turn_the_choice() -> None:
    found = Posterior(np.array([1.0, 1.01, 1.02, 2.0]), np.array([0.01, 0.01, 0.05, 0.05]), 0.03)
    worth = found.worth_of_another()
    assert np.argmax(worth) == 2
    assert worth[3] == pytest.approx(0.0, abs=1e-9)


def test_what_a_family_loses_is_not_left_to_the_one_launch_of_each() -> None:
    """In the second slot everything with y = b takes a tenth longer."""
    rng = np.random.default_rng(1)
    lost = np.array([0.1 * (p["y"] == "b") for p in POINTS])
    logs = np.stack([TRUTH, lost], axis=1) + 0.06 * rng.standard_normal((len(POINTS), 2))
    mean, sd = pooled(
        SPACE,
        POINTS,
        logs,
        [1] * len(POINTS),
        np.full(logs.shape[1], 0.06),
        np.zeros(len(POINTS), dtype=bool),
    )
    assert np.abs(mean[:, 1] - lost).mean() < 0.6 * np.abs(logs[:, 1] - lost).mean()
    assert 0.01 < sd.min() < sd.max() < 0.06
    few, alone = pooled(
        SPACE, POINTS[:3], logs[:3], [1, 4, 1], np.full(logs.shape[1], 0.06), np.zeros(3, dtype=bool)
    )
    assert few == pytest.approx(logs[:3])
    assert alone[:, 0] == pytest.approx([0.06, 0.03, 0.06])
