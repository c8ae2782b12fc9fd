"""What a whole campaign reaches, verified, beside what tuning algorithms alone reaches.

    python benchmarks/end_to_end.py speed [KEY=VALUE …]

First the campaign ``conf=allreduce_local``, then the sweep of the usual tuning scripts: one launch for each
algorithm of ``coll_tuned``, three repetitions, the best at each size written as rules. Then the untouched
stack, UCX with its own defaults, the campaign's files and the sweep's rules are compared on fresh launches in
randomised blocks, so that all are scored on launches that they were not picked on. Target: geometric mean of
the campaign's speed-up over the untouched stack at least 1.3, and no size seen slower beyond its interval;
how much of that UCX brings without any tuning, and what tuning adds to it, is told beside.
"""

from __future__ import annotations

import math
import subprocess
import sys
import tempfile
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from autotune.campaign.bench import Bench
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.commands.hydra_bridge import connected
from autotune.history.trial import Observation, Phase, Rule, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.space import Point
from autotune.stacks import coll_tuned
from autotune.stacks.ports import Rendering
from autotune.verification.blocks import blocks_of
from autotune.verification.comparison import Comparison, compare, overall
from autotune.verification.sequential import EACH, SequentialDesign

REPETITIONS = 3
LAUNCHES = 8
TARGET = 1.3


def main() -> int:
    """Run it; 1 where its target was missed."""
    if sys.argv[1:2] != ["speed"]:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder:
        return speed(Path(folder), sys.argv[2:])


def campaign(directory: Path, words: list[str]) -> CampaignDirectory:
    """A campaign, shown as it goes."""
    command = [sys.executable, "-m", "autotune", "conf=allreduce_local", f"campaign.dir={directory}", *words]
    subprocess.run(command, check=True)
    return read_campaign(directory)


def speed(folder: Path, words: list[str]) -> int:
    """The verified speed-up of a campaign and of an algorithm-only sweep."""
    record = campaign(folder / "campaign", words)
    about, scenario = record.about, record.about.scenario
    bench = connected(about.bench.launcher, scenario)
    measurement = measurement_of(scenario, bench.placement.ranks)
    rules, launches = algorithm_sweep(bench, measurement, folder / "sweep")
    sides = {
        "default": Recommendation(about.space.default, ()),
        "ucx": Recommendation(about.space.complete({"pml": "ucx"}), ()),
        "campaign": record.recommended(),
        "sweep": Recommendation(about.space.default, rules),
    }
    seen = compared(bench.observer(measurement, about.space, folder / "compared"), sides)
    print(f"\n{about.bench.description}, {about.bench.ranks} ranks; {LAUNCHES} fresh launches of each side")
    results = {}
    searched = len(record.history) - len(record.history.of(Phase.VERIFY))
    costs = {
        "ucx": "nothing searched: pml = ucx with UCX's own defaults",
        "campaign": f"{searched} launches, and {len(record.history) - searched} that verified it",
        "sweep": f"{launches} launches, verified by none",
    }
    for name, spent in costs.items():
        found = blocks_of(seen["default"], seen[name])
        judged = compare(found, SequentialDesign(LAUNCHES))
        results[name] = (judged, overall(found))
        print(f"\n{name}: {spent}")
        for c in judged:
            print(f"  {c.slot[2]:>9} B  {shown(c)}{'  LOSES' if c.high < 0 else ''}")
        print(f"  geometric mean  {shown(results[name][1])}")
    beyond = overall(blocks_of(seen["ucx"], seen["campaign"]))
    print(f"\ncampaign over UCX with its own defaults: geometric mean {shown(beyond)}")
    judged, total = results["campaign"]
    reached = math.exp(total.gain) >= TARGET and not any(c.high < 0 for c in judged)
    print(
        f"\ntarget {TARGET}×, no size seen slower beyond its interval: {'reached' if reached else 'MISSED'}"
    )
    return 0 if reached else 1


def algorithm_sweep(bench: Bench, measurement: Measurement, directory: Path) -> tuple[tuple[Rule, ...], int]:
    """The best algorithm at each size, by one launch for each algorithm and repetition; and how many."""
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    number = 0
    ranks = bench.placement.ranks
    for algorithm in range(len(coll_tuned.algorithms("allreduce", (5, 0)))):
        forced = replace(measurement, amended=partial(with_algorithm, algorithm))
        observer = bench.observer(forced, bench.space, directory)
        for _ in range(REPETITIONS):
            number += 1
            trial = Trial(number, Phase.SEARCH, bench.space.default, Subject.UNTOUCHED, seed=number)
            for e in observer.observe(trial).usable:
                times[e.cell.message_bytes, algorithm].append(e.median_s)
    rules: list[Rule] = []
    for size in sorted({size for size, _ in times}):
        means = {a: float(np.mean(t)) for (s, a), t in times.items() if s == size}
        best = Point.of({"algorithm": min(means, key=means.__getitem__)})
        if not rules or rules[-1].choice != best:
            rules.append(Rule("allreduce", ranks, size if rules else 0, best))
    return tuple(rules), number


def with_algorithm(algorithm: int, rendering: Rendering) -> Rendering:
    """The launch with one algorithm of allreduce forced, by its number, in the environment."""
    forced = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": str(algorithm),
    }
    return replace(rendering, env={**rendering.env, **forced})


def compared(observer: Observer, sides: dict[str, Recommendation]) -> dict[str, list[Observation]]:
    """Launches of all sides in blocks, in any order."""
    rng = np.random.default_rng(1)
    seen: dict[str, list[Observation]] = {name: [] for name in sides}
    number = 0
    for block in range(LAUNCHES // EACH):
        for name in rng.permutation(list(sides) * EACH):
            number += 1
            subject = Subject.UNTOUCHED if name == "default" else Subject.DEPLOYED
            side = sides[name]
            trial = Trial(number, Phase.VERIFY, side.point, subject, block, number, rules=side.rules)
            seen[name].append(observer.observe(trial))
    return seen


def shown(c: Comparison) -> str:
    """A speed-up with its interval."""
    return f"{math.exp(c.gain):.2f}× ({math.exp(c.low):.2f} … {math.exp(c.high):.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
