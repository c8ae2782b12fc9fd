"""Small jobs deciding for large ones, on recorded tables: how much is decided, and how much of that loses.

Each machine is judged at the largest node count of each collective by what was measured on at most an eighth
of it; all collectives train one model. The bound is calibrated on the machine's own smaller counts and on
those of all other machines. Rivals see the same measurements: the library's default, the best choice on the
most nodes measured, and random forests, of which one decides wherever it expects a gain and one where that is
above 1.64 standard deviations (a jackknife over trees; ACCLAiM uses it to choose what to measure).

    python -m benchmarks.site_transfer DIR … [--part 8]

Held out, the model's rules are chosen for each machine on all others: of all combinations of ``CANDIDATES``
the one that loses least there, then the one nearest the best.

A machine whose tables name no default, or of whose collectives no two counts are so far apart, is named and
left out.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from autotune.site import abstention, transfer
from autotune.site.abstention import LOSS, Outcome, bounds, calibrated, decide, outcomes
from autotune.site.transfer import DEFAULT, Measured, Shape, fitted
from autotune.text_table import read_rows
from benchmarks.left_out_machines import knobs_of, machine_of

Truth = Mapping[Shape, Mapping[str, float]]
"""Seconds by shape and choice."""


def job_of(path: Path) -> tuple[int, int] | None:
    """Nodes and ranks on a node: ``2048n``, ``4x4x4n``, ``8n_288r``; ``1-2n_16r`` is one node."""
    if found := re.search(r"__(?:(\d+)-)?(\d+)n_(\d+)r", path.stem):
        nodes = int(found[1] or found[2])
        return nodes, int(found[3]) // nodes
    found = re.search(r"_([\dx]+)(_0)?n_", path.stem)
    return (int(np.prod([int(n) for n in found[1].split("x")])), 1) if found else None


def load(folders: Sequence[Path]) -> dict[str, list[Measured]]:
    """By machine; runs and tables of the same job size are averaged, for nothing tells which is right."""
    logs: dict[str, dict[tuple[Shape, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(p for folder in folders for p in folder.glob("*.csv")):
        job = job_of(path)
        collective = re.search(r"_(all\w+?|bcast|gather|reduce(_scatter)?)_", path.stem)
        if job is None or collective is None:
            continue
        columns, rows = read_rows(path, "")
        default = {tuple(r[c] for c in knobs_of(columns)) for r in rows if r["is_default"] == "1"}
        line = " 1d" if path.stem.endswith("_1d") else ""  # nodes in a line, not in a cube
        machine = machine_of(path) + line + ("" if default else " (no default)")
        for row in rows:
            if row["latency_us"]:
                words = tuple(row[c] for c in knobs_of(columns))
                shape = Shape(collective[1], *job, int(row["message_bytes"]))
                choice = DEFAULT if words in default else "/".join(words)
                logs[machine][shape, choice].append(np.log(float(row["latency_us"]) * 1e-6))
    return {
        machine: [
            Measured(
                s, c, float(np.exp(np.mean(v))), float(np.std(v, ddof=1) / len(v) ** 0.5) if len(v) > 1 else 0
            )
            for (s, c), v in cells.items()
        ]
        for machine, cells in logs.items()
    }


def split(measured: Sequence[Measured], part: float) -> tuple[list[Measured], Truth]:
    """What is shown, and the truth at the largest counts of those collectives that leave anything to show."""
    counts: dict[str, set[int]] = defaultdict(set)
    for m in measured:
        counts[m.shape.collective].add(m.shape.nodes)
    judged = {c: max(n) for c, n in counts.items() if min(n) * part <= max(n)}
    most = max((max(n) for n in counts.values()), default=0) / part
    shown = [m for m in measured if m.shape.nodes <= judged.get(m.shape.collective, most) / part]
    truth: dict[Shape, dict[str, float]] = defaultdict(dict)
    for m in measured:
        if m.shape.nodes == judged.get(m.shape.collective):
            truth[m.shape][m.choice] = m.time_s
    return shown, {s: t for s, t in truth.items() if DEFAULT in t and len(t) > 1}


Choices = Mapping[Shape, str]


def nearest(shown: Sequence[Measured], truth: Truth) -> Choices:
    """The best choice at the nearest number of nodes, and there at the nearest message."""
    chosen = {}
    for shape in truth:
        kin = [m for m in shown if m.shape.collective == shape.collective]
        most = max(m.shape.nodes for m in kin)
        kin = [m for m in kin if m.shape.nodes == most]
        kin = [m for m in kin if m.choice in truth[shape]]
        at = min({m.shape.message_bytes for m in kin}, key=lambda b: abs(np.log(b / shape.message_bytes)))
        chosen[shape] = min((m for m in kin if m.shape.message_bytes == at), key=lambda m: m.time_s).choice
    return chosen


def forest(shown: Sequence[Measured], truth: Truth, sure: bool) -> Choices:
    """The choice that a random forest of each collective expects to be fastest.

    ``sure``: only where its advantage is above 1.64 standard deviations by the jackknife over trees.
    """
    from sklearn.ensemble import RandomForestRegressor

    chosen: dict[Shape, str] = {}
    for collective in {s.collective for s in truth}:
        mine = [m for m in shown if m.shape.collective == collective]
        choices = sorted({m.choice for m in mine})

        def row(shape: Shape, choice: str, choices: Sequence[str] = choices) -> list[float]:
            return [
                np.log2(shape.nodes),
                np.log2(shape.message_bytes),
                *(float(c == choice) for c in choices),
            ]

        model = RandomForestRegressor(200, random_state=0).fit(
            [row(m.shape, m.choice) for m in mine], [np.log(m.time_s) for m in mine]
        )
        for shape in (s for s in truth if s.collective == collective):
            there = [c for c in choices if c in truth[shape]]
            trees = np.array([tree.predict([row(shape, c) for c in there]) for tree in model.estimators_])
            best = int(np.argmin(trees.mean(axis=0)))
            ahead = trees[:, there.index(DEFAULT)] - trees[:, best] if DEFAULT in there else np.ones(2)
            if not sure or ahead.mean() > 1.64 * jackknife(ahead):
                chosen[shape] = there[best]
    return chosen


def jackknife(values: NDArray[np.float64]) -> float:
    """Standard deviation by leaving out one tree at a time, scaled to that of a single tree.

    The jackknife of the mean tells how more trees would change it; what is predicted varies as the trees do.
    """
    n = len(values)
    without = (np.sum(values) - np.asarray(values)) / (n - 1)
    return float(np.sqrt((n - 1) / n * np.sum((without - without.mean()) ** 2)) * np.sqrt(n))


def ours(shown: Sequence[Measured], truth: Truth, others: Sequence[Outcome]) -> Choices:
    model = fitted(shown)
    z = calibrated([*outcomes(shown), *others])
    said = bounds(model, list(truth))
    there = {s: [b for b in choices if b[0] in truth[s]] for s, choices in said.items()}
    return {d.shape: d.choice for d in decide(there, z)}


CANDIDATES = {
    "SHARED": (0.0, 0.25, 0.5, 0.75, 1.0),  # from equal messages to equal blocks
    "OWN": (0.05, 0.1, 0.2),
    "least z": (0.1, 0.5, 1.0, 1.645),  # a tenth asks for little more than a positive gain
    "powers apart": (True, False),
}
Chosen = tuple[float, float, float, bool]


@contextmanager
def under(rules: Chosen) -> Iterator[None]:
    """The model with other rules."""
    shared, own, least, apart = rules
    grid = tuple(np.geomspace(least, 16, 17).tolist())
    power = transfer._power if apart else lambda _: True
    with (
        patch.multiple(transfer, SHARED=shared, OWN=own, _power=power),
        patch.object(abstention, "GRID", grid),
    ):
        yield


def held_out(machines: Mapping[str, list[Measured]], part: float) -> Iterator[str]:
    """A row for each machine, by the rules that do best on all others; each at the same measurements."""
    parts = {name: split(measured, part) for name, measured in machines.items()}
    parts = {name: both for name, both in parts.items() if both[1]}
    made: dict[Chosen, dict[str, Choices]] = {}
    for rules in product(*CANDIDATES.values()):
        with under(rules):
            episodes = {name: outcomes(measured) for name, measured in machines.items()}
            made[rules] = {
                name: ours(*both, [o for x, seen in episodes.items() if kin(x) != kin(name) for o in seen])
                for name, both in parts.items()
            }
    for name in parts:
        rest = [other for other in parts if kin(other) != kin(name)]

        def cost(rules: Chosen, rest: Sequence[str] = rest) -> tuple[int, float]:
            figures = [figures_of(made[rules][other], parts[other][1]) for other in rest]
            return sum(f[2] for f in figures), sum(
                len(parts[o][1]) * f[0] for o, f in zip(rest, figures, strict=True)
            )

        best = min(made, key=cost)
        yield judged(
            f"{name}: held out, {dict(zip(CANDIDATES, best, strict=True))}", made[best][name], parts[name][1]
        )


def figures_of(choices: Choices, truth: Truth) -> tuple[float, int, int]:
    """Mean ln of the time over the best, how many are decided, and how many of these lost."""
    chosen = {s: choices.get(s, DEFAULT) for s in truth}
    decided = [s for s in truth if chosen[s] != DEFAULT]
    lost = sum(truth[s][chosen[s]] > (1 + LOSS) * truth[s][DEFAULT] for s in decided)
    excess = np.mean([np.log(truth[s][chosen[s]] / min(truth[s].values())) for s in truth])
    return float(excess), len(decided), lost


def judged(name: str, choices: Choices, truth: Truth) -> str:
    excess, decided, lost = figures_of(choices, truth)
    share = decided / len(truth)
    return f"| {name} | {len(truth)} | {share:.0%} | {np.exp(excess):.3f} | {lost} of {decided} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--part", type=float, default=8)
    options = parser.parse_args()
    machines = load(options.folders)
    episodes = {name: outcomes(measured) for name, measured in machines.items()}
    print(
        "| machine, by | shapes | decided | excess over best | lost of decided |\n|---|---:|---:|---:|---:|"
    )
    left_out = []
    for name, measured in machines.items():
        shown, truth = split(measured, options.part)
        if not truth:
            left_out.append(name)
            continue
        others = [o for other, seen in episodes.items() if kin(other) != kin(name) for o in seen]
        print(judged(f"{name}: library", {}, truth))
        print(judged(f"{name}: nearest measured", nearest(shown, truth), truth))
        print(judged(f"{name}: random forest", forest(shown, truth, sure=False), truth))
        print(judged(f"{name}: random forest, jackknife", forest(shown, truth, sure=True), truth))
        print(judged(f"{name}: transfer", ours(shown, truth, others), truth))
        print(judged(f"{name}: transfer, own calibration alone", ours(shown, truth, ()), truth))
    for row in held_out(machines, options.part):
        print(row)
    print(f"\nleft out: {', '.join(left_out)}")


def kin(machine: str) -> str:
    """Tables of one machine from several sources."""
    return machine.split()[0].removeprefix("pico_")


if __name__ == "__main__":
    main()
