"""The truth about a stack's knobs, one level at a time, and how much of it discoveries found.

    python benchmarks/discovery.py measure truth.jsonl [--rounds 10] [--lane 0/1] conf=allreduce_local
    python benchmarks/discovery.py compare truth.jsonl campaigns/DIR ...

``measure`` launches every level of every performance knob that is in effect here, each against the default
of its arm (ob1, and what other values of a parameter put into effect) or, as in a discovery, against what
it needs alone (a component's own knob against the component), in interleaved rounds: in each round a group
of levels and their base, in an order of its own. A JSON line is kept for each level. The same command
continues; when all are measured, with those of which fewer than seven rounds worked. ``--lane K/N`` measures
the groups K, K + N, ..., so that several processes can share the work, each on cores of its own.

``compare`` reads campaigns (``space=discover``) and prints beside the truth what each found. A level is
*true* where some size moves by 10 % or more and by more than chance over all levels and sizes: a moderated
t test (Smyth 2004) of the 20 % trimmed mean over the rounds (Tukey and McLaughlin 1963), Benjamini and
Hochberg at 5 %. What a discovery calls active is *false* where no size is faster by that test, what it calls
harmful where none is slower.

The truth of the tables in docs/knobs.md is kept in ``benchmarks/truths``.
"""

import argparse
import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import digamma, polygamma
from scipy.stats import t, trim_mean

from autotune.campaign.bench import Bench
from autotune.campaign.directory import read_campaign
from autotune.campaign.discovery import Discovery, curve_in
from autotune.campaign.observing import measurement_of
from autotune.campaign.spec import campaign_in
from autotune.commands.hydra_bridge import run_task
from autotune.history.journal import read_events
from autotune.history.trial import Phase, Subject, Trial
from autotune.scenario import Scenario
from autotune.scenario.sections import Discover
from autotune.screening.discovery import Arm, Change, Run
from autotune.screening.discovery.fit import false_discovery_set

Floats = NDArray[np.float64]

Key = tuple[int, str, str]
"""(arm, knob, level)."""
GROUP = 6
"""Levels that share a default launch in each round."""
MOVES = math.log(1.1)
"""Ln of the ratio from which on a level is to be found."""
FEWEST = 3
"""Pairs of a level below which nothing is said of it."""
ENOUGH = 7
"""Pairs on near cores from which on a level is not measured again."""
RATE = 0.05
"""Of false discoveries in the truth."""


def measure(scenario: Scenario, bench: Bench, out: Path, rounds: int, lane: tuple[int, int]) -> int:
    """Launch what is not in the file yet."""
    assert bench.knobs is not None, "say space=discover"
    discovery = Discovery(bench.whole, all_levels(scenario), scenario.seed)
    directory = scenario.directory
    observer = bench.observer(measurement_of(scenario, bench.placement.ranks), bench.whole, directory)
    known = rows(out)
    enough = {key_of(row) for row in known if row["failed"] or len(row["pairs"]) >= min(ENOUGH, rounds)}
    number = 0
    for at, (arm, needs, group) in enumerate(groups(discovery)):
        told = [[name, value] for name, value in sorted(needs)]
        right = {key_of(row) for row in known if row["needs"] == told}
        left = [c for c in group if (arm, c[0], str(c[1])) not in enough & right]
        if at % lane[1] != lane[0] or not left:
            continue
        curves: dict[Change | None, list[tuple[float, ...]]] = defaultdict(list)
        reasons: dict[Change | None, str] = {}
        for round_ in range(rounds):
            order: list[Change | None] = [None, *(c for c in left if c not in reasons)]
            for i in np.random.default_rng([at, round_, len(known)]).permutation(len(order)):
                change, number = order[i], number + 1
                together = discovery.arms[arm].complete(needs | ({change} if change else set()))
                point = discovery.point(Run(arm, together, 1))
                trial = Trial(number, Phase.DISCOVERY, point, Subject.DEPLOYED, seed=number, timeout_s=12.0)
                seen = observer.observe(trial)
                curves[change].append(curve_in(seen))
                if not seen.ok and change is not None and sum(not c for c in curves[change]) > 1:
                    reasons[change] = f"{seen.status}: {seen.reason}"
        with out.open("a") as file:
            for change in left:
                pairs = [
                    [round(b - a, 4) for a, b in zip(base, mine, strict=True)]
                    for base, mine in zip(curves[None], curves[change], strict=False)
                    if len(base) == len(mine) > 0
                ]
                line = {"arm": arm, "knob": change[0], "level": change[1], "needs": told}
                file.write(json.dumps(line | {"pairs": pairs, "failed": reasons.get(change, "")}) + "\n")
        print(f"group {at}: {', '.join(f'{n}={v}' for n, v in left)}", flush=True)
    return 0


def all_levels(scenario: Scenario) -> Discover:
    """What its discovery may cost, with every level of each knob."""
    return replace(scenario.discover, levels=sys.maxsize)


def groups(discovery: Discovery) -> Iterator[tuple[int, frozenset[Change], Sequence[Change]]]:
    """(arm, what they need, levels) that are measured together: of different knobs, as far as they go."""
    for number, arm in enumerate(discovery.arms):
        kinds: dict[frozenset[Change], list[Change]] = defaultdict(list)
        for change in arm.changes:
            kinds[arm.needed(change)].append(change)
        for needs, changes in kinds.items():
            n = math.ceil(len(changes) / GROUP)
            yield from ((number, needs, changes[i::n]) for i in range(n))


def rows(path: Path) -> list[dict[str, Any]]:
    """What was measured so far, a row for each level: its later pairs beside the earlier ones.

    Those against another base are replaced.
    """
    merged: dict[tuple[Key, str], dict[str, Any]] = {}
    lines = path.read_text().splitlines() if path.exists() else []
    for row in ({"needs": []} | json.loads(line) for line in lines):
        key = key_of(row), json.dumps(row["needs"])
        earlier = merged.pop(key, {"pairs": []})
        merged[key] = row | {"pairs": earlier["pairs"] + row["pairs"]}
    return list({key: row for (key, _), row in merged.items()}.values())


def key_of(row: Mapping[str, Any]) -> Key:
    """Which level a row is of."""
    return row["arm"], row["knob"], str(row["level"])


@dataclass(frozen=True)
class Level:
    """One level of one knob, as the truth has it."""

    arm: int
    knob: str
    level: str
    effect: Floats
    """Ln of its time over that of what it needs alone, mostly the default, at each size."""
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


def trimmed(pairs: Floats) -> tuple[Floats, Floats, int]:
    """Trimmed mean of each column, its standard error and degrees of freedom."""
    n, cut = len(pairs), int(0.2 * len(pairs))
    kept = trim_mean(pairs, 0.2, axis=0)
    ordered = np.sort(pairs, axis=0)
    winsorized = np.clip(pairs, ordered[cut], ordered[n - 1 - cut])
    sem = winsorized.std(axis=0, ddof=1) / ((1 - 2 * cut / n) * math.sqrt(n))
    return np.asarray(kept), np.asarray(sem), n - 2 * cut - 1


def moderated(variances: Floats, freedom: Floats) -> tuple[Floats, Floats]:
    """Variances of the levels, shrunk towards what is common to them, and the degrees of freedom that adds.

    With a few pairs of each level the variances themselves are known badly (empirical Bayes: Smyth,
    Statistical Applications in Genetics and Molecular Biology 3:3, 2004, section 6.2).

    Args:
        variances: Shape ``(n_levels, n_sizes)``.
        freedom: Degrees of freedom of each, ``(n_levels, 1)``.
    """
    logs = np.log(variances) - digamma(freedom / 2) + np.log(freedom / 2)
    spread = logs.var(axis=0, ddof=1) - polygamma(1, freedom / 2).mean()
    more = np.array([2 * _inverse_trigamma(max(x, 1e-3)) for x in spread])
    common = np.exp(logs.mean(axis=0) + digamma(more / 2) - np.log(more / 2))
    return (more * common + freedom * variances) / (more + freedom), more


def _inverse_trigamma(wanted: float) -> float:
    return float(brentq(lambda x: polygamma(1, x) - wanted, 1e-4, 1e4))


def truth(path: Path, arms: Sequence[Arm]) -> list[Level]:
    """Every level, with what is more than chance."""
    measured = rows(path)
    names = [key_of(row) for row in measured]
    pairs_of = {name: np.array(row["pairs"], dtype=float) for name, row in zip(names, measured, strict=True)}
    told: dict[Key, tuple[Floats, Floats, Floats]] = {}
    for arm in range(len(arms)):
        mine = {name: of for name, of in pairs_of.items() if name[0] == arm and len(of) >= FEWEST}
        seen = {name: trimmed(pairs) for name, pairs in mine.items()}
        counts = np.array([[len(pairs)] for pairs in mine.values()])
        freedom = np.array([[of[2]] for of in seen.values()], dtype=float)
        variances = np.array([of[1] for of in seen.values()]) ** 2 * counts
        shrunk, more = moderated(np.maximum(variances, 1e-9), freedom)
        told |= {
            name: (of[0], shrunk[k] / counts[k], freedom[k] + more)
            for k, (name, of) in enumerate(seen.items())
        }
    effects, chances = dict[Key, Floats](), []
    for name, (mean, variance, freedom) in told.items():
        effects[name] = mean
        chances.append(2 * t.sf(np.abs(mean) / np.sqrt(variance), freedom))
    flat = false_discovery_set(np.concatenate(chances), RATE) if chances else np.zeros(0, bool)
    sure = dict(zip(effects, flat.reshape(len(chances), -1), strict=True))
    nothing, never = np.zeros(0), np.zeros(0, bool)
    return [
        Level(*name, effects.get(name, nothing), sure.get(name, never), row["failed"])
        for name, row in zip(names, measured, strict=True)
    ]


def compare(path: Path, directories: Sequence[Path]) -> None:
    """Print the truth, and what each campaign found of it."""
    first = campaign_in(read_events(directories[0]))
    assert first is not None
    every = Discovery(first.whole, all_levels(first.scenario), 0)
    levels = truth(path, every.arms)
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
        about = campaign_in(read_events(directory))
        assert about is not None
        discovery = Discovery(about.whole, about.scenario.discover, about.scenario.seed)
        verified = campaign.conclude()
        print(f"{directory}: {verified.verdict.text if verified.verdict else 'not verified'}")
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
    folder = f"campaign.dir={options.truth.with_suffix('')}-{lane[0]}"
    task = partial(measure, out=options.truth, rounds=options.rounds, lane=lane)
    run_task(task, [*options.words, "space=discover", folder])


if __name__ == "__main__":
    main()
