"""The next run of a discovery follows from the runs so far."""

from dataclasses import replace

import numpy as np

from autotune.screening.discovery import Arm, DiscoveryDesign, Run, Stage, cycle, found
from autotune.screening.discovery.found import candidates
from autotune.screening.discovery.runs import set_aside, suspects
from autotune.simulate.planted import Truth
from benchmarks.discovery_planted import simulate

LEVELS = tuple((f"k{i}", v) for i in range(40) for v in (1, 2))


def _runs(truth, design, seed=0):
    return list(simulate(design, truth, np.random.default_rng(seed), 0.03))


def test_every_run_follows_from_the_runs_before_it():
    design = DiscoveryDesign((Arm("", LEVELS),), 120, seed=5)
    runs = _runs(Truth({LEVELS[3]: (0.7,) * 8}, frozenset([LEVELS[10]])), design)
    for i, run in enumerate(runs):
        planned, _ = design.next_run(runs[:i])
        assert (planned.arm, planned.changes, planned.block) == (run.arm, run.changes, run.block)
    assert design.next_run(runs) is None
    assert len(runs) <= 120


def test_levels_are_tried_equally_often_and_never_two_of_one_factor():
    design = DiscoveryDesign((Arm("", LEVELS),), 160, seed=1)
    runs = [run for run in _runs(Truth({}), design) if not run.block]
    made = [sum(level in run.changes for run in runs) for level in LEVELS]
    assert max(made) - min(made) <= 1
    for run in runs:
        assert len({name for name, _ in run.changes}) == len(run.changes) <= 5


def test_one_at_a_time_each_is_met_once_first_and_what_is_told_no_more():
    strong = {LEVELS[3]: (1.2,) * 8, LEVELS[40]: (0.8,) * 8}
    design = DiscoveryDesign((Arm("", LEVELS),), 240, share=0, seed=1)
    every = _runs(Truth(strong), design)
    runs = [run for run in every if not run.block]
    assert all(len(run.changes) <= 1 for run in runs)
    assert design.next_run(runs[:20])[1] is Stage.ALONE
    made = {level: sum(level in run.changes for run in runs) for level in LEVELS}
    first = {run.changes for run in runs[: len(LEVELS) + 1]}
    assert len(first) == len(LEVELS) + 1  # the default, then each once
    result = found((Arm("", LEVELS),), every, design.rate, 1)
    told = (*result.harmful, *result.active)
    assert {e.change for e in told} == set(strong)
    assert all(e.confirmed for e in told)  # losses too, which are half of what it is for
    assert max(made[level] for level in strong) < max(made.values())  # told, so not made again


def test_one_at_a_time_a_second_level_of_a_factor_waits_for_the_first_of_all_others():
    design = DiscoveryDesign((Arm("", LEVELS),), 240, share=0, seed=1)
    runs = _runs(Truth({}), design)[1:41]
    assert {name for run in runs for name, _ in run.changes} == {name for name, _ in LEVELS}


def test_one_at_a_time_lower_tiers_go_first_whatever_the_seed_and_the_arm():
    """Of 300 levels in random order a hundred launches miss most, the one that matters too."""
    many = tuple((f"k{i}", v) for i in range(75) for v in (1, 2))
    arms = Arm("", many), Arm("b", (*many, *((f"b{i}", v) for i in range(75) for v in (1, 2))))
    tiers = {"k70": 0, "b3": 0, "b4": 0, "k5": 1, "b60": 1}
    for seed in range(5):
        design = DiscoveryDesign(arms, 300, share=0, seed=seed, tiers=tiers)
        runs = [run for run in _runs(Truth({}), design, seed) if run.changes][:10]
        met = [tiers[name] for run in runs for name, _ in run.changes]
        assert met == [0] * 6 + [1] * 4
        assert {c for run in runs for c in run.changes} == {(name, v) for name in tiers for v in (1, 2)}


def test_what_one_launch_shows_plainly_is_confirmed_and_gains_before_losses():
    """With as many launches as levels nothing is made twice, and probabilities are those of outliers."""
    gains = dict.fromkeys(LEVELS[:8:2], (1.0,) * 7 + (0.5,))
    losses = dict.fromkeys(LEVELS[20:26:2], (2.0,) * 8)
    design = DiscoveryDesign((Arm("", LEVELS),), 135, share=0, seed=2)
    runs = _runs(Truth(gains | losses), design, 2)
    result = found(design.arms, runs, design.rate, 2)
    assert {e.change for e in result.active} == set(gains)
    assert {e.change for e in result.harmful} >= set(losses)
    confirmed = [run for run in runs if run.block]
    first = [run for run in confirmed if run.block <= design.rounds and run.changes]
    assert {change for run in first for change in run.changes} == set(gains)
    assert confirmed.index(first[-1]) < min(
        i for i, run in enumerate(confirmed) if run.changes & losses.keys()
    )


def test_what_may_help_where_an_arm_does_not_gain_is_worth_fresh_launches():
    helps, idle = ("k0", 1), tuple((f"k{i}", 1) for i in range(1, 40))
    arms = Arm("", idle), Arm("b", (helps, *idle))
    rng = np.random.default_rng(3)

    def run(arm, changes):
        curve = np.array([(-0.5 * arm,) * 7 + (0.0,)])[0] + rng.normal(0, 0.04, 8)
        curve[7] -= 0.16 * (helps in changes)
        return Run(arm, changes, curve=tuple(curve))

    runs = tuple(run(i, frozenset([change])) for i, arm in enumerate(arms) for change in arm.changes)
    assert (1, helps) in candidates(arms, runs, 0.05, 0)
    alike = tuple(Run(0, r.changes, curve=r.curve) for r in runs if r.arm)
    assert (0, helps) not in candidates(arms[1:], alike, 0.05, 0)


def test_a_hanging_level_is_found_and_left_out():
    bad = LEVELS[17]
    design = DiscoveryDesign((Arm("", LEVELS),), 160, seed=2)
    runs = _runs(Truth({}, hanging=frozenset([bad])), design)
    assert set_aside(runs, 0) == {bad}
    assert sum(not run.ok for run in runs) <= 5
    last = max(i for i, run in enumerate(runs) if not run.ok)
    assert not any(bad in run.changes for run in runs[last + 1 :])


def test_a_launch_that_failed_by_itself_condemns_nobody():
    runs = [Run(0, frozenset(LEVELS[:6:2])), Run(0, frozenset(LEVELS[:6:2]), curve=(0.0,))]
    assert set_aside(runs, 0) == frozenset()
    assert suspects(runs, 0) == frozenset()


def test_a_change_brings_what_it_needs_and_never_what_contradicts_it():
    child, parent = ("child", 1), ("k0", 2)
    arm = Arm("", (*LEVELS, child), {child: frozenset([parent])})
    runs = _runs(Truth({}), DiscoveryDesign((arm,), 200, seed=3))
    with_child = [run for run in runs if child in run.changes]
    assert with_child
    assert all(parent in run.changes for run in with_child)
    assert all(len({name for name, _ in run.changes}) == len(run.changes) for run in runs)


def test_arms_begin_with_their_default_and_try_their_levels_equally_often():
    design = DiscoveryDesign((Arm("a", LEVELS), Arm("b", LEVELS[:20])), 150, seed=4)
    runs = _runs(Truth({}), design)
    first = [next(run for run in runs if run.arm == i) for i in (0, 1)]
    assert all(not run.changes for run in first)
    assert design.next_run([])[1] is Stage.ARM
    screened = [run for run in runs if not run.block]
    made = [sum(level in r.changes for r in screened if r.arm == i) for i in (0, 1) for level in LEVELS[:20]]
    assert max(made) - min(made) <= 2


def test_another_cycle_screens_on_and_confirms_what_was_not_confirmed_before():
    first, late = ("k30", 1), ("k31", 2)
    design = DiscoveryDesign((Arm("", LEVELS),), 300, share=0, seed=5)
    truth, rng = {first: 0.6, late: 0.5}, np.random.default_rng(0)
    runs, cut = [], 45

    def made(planned):
        curve = rng.normal(0, 0.03, 8) + sum(np.log(truth.get(c, 1.0)) for c in planned.changes)
        return replace(planned, curve=tuple(curve))

    while planned := design.next_run(runs, enough=len(runs) >= cut):
        runs.append(made(planned[0]))
    ended = len(runs)
    assert any(run.block for run in runs)
    runs.append(made(design.next_run(runs, go_on=True)[0]))
    assert cycle([run.block for run in runs]) == ended
    while planned := design.next_run(runs, enough=len(runs) >= ended + 60):
        runs.append(made(planned[0]))
    blocks = [max((r.block for r in part), default=0) for part in (runs[:ended], runs[ended:])]
    assert 0 < blocks[0] < min(r.block for r in runs[ended:] if r.block) <= blocks[1]
    again = [{c for r in part if r.block for c in r.changes} for part in (runs[:ended], runs[ended:])]
    assert not again[0] & again[1]
    assert {e.change for e in found(design.arms, runs, design.rate, 4).active} == set(truth)
    assert len(runs) <= 300


def test_no_time_means_no_run():
    assert DiscoveryDesign((Arm("", LEVELS),), 100).next_run([], time_is_up=True) is None


def test_what_does_nothing_is_not_taken_for_what_it_needs():
    """A component's own knob brings the component; only what it adds to that is its effect."""
    idle, parent = ("idle", 1), ("k0", 2)
    arm = Arm("", (*LEVELS, idle), {idle: frozenset([parent])})
    for seed in range(3):
        design = DiscoveryDesign((arm,), 240, seed=seed)
        runs = _runs(Truth({parent: (0.5,) * 8}), design, seed)
        seen = found(design.arms, runs, design.rate, seed)
        assert [effect.change for effect in seen.active] == [parent]


def test_a_knob_that_helps_the_component_that_it_needs_is_found():
    child, parent = ("child", 1), ("k0", 2)
    arm = Arm("", (*LEVELS, child), {child: frozenset([parent])})
    design = DiscoveryDesign((arm,), 240, seed=1)
    runs = _runs(Truth({parent: (0.5,) * 8, child: (0.6,) * 8}), design, 1)
    seen = {e.change: np.exp(np.mean(e.log_ratio)) for e in found(design.arms, runs, design.rate, 1).active}
    assert set(seen) == {parent, child}
    assert abs(seen[child] - 0.6) < 0.03
