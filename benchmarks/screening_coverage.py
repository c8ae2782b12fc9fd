"""How often a screening is right about effects that were planted.

Prints the table of docs/screening.md: for each scenario the share of 95 % intervals that hold the planted
effect, how often large, small and no effects are called active, and how often they are fixed.

    python benchmarks/screening_coverage.py [EXPERIMENTS]
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.screening import Factor, analyse, foldover, plackett_burman, screened

NOISE = 0.1
"""Standard deviation of a run; that of a block is ten times as large."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A kind of experiment: two of the factors have an effect, at random places and with random signs."""

    name: str
    """Row of the table."""
    n_factors: int
    """Factors, inert ones included."""
    small: float
    """The smaller effect; the larger one is 1."""
    min_runs: int = 12
    """Of a block."""
    blocks: int = 1
    """Replicates."""
    interaction: float = 0.0
    """Effect of the interaction of the two."""
    folded: bool = False
    """Whether a foldover follows."""
    lost: int = 0
    """Runs that fail, at random."""


SCENARIOS = (
    Scenario("12 runs, 6 factors", 6, 0.4),
    Scenario("12 runs, 7 factors, an interaction", 7, 0.6, interaction=0.5),
    Scenario("the same, folded over", 7, 0.6, interaction=0.5, folded=True),
    Scenario(
        "12 runs, 7 factors, an interaction with a factor that does nothing alone", 7, 0.0, interaction=0.5
    ),
    Scenario("12 runs, 11 factors (saturated)", 11, 0.6),
    Scenario("the same, an interaction", 11, 0.6, interaction=0.5),
    Scenario("2 × 12 runs, 8 factors", 8, 0.4, blocks=2),
    Scenario("the same, an interaction", 8, 0.6, blocks=2, interaction=0.5),
    Scenario("3 × 8 runs, 5 factors, 4 runs lost", 5, 0.4, min_runs=8, blocks=3, lost=4),
)
"""Two kinds are left out. In regular designs (8 and 16 runs) an interaction may sit wholly on one factor. In
a saturated design with replicates a third of it is in every main effect, and nothing tests the lack of fit:
by pure error the intervals are those of the sums (21 % hold the main effect alone), and all are active."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of many experiments of one scenario."""

    covered: NDArray[np.float64]
    """(n_experiments,) share of the factors whose interval holds the planted effect."""
    active: NDArray[np.float64]
    """(n_experiments, 3) share called active: large effect, small effect, all others."""
    fixed: NDArray[np.float64]
    """(n_experiments, 3) share fixed of the same."""


def outcome(scenario: Scenario, n_experiments: int, seed: int) -> Outcome:
    """Plant, screen and compare."""
    rng = np.random.default_rng(seed)
    factors = [Factor(f"x{i}", "low", "high") for i in range(scenario.n_factors)]
    covered, active, fixed = [], [], []
    for _ in range(n_experiments):
        design = plackett_burman(factors, rng, blocks=scenario.blocks, min_runs=scenario.min_runs)
        if scenario.folded:
            design = design.followed_by(foldover(design, rng))
        large, small, *_ = (int(i) for i in rng.permutation(scenario.n_factors))
        planted = np.zeros(scenario.n_factors)
        planted[[large, small]] = rng.choice([-1, 1], 2) * [1.0, scenario.small]
        codes = design.coded
        y = 5 + codes @ planted / 2 + scenario.interaction / 2 * codes[:, large] * codes[:, small]
        y += rng.normal(0, 10 * NOISE, len(set(design.blocks)))[list(design.blocks)]
        y += rng.normal(0, NOISE, design.n_runs)
        y[rng.choice(design.n_runs, scenario.lost, replace=False)] = math.nan
        found = analyse(design, y, scale="linear")
        decided = screened(factors, [found], {"response": "min"})
        intervals = [effect.interval() for effect in found.effects]
        others = [i for i in range(scenario.n_factors) if i not in (large, small)]
        covered.append(np.mean([low <= p <= high for (low, high), p in zip(intervals, planted, strict=True)]))
        for shares, flags in (
            (active, [effect.active for effect in found.effects]),
            (fixed, [factor.name in decided.fixed for factor in factors]),
        ):
            shares.append([np.mean(np.array(flags)[group]) for group in ([large], [small], others)])
    return Outcome(np.array(covered), np.array(active), np.array(fixed))


def main(n_experiments: int) -> None:
    """Print the table."""
    print("| runs | 95 % intervals that hold | active: large, small, others | fixed: large, small, others |")
    print("|---|---|---|---|")
    for scenario in SCENARIOS:
        found = outcome(scenario, n_experiments, seed=1)
        cells = [
            " / ".join(f"{100 * share:.0f} %" for share in shares.mean(axis=0))
            for shares in (found.active, found.fixed)
        ]
        print(
            f"| {scenario.name} | {100 * found.covered.mean():.1f} % | {cells[0]} | {cells[1]} |", flush=True
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
