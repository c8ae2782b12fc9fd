"""What the search begins with after a discovery."""

import math

import numpy as np
import pytest

from autotune.campaign.discovery import Discovery, adding_up
from autotune.campaign.time_left import TimeLeft
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.resources import space_text
from autotune.screening.discovery import ChangeEffect, DiscoveryResult, Run
from autotune.space import Parameter, Point, Space
from autotune.space.joined import joined
from autotune.space.loader import load_space
from tests.campaigns import scenario

NAMED = load_space(space_text("openmpi_ucx_local"), "openmpi_ucx_local")
KNOBS = Space("knobs", tuple(Parameter(f"k{i}", (0, 1, 2), 0, strong=i in (7, 90)) for i in range(100)))
FEW = Space("few", tuple(Parameter(f"k{i}", (0, 1, 2), 0) for i in range(40)))
NAMED_ONES = frozenset(p.name for p in NAMED.job)
WANTED = scenario(discover={"share": 0, "launches": 560}).discover


def effect(name, *log_ratio, level=1):
    return ChangeEffect(1, (name, level), log_ratio, (0.02,) * len(log_ratio), True)


def test_levels_that_act_at_different_sizes_add_up_and_those_that_do_the_same_do_not():
    scheme = effect("scheme", 0.0, 0.0, -0.60, -0.2)
    same = effect("threshold", 0.01, 0.0, -0.55, -0.2)
    small = effect("element", -0.15, 0.0, 0.0, 0.0)
    assert adding_up([small, same, scheme]) == (scheme.change, small.change)


def test_what_takes_an_arms_loss_away_is_worth_more_than_its_gain():
    much, there = effect("much", -0.5, -0.5, -0.5, 0.0), effect("there", 0.0, 0.0, 0.0, -0.1)
    little = effect("little", -0.1, 0.0, 0.0, 0.0)
    assert adding_up([little, there], (-0.3, -0.3, -0.3, 0.1))[0] == there.change
    assert adding_up([much, there], (-0.3, -0.3, -0.3, 0.1)) == (much.change, there.change)


def test_what_costs_more_than_it_adds_is_left_out():
    good, dear = effect("good", -0.5, -0.5, 0.0), effect("dear", 0.6, 0.0, -0.4)
    assert adding_up([good, dear]) == (good.change,)


def test_of_one_knob_one_level_and_of_chance_nothing():
    low, high = effect("k", -0.3, 0.0), effect("k", 0.0, -0.4, level=2)
    assert adding_up([low, high]) == (high.change,)
    assert adding_up([effect("k", -0.03, 0.03)]) == ()
    assert adding_up([]) == ()


def discovery(seed):
    return Discovery(joined(NAMED, KNOBS), WANTED, seed, NAMED_ONES)


def test_what_experts_named_goes_first_then_what_is_strong_elsewhere():
    for seed in (2, 3, 17):
        runs, design = [], discovery(seed).design
        while len(runs) < 60:
            planned, _ = design.next_run(runs)
            runs.append(Run(planned.arm, planned.changes, curve=(0.0,) * 8))
        met = [{name for name, _ in run.changes} for run in runs[1:]]
        n_named = next(i for i, names in enumerate(met) if not names <= NAMED_ONES)
        assert set().union(*met[:n_named]) == NAMED_ONES
        assert sorted(map(min, met[n_named : n_named + 4])) == ["k7", "k7", "k90", "k90"]
        assert not set().union(*met[n_named:]) & NAMED_ONES


def test_what_experts_named_is_searched_whatever_was_found_but_for_levels_that_fail():
    failing = (("btl_sm_eager_limit", 65536), ("UCX_TLS", "self,tcp"))
    nothing = DiscoveryResult((), (), (), tuple((0, c) for c in failing), (), ((0.0,), (0.0,)), 0.05)
    space = discovery(0).searched(nothing)
    assert {p.name for p in space.job} == NAMED_ONES
    for name, level in failing:
        assert set(space[name].values) == set(NAMED[name].values) - {level}
    assert "self,tcp" not in {v for p in space.job for v in p.when.get("UCX_TLS", ())}


def discovered(faster, total_s, knobs=FEW):
    """A discovery whose launches take a second each: its history, what it found, and the seconds left."""
    alone = Discovery(knobs, WANTED, 1)
    history, left_s = History((observed(Trial(1, Phase.BASELINE, knobs.default), faster),)), total_s
    while trial := alone.next_trial(history, 0, TimeLeft(left_s)):
        history, left_s = history.plus([observed(trial, faster)]), left_s - 1.0
    return history.of(Phase.DISCOVERY).observations, alone.found(history), left_s


def observed(trial, faster):
    rng = np.random.default_rng(trial.number)
    times = np.exp(rng.normal(0, 0.02, 8)) * math.prod(faster.get(c, 1.0) for c in trial.point.items())
    cells = (Cell("allreduce", 2, 2**i, Point()) for i in range(8))
    estimates = tuple(Estimate(cell, s, 0.0, 1) for cell, s in zip(cells, times, strict=True))
    return Observation(trial, Status.OK, estimates, duration_s=1.0)


@pytest.fixture(scope="module")
def where_nothing_gains():
    """A discovery of 160 s in which nothing is faster."""
    return discovered({}, 160.0)


def test_while_nothing_harmless_was_confirmed_and_time_is_left_a_discovery_goes_on(where_nothing_gains):
    made, found, left_s = where_nothing_gains
    assert not found.active
    changed = [{c for c in o.trial.point.items() if c[1]} for o in made]
    levels = {(p.name, v) for p in FEW.parameters for v in (1, 2)}
    assert set().union(*changed) == levels
    assert 24 <= left_s <= 60.0  # what the search has
    # In the first cycle, of half of the time, two thirds are for the screening: 53 launches.
    late = min(levels - set().union(*changed[:60]))
    _, found, more_s = discovered({late: 0.7}, 160.0)
    assert {e.change for e in found.active} == {late}
    assert more_s > left_s  # and then it ends


def test_an_arm_that_gains_on_the_whole_is_left_to_the_search():
    """What experts named avoids its price at single sizes, where a discovery leaves the time for that."""
    behind = tuple(Parameter(f"b{i}", (0, 1), 0, when={"arm": (1,)}) for i in range(8))
    armed = Space("armed", (Parameter("arm", (0, 1), 0), *behind, *FEW.parameters[:30]))
    _, _, goes_on_s = discovered({}, 160.0, armed)
    _, found, left_s = discovered({("arm", 1): 0.8}, 160.0, armed)
    assert not found.active
    assert left_s > 160.0 / 2 - 24 > goes_on_s


def test_the_screening_goes_on_where_a_confirmation_ends_early(where_nothing_gains):
    """Nothing was suspected, so that there was nothing to confirm, and a third of the time was left over."""
    made, _, _ = where_nothing_gains
    assert sum(not o.trial.block for o in made) > 160 / 2 * 2 / 3 + 24


def test_after_the_discovery_it_is_complete_whatever_time_there_is():
    alone = Discovery(KNOBS, WANTED, 1)
    first = observed(Trial(1, Phase.BASELINE, KNOBS.default), {})
    second = observed(Trial(2, Phase.DISCOVERY, KNOBS.default, Subject.DEPLOYED), {})
    assert alone.next_trial(History((first, second)), 0, TimeLeft(1000.0)) is not None
    after = observed(Trial(3, Phase.BASELINE, KNOBS.default, Subject.UNTOUCHED), {})
    assert alone.next_trial(History((first, second, after)), 0, TimeLeft(1000.0)) is None
