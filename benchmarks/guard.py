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

from autotune.commands.guard import EACH_NIGHT
from autotune.guard.nights import (
    FRESH,
    PAST,
    STEADY,
    WANDERING,
    Rates,
    log_claim_of_rise,
    log_evidence_of_rise,
    of_all_sizes,
    of_sizes,
)
from tests.unit.guard.nights_of import SLOTS, Machine

MACHINES = {
    "launches 5 % apart": Machine(),
    "and days 2 %": Machine(day=0.02),
    "and drift 0.5 % a night": Machine(drift=0.005),
    "and a node exchanged every 5th night, ± 2 %": Machine(exchange=0.02),
    "all of these": Machine(day=0.02, drift=0.005, exchange=0.02),
    "launches of t with 3 degrees of freedom": Machine(tails=True),
    "weekends 5 % slower": Machine(weekend=0.05),
    "a node 30 % slower in 2 % of nights": Machine(broken=0.02),
    "each size wanders by 0.3 % a night": Machine(own_drift=0.003),
    "each size wanders by 0.5 % a night": Machine(own_drift=0.005),
    "each size wanders by 1 % a night": Machine(own_drift=0.01),
    "days 2 % of each size alone": Machine(own_day=0.02),
    "days 2 % of each size and side alone": Machine(own_side=0.02),
    "a node exchanged every 5th night, ± 2 %, of each size alone": Machine(own_exchange=0.02),
    "launches 10 % apart, days 5 %": Machine(launch=0.1, day=0.05),
}
NIGHTS, FROM = 200, 30
LOSSES, LATER = 50, (2, 3, 5, 7)
LOSS = 1.10


def nights(series, machines):
    """Claims of ``judge`` against earlier nights; drawn orders bound those of ``BEHIND``."""
    later = ", ".join(map(str, LATER))
    print(f"{EACH_NIGHT} launches of each side a night, {len(SLOTS)} sizes, {NIGHTS} nights, {series} times")
    print(f"| machine | times with a false alarm | settings lose, found in {later} nights | both lose |")
    print("|---|---|---|---|")
    for name, machine in machines:
        false = 0
        for start in range(0, series, LOSSES):  # memory
            some = min(LOSSES, series - start)
            sizes, all_sizes = claimed(machine.means(NIGHTS, some, np.random.default_rng([1, start])))
            false += int((sizes.any(axis=(0, 2)) | all_sizes.any(axis=(0, 2))).sum())
        cells = [f"{false} of {series}"]
        for stack_too in (False, True):
            loss, rng = (FROM, SLOTS[2], LOSS, stack_too), np.random.default_rng([2, int(stack_too)])
            sizes, _ = claimed(machine.means(FROM + max(LATER), LOSSES, rng, loss=loss), start=FROM - FRESH)
            cells.append(
                ", ".join(f"{100 * sizes[FROM : FROM + n, :, 2].any(axis=0).mean():.0f} %" for n in LATER)
            )
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def claimed(means, start=2):
    """Whether each night claims each size, and all, ``(n_nights, n_series, n_slots or 1)``."""
    n, series, n_slots = means[0].shape
    limit, found = Rates(tests=2 * n_slots + 1).limit(), []
    for view, walks in ((of_sizes, STEADY), (of_all_sizes, WANDERING)):
        claims = np.zeros((n, series, n_slots if view is of_sizes else 1), dtype=bool)
        for since in range(start, n - 1):
            first = min(since, PAST)
            seen = view(*(side[since - first : since + FRESH] for side in means))
            for last in range(first + 2, seen.shape[1] + 1):
                evidence = log_claim_of_rise(seen[:, :last].reshape(2, last, -1), first, limit, walks)
                claims[since - first + last - 1] |= (evidence >= limit).reshape(series, -1)
        found.append(claims)
    return found


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
    limit = Rates(a_year, tests=2 * y.shape[1] + 1).limit()
    sizes, all_sizes = of_sizes(y, y)[:1], of_all_sizes(y, y)[:1]
    return any(
        (log_claim_of_rise(sizes, since, limit) >= limit).any()
        or (log_claim_of_rise(all_sizes, since, limit, WANDERING) >= limit).any()
        for since in (28, 29)
    )


def whole(others, tonight):
    """Evidence of one run that all sizes together are slower than in the others."""
    y = np.log(np.vstack([others, tonight])).mean(axis=1, keepdims=True)
    return log_evidence_of_rise(y[None], len(others), WANDERING)[0]


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["nights"]
    if what == "clouds":
        clouds(Path(arguments[0]))
    else:
        series, *one = map(int, arguments or ["50"])
        nights(series, [list(MACHINES.items())[i] for i in one or range(len(MACHINES))])
