"""How often ``guard`` cries wolf, and how soon it finds a loss.

    python -m benchmarks.guard nights [SERIES [MACHINE]]   simulated nights of each machine, or one
    python -m benchmarks.guard clouds DIR [PROVIDER …]     repeated OSU runs on clouds, against AWS's rule

With PROVIDER only runs on aws, azure or google count. DIR holds ``osu_allreduce-*-dataframe.csv`` of
``analysis/osu-benchmarks/data`` in the repository converged-computing/performance-study. The rule is that of
``performance_tests/test_osu.py`` in aws-parallelcluster: a size fails that takes longer than the one baseline
by more than 20 %, and than 10 µs; four failed sizes are an alarm.
"""

import csv
import sys
from collections import defaultdict
from itertools import product
from pathlib import Path

import numpy as np

from autotune.guard.nights import (
    FRESH,
    PAST,
    STEADY,
    WANDERING,
    Rates,
    log_claim_of_rise,
    of_all_sizes,
    of_sizes,
)
from autotune.guard.verbs import EACH_NIGHT
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
    print(
        f"| machine | times with a false alarm | settings lose, found in {later} nights | both | both, all |"
    )
    print("|---|---|---|---|---|")
    for name, machine in machines:
        false = 0
        for start in range(0, series, LOSSES):  # memory
            some = min(LOSSES, series - start)
            sizes, all_sizes = claimed(machine.means(NIGHTS, some, np.random.default_rng([1, start])))
            false += int((sizes.any(axis=(0, 2)) | all_sizes.any(axis=(0, 2))).sum())
        cells = [f"{false} of {series}"]
        for slot, stack_too in ((SLOTS[2], False), (SLOTS[2], True), (None, True)):
            loss, rng = (FROM, slot, LOSS, stack_too), np.random.default_rng([2, int(stack_too)])
            sizes, all_sizes = claimed(
                machine.means(FROM + max(LATER), LOSSES, rng, loss=loss), start=FROM - FRESH
            )
            found = (all_sizes[:, :, 0] if slot is None else sizes[:, :, SLOTS.index(slot)])[FROM:]
            cells.append(", ".join(f"{100 * found[:n].any(axis=0).mean():.0f} %" for n in LATER))
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
    """Whether AWS's rule alarms in any of some nights ``(n_draws, n_nights, n_sizes)``, by its multiplier.

    It reads whole microseconds.
    """
    before, now = np.floor(baseline)[:, None], np.floor(tonight)
    return ((now > before + np.maximum(share * before, 10)).sum(axis=2) > 3).any(axis=1)


def clouds(folder, providers, draws=20):
    groups = {key: runs for key, runs in runs_of(folder).items() if key[0].startswith(providers)}
    drawn = [  # any run of its place with the same chance
        runs[np.random.default_rng(3).integers(len(runs), size=(draws, 31))] for runs in groups.values()
    ]
    made, n_sizes = np.concatenate(drawn), drawn[0].shape[2]
    print(
        f"{len(groups)} places, {sum(map(len, groups.values()))} runs of {n_sizes} sizes, {len(made)} draws"
    )
    print("| rule | false alarms | 1.25 × at all sizes found | at the larger half |")
    print("|---|---|---|---|")
    planted = [1.0, 1.25, np.where(np.arange(n_sizes) >= n_sizes // 2, 1.25, 1.0)]
    rules = {"AWS, one baseline": made[:, 0], "AWS, median of 28 nights": np.median(made[:, :28], axis=1)}
    for name, baseline in rules.items():
        row(name, [aws(baseline, made[:, 28:] * slower) for slower in planted])
    evidence = [_most_evidence(made, slower) for slower in planted]
    for a_year in (0.01, 1.0, 50.0):
        limit = Rates(a_year, tests=2 * n_sizes + 1).limit()
        found = row(f"guard, `--rate {a_year:g}`", [one >= limit for one in evidence])
        for (name, baseline), loss in product(rules.items(), (1, 2)):
            shares = np.arange(1.0, 0.0, -0.005)  # of AWS's multipliers the largest that finds as much
            as_much = (
                s for s in shares if aws(baseline, made[:, 28:] * planted[loss], s).mean() >= found[loss]
            )
            if (share := next(as_much, None)) is not None:
                some = [aws(baseline, made[:, 28:] * slower, share) for slower in planted]
                row(f"{name}, by {100 * share:.1f} % in place of 20 %", some)
    for name, baseline in rules.items():  # of guard's limits the largest that finds as much as AWS's rule
        wanted = aws(baseline, made[:, 28:] * planted[1]).mean()
        limit = np.quantile(evidence[1], 1 - wanted, method="lower")
        row(f"guard, as often as {name}: evidence {np.exp(limit):.2g}", [one >= limit for one in evidence])


def row(name, shares):
    means = [float(np.mean(share)) for share in shares]
    print(f"| {name} | {' | '.join(f'{100 * mean:.1f} %' for mean in means)} |", flush=True)
    return means


def _most_evidence(made, slower):
    """Ln of the most that any claim of a check of one side has in the last three of 31 nights, each draw."""
    y = np.log(made)
    y[:, 28:] += np.log(slower)
    y += np.random.default_rng(4).normal(0, 1e-3, y.shape[1:])  # a run that was drawn twice is not exact
    y, most = np.moveaxis(y, 0, 1), []
    for view, walks in ((of_sizes, STEADY), (of_all_sizes, WANDERING)):
        seen = view(y, y)[:1]
        for since, last in ((28, 30), (28, 31), (29, 31)):
            evidence = log_claim_of_rise(seen[:, :last].reshape(1, last, -1), since, 0.0, walks)
            most.append(evidence.reshape(len(made), -1).max(axis=1))
    return np.max(most, axis=0)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:] or ["nights"]
    if what == "clouds":
        clouds(Path(arguments[0]), tuple(arguments[1:]) or "")
    else:
        series, *one = map(int, arguments or ["50"])
        nights(series, [list(MACHINES.items())[i] for i in one or range(len(MACHINES))])
