"""What a whole campaign reaches, verified, beside what tuning algorithms alone reaches.

    python benchmarks/end_to_end.py speed [KEY=VALUE …]     conf=allreduce_local, then four sides compared
    python benchmarks/end_to_end.py ceiling [KEY=VALUE …]   what there is to be had on this machine at all
    python benchmarks/end_to_end.py file  [KEY=VALUE …]     a decision file for twelve collectives

``speed``: the campaign; then the sweep of the usual tuning scripts: one launch for each algorithm of
``coll_tuned``, three repetitions, the best at each size written as rules. Then the untouched stack, UCX with
its own defaults, the campaign's files and the sweep's rules are compared on fresh launches in randomised
blocks, so that all are scored on launches that they were not picked on. Target: geometric mean of the
campaign's speed-up over the untouched stack at least 1.3, and no size seen slower beyond its interval; how
much of that UCX brings without any tuning, and what tuning adds to it, is told beside.

``ceiling``: every pml, transport and rendezvous threshold with every algorithm and segment size, four times
over in random order. What is best on two of the passes is scored on the other two, both ways round: the best
at each size by itself (more than any file can say), and the best one setting.

``file``: twelve collectives over UCX on both sides, all communicator sizes inside each launch, only what a
rules file can say.
Target: at most 12 launches to find it; those of the verification are told beside.
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
from autotune.history.objectives import by_setting, envelope
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
PASSES = 4
TARGET = 1.3
COLLECTIVES = (
    "allreduce",
    "reduce",
    "bcast",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "gather",
    "scatter",
    "reduce_scatter",
    "reduce_scatter_block",
    "barrier",
)


def main() -> int:
    """Run a part; 1 where its target was missed."""
    parts = {"speed": speed, "ceiling": ceiling, "file": decision_file}
    if len(sys.argv) < 2 or sys.argv[1] not in parts:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder:
        return parts[sys.argv[1]](Path(folder), sys.argv[2:])


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
    print(f"\n{about.site.description}, {about.site.ranks} ranks; {LAUNCHES} fresh launches of each side")
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


def ceiling(folder: Path, words: list[str]) -> int:
    """What the best of everything reaches, picked on half of the launches and scored on the other half."""
    fixed = ["UCX_ZCOPY_THRESH=auto", "bind_to=default", "coll_han=on"]
    plan = ["proposer=random", "screening.enabled=false", "verify.enabled=false", "confirm.share=0"]
    passes = []
    for seed in range(PASSES):
        limits = [f"seed={seed}", "budget.launches=500", "budget.seconds=null", "baseline.launches=8"]
        passes.append(
            campaign(folder / f"pass{seed}", [*plan, *limits, *(f"fix.{f}" for f in fixed), *words])
        )
    record = passes[0]
    gains: dict[str, list[np.ndarray]] = {"best at each size": [], "best one setting": []}
    for picked in range(2):
        choosing, scoring = (log_times(passes[half::2]) for half in (picked, 1 - picked))
        settings = sorted(choosing.keys() & scoring.keys(), key=str)
        chosen = np.array([choosing[s] for s in settings])  # (n_settings, n_sizes)
        scored = np.array([scoring[s] for s in settings])
        default = scoring["default"]
        sizes = np.arange(chosen.shape[1])
        gains["best at each size"].append(default - scored[chosen.argmin(axis=0), sizes])
        gains["best one setting"].append(default - scored[chosen.mean(axis=1).argmin()])
    launches = sum(len(p.history) for p in passes)
    print(f"\n{record.about.site.description}, {record.about.site.ranks} ranks; {launches} launches")
    for name, halves in gains.items():
        ratios = ", ".join(f"{np.exp(half.mean()):.2f}×" for half in halves)
        by_size = " ".join(f"{r:.2f}" for r in np.exp(np.mean(halves, axis=0)))
        print(f"{name}: {ratios} over the untouched stack; by size {by_size}")
    return 0


def log_times(records: list[CampaignDirectory]) -> dict[str, np.ndarray]:
    """Setting → ln of the best time at each size, mean over these passes; ``default``: the untouched one."""
    seen: dict[str, list[np.ndarray]] = defaultdict(list)
    for record in records:
        space = record.about.space
        groups = by_setting(space, record.history.of_points(space))
        untouched = {"default": list(record.history.of(Phase.BASELINE))}
        for name, group in [*groups.items(), *untouched.items()]:
            curve = envelope(space, group)
            seen[str(name)].append(np.log([curve[slot].median_s for slot in sorted(curve)]))
    return {name: np.mean(curves, axis=0) for name, curves in seen.items() if len(curves) == len(records)}


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


def decision_file(folder: Path, words: list[str]) -> int:
    """How many launches a decision file for twelve collectives takes."""
    fixed = ["UCX_TLS=all", "UCX_RNDV_THRESH=auto", "UCX_ZCOPY_THRESH=auto", "bind_to=default"]
    ucx = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
    record = campaign(
        folder / "campaign",
        [
            f"collective=[{','.join(COLLECTIVES)}]",
            "sizes=8..1M*8",
            "budget.launches=4",
            "baseline.launches=2",
            "verify.launches=8",
            "proposer=random",
            "probe.budget_s=20",
            *(f"mpi.mca.{name}={value}" for name, value in ucx.items()),
            *(f"fix.{name}" for name in fixed),
            *words,
        ],
    )
    comm_sizes = len({e.cell.comm_size for o in record.history for e in o.usable})
    algorithms = sum(len(coll_tuned.algorithms(c, (5, 0))) - 1 for c in COLLECTIVES)
    recommendation = record.recommended()
    rules = coll_tuned.table(recommendation.rules)
    rows = sum(len(rows) for by_size in rules.values() for rows in by_size.values())
    verified = len(record.history.of(Phase.VERIFY))
    launches = len(record.history) - verified
    print(f"\n{record.about.site.description}, {record.about.site.ranks} ranks")
    print(
        f"{len(COLLECTIVES)} collectives × {comm_sizes} communicator size(s): "
        f"{launches} launches, {verified} more to verify"
    )
    print(f"  rules for {len(rules)} collectives in {rows} rows; the others keep the stack's own choice")
    print(f"  {recommendation.provenance.verified}")
    one_each = algorithms * comm_sizes * REPETITIONS
    print(f"one launch for each algorithm, communicator size and repetition: {one_each} launches")
    return 0 if launches <= 12 else 1


def shown(c: Comparison) -> str:
    """A speed-up with its interval."""
    return f"{math.exp(c.gain):.2f}× ({math.exp(c.low):.2f} … {math.exp(c.high):.2f})"


if __name__ == "__main__":
    raise SystemExit(main())
