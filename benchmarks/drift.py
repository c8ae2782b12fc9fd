"""How often a drift is found, where one is and where none is: campaigns of drawn launches, no cluster.

Launches of one setting lie 3 % apart; the baseline is launched at intervals, every other point once. Printed
is the share of the campaigns in which a drift of the machine, and in which an effect of nodes is taken out.

    python benchmarks/drift.py [--campaigns 60]
"""

import argparse
import math
from dataclasses import dataclass

import numpy as np

from autotune.campaign.drift import drift
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Point

APART = 0.03
SIZES = tuple(8 * 4**k for k in range(6))
SHAPES = ((150, 25), (400, 50), (400, 20))
"""Launches, and after how many the baseline is launched again."""


@dataclass(frozen=True)
class Moved:
    """What moves whole launches."""

    name: str
    slope: float = 0.0
    """From begin to end."""
    walk: float = 0.0
    """Standard deviation of a random walk at the end."""
    jobs: int = 1
    """Allocations of four nodes each, forty launches in turn."""
    nodes: float = 0.0
    """Standard deviation of a node; a launch waits for its slowest one."""


CASES = (
    Moved("nothing"),
    Moved("nothing, three allocations", jobs=3),
    Moved("20 % from begin to end", slope=0.2),
    Moved("a random walk of 20 %", walk=0.2),
    Moved("nodes 10 % apart, three allocations", jobs=3, nodes=0.1),
)


def campaign(rng: np.random.Generator, n: int, every: int, case: Moved) -> History:
    """One campaign."""
    nodes = rng.normal(0, case.nodes, 4 * case.jobs)
    walk = np.cumsum(rng.normal(0, case.walk / math.sqrt(n), n))
    made = []
    for i in range(n):
        untouched = i % every == 0 or i == n - 1
        hosts = [4 * (i // 40 % case.jobs) + k for k in range(4)]
        level = case.slope * i / n + walk[i] + max(nodes[hosts]) + rng.normal(0, APART)
        phase = Phase.BASELINE if untouched else Phase.SEARCH
        subject = Subject.UNTOUCHED if untouched else Subject.SWEEP
        point = Point() if untouched else Point.of({"a": i})
        estimates = tuple(
            Estimate(Cell("allreduce", 4, m), m * math.exp(level) * 1e-7, 1e-9, 20) for m in SIZES
        )
        names = tuple(f"n{host}" for host in hosts)
        made.append(Observation(Trial(i + 1, phase, point, subject), Status.OK, estimates, hosts=names))
    return History(tuple(made))


def main() -> None:
    """Print the table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--campaigns", type=int, default=60)
    campaigns = words.parse_args().campaigns
    print(
        "| what moved them |", " | ".join(f"{n} launches, baseline every {every}" for n, every in SHAPES), "|"
    )
    print("|---|" + "---|" * len(SHAPES))
    for case in CASES:
        cells = []
        for n, every in SHAPES:
            rng = np.random.default_rng([n, every])
            found = [drift(campaign(rng, n, every, case)) for _ in range(campaigns)]
            machine, nodes = (
                100 * np.mean([getattr(one, name) > 0 for one in found]) for name in ("walk", "hosts")
            )
            cells.append(f"{machine:.0f} / {nodes:.0f} %")
        print(f"| {case.name} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
