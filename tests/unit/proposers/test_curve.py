"""Decisions of ``curve``, and the standing they rest on."""

import math
from collections.abc import Mapping

import numpy as np
import pytest

from autotune.campaign.ports import Problem
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.proposers.acquisition import SearchState, _hypervolume_gain, launch_variances
from autotune.proposers.curve import Curve, _chances
from autotune.proposers.curve_model import CurveModel
from autotune.recommend.posterior import expected_improvement
from autotune.recommend.priors import Floats, coded
from autotune.space import Level, Parameter, Point, Space

LATENCY = Objective("latency")
SPACE = Space(
    "s",
    (
        Parameter("algorithm", ("default", "ring", "recursive_doubling", "linear"), "default", per_size=True),
        Parameter("tls", ("all", "tcp"), "all"),
    ),
)


def seen(
    number: int,
    point: Point,
    times_us: Mapping[int, float],
    sem: float = 0.01,
    subject: Subject = Subject.SWEEP,
    memory_mib: float | None = None,
) -> Observation:
    estimates = [
        Estimate(Cell("allreduce", 64, size), t * 1e-6, sem * t * 1e-6, 20) for size, t in times_us.items()
    ]
    extra = {} if memory_mib is None else {"memory_bytes": memory_mib * 2**20}
    trial = Trial(number, Phase.SEARCH, point, subject)
    return Observation(trial, Status.OK, tuple(estimates), extra=extra)


def at(algorithm: str, tls: str = "all") -> Point:
    return Point.of({"algorithm": algorithm, "tls": tls})


def test_the_envelope_of_a_setting_joins_its_choices() -> None:
    standing = SearchState.of(
        Problem(SPACE, (LATENCY,)),
        [
            seen(1, at("default"), {8: 2.0, 1024: 9.0}),
            seen(2, at("ring"), {8: 4.0, 1024: 5.0}),
            seen(3, at("ring", "tcp"), {8: 3.0, 1024: 6.0}),
        ],
    )
    assert {str(k): np.exp(v) * 1e6 for k, v in standing.envelopes.items()} == {
        "tls=all": pytest.approx([2.0, 5.0]),
        "tls=tcp": pytest.approx([3.0, 6.0]),
    }


def test_weights_follow_the_objectives() -> None:
    problem = Problem(SPACE, (Objective("latency", 0, 100), Objective("bandwidth", 100), Objective("memory")))
    standing = SearchState.of(problem, [seen(1, at("ring"), {0: 1.0, 8: 2.0, 1024: 9.0}, memory_mib=64)])
    assert standing.weights == pytest.approx(np.array([[0.5, 0.5, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]))
    assert standing.curves.logs[0, 3] == pytest.approx(math.log(64 * 2**20))


def test_expected_improvement_against_numbers_drawn() -> None:
    draws = np.random.default_rng(0).normal(1.2, 0.5, 400_000)
    found = expected_improvement(np.array(1.0), np.array(1.2), np.array(0.5))
    assert found == pytest.approx(np.maximum(1.0 - draws, 0).mean(), rel=0.02)


def test_the_first_launch_is_the_default() -> None:
    suggestion = Curve().propose(Problem(SPACE, (LATENCY,)), History(), 0)
    assert suggestion is not None
    assert suggestion.point == SPACE.default


def test_an_untouched_launch_counts_as_the_default() -> None:
    history = History((seen(1, SPACE.default, {8: 2.0, 1 << 20: 900.0}, subject=Subject.UNTOUCHED),))
    suggestion = Curve().propose(Problem(SPACE, (LATENCY,)), history, 0)
    assert suggestion is not None
    assert suggestion.point != SPACE.default


def test_a_search_without_a_screening_begins_with_what_lies_farthest_apart() -> None:
    """The corner of the scales, then the point farthest from both."""
    low_high = Parameter("eager", ("1k", "4k", "16k", "64k"), "1k", ordered=True)
    space = Space("s", (low_high, Parameter("depth", (1, 2, 4, 8), 1, ordered=True)))
    history = History((seen(1, space.default, {8: 20.0}),))
    for number in range(2, 4):
        suggestion = Curve().propose(Problem(space, (LATENCY,)), history, 0)
        assert suggestion is not None
        history = history.plus([seen(number, suggestion.point, {8: 19.0 + number})])
    corner, third = (o.trial.point for o in list(history)[1:])
    assert dict(corner.items_) == {"eager": "64k", "depth": 8}
    assert dict(third.items_) in ({"eager": "1k", "depth": 8}, {"eager": "64k", "depth": 1})


def test_names_lead_the_second_launch() -> None:
    """At small messages nobody should begin with a ring or a linear algorithm."""
    history = History((seen(1, SPACE.default, {8: 20.0, 64: 22.0, 512: 25.0}),))
    suggestion = Curve().propose(Problem(SPACE, (LATENCY,)), history, 0)
    assert suggestion is not None
    assert suggestion.point["algorithm"] == "recursive_doubling"


def test_every_unknown_family_is_seen_before_one_of_them_is_searched_from_end_to_end() -> None:
    names = ("default", "wren", "heron", "osprey")
    radix = Parameter("radix", tuple(range(2, 33)), 2, ordered=True, when={"algorithm": ("wren",)})
    space = Space("s", (Parameter("algorithm", names, "default", per_size=True), radix))
    history = History((seen(1, space.default, {8: 20.0, 1024: 25.0}),))
    for number in range(2, 6):
        suggestion = Curve().propose(Problem(space, (LATENCY,)), history, 0)
        assert suggestion is not None
        history = history.plus([seen(number, suggestion.point, {8: 21.0, 1024: 24.0})])
    assert {o.trial.point["algorithm"] for o in list(history)[:5]} == set(names)


def test_what_nothing_is_known_of_is_tried_in_an_order_that_the_seed_draws() -> None:
    values = tuple(f"w{i}" for i in range(10))
    space = Space("s", (Parameter("algorithm", values, "w0", per_size=True),))
    first = History((seen(1, space.default, {8: 20.0, 1024: 25.0}),))
    drawn = [Curve().propose(Problem(space, (LATENCY,)), first, seed) for seed in range(8)]
    chosen = [suggestion.point["algorithm"] for suggestion in drawn if suggestion]
    assert len(chosen) == 8
    assert len(set(chosen)) > 2
    assert Curve().propose(Problem(space, (LATENCY,)), first, 3) == drawn[3]


def test_it_ends_when_the_gain_is_below_what_is_asked_for() -> None:
    names = [f"a{i}" for i in range(12)]
    space = Space("s", (Parameter("x", tuple(names), "a0", per_size=True),))
    history = History(
        tuple(seen(i + 1, Point.of({"x": n}), {8: 2.0, 1024: 9.0}) for i, n in enumerate(names[:11]))
    )
    assert Curve().propose(Problem(space, (LATENCY,)), history, 0) is not None
    assert Curve().propose(Problem(space, (LATENCY,), min_gain=0.5), history, 0) is None


def test_a_doubtful_leader_is_launched_again_if_that_is_allowed() -> None:
    space = Space("s", (Parameter("x", ("a", "b", "c"), "a"),))
    problem = Problem(space, (LATENCY,))

    def history(second: float) -> History:
        times = {"a": 2.0, "b": second, "c": 9.0}
        rows = enumerate(times.items(), start=1)
        return History(tuple(seen(i, Point.of({"x": x}), {8: t, 1024: t}) for i, (x, t) in rows))

    assert Curve(repeats=False).propose(problem, history(2.02), 0) is None
    again = Curve().propose(problem, history(2.02), 0)
    assert again is not None
    assert again.point["x"] in ("a", "b")
    sure = Problem(space, (LATENCY,), min_gain=1e-3)
    assert Curve().propose(sure, history(3.0), 0) is None


@pytest.mark.parametrize(
    ("first", "sem"),
    [
        pytest.param(900.0, 0.01, id="a thousand times as long in one launch"),
        pytest.param(40.0, 46.0, id="a launch whose error is many times its median"),
    ],
)
def test_one_setting_whose_launches_jump_leaves_no_doubt_of_the_others(first: float, sem: float) -> None:
    space = Space("s", (Parameter("x", ("a", "b", "jumps", "d"), "a"),))
    rows = [("a", 2.0), ("a", 2.02), ("b", 3.0), ("b", 3.03), ("jumps", first), ("jumps", 20.0), ("d", 6.0)]
    launches = [
        seen(i, Point.of({"x": x}), {8: t, 1024: t}, sem if t == first else 0.01)
        for i, (x, t) in enumerate(rows, start=1)
    ]
    state = SearchState.of(Problem(space, (LATENCY,)), launches)
    worth = state.worth_of_repeating()
    assert max(worth.values()) < 0.02
    spread = dict(zip((o.trial.point["x"] for o in launches), state.curves.doubts, strict=True))
    assert spread["jumps"] > (10 if sem < 1.0 else 1) * max(
        spread[x] for x in "abd"
    )  # it bends the model less
    without = [o for o in launches if o.trial.point["x"] != "jumps"]
    alone = SearchState.of(Problem(space, (LATENCY,)), without).worth_of_repeating()
    assert all(worth[point] == pytest.approx(alone[point], abs=1e-3) for point in alone)


def test_what_is_usual_between_launches_is_a_median_and_each_setting_has_its_own() -> None:
    rng = np.random.default_rng(1)

    def launches(sd: float, n: int = 3) -> tuple[Floats, Floats]:
        return rng.normal(0, sd, (n, 8)), np.zeros((n, 8))

    quiet = [launches(0.02) for _ in range(9)]
    usual, jumps, once = launch_variances([*quiet, launches(3.0), launches(0.02, 1)], 0.05**2)[[0, 9, 10]]
    assert usual < 0.05**2
    assert once < 0.05**2
    assert jumps > 1.0


def test_failures_keep_it_away_from_what_fails() -> None:
    values = tuple(f"{k}k" for k in (1, 2, 4, 8, 16, 32))
    space = Space(
        "s",
        (Parameter("tls", ("all", "bad"), "all"), Parameter("rndv", values, "1k", ordered=True)),
    )
    observations = [seen(1, space.default, {8: 2.0, 1024: 9.0})]
    for number, value in enumerate(values[:3], start=2):
        point = Point.of({"tls": "bad", "rndv": value})
        observations.append(Observation(Trial(number, Phase.SEARCH, point), Status.CRASHED, reason="planted"))
    suggestion = Curve().propose(Problem(space, (LATENCY,)), History(tuple(observations)), 0)
    assert suggestion is not None
    assert suggestion.point["tls"] == "all"


def test_what_loses_somewhere_is_left_alone_however_good_it_is_elsewhere() -> None:
    """Tcp is much better at large sizes and a third slower at small ones, whatever stands beside it."""
    scale = ("1k", "2k", "4k", "8k", "16k", "32k")
    space = Space(
        "s", (Parameter("tls", ("all", "tcp"), "all"), Parameter("rndv", scale, "1k", ordered=True))
    )

    def run(number: int, tls: str, rndv: str, subject: Subject = Subject.SWEEP) -> Observation:
        small, large = {"all": (2.0, 9000.0), "tcp": (2.7, 4000.0)}[tls]
        times = {8: small, 64: 1.1 * small, 1 << 20: large, 1 << 22: 4 * large}
        return seen(number, Point.of({"tls": tls, "rndv": rndv}), times, subject=subject)

    history = History(
        (
            run(1, "all", "1k", Subject.UNTOUCHED),
            run(2, "tcp", "1k"),
            run(3, "all", "32k"),
            run(4, "tcp", "32k"),
        )
    )

    def chosen(max_loss: float | None) -> object:
        suggestion = Curve().propose(Problem(space, (LATENCY,), max_loss=max_loss), history, 0)
        assert suggestion is not None
        return suggestion.point["tls"]

    assert chosen(None) == "tcp"
    assert chosen(0.01) == "all"


SWEPT = Space(
    "s",
    (
        Parameter("pml", ("ob1", "ucx"), "ob1"),
        Parameter("rndv", ("1k", "4k", "16k", "64k", "256k"), "1k", ordered=True, when={"pml": ("ucx",)}),
        Parameter("eager", (4096, 8192, 16384), 4096, ordered=True, when={"pml": ("ob1",)}),
        Parameter("algorithm", ("a", "b"), "a", level=Level.CALL, per_size=True),
    ),
)
"""Points sweep the algorithms, so that the untouched stack is no point of it."""


def swept(factor: dict[int, float], others: float = 1.5) -> tuple[list[Observation], Observation]:
    """Four launches of ucx, so many times as fast as the untouched stack, and one of that."""
    plain = {2**k: 1.0 + 2**k / 4096 for k in range(3, 22, 2)}
    ucx = {size: time / factor.get(size, others) for size, time in plain.items()}
    values = SWEPT["rndv"].values[:4]
    points = [SWEPT.complete({"pml": "ucx", "rndv": value}) for value in values]
    launches = [seen(number, point, ucx) for number, point in enumerate(points, 2)]
    return launches, seen(1, SWEPT.default, plain, subject=Subject.UNTOUCHED)


@pytest.mark.parametrize(("factor", "losers"), [(0.85, 4), (1.0, 0), (1.5, 0)])
def test_what_a_family_loses_at_a_single_size_again_and_again_is_known(factor: float, losers: int) -> None:
    launches, untouched = swept({128: factor})
    state = SearchState.of(Problem(SWEPT, (LATENCY,), max_loss=0.01), launches, [untouched])
    assert np.isfinite(state.limit).all()
    assert len(state.believed(CurveModel(SWEPT, state.slots, state.curves)).losers) == losers


def test_what_loses_is_left_alone_where_points_sweep_choices_too() -> None:
    launches, untouched = swept({8: 0.4, 32: 0.4}, others=4.0)
    objectives = (Objective("latency", 0, 64), Objective("bandwidth", 128))

    def chosen(max_loss: float | None) -> object:
        problem = Problem(SWEPT, objectives, max_loss=max_loss)
        suggestion = Curve().propose(problem, History((untouched, *launches)), 0)
        assert suggestion is not None
        return suggestion.point["pml"]

    assert chosen(None) == "ucx"
    assert chosen(0.01) == "ob1"


def test_a_family_that_lost_in_each_launch_is_not_hoped_for_anew_with_each_setting() -> None:
    launches, untouched = swept({128: 0.9})
    state = SearchState.of(Problem(SWEPT, (LATENCY,), max_loss=0.01), launches, [untouched])
    assert state.lost.tolist() == [True] * 4 + [False]
    loses_nowhere = _chances(SWEPT, state.curves.points, state.lost.tolist())
    new = [SWEPT.complete({"pml": "ucx", "rndv": "256k"}), SWEPT.complete({"eager": 16384})]
    ucx, ob1 = loses_nowhere(coded(SWEPT.job, new))
    assert ucx < 0.15 < 0.3 < ob1


def test_a_lucky_launch_is_not_the_mark_that_others_must_beat() -> None:
    scale = tuple(f"{2**k}k" for k in range(10))
    space = Space("s", (Parameter("rndv", scale, "1k", ordered=True),))
    times = dict.fromkeys(scale, 2.0) | {"8k": 1.8}
    rows = enumerate(times.items(), start=1)
    history = [seen(i, Point.of({"rndv": v}), {8: t, 1024: 4 * t}) for i, (v, t) in rows]
    standing = SearchState.of(Problem(space, (LATENCY,)), history)
    believed = standing.believed(CurveModel(space, standing.slots, standing.curves))
    lucky = Point.of({"rndv": "8k"})
    assert np.all(believed.envelopes[lucky] > standing.envelopes[lucky])
    assert believed.envelopes.keys() == standing.envelopes.keys()


def test_two_objectives_reach_the_front_of_a_trade_off() -> None:
    """x trades latency for bandwidth, y only costs: the front is where y is lowest."""
    scale = ("1", "2", "4", "8", "16")
    space = Space("s", (Parameter("x", scale, "4", ordered=True), Parameter("y", scale, "4", ordered=True)))
    problem = Problem(space, (Objective("latency", 0, 64), Objective("bandwidth", 1024)))

    def run(number: int, point: Point) -> Observation:
        x, y = scale.index(str(point["x"])), scale.index(str(point["y"]))
        return seen(number, point, {8: 2 * 1.3**x * 1.2**y, 65536: 900 * 1.3 ** (4 - x) * 1.2**y})

    history = History()
    for number in range(1, 11):
        suggestion = Curve().propose(problem, history, 0)
        assert suggestion is not None
        history = history.plus([run(number, suggestion.point)])
    lowest = [o.trial.point for o in history if o.trial.point["y"] == "1"]
    assert len(lowest) >= 3
    assert len({p["x"] for p in lowest}) >= 3


def test_launches_outside_of_what_is_now_fixed_still_teach() -> None:
    values = ("a", "b", "c", "d")
    space = Space("s", (Parameter("x", values, "a"), Parameter("z", ("0", "1"), "0")))
    # With z = 1 everything is as with z = 0, and c is best.
    history = History(
        tuple(
            seen(i + 1, Point.of({"x": x, "z": "1"}), {8: t, 1024: 3 * t})
            for i, (x, t) in enumerate({"a": 3.0, "b": 4.0, "c": 1.0, "d": 5.0}.items())
        )
    )
    suggestion = Curve().propose(Problem(space.fix({"z": "0"}), (LATENCY,), history_space=space), history, 0)
    assert suggestion is not None
    assert dict(suggestion.point) == {"x": "c", "z": "0"}


WIDE = Space("wide", tuple(Parameter(f"x{i}", (0, 1, 2, 3), 0) for i in range(6)))


@pytest.mark.parametrize(("name", "level"), [("x3", 2), ("x5", 1)])
def test_what_a_discovery_launched_teaches_and_may_be_chosen(name: str, level: int) -> None:
    """One change at a time was launched before: what helped there is chosen first, not what lies farthest."""

    def cost(point: Point) -> float:
        return 5.0 if point.get(name) == level else 8.0

    single = [WIDE.complete({f"x{i}": v}) for i in range(6) for v in (1, 2, 3)]
    earlier = tuple(seen(number, p, {8: cost(p), 1024: 8.0}) for number, p in enumerate(single, 1))
    history = History((seen(90, WIDE.default, {8: 8.0, 1024: 8.0}),))
    alone = Curve().propose(Problem(WIDE, (LATENCY,)), history, 1)
    taught = Curve().propose(Problem(WIDE, (LATENCY,), earlier=earlier), history, 1)
    assert alone is not None
    assert alone.note == "the farthest from what was launched"
    assert taught is not None
    assert taught.point[name] == level


def test_settings_that_only_a_discovery_launched_are_no_mark_that_others_must_beat() -> None:
    best = WIDE.complete({"x1": 1})
    problem = Problem(WIDE, (LATENCY,), earlier=(seen(1, best, {8: 5.0}),))
    state = SearchState.of(
        problem, [seen(9, WIDE.default, {8: 8.0}), seen(10, WIDE.complete({"x2": 2}), {8: 7.0})]
    )
    model = CurveModel(WIDE, state.slots, state.curves)
    assert len(state.curves.points) == 3
    assert best not in {*state.envelopes, *state.believed(model).envelopes, *state.worth_of_repeating()}


def test_every_slot_of_every_pair_is_used() -> None:
    """Improvements at any size count: the complement of what is already good is worth more than a copy."""
    space = Space(
        "s", (Parameter("x", ("p_small", "q_small", "p_large", "q_large"), "p_small", per_size=True),)
    )
    small, large = {8: 1.0, 1 << 20: 900.0}, {8: 9.0, 1 << 20: 100.0}
    history = History(
        (seen(1, Point.of({"x": "p_small"}), small), seen(2, Point.of({"x": "q_small"}), small))
    )
    suggestion = Curve().propose(Problem(space, (LATENCY,)), history, 0)
    assert suggestion is not None
    assert str(suggestion.point["x"]).endswith("large")
    history = history.plus([seen(3, Point.of({"x": "p_large"}), large)])
    standing = SearchState.of(Problem(space, (LATENCY,)), list(history))
    [envelope] = standing.envelopes.values()
    assert np.exp(envelope) * 1e6 == pytest.approx([1.0, 100.0])


def test_hypervolume_counts_only_what_is_new() -> None:
    now = np.array([[0.0, 1.0], [1.0, 0.0]])
    after = np.array([[[0.5, 0.5], [2.0, 2.0], [0.0, 1.0]]])
    gain = _hypervolume_gain(now, after)
    assert gain == pytest.approx([0.25, 0.0, 0.0], abs=1e-9)
