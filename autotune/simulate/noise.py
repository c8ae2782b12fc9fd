"""Noise of the simulated cluster, as on real clusters: spread, spikes, and launches that fail.

Place in the flow: `predict` → :func:`sample` → the raw samples of a simulated launch; `Faults` → how a launch
ends. All random numbers come from generators that are passed in.

Notation: a sample is median · J · M · L · W · S. The factor J belongs to the batch job (its nodes, their
place in the network, the day), M to the moment (other activity on the machine), L to the launch (what stays
the same during one ``mpirun``, such as the place of its memory), and W to the single call; S is a spike. J,
M, L and W are log-normal with median 1, so the median over many jobs is the predicted time. A campaign runs
in one job or in a chain of jobs, so the launches that it compares have the same J until the next job begins.
A *heat* is a group of launches that run at the same time and take turns; they have the same J and M. Launches
that are made one after another differ in M.
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
    """Spread of the simulated samples, launches and jobs."""

    within: float = 0.03  # Standard deviation of ln W, within one launch.
    launch: float = 0.02
    """Standard deviation of ln L, within one job. In recorded alltoall campaigns of several jobs (DeltaAI, 23
    configurations on 2, 4 and 8 nodes), with each launch at its own moment, L and M together have 0.013 to
    0.026. Launches that took turns of a millisecond on two cores have 0.006 to 0.013."""
    moment: float = 0.0
    """Standard deviation of ln M, within one job. On two cores with other work, launches of the same settings
    made one after another have 0.05 to 0.13."""
    between: float = 0.05
    """Standard deviation of ln J. With 0.05 the median of max/min over five jobs is 1.12, as measured on
    quiet systems (1.04 to 1.20); with 0.13 it is 1.37, as measured on a busy system."""
    launches_per_job: int = 20  # Number of launches in each job of a chain; they have the same J.
    drift: float = 0.0  # Growth of ln(time) over 100 launches, as on a machine that warms up.
    spike_rate: float = 0.005  # Share of the calls that a daemon or a neighbour's traffic disturbs.
    spike_factor: float = 4.0
    """Mean of the additional time of a spike, as a multiple of the undisturbed time; the additional time is
    exponentially distributed."""

    def __post_init__(self) -> None:
        spreads = (self.within, self.launch, self.moment, self.between, self.spike_factor)
        if min(spreads) < 0 or not 0 <= self.spike_rate <= 1 or self.launches_per_job < 1:
            raise ScenarioError(
                f"noise out of range: {self}",
                "spreads and factors ≥ 0, spike_rate within 0 … 1, launches_per_job ≥ 1",
            )


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities of the ways in which a simulated launch fails."""

    hang: float = 0.0  # Probability that the launch never ends, so that the timeout stops it.
    crash: float = 0.0  # Probability that the launch ends without a result.
    wrong_result: float = 0.0
    """Probability that one of the launch's collectives gives a wrong result."""
    lost_node: float = 0.0  # Probability that a node dies, after which the launch reports nothing.

    def __post_init__(self) -> None:
        rates = (self.hang, self.crash, self.wrong_result, self.lost_node)
        if min(rates) < 0 or sum(rates) > 1:
            raise ScenarioError(f"fault rates out of range: {self}", "each ≥ 0, together at most 1")

    def draw(self, rng: np.random.Generator) -> str:
        """Draw how a launch ends: ``ok`` or the name of a field of this class."""
        u = rng.random()
        for name in ("hang", "crash", "wrong_result", "lost_node"):
            u -= getattr(self, name)
            if u < 0:
                return name
        return "ok"


_MOMENT = 1  # Additional part of the seed for drawing M, so that M is independent of other draws.
QUIET = NoiseModel()  # Noise of a quiet system.
RELIABLE = Faults()  # Faults of a system on which no launch fails.


@dataclass(frozen=True, slots=True)
class Imperfections:
    """Noise and faults of a modelled cluster: the section ``simulate`` of a scenario."""

    noise: NoiseModel = QUIET
    faults: Faults = RELIABLE
    knobs: Mapping[str, Any] = field(default_factory=dict)
    """Artificial parameters with known effects, which ``space=discover`` should find: maps the name of each
    parameter to its levels and their effects, see ``planted.truth_from``."""
    site: Mapping[str, Any] = field(default_factory=dict)
    """Settings in the cluster's own configuration files: maps each set parameter to its default on this
    cluster."""
    at_once: bool = True  # Whether several launches can run at the same time and take turns.


def imperfections_from(values: Mapping[str, Any]) -> Imperfections:
    """Return the noise and the faults that a mapping describes; its keys are the fields of `Imperfections`.

    Raises:
        ScenarioError: If a field is unknown or not a number, or if a value is out of range.
    """
    return Document("the scenario", ScenarioError).structured(Imperfections, values, "simulate")


def launch_factor(noise: NoiseModel, seed: int, moment: int, rng: np.random.Generator) -> float:
    """Return J · M · L of one launch of a campaign, multiplied by the drift up to this launch.

    Args:
        noise: How much the factors vary.
        seed: Seed of the campaign, from which the J of each job and the M of each moment are drawn.
        moment: Number of the launch, counted from 1; for a launch in a heat, the number of the heat's first
            launch.
        rng: Generator from which L is drawn.
    """
    job = np.random.default_rng([seed, (moment - 1) // noise.launches_per_job])
    of_job = float(np.exp(job.normal(0.0, noise.between)))
    of_moment = np.random.default_rng([seed, moment, _MOMENT]).normal(0.0, noise.moment)
    of_launch = rng.normal(0.0, noise.launch)
    return of_job * float(np.exp(of_moment + of_launch + noise.drift * moment / 100))


def sample(
    median_s: float, n: int, rng: np.random.Generator, *, noise: NoiseModel = QUIET, factor: float = 1.0
) -> NDArray[np.float64]:
    """Draw the times of n calls in one launch, in seconds, (n,).

    The times vary around the predicted median, multiplied by the launch's ``factor`` (J · M · L).
    """
    times = median_s * factor * np.exp(rng.normal(0.0, noise.within, n))
    hit = rng.random(n) < noise.spike_rate
    return np.where(hit, times * (1.0 + rng.exponential(noise.spike_factor, n)), times)
