"""How often a violated performance guideline is reported where none is, and which violations are found.

Simulated are machines on the edge: every guideline holds with equality (all sizes, rank counts and algorithms
take the same time, a composition as long as what it is compared with), so that any report is a false one.
Noise is as measured on real machines, as in ``error_rates.py``: launches lie 2 to 5 % apart (a spread for
each machine), with tails of Student's t with 4 degrees of freedom, a part of it common to all calls of a
launch, and outliers: 2 % of launches, 0.5 % of calls, slower by 30 % on average. Planted are fallbacks: one
collective is slower by a factor at one size.

- together: one launch has everything, as in a campaign over several collectives;
- apart: each collective has launches of its own, as logs of other benchmarks.

Printed are the share of machines with any report, and with one of the planted call.

    python benchmarks/guideline_rates.py [--machines 1000]
"""

import argparse
import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autotune.recommend.guideline_test import Findings, findings
from autotune.recommend.guidelines import of_table
from autotune.tables.importers import BenchmarkRow

SIZES = tuple(8 * 16**k for k in range(5))
RANKS = (4, 8)
SHARES = {"allreduce": 1.0, "reduce": 0.5, "bcast": 0.5, "allgather": 1.0, "gather": 0.5, "scatter": 0.25}
"""Collective → its time: an allreduce takes as long as reduce and bcast, an allgather as gather and bcast."""
ALGORITHMS = ("default", "ring", "tree")
PLANTED = ("allreduce", 8, SIZES[2])


def rows(seed: int, launches: int, together: bool, factor: float) -> Iterator[BenchmarkRow]:
    """What was measured of one machine; default and forced algorithms always share a launch."""
    rng = np.random.default_rng([seed, 11])
    spread, common = rng.uniform(0.02, 0.05), rng.uniform(0.2, 0.9)

    def tails(scale: float) -> float:
        return spread * scale * float(rng.standard_t(4)) / math.sqrt(2.0)

    for launch in range(launches):
        shared = 0.0
        for i, (collective, share) in enumerate(SHARES.items()):
            if i == 0 or not together:
                shared = tails(math.sqrt(common)) + (rng.random() < 0.02) * float(rng.exponential(0.3))
            for p in RANKS:
                for size in SIZES:
                    for algorithm in ALGORITHMS:
                        own = tails(math.sqrt(1 - common))
                        own += (rng.random() < 0.005) * float(rng.exponential(0.3))
                        slow = factor if (collective, p, size) == PLANTED and algorithm == "default" else 1.0
                        time = 100.0 * share * slow * math.exp(shared + own)
                        labels = (("algorithm", algorithm), ("run", str(launch)))
                        one = BenchmarkRow("simulated", 1, "", "", collective, p, size, time, labels=labels)
                        yield one if together else replace(one, benchmark=collective)


def found(seed: int, launches: int, together: bool, factor: float = 1.0) -> Findings:
    """What is reported of one machine."""
    return findings(of_table(rows(seed, launches, together, factor)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machines", type=int, default=1000)
    options = parser.parse_args()
    print(f"{'launches':>8} {'':10} {'planted':>8} {'n':>5} {'tested':>7} {'any':>7} {'planted call':>13}")
    for launches in (1, 2, 3, 6):
        for together in (True, False):
            for factor in (1.0, 1.2, 1.5, 2.0, 4.0):
                n = options.machines if factor == 1.0 else options.machines // 5
                every = [found(seed, launches, together, factor) for seed in range(n)]
                any_ = sum(bool(one.violations) for one in every) / n
                hit = sum(any(v.guideline.left.slot == PLANTED for v in one.violations) for one in every) / n
                said = f"{hit:13.0%}" if factor > 1 else f"{'':13}"
                where = "together" if together else "apart"
                print(
                    f"{launches:8} {where:10} {f'{factor:.1f}×' if factor > 1 else 'none':>8} {n:5} "
                    f"{every[0].tested:7} {any_:7.1%} {said}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
