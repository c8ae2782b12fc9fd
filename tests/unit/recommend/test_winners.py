"""Who wins where, and which winners cannot be told from others."""

import math

import pytest

from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import candidates
from autotune.recommend.recommendation import Recommendation
from autotune.recommend.winners import winners
from autotune.space import Level, Parameter, Point, Space

SPACE = Space(
    "map",
    (
        Parameter("tls", ("all", "sm"), "all"),
        Parameter("algorithm", ("default", "ring", "tree"), "default", Level.CALL, per_size=True),
    ),
)
LATENCY = (Objective("latency"),)
TIMES = {  # µs of default, ring and tree by ranks and size
    (2, 8): (3.0, 2.0, 1.0),
    (2, 1024): (5.0, 4.0, 4.01),
    (16, 8): (9.0, 20.0, 12.0),
    (16, 1024): (40.0, 20.0, 60.0),
}


def swept(number, tls, factor=1.0):
    cells = [
        Estimate(Cell("bcast", ranks, size, Point.of({"algorithm": name})), factor * us * 1e-6, us * 1e-8, 9)
        for (ranks, size), times in TIMES.items()
        for name, us in zip(("default", "ring", "tree"), times, strict=True)
    ]
    trial = Trial(number, Phase.SEARCH, Point.of({"tls": tls}))
    return Observation(trial, Status.OK, tuple(cells))


def untouched(number):
    trial = Trial(number, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED)
    cells = [Estimate(Cell("bcast", *at), times[0] * 1e-6, 1e-8, 9) for at, times in TIMES.items()]
    return Observation(trial, Status.OK, tuple(cells))


HISTORY = History((untouched(1), swept(2, "all"), swept(3, "sm", 1.5)))


def places(history=HISTORY, recommendation=None, space=SPACE):
    judged = candidates(LATENCY, space, history)
    return {place.slot[1:]: place for place in winners(LATENCY, space, history, judged, recommendation)}


def test_winners_ties_and_gains():
    found = places()
    assert {at: str(place.choice["algorithm"]) for at, place in found.items()} == {
        (2, 8): "tree",
        (2, 1024): "ring",
        (16, 8): "default",
        (16, 1024): "ring",
    }
    assert {at for at, place in found.items() if place.tied} == {(2, 1024)}
    assert [str(rival["algorithm"]) for rival in found[2, 1024].rivals] == ["tree"]
    assert found[2, 8].gain.ratio == pytest.approx(3.0)
    assert found[16, 8].gain.ratio == pytest.approx(1.0)
    assert found[16, 1024].behind == pytest.approx(2.0)


def test_the_map_is_that_of_the_recommended_setting():
    slow = places(recommendation=Recommendation(Point.of({"tls": "sm"}), ()))
    assert slow[2, 8].gain.ratio == pytest.approx(2.0)
    never_swept = places(recommendation=Recommendation(Point.of({"tls": "other"}), ()))
    assert never_swept == places()


def test_without_a_choice_or_a_sweep_there_is_no_map():
    assert places(History((untouched(1),))) == {}
    alone = Space("alone", SPACE.parameters[:1])
    plain = Observation(
        Trial(2, Phase.SEARCH, Point.of({"tls": "all"})),
        Status.OK,
        tuple(Estimate(Cell("bcast", *at), times[0] * 1e-6, 1e-8, 9) for at, times in TIMES.items()),
    )
    assert places(History((untouched(1), plain)), space=alone) == {}


def test_without_a_baseline_gains_are_not_known():
    found = places(History((swept(1, "all"),)))
    assert all(place.gain is None for place in found.values())
    assert math.isfinite(found[2, 8].behind)
