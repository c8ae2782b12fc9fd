"""Transfer to shapes that were not measured: what it decides, and where it is silent."""

import math

import numpy as np
import pytest

from autotune.site.abstention import (
    GRID,
    LOSS,
    Decision,
    Outcome,
    bounds,
    calibrated,
    decide,
    of_sample,
    outcomes,
)
from autotune.site.transfer import DEFAULT, Measured, Shape, fitted

SIZES = tuple(8 * 16**k for k in range(5))
SOUND = ("allreduce", "allgather", "alltoall", "reduce")
TEMPTING = ("bcast", "gather")


def seconds(choice: str, shape: Shape, gain: float, turns_at: float = math.inf) -> float:
    """A cost model: ``better`` beats the library, of tempting collectives up to some nodes only."""
    alpha, beta = 1e-6 * (1 + len(shape.collective) % 3), 1e-10 * (1 + len(shape.collective) % 4)
    log = math.ceil(math.log2(shape.nodes))
    usual = 1e-6 + (alpha + beta * shape.message_bytes) * log
    if choice == "linear":
        return 1e-6 + (alpha + beta * shape.message_bytes) * (shape.nodes - 1)
    if choice == DEFAULT:
        return usual
    if shape.collective in SOUND:
        return usual / 2.5
    return usual / gain * (1 + (shape.nodes / turns_at) ** 3)


def loses(one: Decision, gain: float, turns_at: float) -> bool:
    chosen_s = seconds(one.choice, one.shape, gain, turns_at)
    return chosen_s > (1 + LOSS) * seconds(DEFAULT, one.shape, gain)


def site(seed: int, counts: tuple[int, ...], gain: float, turns_at: float = math.inf) -> list[Measured]:
    rng = np.random.default_rng(seed)
    shapes = [Shape(kind, n, 1, size) for kind in SOUND + TEMPTING for n in counts for size in SIZES]
    return [
        Measured(shape, c, seconds(c, shape, gain, turns_at) * math.exp(rng.normal(0, 0.03)), 0.02)
        for shape in shapes
        for c in (DEFAULT, "linear", "better")
    ]


def decided(measured: list[Measured], nodes: int) -> list[Decision]:
    model = fitted(measured)
    asked = [Shape(kind, nodes, 1, size) for kind in SOUND + TEMPTING for size in SIZES]
    made = decide(bounds(model, asked), calibrated(outcomes(measured)))
    return [one for one in made if one.choice != DEFAULT]


@pytest.mark.parametrize(("counts", "large"), [((2, 4, 8), 64), ((8, 32, 125), 1000)])
def test_a_crossover_that_small_jobs_cannot_show_makes_it_silent(counts: tuple[int, ...], large: int) -> None:
    wrong = silent = 0
    for seed in range(20):
        gain, turns_at = 1.1 + 0.02 * (seed % 10), max(counts) * (2.2 + 0.1 * (seed % 5))
        made = decided(site(seed, counts, gain, turns_at), large)
        wrong += any(loses(one, gain, turns_at) for one in made)
        silent += not any(one.shape.collective in SOUND for one in made)
    assert wrong <= 1
    assert silent <= 1  # where small jobs do tell, it speaks


def test_a_large_gain_at_all_small_sizes_is_carried_over() -> None:
    made = decided(site(0, (2, 4, 8, 16), 2.5), 64)
    assert {one.choice for one in made} == {"better"}
    assert len(made) == len(SIZES) * len(SOUND + TEMPTING)
    assert all(0 < one.low < one.gain for one in made)


def test_nothing_follows_from_a_node_alone_nor_for_more_than_the_square_of_the_nodes() -> None:
    for count, known in ((1, 0), (4, 0), (8, 2)):
        (said,) = bounds(fitted(site(0, (count,), 2.0)), [Shape("bcast", 64, 1, 64)]).values()
        assert len(said) == known


def test_a_gain_is_that_of_a_smaller_message_on_fewer_nodes() -> None:
    """Half-way between equal messages and equal blocks: 16 KiB on 64 nodes as 8 KiB on 16."""
    times = {4096: 2.0, 8192: 1.5, 16384: 1.0}
    shapes = {size: Shape("bcast", 16, 1, size) for size in times}
    measured = [Measured(shapes[size], DEFAULT, 2.0) for size in times]
    measured += [Measured(shapes[size], "better", seconds) for size, seconds in times.items()]
    gains, _ = fitted(measured).gains("better", [Shape("bcast", 64, 1, 16384), Shape("bcast", 64, 1, 8192)])
    assert gains == pytest.approx([math.log(2 / 1.5), 0])


def test_a_choice_that_lost_on_the_largest_job_is_no_candidate() -> None:
    shape = Shape("bcast", 16, 1, 128)
    for turns_at, known in ((4.0, DEFAULT), (math.inf, "better")):
        (made,) = decide(bounds(fitted(site(0, (2, 4, 8), 1.5, turns_at)), [shape]), 1.645)
        assert made.choice == known


def test_doubt_grows_with_every_doubling_of_the_nodes() -> None:
    model = fitted(site(0, (2, 4, 8), 1.5))
    _, sds = model.gains("better", [Shape("bcast", n, 1, 64) for n in (8, 16, 64, 256)])
    assert list(sds) == sorted(sds)
    assert sds[-1] > 1.5 * sds[0]


def test_what_was_not_measured_of_a_collective_is_unknown() -> None:
    gains, sds = fitted(site(0, (2, 4), 1.5)).gains("unheard of", [Shape("bcast", 8, 1, 64)])
    assert np.isnan(gains[0])
    assert np.isinf(sds[0])


def test_too_few_cases_calibrate_nothing() -> None:
    assert calibrated([]) is None
    assert calibrated([Outcome(GRID[0], False)] * 18) is None
    assert calibrated([Outcome(GRID[0], False)] * 19) == GRID[0]


def test_losses_widen_the_bound() -> None:
    seen = [Outcome(GRID[0], k < 3) for k in range(40)] + [Outcome(GRID[4], False)] * 25
    assert calibrated(seen) == GRID[4]


def test_without_a_calibration_the_library_decides() -> None:
    shape = Shape("bcast", 8, 1, 64)
    assert decide({shape: [("ring", 5.0, 0.1)]}, None) == [Decision(shape, DEFAULT)]
    assert decide({shape: [("ring", 5.0, 0.1)]}, 2.0) == [Decision(shape, "ring", 5.0, 4.8)]


@pytest.mark.parametrize("turns_at", [20.0, math.inf])
def test_a_sample_that_fails_widens_the_abstention_until_few_of_it_lose(turns_at: float) -> None:
    """Small jobs show nothing of the crossover, and nothing was calibrated: the sample shows it."""
    for seed in range(5):
        model = fitted(site(seed, (2, 4, 8), 1.6, turns_at))
        shapes = [Shape(kind, 32, 1, size) for kind in SOUND + TEMPTING for size in SIZES]
        z = GRID[0]
        made = [one for one in decide(bounds(model, shapes), z) if one.choice != DEFAULT]
        sample = [(one, loses(one, 1.6, turns_at)) for one in made]
        wider = of_sample(sample, z)
        if not any(lost for _, lost in sample):
            assert wider == z
            continue
        assert wider is None or wider > z
        still = [lost for one, lost in sample if wider and one.gain > wider * (one.gain - one.low) / z]
        assert sum(still) <= 0.05 * len(still)
    assert math.isinf(turns_at) or any(lost for _, lost in sample)


def test_a_sample_that_loses_however_sure_it_was_ends_all_predictions() -> None:
    sure = Decision(Shape("bcast", 8, 1, 8), "ring", gain=5.0, low=4.9)
    assert of_sample([(sure, True)], 1.645) is None
    assert of_sample([(sure, True)] + [(sure, False)] * 19, 1.645) == 1.645
