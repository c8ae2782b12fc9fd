"""Noise of real systems: spread of calls, launches and jobs, spikes, and launches that fail.

Place in the flow: `predict` → :func:`sample` → the raw samples of a simulated launch; `Faults` → how a
launch ends. All randomness comes from the generators that are passed in.

Notation: a sample is median · J · L · W · S with J a factor of the job (an allocation: its nodes, their
place in the network, the day), L of the launch (one ``mpirun`` in it), W of the call, S a spike; J, L and W
are log-normal with median 1, so the median of many jobs is the model's value. A campaign runs in one job, or
in a chain of them, so the launches that it compares share J until the next job takes over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autotune.errors import ScenarioError
from autotune.structure import Document


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """How far samples lie apart."""

    within: float = 0.03  # Standard deviation of the logarithm of W, within one launch.
    launch: float = 0.02
    """Standard deviation of the logarithm of L, within one job; recorded alltoall campaigns of several jobs
    (DeltaAI, 23 configurations on 2, 4 and 8 nodes) show 0.013 to 0.026."""
    between: float = 0.05
    """Standard deviation of the logarithm of J; 0.05 gives a max/min over five jobs of 1.12 in the median, as
    measured on quiet systems (1.04 to 1.20), 0.13 the 1.37 of a busy one."""
    launches_per_job: int = 20  # Launches that share J before the next job of the chain.
    drift: float = 0.0  # By how much ln of all times grows over 100 launches: a machine that warms up.
    spike_rate: float = 0.005  # Share of calls hit by a daemon or a neighbour's traffic.
    spike_factor: float = 4.0  # Mean of what a spike adds, in undisturbed calls (exponential).

    def __post_init__(self) -> None:
        spreads = (self.within, self.launch, self.between, self.spike_factor)
        if min(spreads) < 0 or not 0 <= self.spike_rate <= 1 or self.launches_per_job < 1:
            raise ScenarioError(
                f"noise out of range: {self}",
                "spreads and factors ≥ 0, spike_rate within 0 … 1, launches_per_job ≥ 1",
            )


@dataclass(frozen=True, slots=True)
class Faults:
    """How often simulated launches fail, as probabilities of one launch."""

    hang: float = 0.0  # It never ends, and is stopped by the timeout.
    crash: float = 0.0  # It ends without a result.
    wrong_result: float = 0.0  # One of its cells gives a wrong answer.
    lost_node: float = 0.0  # A node dies, and nothing is heard any more.

    def __post_init__(self) -> None:
        rates = (self.hang, self.crash, self.wrong_result, self.lost_node)
        if min(rates) < 0 or sum(rates) > 1:
            raise ScenarioError(f"fault rates out of range: {self}", "each ≥ 0, together at most 1")

    def draw(self, rng: np.random.Generator) -> str:
        """How a launch ends: ``ok``, or the name of one of the faults."""
        u = rng.random()
        for name in ("hang", "crash", "wrong_result", "lost_node"):
            u -= getattr(self, name)
            if u < 0:
                return name
        return "ok"


QUIET = NoiseModel()  # A quiet system's noise.
RELIABLE = Faults()  # A system on which no launch fails.


@dataclass(frozen=True, slots=True)
class Imperfections:
    """Noise of a modelled cluster: the section ``simulate`` of a scenario."""

    noise: NoiseModel = QUIET  # How far samples lie apart.
    faults: Faults = RELIABLE  # How often launches fail.
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Planted knobs, which ``space=discover`` finds: name → level → see ``planted.truth_from``."""
    site: Mapping[str, Any] = field(default_factory=dict)
    """Settings in the cluster's own files: parameter → what its default stands for there."""


def imperfections_from(values: Mapping[str, Any]) -> Imperfections:
    """The disturbance that a mapping describes, with the fields of `NoiseModel` and of `Faults`.

    Raises:
        ScenarioError: If a field is unknown or not a number, or a value is out of its range.
    """
    return Document("the scenario", ScenarioError).structured(Imperfections, values, "simulate")


def job_factor(noise: NoiseModel, rng: np.random.Generator) -> float:
    """J of one job: how much faster or slower this allocation, placement and day make everything."""
    return float(np.exp(rng.normal(0.0, noise.between)))


def launch_factor(noise: NoiseModel, seed: int, number: int, rng: np.random.Generator) -> float:
    """J · L of launch ``number`` (from 1) of a campaign, and its drift; the seed gives a job one J."""
    job = np.random.default_rng([seed, (number - 1) // noise.launches_per_job])
    return job_factor(noise, job) * float(np.exp(rng.normal(0.0, noise.launch) + noise.drift * number / 100))


def sample(
    median_s: float, n: int, rng: np.random.Generator, *, noise: NoiseModel = QUIET, factor: float = 1.0
) -> NDArray[np.float64]:
    """Times of n calls in one launch, seconds, (n,), about the model's median times ``factor``."""
    times = median_s * factor * np.exp(rng.normal(0.0, noise.within, n))
    hit = rng.random(n) < noise.spike_rate
    return np.where(hit, times * (1.0 + rng.exponential(noise.spike_factor, n)), times)
