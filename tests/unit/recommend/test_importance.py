"""What the model says of parameters, against what was planted."""

import math

import numpy as np
import pytest

from autotune.history.objectives import Objective, Score
from autotune.recommend.front import Candidate
from autotune.recommend.importance import learnt
from autotune.space import Parameter, Space

LATENCY = Objective("latency")
SPACE = Space(
    "planted",
    (
        Parameter("strong", ("a", "b"), "a"),
        Parameter("weak", (1, 2, 4, 8), 1, ordered=True),
        Parameter("one", ("x", "y"), "x"),
        Parameter("two", ("x", "y"), "x"),
        Parameter("nothing", ("p", "q", "r"), "p"),
        Parameter("held", ("only", "other"), "only"),
    ),
)


def log_score(point):
    together = 0.4 if (point["one"] == "y") == (point["two"] == "y") else 0.0
    return 0.6 * (point["strong"] == "b") + 0.05 * math.log2(point["weak"]) + together


def settings(n=40, noise=0.01, seed=3):
    rng = np.random.default_rng(seed)
    points = [point for point in SPACE.draw(rng, 3 * n) if point["held"] == "only"][:n]
    values = [math.exp(log_score(point) + rng.normal(0, noise)) for point in points]
    return [Candidate(p, {}, (Score(v, noise * v),), 1) for p, v in zip(points, values, strict=True)]


def test_planted_effects_are_found_and_interactions_count_for_both():
    found = learnt(LATENCY, 0, SPACE, settings())
    shares = {its.parameter: its.share for its in found.importances}
    assert found.importances[0].parameter == "strong"
    assert "held" not in shares  # never varied
    assert shares["one"] > 0.1
    assert shares["two"] > 0.1
    assert shares["nothing"] < 0.02
    # Variances: strong 0.09, weak 0.05² · 1.25 = 0.0031, the interaction 0.04.
    whole = 0.09 + 0.0031 + 0.04
    assert shares["strong"] == pytest.approx(0.09 / whole, abs=0.15)
    assert shares["one"] == pytest.approx(0.04 / whole, abs=0.15)
    strong = found.importances[0]
    assert strong.ratio == pytest.approx(math.exp(0.6 * math.sqrt(0.5)), rel=0.15)  # redrawn, half stay


def test_left_out_settings_are_predicted_within_their_intervals():
    found = learnt(LATENCY, 0, SPACE, settings())
    assert found.explained > 0.8
    inside = [one.low <= one.candidate.scores[0].value <= one.high for one in found.left_out]
    assert sum(inside) >= 0.8 * len(inside)
    measured = [one.candidate.scores[0].value for one in found.left_out]
    assert measured == sorted(measured)
    assert all(one.low < one.predicted < one.high for one in found.left_out)


def test_a_model_of_pure_noise_explains_nothing():
    rng = np.random.default_rng(0)
    blind = [Candidate(c.point, {}, (Score(math.exp(rng.normal(0, 0.1)), 0.01),), 1) for c in settings()]
    assert learnt(LATENCY, 0, SPACE, blind).explained < 0.3


def test_few_settings_or_none_that_differ_say_nothing():
    assert learnt(LATENCY, 0, SPACE, settings(5)) is None
    alike = [Candidate(c.point, {}, (Score(1.0, 0.0),), 1) for c in settings()]
    assert learnt(LATENCY, 0, SPACE, alike) is None


def test_many_settings_are_thinned_evenly():
    wide = Space("wide", tuple(Parameter(f"p{i}", (1, 2, 3), 1, ordered=True) for i in range(8)))
    rng = np.random.default_rng(1)
    many = [Candidate(p, {}, (Score(math.exp(0.3 * p["p0"]), 0.01),), 1) for p in wide.draw(rng, 400)]
    found = learnt(LATENCY, 0, wide, many)
    assert len(found.left_out) == 128
    assert found.importances[0].parameter == "p0"
    assert found.importances[0].share > 0.8
