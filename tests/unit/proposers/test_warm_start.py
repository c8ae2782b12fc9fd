"""Warm starts: what carries over from a finished campaign."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from autotune.campaign.ports import Problem
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Trial
from autotune.proposers.curve import Curve
from autotune.proposers.curve_model import Curves
from autotune.proposers.warm_start import DOUBT, FinishedCampaign, with_finished
from autotune.space import Parameter, Point, Space

OLD = Space(
    "old",
    (
        Parameter("x", ("a", "b", "c", "gone"), "a"),
        Parameter("nps", (1, 4), 1),
    ),
)
NEW = Space("new", (Parameter("x", ("a", "b", "c", "d"), "a"), Parameter("tls", ("all", "tcp"), "all")))


def seen(
    number: int, values: Mapping[str, object], times: Mapping[int, float], collective: str = "bcast"
) -> Observation:
    cells = {Cell(collective, 16, size): t for size, t in times.items()}
    estimates = tuple(Estimate(cell, t, 0.01 * t, 9) for cell, t in cells.items())
    return Observation(Trial(number, Phase.SEARCH, Point.of(dict(values))), Status.OK, estimates)


HISTORY = History(
    (
        seen(1, {"x": "a", "nps": 1}, {8: 1.0, 2048: 4.0}),
        seen(2, {"x": "b", "nps": 1}, {8: 2.0, 2048: 4.0}),
        seen(3, {"x": "c", "nps": 1}, {8: 0.5, 2048: 1.0}),
        seen(4, {"x": "c", "nps": 4}, {8: 0.1, 2048: 0.1}),
        seen(5, {"x": "gone", "nps": 1}, {8: 0.1, 2048: 0.1}),
    )
)


def test_curves_carry_over_relative_to_the_default() -> None:
    here = Curves([NEW.default], np.array([[0.0, 1.0, 2.0]]), np.zeros((1, 3)))
    slots = [("allreduce", 64, 8), ("allreduce", 64, 128), ("allreduce", 64, 1 << 20)]
    found = with_finished(here, [FinishedCampaign(OLD, HISTORY)], NEW, slots)
    carried = dict(zip([str(p) for p in found.points[1:]], found.logs[1:], strict=True))
    assert list(carried) == ["tls=all, x=a", "tls=all, x=b", "tls=all, x=c"]  # nps=4 and gone stay behind
    assert carried["tls=all, x=a"] == pytest.approx([0, 1, 2])
    assert carried["tls=all, x=b"] == pytest.approx([math.log(2), 1 + math.log(2) / 2, 2])  # between, beyond
    assert list(found.doubts) == [0, DOUBT, DOUBT, DOUBT]


def test_nothing_carries_over_before_the_default_is_measured() -> None:
    here = Curves([Point.of({"x": "b", "tls": "all"})], np.array([[0.0]]), np.zeros((1, 1)))
    assert with_finished(here, [FinishedCampaign(OLD, HISTORY)], NEW, [("bcast", 64, 8)]) is here


def test_a_warm_start_begins_with_what_was_best_before() -> None:
    history = History((seen(1, dict(NEW.default), {8: 3.0, 2048: 9.0}),))
    problem = Problem(NEW, (Objective("latency"),))
    warm = Curve(warm_start=(FinishedCampaign(OLD, HISTORY),)).propose(problem, history, 0)
    assert warm is not None
    assert dict(warm.point) == {"x": "c", "tls": "all"}


def test_what_is_measured_here_overrules_what_was_measured_elsewhere() -> None:
    history = History(
        (
            seen(1, dict(NEW.default), {8: 3.0, 2048: 9.0}),
            seen(2, {"x": "c", "tls": "all"}, {8: 30.0, 2048: 90.0}),
        )
    )
    problem = Problem(NEW, (Objective("latency"),))
    warm = Curve(warm_start=(FinishedCampaign(OLD, HISTORY),)).propose(problem, history, 0)
    assert warm is not None
    assert warm.point["x"] != "c"


FIXED_OLD = OLD.fix({"x": "c"})
AT_C = History(
    (
        seen(1, {"x": "c", "nps": 1}, {8: 5.0, 2048: 10.0}),
        seen(2, {"x": "c", "nps": 4}, {8: 2.5, 2048: 5.0}),
    )
)
"""A campaign with ``fix.x=c``, where c is much slower than the default."""
SLOTS = [("bcast", 16, 8), ("bcast", 16, 2048)]


def carried(old: Space, history: History, new: Space) -> dict[str, list[float]]:
    here = Curves([new.default], np.array([[0.0, 1.0]]), np.zeros((1, 2)))
    found = with_finished(here, [FinishedCampaign(old, history)], new, SLOTS)
    return {str(p): list(row) for p, row in zip(found.points[1:], found.logs[1:], strict=True)}


def test_a_value_that_was_fixed_there_is_not_taken_for_the_default_here() -> None:
    assert carried(FIXED_OLD, AT_C, NEW) == {}  # nobody measured what is the default here
    lacking = Space("lacking", (Parameter("nps", (1, 4), 1),))
    assert carried(FIXED_OLD, AT_C, lacking) == {}
    assert FinishedCampaign(FIXED_OLD, AT_C).carried(lacking) == []


def test_what_is_fixed_here_was_not_measured_by_launches_that_lack_it() -> None:
    lacking = Space("lacking", (Parameter("nps", (1, 4), 1),))
    history = History((seen(1, {"nps": 1}, {8: 1.0, 2048: 2.0}), seen(2, {"nps": 4}, {8: 0.1, 2048: 0.2})))
    assert carried(lacking, history, OLD.fix({"x": "c"})) == {}
    assert set(carried(lacking, history, OLD)) == {"nps=1, x=a", "nps=4, x=a"}


def test_launches_at_the_fixed_value_are_compared_with_each_other() -> None:
    found = carried(OLD, HISTORY, OLD.fix({"x": "c"}))
    assert set(found) == {"nps=1, x=c", "nps=4, x=c"}
    assert found["nps=1, x=c"] == pytest.approx([0, 1])  # not by how much c is faster than a
    assert found["nps=4, x=c"] == pytest.approx([math.log(0.1 / 0.5), 1 + math.log(0.1 / 1.0)])
    again = carried(FIXED_OLD, AT_C, OLD.fix({"x": "c"}))
    assert again["nps=4, x=c"] == pytest.approx([math.log(0.5), 1 + math.log(0.5)])
