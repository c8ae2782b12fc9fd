"""A discovery finds planted knobs, sets bad levels aside, and seldom invents one."""

import numpy as np

from autotune.screening.discovery import Arm, DiscoveryDesign, found
from autotune.simulate.planted import Truth
from benchmarks.discovery_planted import BANDS, N_SIZES, Tally, case, crowded, discover, simulate

SEEDS = 12


def test_sparse_truth_is_found_at_the_stated_rate():
    gains, losses = Tally(), Tally()
    for seed in range(SEEDS):
        discover(case(seed), seed, 240, 0.04, 1 / 8, gains, losses)
    for tally in (gains, losses):
        assert sum(tally.planted.values()) >= 15
        assert sum(tally.found.values()) >= 0.9 * sum(tally.planted.values())
        assert tally.found[BANDS[-1]] >= 0.95 * tally.planted[BANDS[-1]]
        assert tally.false <= 0.15 * (tally.true + tally.false)
    assert gains.bad >= 20
    assert gains.aside >= 0.9 * gains.bad
    assert gains.blamed == 0
    assert gains.failed <= 6 * gains.bad  # each is halved out of some eight changes, not met again


def test_a_dominating_change_hides_no_other():
    arm = Arm("", tuple((f"k{i}", v) for i in range(60) for v in (1, 2)))
    truth = Truth({("k0", 1): (8.0,) * N_SIZES, ("k1", 2): (0.85,) * N_SIZES, ("k2", 1): (1.0,) * 7 + (0.8,)})
    seen = 0
    for seed in range(5):
        course = DiscoveryDesign((arm,), 240, seed=seed)
        runs = list(simulate(course, truth, np.random.default_rng(seed), 0.04))
        result = found((arm,), runs, course.rate, seed)
        seen += sum(e.change in (("k1", 2), ("k2", 1)) for e in result.active)
        assert any(e.change == ("k0", 1) for e in result.harmful)
    assert seen >= 9


def test_nothing_planted_nothing_found():
    invented = 0
    for seed in range(10):
        arm, _, rng, *_ = case(seed)
        course = DiscoveryDesign((arm,), 160, seed=seed)
        result = found((arm,), list(simulate(course, Truth({}), rng, 0.05)), course.rate, seed)
        invented += len(result.active) + len(result.harmful)
    assert invented <= 2


def test_one_at_a_time_tells_what_helps_and_what_hurts():
    gains, losses = Tally(), Tally()
    discover(crowded(0), 0, 600, 0.04, 0, gains, losses)  # two launches and a half of each level
    for tally in (gains, losses):
        assert sum(tally.planted.values()) >= 12
        assert sum(tally.found.values()) >= 0.9 * sum(tally.planted.values())
    assert gains.false + losses.false <= 0.1 * (gains.true + losses.true)
