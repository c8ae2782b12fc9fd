"""What every proposer promises, on real adapters only."""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from autotune.campaign.ports import Problem
from autotune.errors import ScenarioError
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Trial
from autotune.proposers import PROPOSERS, proposer
from autotune.space import Level, Parameter, Point, Space
from tests.contract.implementations import implementations
from tests.program import ran

LATENCY = Objective("latency")
BANDWIDTH = Objective("bandwidth", min_bytes=1024)
SIZES = (8, 1024, 65536)

CONDITIONAL = Space(
    "conditional",
    (
        Parameter("tls", ("all", "tcp", "sm"), "all"),
        Parameter("rndv", ("auto", "4k", "16k", "64k"), "auto", ordered=True),
        Parameter("zcopy", ("1k", "16k"), "16k", ordered=True, when={"tls": ("all", "sm")}),
        Parameter("algorithm", ("0", "ring", "recursive_doubling"), "0", level=Level.CALL, per_size=True),
    ),
)
LISTED = Space(
    "listed",
    (
        Parameter("algorithm", ("default", "ring", "linear", "binomial"), "default", per_size=True),
        Parameter("segment", ("0", "4096"), "0", ordered=True, per_size=True, when={"algorithm": ("ring",)}),
    ),
    listed=tuple(
        Point.of(v)
        for v in (
            {"algorithm": "default"},
            {"algorithm": "ring", "segment": "0"},
            {"algorithm": "ring", "segment": "4096"},
            {"algorithm": "linear"},
        )
    ),
)
LONE = Space("lone", (Parameter("tls", ("all",), "all"),))
OPTIONS = {"optuna": {"initial": 3}, "smac": {"initial": 3}}
"""Models take over early, so that they are under test (but Ax's: it takes seconds for each call)."""
MODELLED = {"ax": 6}
"""Launches with which a model has taken over; 5 of all others."""
REPEATING = {"curve"}
"""These launch a point again, and say so; all others never do."""
CASES = {"conditional": CONDITIONAL, "listed": LISTED, "lone": LONE}


def time_s(point: Point, size: int, choice: Point) -> float:
    """A landscape with a best point, a condition and a trade-off between small and large messages."""
    tls = {"all": 1.2, "tcp": 3.0, "sm": 1.0}.get(str(point.get("tls")), 1.0)
    rndv = 1 + 0.1 * ["auto", "4k", "16k", "64k", None].index(point.get("rndv")) * (size > 1000)
    kind = str({**point, **choice}.get("algorithm", "0"))
    slope = {"ring": 0.5, "linear": 3.0}.get(kind, 1.0)
    start = {"ring": 4.0, "linear": 2.0}.get(kind, 1.0)
    return 1e-6 * tls * rndv * (start + slope * size / 4096)


def observe(space: Space, number: int, point: Point, status: Status = Status.OK) -> Observation:
    trial = Trial(number, Phase.SEARCH, point, seed=number)
    if status is not Status.OK:
        return Observation(trial, status, reason="planted")
    rng = np.random.default_rng(number)
    estimates = []
    for size in SIZES:
        for choice in space.choices("allreduce"):
            t = time_s(point, size, choice) * math.exp(0.01 * rng.standard_normal())
            estimates.append(Estimate(Cell("allreduce", 4, size, choice), t, 0.01 * t, 20))
    return Observation(trial, Status.OK, tuple(estimates), duration_s=1.0)


def campaign(
    name: str,
    problem: Problem,
    launches: int,
    seed: int = 3,
    fails: Callable[[int], bool] = lambda _: False,
    history: History | None = None,
) -> History:
    history = history or History()
    for number in range(len(history) + 1, launches + 1):
        suggestion = proposer(name, **OPTIONS.get(name, {})).propose(problem, history, seed)
        if suggestion is None:
            break
        assert "\n" not in suggestion.note
        on_purpose = name in REPEATING and suggestion.note.startswith("again")
        assert on_purpose or suggestion.point not in points(history), "launched twice, and does not say so"
        assert suggestion.expected_gain is None or math.isfinite(suggestion.expected_gain)
        status = Status.CRASHED if fails(number) else Status.OK
        history = history.plus([observe(problem.space, number, suggestion.point, status)])
    return history


@cache
def first(name: str, case: str) -> History:
    """The first launches of a campaign for latency."""
    return campaign(name, Problem(CASES[case], (LATENCY,)), MODELLED.get(name, 5))


def points(history: History) -> list[Point]:
    return [o.trial.point for o in history]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", sorted(PROPOSERS))
class TestEveryProposer:
    def test_stays_in_the_space_and_repeats_nothing_without_saying_so(self, name, case):
        problem = Problem(CASES[case], (LATENCY,))
        found = points(first(name, case))
        assert found
        assert all(point in problem.space for point in found)

    def test_is_a_function_of_history_and_seed(self, name, case):
        problem = Problem(CASES[case], (LATENCY,))
        whole = first(name, case).observations
        cut = History(whole[:3])
        assert points(campaign(name, problem, len(whole), history=cut)) == points(History(whole))

    def test_copes_with_failures(self, name, case):
        problem = Problem(CASES[case], (LATENCY,))
        assert points(campaign(name, problem, 5, fails=lambda number: number % 2 == 0))
        all_failed = points(campaign(name, problem, 4, fails=lambda _: True))
        assert all_failed
        assert all(point in problem.space for point in all_failed)

    def test_two_objectives(self, name, case):
        problem = Problem(CASES[case], (LATENCY, BANDWIDTH))
        found = points(campaign(name, problem, MODELLED.get(name, 5)))
        assert found
        assert all(point in problem.space for point in found)


@pytest.mark.parametrize("name", ["ax", "gp", "curve"])
def test_nothing_is_compiled_and_no_lock_of_a_killed_process_waited_for(name, tmp_path, monkeypatch):
    from botorch.acquisition.multi_objective import logei

    left_behind = tmp_path / "logei_fused_ext" / "lock"
    left_behind.parent.mkdir()
    left_behind.touch()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.setattr(logei, "_load_attempted", False)
    campaign(name, Problem(CASES["conditional"], (LATENCY, BANDWIDTH)), 6)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [left_behind]


def test_every_proposer_is_registered():
    assert implementations("propose") == set(PROPOSERS.values())


@pytest.mark.parametrize("name", sorted(PROPOSERS))
def test_ends_when_the_space_is_exhausted(name):
    problem = Problem(LISTED, (LATENCY,))
    assert set(points(campaign(name, problem, 9))) == set(LISTED.listed or ())


def test_the_names_of_the_registry_are_checked():
    with pytest.raises(ScenarioError, match="did you mean 'grid'"):
        proposer("gird")
    with pytest.raises(ScenarioError, match="no option 'budget'"):
        proposer("random", budget=3)


def test_the_seed_matters_where_something_is_drawn():
    problem = Problem(CONDITIONAL, (LATENCY,))
    assert len({tuple(points(campaign("random", problem, 4, seed=s))) for s in range(4)}) > 1


def test_ax_takes_launches_whose_errors_are_unknown_beside_others():
    """One sample says nothing about its error, and a recorded table can have one here and several there."""
    problem = Problem(CONDITIONAL, (LATENCY,))
    history = campaign("random", problem, 4)
    alone = replace(
        history.observations[1],
        estimates=tuple(replace(e, n=1, sem_s=e.median_s) for e in history.observations[1].estimates),
    )
    mixed = History((history.observations[0], alone, *history.observations[2:]))
    assert proposer("ax", initial=2).propose(problem, mixed, 0) is not None


def test_importing_the_package_imports_none_of_the_libraries_behind_it():
    check = (
        "import sys, autotune.proposers, autotune.proposers.warm_start\n"
        "print({'torch', 'ax', 'botorch', 'optuna', 'smac', 'scipy'} & set(sys.modules))"
    )
    done = ran([sys.executable, "-c", check], check=True)
    assert done.stdout.strip() == "set()"
