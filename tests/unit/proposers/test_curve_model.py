"""The model of curves, against what was planted."""

import numpy as np
import pytest

from autotune.history.objectives import Slot
from autotune.proposers.curve_model import CurveModel, Curves
from autotune.space import Parameter, Point, Space

SIZES = [2**k for k in range(3, 22, 3)]
SLOTS: list[Slot] = [("pingpong", 2, size) for size in SIZES]
SPACE = Space(
    "s",
    (
        Parameter("rndv", ("1k", "4k", "16k", "64k", "256k"), "1k", ordered=True),
        Parameter("tls", ("all", "tcp", "sm"), "all"),
        Parameter("rails", (1, 2), 1, ordered=True, when={"tls": ("all",)}),
    ),
)
POINTS = list(SPACE.points())


def truth(point: Point) -> np.ndarray:
    """Ln t: tcp is slow at small sizes, rndv bends large ones, rails matter little."""
    x = np.log2(SIZES)
    rndv = ("1k", "4k", "16k", "64k", "256k").index(str(point["rndv"]))
    slow = {"all": 0.2, "tcp": 1.0, "sm": 0.0}[str(point["tls"])] * np.exp(-x / 10)
    return -12 + 0.3 * x + slow + 0.05 * (rndv - 2) ** 2 * (x / 21) - 0.02 * (point.get("rails") == 2)


def curves(points: list[Point], noise: float = 0.0, seed: int = 0) -> Curves:
    rng = np.random.default_rng(seed)
    logs = np.array([truth(p) for p in points])
    return Curves(points, logs + noise * rng.standard_normal(logs.shape), np.full(logs.shape, noise))


def test_predictions_improve_with_launches_and_know_how_good_they_are() -> None:
    order = np.random.default_rng(1).permutation(len(POINTS))
    points = [POINTS[i] for i in order]
    errors = []
    for n in (3, 12):
        predicted = CurveModel(SPACE, SLOTS, curves(points[:n], 0.01)).predict(points[12:])
        actual = np.array([truth(p) for p in points[12:]])
        errors.append(np.abs(predicted.mean - actual).mean())
        assert np.mean(np.abs(predicted.mean - actual) < 2.5 * predicted.sd) > 0.9
    assert errors[1] < 0.1
    assert errors[1] < errors[0]


def test_what_was_measured_is_reproduced_as_far_as_its_errors_allow() -> None:
    seen = curves(POINTS[:6], 0.005)
    predicted = CurveModel(SPACE, SLOTS, seen).predict(POINTS[:6])
    assert np.abs(predicted.mean - seen.logs).mean() < 0.08
    less = CurveModel(SPACE, SLOTS, curves(POINTS[-1:])).predict(POINTS[:6])
    assert np.all(predicted.sd[:, 0] < less.sd[:, 0])


def test_gaps_and_unknown_errors_are_survived() -> None:
    seen = curves(POINTS[:8], 0.01)
    seen.logs[2, 3:] = np.nan
    seen.logs[5, :] = np.where(np.arange(len(SIZES)) == 1, seen.logs[5], np.nan)
    bare = Curves(seen.points, seen.logs, np.full(seen.sems.shape, np.nan))
    predicted = CurveModel(SPACE, SLOTS, bare).predict(POINTS)
    assert np.isfinite(predicted.mean).all()
    assert np.abs(predicted.mean[2] - truth(POINTS[2])).max() < 0.3


def test_noise_is_believed() -> None:
    one, other = POINTS[0], POINTS[7]
    logs = np.array([truth(one), truth(one) + 0.5, truth(other)])
    sems = np.full(logs.shape, 0.01)
    sems[1] = 1.0  # a launch that is worth nothing
    predicted = CurveModel(SPACE, SLOTS, Curves([one, one, other], logs, sems)).predict([one])
    assert np.abs(predicted.mean[0] - truth(one)).max() < 0.1


def test_drawn_curves_have_the_moments_that_were_predicted() -> None:
    predicted = CurveModel(SPACE, SLOTS, curves(POINTS[:6])).predict(POINTS[6:9])
    drawn = predicted.draw(2048, seed=3)
    assert drawn.shape == (2048, 3, len(SIZES))
    assert drawn.mean(axis=0) == pytest.approx(predicted.mean, abs=0.02)
    assert drawn.std(axis=0) == pytest.approx(predicted.sd, rel=0.05)
    assert np.array_equal(drawn, predicted.draw(2048, seed=3))


def test_one_slot_and_no_free_parameter() -> None:
    lone = Space("lone", (Parameter("tls", ("all",), "all"),))
    seen = Curves([lone.default], np.array([[1.0]]), np.array([[0.1]]))
    assert CurveModel(lone, SLOTS[:1], seen).predict([lone.default]).mean[0, 0] == pytest.approx(1.0, abs=0.2)
