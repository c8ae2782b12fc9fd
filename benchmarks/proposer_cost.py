"""How long proposers think: seconds per suggestion against the number of launches so far.

The problem: ten mixed parameters (ordered scales, ``auto`` beside a scale, categories, a condition), or with
``--parameters`` more, of which those beyond the ten do nothing (two thirds scales, one third categories,
every fifth active under one value of another alone), seven message sizes, two objectives, standard errors of
2 %, one launch in twenty failed. Each figure is the median of a few calls, the imports done before: wall
time, and in brackets processor time, which is what the wall time would be if nothing else ran. The last
column is the exponent of the growth of processor time between the first and the last number of launches.

    python -m benchmarks.proposer_cost [--proposers curve,ax,optuna,smac] [--launches 10,50,300] [--repeats 3]
        [--parameters 60]
"""

import argparse
import math
import statistics
import time
import zlib
from dataclasses import replace

import numpy as np

from autotune.campaign.ports import Problem
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Trial
from autotune.space import Level, Parameter, Point, Space
from benchmarks.arena import named

SIZES = (8, 64, 512, 4096, 32768, 262144, 2097152)
SCALE = ("auto", "1k", "4k", "16k", "64k", "256k")
SPACE = Space(
    "ten mixed parameters",
    (
        Parameter("UCX_TLS", ("all", "rc", "dc", "ud", "tcp", "rc,sm"), "all"),
        Parameter("UCX_RNDV_THRESH", SCALE, "auto", ordered=True),
        Parameter("UCX_ZCOPY_THRESH", SCALE, "auto", ordered=True),
        Parameter("UCX_RNDV_SCHEME", ("auto", "get_zcopy", "put_zcopy", "am"), "auto"),
        Parameter("UCX_MAX_RNDV_RAILS", (1, 2, 4), 2, ordered=True),
        Parameter("component", ("tuned", "han", "hcoll", "ucc"), "tuned"),
        Parameter("map_by", ("core", "numa", "socket"), "core"),
        Parameter("bind_to", ("core", "none"), "core"),
        Parameter("ppn", (8, 16, 32, 64), 64, ordered=True),
        Parameter("han_segment", ("16k", "64k", "256k"), "64k", ordered=True, when={"component": ("han",)}),
        Parameter("algorithm", ("default", "ring", "linear"), "default", Level.CALL, per_size=True),
    ),
)
OBJECTIVES = (Objective("latency", 0, 8192), Objective("bandwidth", 65536))
MATTERS = {parameter.name for parameter in SPACE.parameters}


def space_of(n: int) -> Space:
    """The ten parameters and so many inert ones that there are ``n`` beside the algorithm."""
    inert: list[Parameter] = []
    for i in range(n - len(SPACE.job)):
        when = {inert[i - 1].name: inert[i - 1].values[:1]} if i % 5 == 4 else {}
        if i % 3 == 2:
            inert.append(Parameter(f"kind{i}", ("wren", "heron", "osprey"), "wren", when=when))
        else:
            inert.append(Parameter(f"scale{i}", SCALE, "auto", ordered=True, when=when))
    return replace(SPACE, name=f"{n} mixed parameters", parameters=(*SPACE.parameters, *inert))


def observe(number: int, point: Point, rng: np.random.Generator) -> Observation:
    """A launch on a landscape with main effects of random size."""
    trial = Trial(number, Phase.SEARCH, point)
    if number % 20 == 0:
        return Observation(trial, Status.CRASHED, reason="planted")
    mattering = ((name, value) for name, value in point.items() if name in MATTERS)
    effect = sum((zlib.crc32(f"{name}={value}".encode()) % 100) / 400 for name, value in mattering)
    estimates = []
    for i, size in enumerate(SIZES):
        for j, choice in enumerate(SPACE.choices("allreduce")):
            slope = 1 + 0.3 * ((i * 3 + j * 5) % 7) / 7
            t = 1e-6 * (2 + size / 5000) * slope * math.exp(effect + 0.05 * rng.standard_normal())
            estimates.append(Estimate(Cell("allreduce", 64, size, choice), t, 0.02 * t, 30))
    return Observation(trial, Status.OK, tuple(estimates))


def history(n: int, space: Space = SPACE) -> History:
    """``n`` launches of drawn points."""
    rng = np.random.default_rng(0)
    points = [space.default, *space.draw(rng, n)][:n]
    return History(tuple(observe(i, p, rng) for i, p in enumerate(points, start=1)))


def main() -> None:
    """Print the table."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--proposers", default="curve,gp,optuna,smac,random,ofat")
    words.add_argument("--launches", default="5,50,150,300")
    words.add_argument("--repeats", type=int, default=3)
    words.add_argument("--parameters", type=int, default=10)
    asked = words.parse_args()
    problem = Problem(space_of(asked.parameters), OBJECTIVES)
    counts = [int(n) for n in asked.launches.split(",")]
    print("| proposer |", " | ".join(f"{n} launches" for n in counts), "| exponent |")
    print("|---|" + "---:|" * (len(counts) + 1))
    for name in asked.proposers.split(","):
        named(name).propose(problem, history(6, problem.space), 0)  # imports
        walls, processors = [], []
        for n in counts:
            seen = history(n, problem.space)
            calls = [_timed(name, problem, seen, repeat) for repeat in range(asked.repeats)]
            walls.append(statistics.median(wall for wall, _ in calls))
            processors.append(statistics.median(processor for _, processor in calls))
        growth = math.log(processors[-1] / processors[0]) if len(counts) > 1 else 0.0
        exponent = growth / math.log(counts[-1] / counts[0]) if len(counts) > 1 else 0.0
        figures = [f"{w:.2f} s ({p:.2f})" for w, p in zip(walls, processors, strict=True)]
        print(f"| {name} |", " | ".join(figures), f"| {exponent:.2f} |", flush=True)


def _timed(name: str, problem: Problem, seen: History, seed: int) -> tuple[float, float]:
    """Wall and processor seconds of one suggestion."""
    started = time.perf_counter(), time.process_time()
    named(name).propose(problem, seen, seed)
    return time.perf_counter() - started[0], time.process_time() - started[1]


if __name__ == "__main__":
    main()
