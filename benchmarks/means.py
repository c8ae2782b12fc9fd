"""How often the bound of a ratio of plain means misses, beside Student's interval of its logarithm.

Two sides of launches with the same distribution, or the tuned one with a tail of its own; a miss is a bound
on the loss that the true ratio of means exceeds. Wanted are 5 %.

    python benchmarks/means.py [--trials 4000]
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy.stats import t

from autotune.verification.mean_ratio import bound, log_ratio

ALPHA = 0.05
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def spread(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Launches that lie 4 % apart."""
    return np.exp(0.04 * rng.normal(size=shape))


def slow(share: float, times: float) -> Draw:
    """The same, a share of them so many times as slow."""
    return lambda rng, shape: spread(rng, shape) * np.where(rng.random(shape) < share, times, 1.0)


def slow_calls(share: float, times: float, calls: int = 200) -> Draw:
    """Means of calls of which a share is so many times as slow."""

    def draw(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return spread(rng, shape) * (1 + (times - 1) * rng.binomial(calls, share, shape) / calls)

    return draw


def lognormal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Launches that lie by a factor of e apart."""
    return np.exp(rng.normal(size=shape))


KINDS: dict[str, tuple[Draw, Draw]] = {
    "launches 4 % apart, both": (spread, spread),
    "lognormal, both": (lognormal, lognormal),
    "lognormal, tuned": (lognormal, spread),
    "a third of launches 10x, tuned": (slow(1 / 3, 10), spread),
    "a third of launches 10x, both": (slow(1 / 3, 10), slow(1 / 3, 10)),
    "a quarter of calls in a third of launches 10x, tuned": (slow(1 / 3, 3.25), spread),
    "a tenth of launches 2x, both": (slow(0.1, 2), slow(0.1, 2)),
    "a tenth of launches 2x, tuned": (slow(0.1, 2), spread),
    "2 % of calls 50x, tuned": (slow_calls(0.02, 50), spread),
    "0.1 % of calls 1000x, both": (slow_calls(0.001, 1000), slow_calls(0.001, 1000)),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=4000)
    trials = parser.parse_args().trials
    print(f"{'launches':54} {'n':>3} {'missed':>7} {'Student':>8} {'10 % excluded':>14} {'Student':>8}")
    for name, (draw_tuned, draw_others) in KINDS.items():
        rng = np.random.default_rng(1)
        large = (1000, 1000)
        truth = np.log(draw_others(rng, large).mean() / draw_tuned(rng, large).mean())
        for n in (12, 24, 36):
            tuned, others = draw_tuned(rng, (n, trials)), draw_others(rng, (n, trials))
            hall = bound(tuned, others, ALPHA)
            gain, error = log_ratio(tuned, others)
            student = gain - t.isf(ALPHA, 2 * n - 2) * error
            missed = [(x > truth).mean() for x in (hall, student)]
            excluded = [(x > np.log(0.9)).mean() for x in (hall, student)]
            figures = f"{missed[0]:7.1%} {missed[1]:8.1%} {excluded[0]:14.1%} {excluded[1]:8.1%}"
            print(f"{name:54} {n:3} {figures}", flush=True)


if __name__ == "__main__":
    main()
