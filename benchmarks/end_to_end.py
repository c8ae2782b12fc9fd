"""What people do today, side by side: nothing, UCX alone, another machine's file, a sweep, a campaign.

    python benchmarks/end_to_end.py speed [KEY=VALUE …]

First the campaign ``conf=allreduce_local``, then a sweep as it is made by hand: one launch for each algorithm
of ``coll_tuned``, the best at each size written as rules. Then all sides are launched afresh, so that all are
scored on launches that they were not picked on. The launches of a block are alive at once on the same cores
and measure in turns, in an order drawn at random (a heat), so that all sides meet the same moments. The
untouched stack is a side twice: the second row shows what launches of one setting differ by. Printed is the
table of ``docs/today.md``: the geometric mean of the speed-up over all sizes, what it cost, and the worst
size. The other machine's file is what a campaign recommended on an Intel Xeon with two cores on 26 November
2026 (``README.md``, "What comes out").

Target: geometric mean of the campaign's speed-up over the untouched stack at least 1.3, and no size seen
slower beyond its interval.
"""

from __future__ import annotations

import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean, stdev

from scipy.stats import t

from autotune.campaign.bench import Bench
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.campaign.turns import Side, Turn, are_heats, take_turns
from autotune.commands.hydra_bridge import connected
from autotune.errors import ExitCode
from autotune.history.objectives import Slot
from autotune.history.trial import Observation, Phase, Rule, Subject, Trial
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.space import Point, Value
from autotune.stacks import coll_tuned
from autotune.stacks.ports import Rendering
from autotune.verification.blocks import Block, blocks_of
from autotune.verification.sequential import SequentialDesign
from autotune.views.text import size_text

LAUNCHES = 16
TARGET = 1.3
ELSEWHERE: dict[str, Value] = {
    "pml": "ucx",
    "UCX_TLS": "self,sysv,cma",
    "UCX_ZCOPY_THRESH": "16k",
    "UCX_MM_FIFO_ELEM_SIZE": 256,
    "bind_to": "none",
}
"""What a campaign recommended on another machine; the module's text has its source."""


@dataclass(frozen=True)
class Way:
    """One way to choose settings."""

    name: str
    setting: Recommendation
    spent: str  # What choosing cost.
    subject: Subject = Subject.DEPLOYED

    def trial(self, turn: Turn) -> Trial:
        """Return a fresh launch of the settings."""
        about = (Phase.VERIFY, self.setting.point, self.subject, turn.block, turn.seed)
        return Trial(turn.number, *about, rules=self.setting.rules)


@dataclass(frozen=True)
class Speed:
    """A speed-up with its 95 % interval: Student's, of ln over blocks, which differ in their moments."""

    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, gains: Sequence[float]) -> Speed:
        """Of ln of the speed-up in each block."""
        if len(gains) < 2:
            return cls(math.nan, 0.0, math.inf)
        half = float(t.ppf(0.975, len(gains) - 1)) * stdev(gains) / math.sqrt(len(gains))
        return cls(*(math.exp(fmean(gains) + by) for by in (0.0, -half, half)))

    def __str__(self) -> str:
        return f"{self.ratio:.2f}× ({self.low:.2f} … {self.high:.2f})"


def main() -> int:
    """Run it; 1 where its target was missed."""
    if sys.argv[1:2] != ["speed"]:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory(prefix="end-to-end-") as folder:
        return speed(Path(folder), sys.argv[2:])


def campaign(directory: Path, words: list[str]) -> CampaignDirectory:
    """A campaign, shown as it goes; one that ends unverified is scored as well."""
    command = [sys.executable, "-m", "autotune", "conf=allreduce_local", f"campaign.dir={directory}", *words]
    code = subprocess.run(command).returncode
    if code not in (ExitCode.WELL, ExitCode.FINDING, ExitCode.STUCK):
        sys.exit(code)
    return read_campaign(directory)


def speed(folder: Path, words: list[str]) -> int:
    """The speed-up of each way, on fresh launches."""
    beforehand, began = machine(), time.monotonic()
    record = campaign(folder / "campaign", words)
    campaign_s = time.monotonic() - began
    about, scenario = record.about, record.about.scenario
    bench = connected(about.bench.launcher, scenario)
    measurement = measurement_of(scenario, bench.placement.ranks)
    began = time.monotonic()
    rules, n_swept = algorithm_sweep(bench, measurement, folder / "sweep")
    sweep_s = time.monotonic() - began
    default, found = Recommendation(about.space.default, ()), record.recommended()
    verified = "" if found.provenance.checked is Checked.HOLDS else ", which ended unverified"
    ways = [
        Way("nothing", default, "", Subject.UNTOUCHED),
        Way("nothing, once more", default, "0", Subject.UNTOUCHED),
        Way("UCX alone, with its defaults", Recommendation(about.space.complete({"pml": "ucx"}), ()), "0"),
        Way("another machine's file", Recommendation(about.space.complete(ELSEWHERE), ()), "0"),
        Way("a sweep by hand", replace(default, rules=rules), spent(bench, sweep_s, n_swept)),
        Way(f"a campaign{verified}", found, spent(bench, campaign_s, len(record.history))),
    ]
    observer = bench.observer(measurement, about.space, folder / "compared")
    seen, heats = compared(observer, ways)
    how = "alive at once" if heats else "one after the other"
    print(f"\n{bench.description}, {bench.placement.ranks} ranks, {beforehand};", end=" ")
    print(f"{LAUNCHES} launches of each, {how}\n")
    print("| | geometric mean (95 %) | node-minutes, launches | worst size (95 %) |")
    print("|---|---|---|---|")
    results: list[tuple[Speed, dict[Slot, Speed]]] = []
    for way, launches in zip(ways[1:], seen[1:], strict=True):
        results.append(speeds(blocks_of(seen[0], launches)))
        print(row(way, *results[-1], launches))
    for way, (_, by_slot) in zip(ways[1:], results, strict=True):
        print(f"\n{way.name}")
        for slot, one in by_slot.items():
            print(f"  {size_text(slot[2]):>9}  {one}{'  LOSES' if one.high < 1 else ''}")
    print(f"\ncampaign over UCX with its own defaults: {speeds(blocks_of(seen[2], seen[-1]))[0]}")
    total, by_slot = results[-1]
    reached = total.ratio >= TARGET and not any(one.high < 1 for one in by_slot.values())
    print(f"target {TARGET}×, no size seen slower beyond its interval: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


def spent(bench: Bench, seconds: float, launches: int) -> str:
    """What choosing cost."""
    return f"{seconds * bench.placement.nodes / 60:.1f}, {launches}"


def machine() -> str:
    """What else decides the figures: cores, and what they do already."""
    models = {
        x.partition(": ")[2] for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x
    }
    load = f"load average {os.getloadavg()[1]:.1f}"
    cores = f"{len(os.sched_getaffinity(0))} cores of {', '.join(models) or platform.machine()}"
    return f"{cores}, {load}, {datetime.now(UTC):%Y-%m-%d}"


def row(way: Way, total: Speed, by_slot: dict[Slot, Speed], launches: Sequence[Observation]) -> str:
    """The row of one way in the table."""
    failed = sum(not o.ok for o in launches)
    name = f"{way.name} ({failed} of {len(launches)} launches failed)" if failed else way.name
    if not by_slot:
        return f"| {name} | nothing could be compared | {way.spent} | |"
    slot = min(by_slot, key=lambda slot: by_slot[slot].ratio)
    return f"| {name} | {total} | {way.spent} | {by_slot[slot]} at {size_text(slot[2])} |"


def speeds(blocks: Sequence[Block]) -> tuple[Speed, dict[Slot, Speed]]:
    """The geometric mean over the sizes that worked in each block, and each of these sizes."""
    gains: dict[Slot, list[float]] = {}
    for slot in sorted(set[Slot]().union(*(block.slots for block in blocks))):
        of_slot = [block.gains(slot) for block in blocks]
        if all(of_slot):
            gains[slot] = [fmean(of_block) for of_block in of_slot]
    means = [fmean(of_block) for of_block in zip(*gains.values(), strict=True)]
    return Speed.of(means), {slot: Speed.of(of_slot) for slot, of_slot in gains.items()}


def algorithm_sweep(bench: Bench, measurement: Measurement, directory: Path) -> tuple[tuple[Rule, ...], int]:
    """The best algorithm at each size, by one launch for each algorithm; and how many."""
    times: dict[int, dict[int, float]] = defaultdict(dict)
    ranks = bench.placement.ranks
    n_algorithms = len(coll_tuned.algorithms("allreduce", (5, 0)))
    for algorithm in range(n_algorithms):
        forced = replace(measurement, amended=partial(with_algorithm, algorithm))
        number = algorithm + 1
        trial = Trial(number, Phase.SEARCH, bench.space.default, Subject.UNTOUCHED, seed=number)
        for e in bench.observer(forced, bench.space, directory).observe(trial).usable:
            times[e.cell.message_bytes][algorithm] = e.median_s
    rules: list[Rule] = []
    for size, by_algorithm in sorted(times.items()):
        best = Point.of({"algorithm": min(by_algorithm, key=by_algorithm.__getitem__)})
        if not rules or rules[-1].choice != best:
            rules.append(Rule("allreduce", ranks, size if rules else 0, best))
    return tuple(rules), n_algorithms


def with_algorithm(algorithm: int, rendering: Rendering) -> Rendering:
    """The launch with one algorithm of allreduce forced, by its number, in the environment."""
    forced = {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allreduce_algorithm": str(algorithm),
    }
    return replace(rendering, env={**rendering.env, **forced})


def compared(observer: Observer, ways: Sequence[Way]) -> tuple[list[list[Observation]], bool]:
    """Launches of all ways, and whether those of a block were alive at once."""
    sides = [Side(way.name, observer, way.trial) for way in ways]
    heats = are_heats(sides)
    seen: list[list[Observation]] = [[] for _ in ways]
    for block in take_turns(sides, SequentialDesign(LAUNCHES, heats=heats)):
        for turn, observation in block:
            seen[turn.side].append(observation)
            if not observation.ok:
                print(f"{ways[turn.side].name}: {observation.status}: {observation.reason}", file=sys.stderr)
    return seen, heats


if __name__ == "__main__":
    raise SystemExit(main())
