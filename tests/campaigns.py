"""A small pretend world for tests of the campaign's logic: a known landscape instead of a cluster."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from autotune.campaign.spec import BenchFacts, CampaignSpec
from autotune.campaign.strategy import Strategy
from autotune.history.lookup import choice_at
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, Observation, Status, Subject, Trial
from autotune.proposers import proposer as named
from autotune.scenario import Scenario, defaults, scenario_of
from autotune.space import Level, Parameter, Point, Space
from autotune.structure import plain

SIZES = (8, 1024, 65536, 2**20)
SPACE = Space(
    "pretend",
    (
        Parameter("tls", ("all", "posix", "tcp"), "all"),
        Parameter("rndv", ("auto", "4k", "64k"), "auto", ordered=True),
        Parameter("bind", ("core", "none"), "core"),
        Parameter("algorithm", ("default", "ring", "tree"), "default", level=Level.CALL, per_size=True),
    ),
)
OBJECTIVES = (Objective("latency", 0, 8192), Objective("bandwidth", 65536, None))


def scenario(**changes) -> Scenario:
    """All defaults but for these keys of these sections: ``scenario(budget={"launches": 4})``."""
    document = {**defaults(), "campaign": {"dir": "here", "fresh": False}, **changes}
    return scenario_of(document, "pretend")


def strategy(launches=20, *, proposer="random", space=SPACE, objectives=OBJECTIVES, bench=None, **changes):
    """The strategy of a campaign with so many launches and no verification, but for these keys."""
    budget = {"launches": launches, **changes.pop("budget", {})}
    asked = scenario(budget=budget, **{"seed": 5, "verify": {"enabled": False}, **changes})
    return Strategy(CampaignSpec(asked, space, objectives, bench or BenchFacts()), named(proposer))


_TLS = {"all": 1.0, "posix": 0.6, "tcp": 8.0}
_RNDV = {"auto": 1.0, "4k": 1.3, "64k": 0.9}


def time_s(point: Point, choice: Point, size: int) -> float:
    """The true time of a cell: tls matters most, rndv for large sizes, bind not at all."""
    seconds = (1e-6 + size / 10e9) * _TLS[str(point.get("tls", "all"))]
    if size >= 65536:
        seconds *= _RNDV[str(point.get("rndv", "auto"))]
    algorithm = choice.get("algorithm", "default")
    if algorithm == "ring":
        seconds *= 0.7 if size >= 65536 else 3.0
    if algorithm == "tree":
        seconds *= 0.8 if size < 65536 else 4.0
    return seconds


@dataclass
class World:
    """Observes trials on the pretend landscape; deterministic by the trial's seed."""

    noise: float = 0.01
    fails: Callable[[Trial], Status | None] = lambda trial: None
    trials: list[Trial] = field(default_factory=list)

    def observe(self, trial: Trial) -> Observation:
        self.trials.append(trial)
        status = self.fails(trial)
        if status is not None:
            return Observation(trial, status, reason=f"pretended {status}", duration_s=1.0)
        rng = np.random.default_rng(trial.seed)
        choices = SPACE.choices("allreduce") if trial.subject is Subject.SWEEP else (Point(),)
        point = SPACE.default if trial.subject is Subject.UNTOUCHED else trial.point
        estimates = []
        for size in SIZES:
            for choice in choices:
                acting = choice_at(trial.rules, ("allreduce", 2, size)) if trial.rules else choice
                seconds = time_s(point, acting, size) * float(np.exp(rng.normal(0, self.noise)))
                cell = Cell("allreduce", 2, size, choice)
                estimates.append(Estimate(cell, seconds, self.noise * seconds, 50))
        return Observation(trial, Status.OK, tuple(estimates), duration_s=1.0, hosts=("here",))


class Silent:
    """A listener that only counts."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def phase(self, phase, n_trials):
        self.heard.append(f"phase {phase}")

    def forecast(self, need, left_s):
        self.heard.append("forecast")

    def designed(self, design):
        self.heard.append("designed")

    def discovered(self, campaign, history):
        self.heard.append("discovered")

    def screened(self, effects, screening):
        self.heard.append("screened")

    def launching(self, trial, elapsed_s, left_s):
        self.heard.append(f"trial {trial.number}")

    def observed(self, step):
        self.heard.append("observed")


class Memory:
    """A store in memory, which can be cut off after some events as a crash would."""

    def __init__(self, events=()) -> None:
        self.events = list(events)

    def append(self, *events):
        self.events += [json.loads(json.dumps(plain(event))) for event in events]

    def read(self):
        return tuple(deepcopy(self.events))
