"""``conf=study_ucx_nodes``: small grids one after another against ``curve``, on the simulated cluster.

For each number of nodes and each collective both search the same cluster with noise. What each holds for best
after every launch is priced by the noise-free model with all algorithms and segment sizes. Printed are the
launches until that lies within 3 % of the best point known, and stays there, and what is reached at the end.
The best point known is the end of coordinate descents in the noise-free model, from the untouched stack and
from both results.

    python -m benchmarks.study_ucx_nodes [--nodes 1,2,4,8] [--ppn 8] [--launches 40] [--seed 0]
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import yaml

from autotune.campaign.directory import read_campaign
from autotune.history.objectives import Objective
from autotune.history.trial import History
from autotune.recommend.front import recommend
from autotune.resources import folder, space_text
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import machine_from
from autotune.simulate.model import predict
from autotune.simulate.settings import settings_from
from autotune.space import Point
from autotune.space.loader import load_space

SIZES = tuple(4096 << k for k in range(11))
COLLECTIVES = ("alltoall", "allgather", "allreduce")
SPACE = load_space(space_text("openmpi_ucx_cluster"), "openmpi_ucx_cluster")
MACHINE = machine_from(yaml.safe_load((folder("conf") / "machine/bm_optimized3_36.yaml").read_text()))
NEAR = 0.03
STEP = 8
"""What a campaign holds for best is looked at after so many launches."""


class Model:
    """The noise-free time of a point, remembered."""

    def __init__(self, collective: str, nodes: int, ppn: int) -> None:
        self.collective, self.layout, self.known = collective, NodeLayout(nodes, ppn), {}

    def cost(self, point: Point) -> float:
        """Mean logarithm of the times of the envelope."""
        job = point.restricted({p.name for p in SPACE.job})
        if job not in self.known:
            fabric = Fabric(MACHINE, self.layout, settings_from(job))
            ranks = self.layout.nodes * self.layout.ppn
            curves = [
                predict(
                    fabric,
                    self.collective,
                    str(choice.get("algorithm", "default")),
                    int(choice.get("segsize", 0)),
                    SIZES,
                    ranks,
                )
                for choice in SPACE.choices(self.collective, job)
            ]
            self.known[job] = float(np.log(np.min(curves, axis=0)).mean())
        return self.known[job]

    def descend(self, point: Point) -> Point:
        """Coordinate descent: no change of one setting is better than what comes out."""
        while True:
            around = [
                SPACE.complete({**point, p.name: value})
                for p in SPACE.job
                if p.name in point
                for value in p.values
            ]
            best = min([point, *around], key=self.cost)
            if best == point:
                return point
            point = best


def campaign(words: list[str], directory: Path) -> History:
    subprocess.run(
        [sys.executable, "-m", "autotune", "conf=study_ucx_nodes", "hydra/launcher=simulated", *words,
         f"campaign.dir={directory}"],
        check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return read_campaign(directory).history


def held(history: History) -> dict[int, Point]:
    """The point that a campaign holds for best, by the number of its launches."""
    objective, points = Objective("bandwidth", 0, None), {}
    for n in sorted({*range(STEP, len(history), STEP), len(history)}):
        found = recommend((objective,), SPACE, History(history.observations[:n]))
        points[n] = found.point if found else SPACE.default
    return points


def needed(excess: dict[int, float]) -> str:
    """Launches until the excess is small and stays so."""
    late = [n for n, value in excess.items() if value > NEAR]
    return next((str(n) for n in excess if not late or n > late[-1]), "never")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", default="1,2,4,8")
    parser.add_argument("--ppn", type=int, default=8)
    parser.add_argument("--launches", type=int, default=40, help="of curve; the stages take what they need")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("| nodes | collective | untouched | staged: launches | within 3 % after | reached "
          "| curve: launches | within 3 % after | reached |")  # fmt: skip
    print("|--:|---|--:|--:|--:|--:|--:|--:|--:|")
    for nodes in map(int, options.nodes.split(",")):
        for collective in COLLECTIVES:
            model = Model(collective, nodes, options.ppn)
            paths = {}
            with tempfile.TemporaryDirectory() as place:
                for proposer in ("staged", "curve"):
                    words = [f"cluster.nodes={nodes}", f"cluster.ppn={options.ppn}", f"seed={options.seed}"]
                    words += [f"collective={collective}", f"proposer={proposer}"]
                    if proposer == "curve":
                        words.append(f"budget.launches={options.launches}")
                    paths[proposer] = held(campaign(words, Path(place) / proposer))
            starts = [SPACE.default, *(path[max(path)] for path in paths.values())]
            best = min(model.cost(model.descend(start)) for start in starts)
            row = [f"{nodes}", collective, f"+{math.expm1(model.cost(SPACE.default) - best):.1%}"]
            for path in paths.values():
                excess = {n: math.expm1(model.cost(point) - best) for n, point in path.items()}
                row += [str(max(path)), needed(excess), f"+{excess[max(path)]:.1%}"]
            print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
