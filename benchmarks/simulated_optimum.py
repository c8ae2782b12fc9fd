"""How close ``conf=allreduce_8node`` comes to the exhaustive optimum of the simulated cluster's model.

Every job-wide point of the space (27,440) is priced by the noise-free model, with all its algorithms and
segment sizes; then campaigns of different seeds search the same cluster with noise, and what each recommends
before verification is priced by the same noise-free model. Printed is the excess over the optimum in the
quantity that ranks recommendations: the geometric mean of the objectives. Further words override the
scenario: ``simulate.noise.launches_per_job=1`` gives every launch a job of its own, ``verify.enabled=true``
prices what is recommended in the end.

    python benchmarks/simulated_optimum.py [--seeds 20] [--launches 60] [--proposer curve] [WORD …]
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from autotune.campaign.directory import read_campaign
from autotune.history.objectives import Objective, Winner, score
from autotune.resources import folder, space_text
from autotune.simulate.fabric import Fabric, NodeLayout
from autotune.simulate.machine import machine_from
from autotune.simulate.model import predict
from autotune.simulate.settings import settings_from
from autotune.space import Point
from autotune.space.loader import load_space

NODES, PPN = 8, 36
SIZES = tuple(8 * 4**k for k in range(10))
OBJECTIVES = (Objective("latency", 0, 8192), Objective("bandwidth", 65536, None))


def machine():
    import yaml

    return machine_from(yaml.safe_load((folder("conf") / "machine/bm_optimized3_36.yaml").read_text()))


def space():
    return load_space(space_text("openmpi_ucx_cluster"), "openmpi_ucx_cluster")


def cost(point: Point) -> float:
    """Mean over the objectives of the logarithm of their value, less is better; noise-free."""
    fabric = Fabric(MACHINE, NodeLayout(NODES, PPN), settings_from(point))
    curves = [
        predict(
            fabric,
            "allreduce",
            str(choice.get("algorithm", "default")),
            int(choice.get("segsize", 0)),
            SIZES,
            NODES * PPN,
        )
        for choice in SPACE.choices("allreduce", point)
    ]
    best = np.min(curves, axis=0)
    slots = [("allreduce", NODES * PPN, size) for size in SIZES]
    curve = {slot: Winner(float(t), 0.0, Point()) for slot, t in zip(slots, best, strict=True)}
    values = [(o, score(o, curve).value) for o in OBJECTIVES]
    return sum(-math.log(v) if o.maximise else math.log(v) for o, v in values) / len(values)


def campaign(seed: int, launches: int, proposer: str, more: Sequence[str], cwd: Path) -> tuple[Point, float]:
    """What a campaign recommends, unverified unless asked for, and how long it took."""
    started = time.monotonic()
    directory = cwd / f"seed{seed}"
    words = [
        f"seed={seed}",
        f"budget.launches={launches}",
        f"proposer={proposer}",
        f"campaign.dir={directory}",
    ]
    subprocess.run(
        [
            *(sys.executable, "-m", "autotune", "conf=allreduce_8node", "hydra/launcher=simulated"),
            *(*words, "verify.enabled=false", *more),
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    recommendation = read_campaign(directory).recommended()
    assert recommendation is not None
    return recommendation.point, time.monotonic() - started


MACHINE, SPACE = machine(), space()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--launches", type=int, default=60)
    parser.add_argument("--proposer", default="curve")
    parser.add_argument("words", nargs="*", help="of the scenario")
    options = parser.parse_args()
    points = list(SPACE.points())
    started = time.monotonic()
    with ProcessPoolExecutor() as pool:
        costs = np.array(list(pool.map(cost, points, chunksize=64)))
    best = int(np.argmin(costs))
    print(f"{len(points)} points in {time.monotonic() - started:.0f} s; optimum: {points[best]}")
    within = np.exp(costs - costs[best]) - 1
    print(f"default: {math.expm1(cost(SPACE.default) - costs[best]):+.1%}; ", end="")
    print(f"points within 3 %: {np.mean(within <= 0.03):.2%}, median point {np.median(within):+.0%}")
    excesses = []
    with tempfile.TemporaryDirectory() as folder_name:
        for seed in range(options.seeds):
            point, took_s = campaign(
                seed, options.launches, options.proposer, options.words, Path(folder_name)
            )
            excesses.append(math.expm1(cost(point) - costs[best]))
            print(f"seed {seed:3}: {excesses[-1]:+7.2%}  {took_s:5.1f} s  {point}", flush=True)
    print(
        f"{options.proposer}, {options.launches} launches: within 3 % in "
        f"{sum(e <= 0.03 for e in excesses)} of {len(excesses)} seeds; median {np.median(excesses):+.2%}, "
        f"90th percentile {np.percentile(excesses, 90):+.2%}, worst {max(excesses):+.2%}"
    )


if __name__ == "__main__":
    main()
