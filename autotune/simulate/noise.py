"""Noise of real systems: spread of calls, launches and jobs, spikes, and launches that fail.

Place in the flow: `predict` → :func:`sample` → the raw samples of a simulated launch; `Faults` → how a launch
ends. All randomness comes from the generators that are passed in.

Notation: a sample is median · J · M · L · W · S. J is a factor of the job (an allocation: its nodes, their
place in the network, the day), M of the moment (other activity of the machine), L of the launch (what one
``mpirun`` keeps for its life, such as the place of its memory), W of the call, and S is a spike. J, M, L and
W are log-normal with median 1, so the median of many jobs is the model's value. A campaign runs in one job,
or in a chain of them, so the launches that it compares share J until the next job takes over. Launches that
are made one after the other have a moment each; those of a heat, which are alive at once, share J and M.
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
    """Spread of the samples."""

    within: float = 0.03  # Standard deviation of the logarithm of W, within one launch.
    launch: float = 0.02
    """Standard deviation of the logarithm of L, within one job; recorded alltoall campaigns of several jobs
    (DeltaAI, 23 configurations on 2, 4 and 8 nodes), each launch at its own moment, show 0.013 to 0.026 for L
    and M together. Launches that took turns of a millisecond on two cores have 0.006 to 0.013."""
    moment: float = 0.0
    """Standard deviation of the logarithm of M, within one job: 0.05 to 0.13 on two cores with other work,
    from launches of the same settings made one after the other."""
    between: float = 0.05
    """Standard deviation of the logarithm of J; 0.05 gives a max/min over five jobs of 1.12 in the median, as
    measured on quiet systems (1.04 to 1.20), 0.13 the 1.37 of a busy one."""
    launches_per_job: int = 20  # Launches that share J before the next job of the chain.
    drift: float = 0.0  # Growth of ln of all times over 100 launches: a machine that warms up.
    spike_rate: float = 0.005  # Share of calls that a daemon or a neighbour's traffic hits.
    spike_factor: float = 4.0  # Mean of the time that a spike adds, in undisturbed calls (exponential).

    def __post_init__(self) -> None:
        spreads = (self.within, self.launch, self.moment, self.between, self.spike_factor)
        if min(spreads) < 0 or not 0 <= self.spike_rate <= 1 or self.launches_per_job < 1:
            raise ScenarioError(
                f"noise out of range: {self}",
                "spreads and factors ≥ 0, spike_rate within 0 … 1, launches_per_job ≥ 1",
            )


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of failures of one simulated launch."""

    hang: float = 0.0  # The launch never ends, and is stopped by the timeout.
    crash: float = 0.0  # The launch ends without a result.
    wrong_result: float = 0.0  # One of the launch's cells gives a wrong answer.
    lost_node: float = 0.0  # A node dies, and the launch reports nothing more.

    def __post_init__(self) -> None:
        rates = (self.hang, self.crash, self.wrong_result, self.lost_node)
        if min(rates) < 0 or sum(rates) > 1:
            raise ScenarioError(f"fault rates out of range: {self}", "each ≥ 0, together at most 1")

    def draw(self, rng: np.random.Generator) -> str:
        """Draw how a launch ends: ``ok``, or the name of one of the faults."""
        u = rng.random()
        for name in ("hang", "crash", "wrong_result", "lost_node"):
            u -= getattr(self, name)
            if u < 0:
                return name
        return "ok"


_MOMENT = 1  # Key of the random numbers of a moment.
QUIET = NoiseModel()  # The noise of a quiet system.
RELIABLE = Faults()  # The faults of a system on which no launch fails.


@dataclass(frozen=True, slots=True)
class Imperfections:
    """Noise and faults of a modelled cluster: the section ``simulate`` of a scenario."""

    noise: NoiseModel = QUIET  # Spread of the samples.
    faults: Faults = RELIABLE  # Probabilities of failures.
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Planted knobs, which ``space=discover`` finds: name → level → effect, see ``planted.truth_from``."""
    site: Mapping[str, Any] = field(default_factory=dict)
    """Settings in the cluster's own files: parameter → the value of its default there."""
    at_once: bool = True  # Whether several launches can be alive at once, and take turns.


def imperfections_from(values: Mapping[str, Any]) -> Imperfections:
    """Return the imperfections that a mapping describes, with the fields of `NoiseModel` and of `Faults`.

    Raises:
        ScenarioError: If a field is unknown or not a number, or a value is out of its range.
    """
    return Document("the scenario", ScenarioError).structured(Imperfections, values, "simulate")


def job_factor(noise: NoiseModel, rng: np.random.Generator) -> float:
    """Draw J of one job: the effect of this allocation, placement and day on all times."""
    return float(np.exp(rng.normal(0.0, noise.between)))


def launch_factor(noise: NoiseModel, seed: int, moment: int, rng: np.random.Generator) -> float:
    """Return J · M · L of one launch of a campaign, including its drift.

    Args:
        noise: The spreads.
        seed: Seed of the campaign; a job has one J, and a moment one M.
        moment: Number of the launch, from 1; for a launch in a heat, that of the first launch of the heat.
        rng: Source of L.
    """
    job = np.random.default_rng([seed, (moment - 1) // noise.launches_per_job])
    of_moment = np.random.default_rng([seed, moment, _MOMENT]).normal(0.0, noise.moment)
    of_launch = rng.normal(0.0, noise.launch)
    return job_factor(noise, job) * float(np.exp(of_moment + of_launch + noise.drift * moment / 100))


def sample(
    median_s: float, n: int, rng: np.random.Generator, *, noise: NoiseModel = QUIET, factor: float = 1.0
) -> NDArray[np.float64]:
    """Draw times of n calls in one launch, in seconds, (n,), around the model's median times ``factor``."""
    times = median_s * factor * np.exp(rng.normal(0.0, noise.within, n))
    hit = rng.random(n) < noise.spike_rate
    return np.where(hit, times * (1.0 + rng.exponential(noise.spike_factor, n)), times)
