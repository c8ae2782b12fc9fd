"""The truth about a stack's knobs, one level at a time, and how much of it discoveries found.

    python benchmarks/discovery_truth.py measure truth.jsonl [--rounds 10] [--lane 0/1] conf=allreduce_local
    python benchmarks/discovery_truth.py compare truth.jsonl campaigns/DIR ...

``measure`` launches every level of every performance knob that is in effect here, each against the default of
its arm (ob1, and what other values of a parameter put into effect), in interleaved rounds: in each round a
group of levels and the default, in an order of its own. A JSON line is kept for each level; the same command
continues. ``--lane K/N`` measures the groups K, K + N, ..., so that several processes can share the work,
each on cores of its own.

``compare`` reads campaigns (``space=discover``) and prints beside the truth what each found. A level is
*true* where some size moves by 10 % or more and by more than chance over all levels and sizes (t test over
the rounds, Benjamini and Hochberg, 5 %). What a discovery calls active is *false* where no size is faster by
that test, what it calls harmful where none is slower.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from autotune.campaign.directory import read_campaign
from autotune.campaign.discovery import Discovery
from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.commands.hydra_bridge import run_task
from autotune.history.trial import Phase, Subject, Trial
from autotune.scenario import Scenario
from autotune.screening.discovery import Change, Run
from autotune.screening.discovery.fit import false_discovery_set

GROUP = 6
"""Levels that share a default launch in each round."""
MOVES = math.log(1.1)
"""Ln of the ratio from which on a level is to be found."""
RATE = 0.05
"""Of false discoveries in the truth."""


def measure(scenario: Scenario, site: Site, out: Path, rounds: int, lane: tuple[int, int]) -> int:
    """Launch what is not in the file yet."""
    assert site.knobs is not None, "say space=discover"
    discovery = Discovery(site.whole, scenario.discover, scenario.seed, levels=sys.maxsize)
    directory = scenario.directory
    observer = site.observer(measurement_of(scenario, site.placement.ranks), site.whole, directory)
    made = {(row["arm"], row["knob"], str(row["level"])) for row in rows(out)}
    number = 0
    for at, (arm, group) in enumerate(groups(discovery)):
        left = [c for c in group if (arm, c[0], str(c[1])) not in made]
        if at % lane[1] != lane[0] or not left:
            continue
        curves: dict[Change | None, list[list[float]]] = defaultdict(list)
        reasons: dict[Change | None, str] = {}
        for round_ in range(rounds):
            order: list[Change | None] = [None, *(c for c in left if c not in reasons)]
            for i in np.random.default_rng([at, round_]).permutation(len(order)):
                change, number = order[i], number + 1
                together = discovery.arms[arm].complete(frozenset([change] if change else []))
                point = discovery.point(Run(arm, together, 1))
                trial = Trial(number, Phase.DISCOVERY, point, Subject.DEPLOYED, seed=number, timeout_s=12.0)
                seen = observer.observe(trial)
                usable = sorted(seen.usable, key=lambda e: (e.cell.collective, e.cell.message_bytes))
                curves[change].append([math.log(e.median_s) for e in usable] if seen.ok else [])
                if not seen.ok and change is not None and sum(not c for c in curves[change]) > 1:
                    reasons[change] = f"{seen.status}: {seen.reason}"
        with out.open("a") as file:
            for change in left:
                pairs = [
                    [b - a for a, b in zip(base, mine, strict=True)]
                    for base, mine in zip(curves[None], curves[change], strict=False)
                    if len(base) == len(mine) > 0
                ]
                line = {"arm": arm, "knob": change[0], "level": change[1], "pairs": pairs}
                file.write(json.dumps(line | {"failed": reasons.get(change, "")}) + "\n")
        print(f"group {at}: {', '.join(f'{n}={v}' for n, v in left)}", flush=True)
    return 0


def groups(discovery: Discovery) -> Iterator[tuple[int, Sequence[Change]]]:
    """(arm, levels) that are measured together: of different knobs, as far as they go."""
    for number, arm in enumerate(discovery.arms):
        changes = list(arm.changes)
        n = math.ceil(len(changes) / GROUP)
        yield from ((number, changes[i::n]) for i in range(n))


def rows(path: Path) -> list[dict[str, Any]]:
    """What was measured so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@dataclass(frozen=True)
class Level:
    """One level of one knob, as the truth has it."""

    arm: int
    knob: str
    level: str
    effect: NDArray[np.float64]
    """Ln of its time over the default's at each size."""
    sure: NDArray[np.bool_]
    """Whether that is more than chance."""
    failed: str

    @property
    def helps(self) -> bool:
        """Whether some size is faster by 10 % or more."""
        return bool((self.sure & (self.effect <= -MOVES)).any())

    @property
    def hurts(self) -> bool:
        """Whether some size is slower by 10 % or more."""
        return bool((self.sure & (self.effect >= MOVES)).any())

    def moves(self, faster: bool) -> bool:
        """Whether any size moves that way at all."""
        return bool((self.sure & ((self.effect < 0) == faster)).any())


def truth(path: Path) -> list[Level]:
    """Every level, with what is more than chance."""
    measured = rows(path)
    effects, chances = [], []
    for row in measured:
        pairs = np.asarray(row["pairs"], dtype=float)
        if len(pairs) < 3:
            effects.append(np.zeros(0))
            continue
        mean, sem = pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))
        effects.append(mean)
        chances.append(2 * t.sf(np.abs(mean) / np.maximum(sem, 1e-9), len(pairs) - 1))
    flat = false_discovery_set(np.concatenate(chances), RATE) if chances else np.zeros(0, bool)
    told, levels = 0, []
    for row, effect in zip(measured, effects, strict=True):
        sure = flat[told : told + len(effect)]
        told += len(effect)
        levels.append(Level(row["arm"], row["knob"], str(row["level"]), effect, sure, row["failed"]))
    return levels


def compare(path: Path, directories: Sequence[Path]) -> None:
    """Print the truth, and what each campaign found of it."""
    levels = truth(path)
    launches = sum(len(row["pairs"]) for row in rows(path))
    known = {(x.arm, x.knob, x.level): x for x in levels}
    moving = [x for x in levels if x.helps or x.hurts]
    helping, hurting = (sum(x.helps for x in levels), sum(x.hurts and not x.helps for x in levels))
    print(
        f"truth: {len(levels)} levels, {launches} launches of them; {helping} help by 10 % or more at some "
        f"size, {hurting} only hurt, {sum(bool(x.failed) for x in levels)} fail"
    )
    found: dict[tuple[int, str, str], list[str]] = defaultdict(list)
    for directory in directories:
        campaign = read_campaign(directory)
        about = campaign.about
        discovery = Discovery(about.whole, about.scenario.discover, about.scenario.seed)
        result = discovery.found(campaign.history)
        tried = {(n, c[0], str(c[1])) for n, arm in enumerate(discovery.arms) for c in arm.changes}
        active = {(e.arm, e.change[0], str(e.change[1])) for e in result.active}
        harmful = {(e.arm, e.change[0], str(e.change[1])) for e in result.harmful}
        for key in active | harmful:
            found[key].append("+" if key in active else "-")
        for name, wanted, seen in (
            ("help", [x for x in moving if x.helps], active),
            ("move (help or hurt)", moving, active | harmful),
        ):
            keys = {(x.arm, x.knob, x.level) for x in wanted} & tried
            knobs = {key[:2] for key in seen}
            by_knob = {(x.arm, x.knob) for x in wanted}
            made = len(campaign.history.of(Phase.DISCOVERY))
            print(
                f"{directory}: {made} launches; levels that {name}: found {len(keys & seen)} of {len(keys)} "
                f"tried; knobs {len(by_knob & knobs)} of {len(by_knob)}"
            )
        wrong = [k for k in active if k in known and not known[k].moves(faster=True)]
        wrong += [k for k in harmful if k in known and not known[k].moves(faster=False)]
        print(f"{directory}: false {len(wrong)} of {len(active | harmful)} {wrong or ''}")
    print("arm  knob=level  largest gain, largest loss over the sizes  found (+ helps, - hurts)")
    for x in sorted(moving, key=lambda x: float(x.effect.min())):
        gain, loss = math.exp(-x.effect.min()), math.exp(-x.effect.max())
        print(
            f"{x.arm}  {x.knob}={x.level}  {gain:.2f}x {loss:.2f}x  {''.join(found[x.arm, x.knob, x.level])}"
        )


def main() -> None:
    """One of the two."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["measure", "compare"])
    parser.add_argument("truth", type=Path)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--lane", default="0/1", help="K/N")
    parser.add_argument("words", nargs="+", help="of a scenario, or campaigns")
    options = parser.parse_args()
    if options.what == "compare":
        compare(options.truth, [Path(word) for word in options.words])
        return
    lane = tuple(map(int, options.lane.split("/")))
    words = [*options.words, "space=discover", f"campaign.dir={options.truth.with_suffix('')}-{lane[0]}"]
    run_task(lambda scenario, site: measure(scenario, site, options.truth, options.rounds, lane), words)


if __name__ == "__main__":
    main()
