"""``ofat`` and ``staged``: the order in which people go through a space."""

from collections.abc import Callable

import numpy as np

from autotune.campaign.ports import Problem
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Trial
from autotune.proposers.observations import best_costs, nearest, pool
from autotune.proposers.ofat import OneFactor
from autotune.proposers.staged import Staged
from autotune.space import Parameter, Point, Space

SPACE = Space(
    "s",
    (
        Parameter("UCX_TLS", ("all", "tcp", "sm"), "all"),
        Parameter("UCX_RNDV_THRESH", ("auto", "4k"), "auto", ordered=True),
        Parameter("UCX_ZCOPY_THRESH", ("auto", "16k"), "auto", ordered=True),
        Parameter("component", ("tuned", "hcoll"), "tuned"),
        Parameter("map_by", ("core", "numa"), "core"),
    ),
)
PROBLEM = Problem(SPACE, (Objective("latency"),))
BEST = {"UCX_TLS": "sm", "UCX_RNDV_THRESH": "4k", "UCX_ZCOPY_THRESH": "16k", "component": "hcoll"}


def time_s(point: Point) -> float:
    """Additive on the log scale: methods that change one thing at a time must find the best."""
    return float(2.0 - 0.2 * sum(point[name] == value for name, value in BEST.items()))


def play(propose: Callable[[History], Point | None], launches: int) -> list[Point]:
    history = History()
    for number in range(1, launches + 1):
        point = propose(history)
        if point is None:
            break
        estimate = Estimate(Cell("bcast", 4, 8), time_s(point), 0.01, 9)
        history = history.plus([Observation(Trial(number, Phase.SEARCH, point), Status.OK, (estimate,))])
    return [o.trial.point for o in history]


def ofat(seed: int) -> Callable[[History], Point | None]:
    def propose(history: History) -> Point | None:
        found = OneFactor().propose(PROBLEM, history, seed)
        return found and found.point

    return propose


def staged(history: History) -> Point | None:
    found = Staged().propose(PROBLEM, history, 0)
    return found and found.point


def changed(a: Point, b: Point) -> set[str]:
    return {name for name in a if a[name] != b.get(name)}


def test_ofat_changes_one_parameter_at_a_time_and_keeps_the_best() -> None:
    points = play(ofat(1), 7)
    assert points[0] == SPACE.default
    best = points[0]
    for point in points[1:]:
        assert len(changed(point, best)) <= 2  # the one in turn, from the best of the one before
        best = min([best, point], key=time_s)
    assert {k: v for k, v in best.items() if k != "map_by"} == BEST


def test_ofat_shuffles_by_seed() -> None:
    assert len({tuple(play(ofat(seed), 4)) for seed in range(6)}) > 1


def test_ofat_goes_on_from_drawn_bases_until_nothing_is_left() -> None:
    points = play(ofat(0), 200)
    assert len(points) == len(set(points)) == SPACE.size


def test_staged_goes_through_its_three_grids() -> None:
    points = play(staged, 200)
    first, second, third = points[:6], points[6:7], points[7:]
    assert all(changed(p, SPACE.default) <= {"UCX_TLS", "UCX_RNDV_THRESH"} for p in first)
    assert changed(second[0], SPACE.default) == {"UCX_TLS", "UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH"}
    assert len(third) == 3  # component × mapping without what is known
    assert all(p["UCX_ZCOPY_THRESH"] == "16k" for p in third)
    assert {k: v for k, v in min(points, key=time_s).items() if k != "map_by"} == BEST


def test_points_that_failed_cost_everything() -> None:
    trial = Trial(1, Phase.SEARCH, SPACE.default)
    assert best_costs(PROBLEM, History((Observation(trial, Status.CRASHED),))) == {SPACE.default: np.inf}


def test_nearest_keeps_what_it_can_of_an_impossible_wish() -> None:
    listed = tuple(Point.of({"x": x, "y": y}) for x, y in (("a", "1k"), ("a", "64k"), ("b", "1k")))
    space = Space(
        "t",
        (Parameter("x", ("a", "b"), "a"), Parameter("y", ("1k", "4k", "64k"), "1k", ordered=True)),
        listed=listed,
    )
    rng = np.random.default_rng(0)
    assert nearest(space, {"x": "b", "y": "64k"}, rng) in (listed[1], listed[2])
    assert nearest(space, {"x": "a", "y": "4k"}, rng) == listed[0]
    assert nearest(space, {"x": "a", "y": "4k"}, rng, launched=listed[:1]) == listed[1]
    assert nearest(space, {"x": "a", "y": "4k"}, rng, launched=listed) is None


def test_a_large_space_is_sampled_around_what_is_good() -> None:
    scale = tuple(str(i) for i in range(10))
    space = Space("large", tuple(Parameter(f"p{i}", scale, "0", ordered=True) for i in range(8)))
    rng = np.random.default_rng(0)
    found = pool(space, rng, 50, launched=[space.default], around=[space.default])
    assert space.default not in found
    assert set(space.neighbours(space.default)) <= set(found)
    assert 50 <= len(found) - 72 <= 51
