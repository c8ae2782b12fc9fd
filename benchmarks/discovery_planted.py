"""How well a discovery finds planted knobs, by size of effect, and what other designs would have found.

    python benchmarks/discovery_planted.py [--seeds 20] [--launches 240] [--noise 0.04]
    python benchmarks/discovery_planted.py --every-level [--seeds 5] --launches 600 --share 0 0.125

Each seed plants 1 to 8 active knobs of 40 to 150, with levels that end launches and levels that hang. Printed
are recall by size of effect, the rate of false discoveries, and launches lost to bad levels. A level is to be
found if it moves some size by 10 % or more.

``--every-level`` plants as many as a stack really has: 30 of 240 levels.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from autotune.screening.discovery import Arm, Change, DiscoveryDesign, DiscoveryResult, Run, found
from autotune.screening.discovery.fit import false_discovery_set, sparse_fit
from autotune.simulate.planted import Level, Truth
from autotune.space import Value

N_SIZES = 8
BANDS = ((0.10, 0.15), (0.15, 0.25), (0.25, 0.70))
"""Ranges of |log ratio| by which recall is printed."""


@dataclass
class Tally:
    """What was found of what was planted."""

    found: dict[tuple[float, float], int] = field(default_factory=lambda: defaultdict(int))
    planted: dict[tuple[float, float], int] = field(default_factory=lambda: defaultdict(int))
    true: int = 0
    false: int = 0
    launches: int = 0
    failed: int = 0
    aside: int = 0
    bad: int = 0
    blamed: int = 0

    def line(self, name: str) -> str:
        """One row of the table."""
        recall = "  ".join(f"{self.found[b]:3d}/{self.planted[b]:<3d}" for b in BANDS)
        rate = self.false / max(self.true + self.false, 1)
        return (
            f"{name:28s} {recall}   {rate:5.1%} of {self.true + self.false:<4d}"
            f"{self.launches:7d} {self.failed:6d}   {self.aside}/{self.bad} ({self.blamed} wrongly)"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--launches", type=int, default=240)
    parser.add_argument("--noise", type=float, default=0.04)
    parser.add_argument("--share", type=float, nargs="*", default=[1 / 16, 1 / 8, 1 / 4])
    parser.add_argument("--every-level", action="store_true")
    arguments = parser.parse_args()
    begun = time.monotonic()
    print(
        "design                       "
        + "  ".join(f"{a:.2f}+  " for a, _ in BANDS)
        + " false          runs failed   set aside"
    )
    for share in arguments.share:
        gains, losses = Tally(), Tally()
        for seed in range(arguments.seeds):
            chosen = crowded(seed) if arguments.every_level else case(seed)
            discover(chosen, seed, arguments.launches, arguments.noise, share, gains, losses)
        print(gains.line(f"random balance {share:.3f}: gains" if share else "one at a time: gains"))
        print(losses.line("                 losses only"))
    others = (("two-level, half off", two_level), ("groups of 8, bisected", groups))
    for name, design in () if arguments.every_level else others:
        tally = Tally()
        for seed in range(arguments.seeds):
            design(seed, arguments.launches, arguments.noise, tally)
        print(tally.line(f"{name}: all"))
    print(f"{time.monotonic() - begun:.0f} s")


class Case(NamedTuple):
    """Knobs, and what they do."""

    arm: Arm
    truth: Truth
    rng: np.random.Generator


def case(seed: int) -> Case:
    """Few of many knobs matter."""
    rng = np.random.default_rng([seed, 17])
    levels = {f"k{i}": list(range(1, int(rng.integers(2, 5)))) for i in range(int(rng.integers(40, 151)))}
    truth = planted(
        levels, N_SIZES, rng, int(rng.integers(1, 9)), int(rng.integers(0, 5)), int(rng.integers(0, 3))
    )
    return Case(_arm(levels), truth, rng)


def crowded(seed: int) -> Case:
    """One level in eight matters."""
    rng = np.random.default_rng([seed, 19])
    levels = {f"k{i}": [1, 2, 3, 4] for i in range(60)}
    truth = planted(levels, N_SIZES, rng, 30, sizes_of_effect=(0.1, 0.7))
    return Case(_arm(levels), truth, rng)


def _arm(levels: Mapping[str, Sequence[Value]]) -> Arm:
    return Arm("", tuple((name, value) for name, values in levels.items() for value in values))


def planted(
    levels: Mapping[str, Sequence[Value]],
    n_sizes: int,
    rng: np.random.Generator,
    active: int,
    fatal: int = 0,
    hanging: int = 0,
    sizes_of_effect: tuple[float, float] = (0.1, 0.6),
) -> Truth:
    """A sparse truth, drawn.

    Args:
        levels: Knob → its levels beside the default.
        n_sizes: Message sizes.
        rng: Draws it.
        active: Knobs with a level that does something; half of these levels help at some size.
        fatal: Levels that end launches.
        hanging: Levels that never end.
        sizes_of_effect: Range of ``|log ratio|``.
    """
    names = [str(name) for name in rng.permutation(list(levels))]
    factors: dict[Level, tuple[float, ...]] = {}
    for i, name in enumerate(names[:active]):
        level = (name, levels[name][int(rng.integers(len(levels[name])))])
        height = rng.uniform(*sizes_of_effect) * (-1 if i % 2 == 0 else 1)
        first = int(rng.integers(n_sizes))
        length = int(rng.integers(1, n_sizes + 1))
        factors[level] = tuple(float(np.exp(height * (first <= s < first + length))) for s in range(n_sizes))
    rest = [(name, v) for name in names[active:] for v in levels[name]]
    at = [int(i) for i in rng.permutation(len(rest))[: fatal + hanging]]
    changed = list(factors)
    together = {frozenset(changed[:2]): float(np.exp(rng.normal(0, 0.1)))} if active > 1 else {}
    return Truth(
        factors,
        frozenset(rest[i] for i in at[:fatal]),
        frozenset(rest[i] for i in at[fatal:]),
        together,
    )


def launch_noise(rng: np.random.Generator, n_sizes: int, spread: float) -> NDArray[np.float64]:
    """Logarithm of a launch's own factor at each size, heavy-tailed: most of it common to all sizes."""
    common = 0.8 * rng.standard_t(3) / np.sqrt(3)
    own = 0.6 * rng.standard_t(3, n_sizes) / np.sqrt(3)
    noise: NDArray[np.float64] = spread * (common + own)
    return noise


def launch(
    truth: Truth, changes: frozenset[Change], rng: np.random.Generator, noise: float
) -> tuple[float, ...]:
    """A curve, or nothing."""
    if truth.fate(changes):
        return ()
    return tuple(np.log(truth.factor(changes, N_SIZES)) + launch_noise(rng, N_SIZES, noise) - 11.0)


def simulate(design: DiscoveryDesign, truth: Truth, rng: np.random.Generator, noise: float) -> Iterator[Run]:
    """All runs of a discovery."""
    runs: list[Run] = []
    while (planned := design.next_run(runs)) is not None:
        run = planned[0]
        runs.append(Run(run.arm, run.changes, run.block, launch(truth, run.changes, rng, noise)))
    yield from runs


def discover(
    chosen: Case, seed: int, launches: int, noise: float, share: float, gains: Tally, losses: Tally
) -> DiscoveryResult:
    """The method that is used."""
    arm, truth, rng = chosen
    design = DiscoveryDesign((arm,), launches, share=share, seed=seed)
    runs = list(simulate(design, truth, rng, noise))
    result = found((arm,), runs, design.rate, seed)
    helping = {e.change for e in result.active}
    aside = {change for _, change in result.set_aside}
    count(gains, {c: f for c, f in truth.factors.items() if min(f) < 1}, helping, truth)
    count(
        losses,
        {c: f for c, f in truth.factors.items() if min(f) >= 1},
        {e.change for e in result.harmful},
        truth,
    )
    bad = truth.fatal | truth.hanging
    gains.launches += len(runs)
    gains.failed += sum(not run.ok for run in runs)
    gains.bad += len(bad)
    gains.aside += len(bad & aside)
    gains.blamed += len(aside - bad)
    return result


def count(tally: Tally, wanted: dict[Change, tuple[float, ...]], seen: set[Change], truth: Truth) -> None:
    """Add one seed."""
    for change, factor in wanted.items():
        height = max(abs(np.log(f)) for f in factor)
        for band in BANDS:
            if band[0] <= height < band[1]:
                tally.planted[band] += 1
                tally.found[band] += change in seen
    tally.true += len(seen & truth.factors.keys())
    tally.false += len(seen - truth.factors.keys())


def two_level(seed: int, launches: int, noise: float, tally: Tally) -> None:
    """Each knob at its default or one level drawn, half of all off at once: one bad level spoils half."""
    arm, truth, rng, *_ = case(seed)
    changes = list(dict(arm.changes[i] for i in rng.permutation(len(arm.changes))).items())
    rows, curves = [], []
    for _ in range(launches):
        row = rng.integers(0, 2, len(changes)).astype(float)  # balanced in the mean, as orthogonal nearly
        curve = launch(truth, frozenset(c for c, on in zip(changes, row, strict=True) if on), rng, noise)
        tally.failed += not curve
        if curve:
            rows.append(row)
            curves.append(curve)
    tally.launches += launches
    seen: set[Change] = set()
    if len(rows) >= 8:
        fit = sparse_fit(np.array(rows), np.array(curves), rng)
        seen = {c for c, real in zip(changes, false_discovery_set(fit.p_any, 0.05), strict=True) if real}
    count(tally, dict(truth.factors), seen, truth)


def groups(seed: int, launches: int, noise: float, tally: Tally) -> None:
    """Groups of eight changes against the default, four launches each; groups that differ are halved."""
    arm, truth, rng, *_ = case(seed)
    default = np.array([launch(truth, frozenset(), rng, noise) for _ in range(8)])
    left, seen = launches - 8, set[Change]()
    order = [arm.changes[i] for i in rng.permutation(len(arm.changes))]
    queue = [order[i : i + 8] for i in range(0, len(order), 8)]
    while queue and left > 0:
        group = queue.pop(0)
        one_each = {change[0]: change for change in group}  # a knob has one value at a time
        queue += [[c] for c in group if one_each[c[0]] != c]
        group = list(one_each.values())
        curves = [launch(truth, frozenset(group), rng, noise) for _ in range(4)]
        left -= 4
        good = np.array([c for c in curves if c])
        tally.failed += sum(not c for c in curves)
        moved = not len(good)
        if len(good):
            z = (np.median(good, axis=0) - np.median(default, axis=0)) / (noise * np.sqrt(1 / 4 + 1 / 8))
            moved = bool(np.abs(z).max() > 3.5)
        if moved and len(group) > 1:
            queue = [group[: len(group) // 2], group[len(group) // 2 :], *queue]
        elif moved and len(good):
            seen.add(group[0])
    tally.launches += launches - left
    count(tally, dict(truth.factors), seen, truth)


if __name__ == "__main__":
    main()
