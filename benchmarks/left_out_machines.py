"""Proposers on recorded campaigns, machine by machine, with names and with meaningless ones.

The machine is a file's name up to ``__``, or its first two words (``daint__allreduce__4n.csv``,
``pico_lumi_allreduce_16n_28.csv``). Tables whose names differ in numbers and labels only make one *group*, of
which the one with the most configurations competes: no machine counts by how often it was measured. Printed
is the excess of the envelope as in ``docs/arena.md``, median / 90th percentile over groups × seeds.

With meaningless names each value that is not a number is another word for each seed, and nothing is known of
it beforehand; with real ones only machines count that the prior knowledge was not chosen on.

    python -m benchmarks.left_out_machines DIR … [--machines REGEX] [--proposers curve,optuna,random]
        [--seeds 2] [--launches 4,8,12,16] [--names real,meaningless] [--by-machine]
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from autotune.replay.recorded_table import OPTIONAL, REQUIRED, RecordedTable, recorded
from autotune.space import size_in_bytes
from autotune.text_table import read_rows
from benchmarks.arena import Result, budgets, contest, named

SYLLABLES = ("ka", "lo", "mi", "ne", "ru", "sa", "te", "vu", "xi", "zo")
PER_JOB = ("mapping", "UCX_TLS", "UCX_RNDV_THRESH", "UCX_ZCOPY_THRESH")
CALL_LEVEL = ("allreduce_algorithm",)


def machine_of(path: Path) -> str:
    return path.stem.split("__")[0] if "__" in path.stem else "_".join(path.stem.split("_")[:2])


def group_of(path: Path) -> tuple[str, str]:
    return machine_of(path), re.sub(r"\d+(n|r)?|_[a-z]$|(?<=ad)_.*|_void.*", "", path.stem)


def largest_of_each_group(folders: Iterable[Path], machines: str) -> list[Path]:
    groups: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in sorted(p for folder in folders for p in folder.glob("*.csv")):
        if path.name != "INDEX.csv" and re.search(machines, machine_of(path)):
            groups[group_of(path)].append(path)
    return [max(paths, key=configurations) for paths in groups.values()]


def configurations(path: Path) -> int:
    columns, rows = read_rows(path, "")
    return len({tuple(row[c] for c in knobs_of(columns)) for row in rows})


def knobs_of(columns: Iterable[str]) -> list[str]:
    return [c for c in columns if c not in (*REQUIRED, *OPTIONAL)]


def load(path: Path, seed: int | None) -> RecordedTable:
    """The table; with a seed its values have meaningless names."""
    columns, rows = read_rows(path, "")
    if seed is not None:
        rng = np.random.default_rng([seed, len(rows)])
        words = {"": ""}
        for column in knobs_of(columns):
            for value in sorted({row[column] for row in rows}):
                if "algorithm" in column or size_in_bytes(value) is None:
                    words.setdefault(value, "".join(rng.choice(SYLLABLES, 4)))
        knobs = set(knobs_of(columns))
        rows = [{c: words.get(v, v) if c in knobs else v for c, v in row.items()} for row in rows]
    per_job, call_level = ([c for c in wanted if c in columns] for wanted in (PER_JOB, CALL_LEVEL))
    return recorded(path.name, columns, rows, call_level, per_job)


def line(words: Sequence[str], results: Iterable[Result]) -> str:
    by_budget: dict[int, list[float]] = defaultdict(list)
    for r in results:
        by_budget[r.launches].append(r.envelope)
    cells = (f"{np.median(mine):.3f} / {np.quantile(mine, 0.9):.3f}" for mine in by_budget.values())
    return f"| {' | '.join([*words, *cells])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--machines", default="")
    parser.add_argument("--proposers", default="curve,optuna,random")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--launches", type=budgets, default=(4, 8, 12, 16))
    parser.add_argument("--names", default="real,meaningless")
    parser.add_argument("--by-machine", action="store_true")
    options = parser.parse_args()
    paths = largest_of_each_group(options.folders, options.machines)
    print(f"{len(paths)} groups of {len({machine_of(p) for p in paths})} machines, {options.seeds} seeds\n")
    head = ("names", "proposer", "machines", *map(str, options.launches))
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for names in options.names.split(","):
        for name in options.proposers.split(","):
            by_machine: dict[str, list[Result]] = defaultdict(list)
            for path in paths:
                for seed in range(options.seeds):
                    table = load(path, seed if names == "meaningless" else None)
                    by_machine[machine_of(path)] += contest(table, name, named(name), options.launches, seed)
            everywhere = [r for results in by_machine.values() for r in results]
            print(line((names, name, "all"), everywhere), flush=True)
            for machine, results in by_machine.items() if options.by_machine else ():
                print(line((names, name, machine), results), flush=True)


if __name__ == "__main__":
    main()
