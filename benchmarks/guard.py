"""How often ``guard`` cries wolf, and how soon it finds a loss.

    python -m benchmarks.guard nights [SERIES [MACHINE]]   simulated nights of each machine, or one
    python -m benchmarks.guard clouds DIR           repeated OSU runs on clouds, against AWS's alarm rule

DIR holds ``osu_allreduce-*-dataframe.csv`` of ``analysis/osu-benchmarks/data`` in the repository
converged-computing/performance-study. The rule is that of ``performance_tests/test_osu.py`` in
aws-parallelcluster: a size fails that takes longer than the one baseline by more than 20 %, and than 10 µs;
four failed sizes are an alarm.
"""

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from autotune.guard.nights import Rates, log_evidence_of_rise
from autotune.guard.verdict import judge
from tests.unit.guard.nights_of import SLOTS, Machine

MACHINES = {
    "launches 5 % apart": Machine(),
    "and days 2 %": Machine(day=0.02),
    "and drift 0.5 % a night": Machine(drift=0.005),
    "and a node of 5 in ± 2 % exchanged every 5th night": Machine(exchange=0.02),
    "all of these": Machine(day=0.02, drift=0.005, exchange=0.02),
    "launches 10 % apart, days 5 %": Machine(launch=0.1, day=0.05),
}
EACH = 16
NIGHTS, FROM = 200, 30
LOSSES, LATER = 50, (1, 2, 3, 7)
LOSS = 1.10


def nights(series, machines):
    print(f"{EACH} launches of each side a night, {len(SLOTS)} sizes")
    print(
        f"| machine | series with a false alarm | 10 % at one size, in {', '.join(map(str, LATER))} nights |"
    )
    print("|---|---|---|")
    for name, machine in machines:
        false, found = 0, np.zeros(len(LATER))
        for seed in range(series):
            made = machine.nights(NIGHTS, np.random.default_rng([1, seed]), each=EACH)
            false += any(judge(made[:n], bounds=False).found for n in range(2, NIGHTS + 1))
        for seed in range(LOSSES):
            loss = (FROM, SLOTS[2], LOSS, False)
            made = machine.nights(FROM + 7, np.random.default_rng([2, seed]), each=EACH, loss=loss)
            told = [
                any(f.slot == SLOTS[2] for f in judge(made[: FROM + n], bounds=False).found) for n in LATER
            ]
            found += np.maximum.accumulate(told)
        shares = ", ".join(f"{100 * share / LOSSES:.0f} %" for share in found)
        print(f"| {name} | {false} of {series} × {NIGHTS} nights | {shares} |", flush=True)


def runs_of(folder):
    """(experiment, nodes) → µs, (n_runs, n_sizes): a run begins where sizes begin again."""
    found = {}
    for path in sorted(folder.glob("osu_allreduce-*-dataframe.csv")):
        rows = defaultdict(list)
        with path.open(encoding="utf-8") as file:
            for row in csv.DictReader(file):
                runs = rows[row["experiment"], int(row["nodes"])]
                size = float(row["size"])
                if not runs or size <= runs[-1][-1][0]:
                    runs.append([])
                runs[-1].append((size, float(row["avg_latency_us"])))
        for key, runs in rows.items():
            full = max(len(run) for run in runs)
            found[key] = np.array([[t for _, t in run] for run in runs if len(run) == full])
    return {key: runs for key, runs in found.items() if len(runs) >= 4}


def aws(baseline, tonight, share=0.2):
    """Whether AWS's rule alarms; it reads whole microseconds. ``share``: its multiplier."""
    before, now = np.floor(baseline), np.floor(tonight)
    return (now > before + np.maximum(share * before, 10)).sum() > 3


def clouds(folder, draws=20):
    groups = runs_of(folder)
    n_runs, n_sizes = sum(map(len, groups.values())), next(iter(groups.values())).shape[1]
    print(f"{len(groups)} places, {n_runs} runs of {n_sizes} sizes, each of four or more at its place")
    print("| rule | false alarms | 1.25 × at all sizes found | 1.25 × at large sizes found |")
    print("|---|---|---|---|")
    planted = [
        np.ones(n_sizes),
        np.full(n_sizes, 1.25),
        np.where(np.arange(n_sizes) >= n_sizes // 2, 1.25, 1.0),  # the larger half
    ]
    single = {
        "AWS, median of the others": lambda others, run: aws(np.median(others, axis=0), run),
        "guard's evidence of 20 in one night": lambda others, run: whole(others, run) >= np.log(20),
        "guard's evidence of 100 in one night": lambda others, run: whole(others, run) >= np.log(100),
    }
    pairs = [(run, other) for run, others in left_out(groups) for other in others]
    row("each run, others known: AWS, one baseline", [[aws(b, run * f) for run, b in pairs] for f in planted])
    for name, rule in single.items():
        row(name, [[rule(others, run * f) for run, others in left_out(groups)] for f in planted])
    made = [runs[drawn] for runs in groups.values() for drawn in _drawn(len(runs), draws)]
    kinds = {"AWS, one baseline": _aws_nights, "AWS, median of 28": _aws_median}
    for name, rule in kinds.items():
        row(f"28 nights, then 3: {name}", [[rule(nights, f) for nights in made] for f in planted])
    for a_year in (0.01, 1.0, 10.0, 50.0):
        shares = [[_guard_nights(nights, f, a_year) for nights in made] for f in planted]
        row(f"28 nights, then 3: guard, --rate {a_year:g}", shares)
        for name, rule in kinds.items():
            as_often(name, rule, made, planted, np.mean(shares[1]))


def as_often(name, rule, made, planted, wanted):
    """A row of AWS's rule by the largest multiplier that still finds 1.25 × at all sizes as often."""
    for share in np.arange(0.3, 0.0, -0.005):
        found = np.mean([rule(nights, planted[1], share) for nights in made])
        if found >= wanted:
            shares = [[rule(nights, f, share) for nights in made] for f in planted]
            row(f"{name}, by {100 * share:.1f} % in place of 20 %", shares)
            return
    print(f"| {name} finds it less often by any multiplier | | | |")


def row(name, shares):
    print(f"| {name} | {' | '.join(f'{100 * np.mean(share):.1f} %' for share in shares)} |", flush=True)


def left_out(groups):
    """Each run with the others of its place."""
    return [(run, np.delete(runs, i, axis=0)) for runs in groups.values() for i, run in enumerate(runs)]


def _drawn(n_runs, draws):
    """Which run each night has: any of its place with the same chance."""
    return np.random.default_rng(3).integers(n_runs, size=(draws, 31))


def _aws_nights(nights, slower, share=0.2):
    return any(aws(nights[0], night * slower, share) for night in nights[28:])


def _aws_median(nights, slower, share=0.2):
    return any(aws(np.median(nights[:28], axis=0), night * slower, share) for night in nights[28:])


def _guard_nights(nights, slower, a_year):
    """By every claim that a check makes of one side."""
    y = np.log(np.vstack([nights[:28], nights[28:] * slower]))
    y = y + np.random.default_rng(4).normal(0, 1e-3, y.shape)  # a run that was drawn twice is not exact
    limit = Rates(a_year, tests=3 * y.shape[1] + 2).limit()
    others = (y.sum(axis=1, keepdims=True) - y) / (y.shape[1] - 1)
    for since in (28, 29, 30):
        for level in (None, others):
            if (log_evidence_of_rise(y, since, level, limit / 2) >= limit).any():
                return True
        if log_evidence_of_rise(y.mean(axis=1, keepdims=True), since, None, limit / 2)[0] >= limit:
            return True
    return False


def whole(others, tonight):
    """Evidence of one run that all sizes together are slower than in the others."""
    y = np.log(np.vstack([others, tonight])).mean(axis=1, keepdims=True)
    return log_evidence_of_rise(y, len(others))[0]


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["nights"]
    if what == "clouds":
        clouds(Path(arguments[0]))
    else:
        series, *one = map(int, arguments or ["10"])
        nights(series, [list(MACHINES.items())[i] for i in one or range(len(MACHINES))])
