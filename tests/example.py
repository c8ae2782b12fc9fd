"""A small campaign with known answers, for tests of what is shown: no MPI, a formula in its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from autotune.history.objectives import Envelope, Objective, Score, envelope, scores
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.recommend.front import recommend
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.screening import (
    Effects,
    ScreeningDesign,
    ScreeningResult,
    analyse,
    factors_of,
    plackett_burman,
    points_of,
    screened,
)
from autotune.space import Dropped, Level, Parameter, Point, Space

OBJECTIVES = (Objective("latency", max_bytes=8192), Objective("bandwidth", min_bytes=65536))
SIZES = (8, 512, 4096, 65536, 1048576)
SPACE = Space(
    "example",
    (
        Parameter("UCX_TLS", ("all", "self,sysv", "self,tcp"), "all"),
        Parameter("UCX_RNDV_THRESH", ("auto", "4k", "64k", "inf"), "auto", ordered=True),
        Parameter("coll_han", ("on", "off"), "on"),
        Parameter("bind_to", ("default", "core"), "default"),
        Parameter("algorithm", ("default", "ring", "rabenseifner"), "default", Level.CALL, per_size=True),
    ),
    (Dropped("map_by", None, "needs numa:2"), Dropped("UCX_TLS", "self,xpmem", "needs ucx_tl:xpmem")),
)

Formula = Callable[[Point, Cell], float]
"""Time in seconds of one cell at one job-wide point."""


def formula(point: Point, cell: Cell) -> float:
    """A plausible time: tcp is slow, han costs a little, ring is good for large messages only."""
    start_s = {"all": 1.0e-6, "self,sysv": 0.6e-6, "self,tcp": 9e-6}[str(point.get("UCX_TLS", "all"))]
    start_s += 0.3e-6 if point.get("coll_han", "on") == "on" else 0.0
    per_byte_s = 1.1e-10 if point.get("UCX_RNDV_THRESH", "auto") in ("auto", "inf") else 0.8e-10
    algorithm = cell.choice.get("algorithm", "default")
    steps = {"default": 1.0, "ring": 3.0, "rabenseifner": 1.6}[str(algorithm)]
    share = {"default": 1.0, "ring": 0.7, "rabenseifner": 0.8}[str(algorithm)]
    return start_s * steps + cell.message_bytes * per_byte_s * share


@dataclass(frozen=True)
class Example:
    """All that a campaign leaves behind."""

    space: Space
    history: History
    design: ScreeningDesign
    effects: tuple[Effects, ...]
    screening: ScreeningResult
    baseline: Envelope
    baseline_scores: tuple[Score, ...]
    recommendation: Recommendation


def campaign(
    *,
    space: Space = SPACE,
    sizes: tuple[int, ...] = SIZES,
    time_s: Formula = formula,
    n_search: int = 6,
    noise: float = 0.02,
    seed: int = 1,
) -> Example:
    """Baseline, screening and a random search, with one launch that crashed and one that timed out."""
    rng = np.random.default_rng(seed)
    made: list[Observation] = []

    def measured(point: Point, cell: Cell) -> Estimate:
        median_s = time_s(point, cell) * math.exp(rng.normal(0, noise))
        spread_s = 1.96 * noise * median_s
        return Estimate(
            cell,
            median_s,
            noise * median_s,
            60,
            low_s=median_s - spread_s,
            high_s=median_s + spread_s,
            outliers=int(rng.integers(4)),
        )

    def launch(phase: Phase, point: Point, subject: Subject = Subject.SWEEP) -> Observation:
        trial = Trial(len(made) + 1, phase, point, subject)
        failure = {13: (Status.CRASHED, "signal 6 on rank 1"), 15: (Status.TIMEOUT, "ended after 60 s")}
        if trial.number in failure:
            status, reason = failure[trial.number]
            made.append(Observation(trial, status, reason=reason, duration_s=60.0, hosts=("node1",)))
        else:
            choices = (Point(),) if subject is Subject.UNTOUCHED else space.choices("allreduce")
            cells = [Cell("allreduce", 2, size, choice) for size in sizes for choice in choices]
            estimates = tuple(measured(point, cell) for cell in cells)
            made.append(Observation(trial, Status.OK, estimates, duration_s=1.3, hosts=("node1",)))
        return made[-1]

    for _ in range(2):
        launch(Phase.BASELINE, Point(), Subject.UNTOUCHED)
    factors = factors_of(space)
    design = plackett_burman(factors, rng)
    runs = [launch(Phase.SCREENING, point) for point in points_of(space, design)]
    for point in space.draw(rng, n_search):
        launch(Phase.SEARCH, point)
    history = History(tuple(made))

    judged = [scores(OBJECTIVES, space, [run]) for run in runs]
    effects = tuple(
        analyse(
            design,
            [run[i].value if run else math.nan for run in judged],
            name=objective.name,
            sem=[run[i].sem if run else math.nan for run in judged],
        )
        for i, objective in enumerate(OBJECTIVES)
    )
    goals = {o.name: "max" if o.maximise else "min" for o in OBJECTIVES}
    baseline = envelope(space, history.untouched)
    baseline_scores = scores(OBJECTIVES, space, history.untouched.observations)
    assert baseline_scores is not None
    best = recommend(OBJECTIVES, space, history)
    assert best is not None
    provenance = Provenance(
        "example",
        "2026-01-31",
        "Open MPI 5.0.11, UCX 1.20.1",
        1,
        2,
        env=(("UCX_TLS", str(best.point.get("UCX_TLS", "all"))),),
    )
    recommendation = replace(best, provenance=provenance)
    screening = screened(factors, effects, goals)
    return Example(space, history, design, effects, screening, baseline, baseline_scores, recommendation)
