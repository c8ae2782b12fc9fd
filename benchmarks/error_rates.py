"""How often a verification is wrong, and what it costs: both sides the same, planted gains, planted losses.

Campaigns are simulated where it counts: a search on a machine of known speeds, then its verification, heat by
heat or launch by launch as ``Verifier`` asks for them. The machine has a noise of the moment, which launches
of a heat share, and one of the launch, which they do not. Moments lie 10 % apart, as launches of one setting
did on a two-core machine beside other work; two launches of one setting in a heat differ by 1 to 2 % over all
sizes and by 2 to 6 % at single ones, as there (a spread for each campaign). Both have tails of Student's t
with 4 degrees of freedom. The machine drifts by up to 5 % over a campaign, 2 % of moments are slower by 30 %
on average, and so are 0.5 % of the sizes of a launch. The same machines are measured both ways, with the same
seeds. What the search saw of a setting is relative to the default of the same heat, where there are heats.

Seconds are those of `make tune` on two cores: 2.4 s for a launch apart, which measures in both loops; 0.7 s
for one in a heat: half a second of turns, and what starts it; 0.5 s for one that is not timed.

- A/A, settings: job-wide settings and algorithms that all are as fast as the defaults.
- A/A, rules: the same without job-wide settings: most sizes are the same calls on both sides.
- gain g: one setting is faster by g at every size; "one": at one size alone, as a
  discovery confirmed. loss l: it is faster by
  10 %, but for one size, where it is slower by l; what is refused, or seen as known to lose before, was not
  handed over.

Printed are the shares of campaigns in which a loss was claimed and in which something was handed over, and
the launches that the verification took.

    python benchmarks/error_rates.py [--campaigns 200] [--power 60] [--moment 0.1] [--only gain]
"""

import argparse
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np

from autotune.history.lookup import choice_at
from autotune.history.objectives import Objective
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Level, Parameter, Point, Space
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign
from autotune.verification.verdict import Verdict

SIZES = tuple(8 * 4**k for k in range(10))
SETTINGS = ("all", "a", "b", "c")
CHOICES = ("default", "ring", "tree")
OBJECTIVES = (Objective("latency"),)
LAUNCHES = 60
"""Of search and verification, over which the machine drifts."""
RING = Point.of({"algorithm": "ring"})
DEFAULTS = Point.of({})
HOW = {"apart": False, "heats": True}
"""Whether launches of a block are alive at once, by how that is printed."""


class Observing(Protocol):
    """A machine."""

    def observe(self, trials: Sequence[Trial]) -> list[Observation]:
        """Launches of one moment."""

    def steady(self, trial: Trial) -> Observation:
        """A launch relative to the default of its heat."""


def space(job_wide: bool) -> Space:
    """What can be chosen: a job-wide setting, where it is wanted, and the algorithm at each size."""
    tls = Parameter("UCX_TLS", SETTINGS if job_wide else SETTINGS[:1], "all")
    return Space("error rates", (tls, Parameter("algorithm", CHOICES, "default", Level.CALL, per_size=True)))


@dataclass(frozen=True)
class Noise:
    """How far launches lie apart, as standard deviations on the log scale; see above."""

    moment: float = 0.1
    """Of moments, four tenths of the variance common to all sizes."""
    whole: tuple[float, float] = (0.01, 0.02)
    """Least and most of the ratio of two launches of a heat, over all sizes."""
    single: tuple[float, float] = (0.02, 0.06)
    """The same at one size."""


SECONDS = {"apart": 2.4, "heat": 0.7, "start": 0.5}
"""Of a launch; see above."""


@dataclass(frozen=True)
class Planted:
    """What is true: ln of the speed-up of setting ``a`` at each size."""

    name: str
    job_wide: bool = True
    gain: float = 0.0
    loss: float | None = None
    noise: Noise = Noise()
    """How far launches lie apart."""
    confirmed: bool = False
    """Whether a discovery confirmed that the setting gains, so that the search does not decide."""
    ruled: bool = False
    """Whether algorithm ``ring`` gains that, in place of setting ``a``."""

    def uses(self, trial: Trial) -> bool:
        """Whether a deployed launch has what is planted."""
        own = bool(trial.rules) if self.ruled else trial.point.get("UCX_TLS") == "a"
        return own and trial.subject is not Subject.UNTOUCHED

    def speedup(self, trial: Trial, choice: str | None = None) -> np.ndarray:
        """Ln of the speed-up of a launch, or of a choice that it sweeps, at each size."""
        acts = np.full(len(SIZES), choice == "ring" if self.ruled else self.uses(trial))
        if self.ruled and choice is None:
            acts[:] = [choice_at(trial.rules, ("allreduce", 2, size)) == RING for size in SIZES]
        whole = np.full(len(SIZES), math.log1p(self.gain))
        if self.loss is not None:
            whole[2] = math.log1p(-self.loss)
        return np.where(acts, whole, 0.0)


def tails(rng: np.random.Generator, n: int) -> np.ndarray:
    """Student's t with 4 degrees of freedom, with a standard deviation of one."""
    return rng.standard_t(4, n) / math.sqrt(2.0)


def noise(rng: np.random.Generator, spread: float, common: float, drift: float = 0.0) -> np.ndarray:
    """Ln by which a launch is slower at each size: launches lie ``spread`` apart, part of it in common."""
    shared = math.sqrt(common) * tails(rng, 1) + drift / spread
    shared = shared + (rng.random() < 0.02) * rng.exponential(0.3) / spread
    each = spread * (shared + math.sqrt(1 - common) * tails(rng, len(SIZES)))
    return each + (rng.random(len(SIZES)) < 0.005) * rng.exponential(0.3, len(SIZES))


def calls(rng: np.random.Generator, slower: np.ndarray, choice: Point = DEFAULTS) -> Iterator[Estimate]:
    """An estimate for each size, by ln of how much slower than 1 µs; calls of a launch differ by less."""
    own = 0.005 * rng.normal(size=len(SIZES))
    for size, t in zip(SIZES, 1e-6 * np.exp(slower + own), strict=True):
        yield Estimate(Cell("allreduce", 2, size, choice), float(t), float(0.005 * t), 20)


class Machine:
    """Answers trials with the planted speeds and noise."""

    def __init__(self, planted: Planted, seed: int) -> None:
        self.planted = planted
        self.rng = np.random.default_rng([seed, 7])
        whole, single = self.rng.uniform(*planted.noise.whole), self.rng.uniform(*planted.noise.single)
        # Of one launch, half the variance of a ratio of two: at each size alone, and at all sizes in common.
        own = max(single**2 - whole**2, 0.0) / (1 - 1 / len(SIZES)) / 2
        self.own, self.common = math.sqrt(own), math.sqrt(max(whole**2 / 2 - own / len(SIZES), 0.0))
        self.drift = self.rng.uniform(-0.05, 0.05) / LAUNCHES

    def observe(self, trials: Sequence[Trial]) -> list[Observation]:
        """Launches of one moment."""
        moment = noise(self.rng, self.planted.noise.moment, 0.4, self.drift * trials[0].number)
        return [self._launch(trial, moment) for trial in trials]

    def steady(self, trial: Trial) -> Observation:
        """A launch relative to the default of its heat."""
        return self._launch(trial, np.zeros(len(SIZES)))

    def _launch(self, trial: Trial, moment: np.ndarray) -> Observation:
        slower = moment + self.common * tails(self.rng, 1) + self.own * tails(self.rng, len(SIZES))
        slower = slower + (self.rng.random(len(SIZES)) < 0.005) * self.rng.exponential(0.3, len(SIZES))
        swept = CHOICES if trial.subject is Subject.SWEEP else (None,)
        estimates: list[Estimate] = []
        for choice in swept:
            cell = DEFAULTS if choice is None else Point.of({"algorithm": choice})
            estimates += calls(self.rng, slower - self.planted.speedup(trial, choice), cell)
        return Observation(trial, Status.OK, tuple(estimates))


def searched(planted: Planted, machine: Observing, heats: bool) -> History:
    """Three launches of the baseline, and two of each setting."""
    chosen = SETTINGS if planted.job_wide else SETTINGS[:1]
    points = [Point.of({"UCX_TLS": tls}) for tls in chosen for _ in range(2)]
    history = History()
    plan = [None, *points[: len(points) // 2], None, *points[len(points) // 2 :], None]
    for number, point in enumerate(plan, start=1):
        default = Point.of({"UCX_TLS": "all"})
        trial = (
            Trial(number, Phase.BASELINE, default, Subject.UNTOUCHED)
            if point is None
            else Trial(number, Phase.SEARCH, point)
        )
        history = history.plus([machine.steady(trial)] if heats else machine.observe([trial]))
    return history


def seconds(history: History) -> float:
    """What the launches of a verification took."""
    timed = ("heat" if o.trial.heat else "apart" for o in history.of(Phase.VERIFY))
    return sum(SECONDS[kind] for kind in (*timed, *("start" for _ in history.of(Phase.STARTS))))


@dataclass(frozen=True)
class Outcome:
    """Of one campaign."""

    verified: bool
    """Whether anything was verified at all."""
    refused: bool
    """Whether any loss was claimed."""
    handed_over: bool
    """Whether anything but the defaults was."""
    planted: bool
    """Whether it was the setting with the planted speeds."""
    launches: int
    """Of the verification."""
    seconds: float
    """That it took."""


def design(heats: bool) -> SequentialDesign:
    """Of a campaign by default."""
    return SequentialDesign.of_setting(12, heats=heats)


def campaign(planted: Planted, machine: Observing, heats: bool, seed: int) -> tuple[Verdict | None, History]:
    """The verdict of one campaign's verification, and all its launches."""
    confirmed = (Point.of({"UCX_TLS": "a"}),) if planted.confirmed else ()
    judge = Verifier(space(planted.job_wide), OBJECTIVES, design(heats), seed, confirmed=confirmed)
    history = searched(planted, machine, heats)
    while trials := tuple(islice(judge.due(history), None if heats else 1)):
        history = history.plus(machine.observe(trials))
    return judge.verdict(history), history


def verified(planted: Planted, heats: bool, seed: int) -> Outcome:
    """One campaign's verification."""
    return outcome(*campaign(planted, Machine(planted, seed), heats, seed))


def outcome(verdict: Verdict | None, history: History) -> Outcome:
    """What a verdict says."""
    if verdict is None:
        return Outcome(False, False, False, False, 0, 0.0)
    refused = any(c.loses for r in verdict.rounds for c in r.comparisons) or any(
        r.loses for r in verdict.rounds
    )
    held = verdict.recommendation
    handed_over = bool(held.gains)
    return Outcome(
        True,
        refused,
        handed_over,
        handed_over and held.point.get("UCX_TLS") == "a",
        len(history.of(Phase.VERIFY, Phase.STARTS)),
        seconds(history),
    )


HEADING = (
    f"{'campaigns':16} {'':5} {'n':>4} {'verified':>8} {'loss said':>10} {'handed over':>12} "
    f"{'launches: median':>17} {'90 %':>5} {'seconds':>8}"
)


def row(name: str, how: str, outcomes: Iterable[Outcome], planted: bool = False) -> str:
    """One line of the table."""
    every = list(outcomes)
    n = len(every)
    given = sum(o.planted if planted else o.handed_over for o in every)
    launches = [o.launches for o in every]
    shares = f"{sum(o.verified for o in every) / n:8.0%} {sum(o.refused for o in every) / n:10.1%}"
    spent = f"{np.median(launches):17.0f} {np.percentile(launches, 90):5.0f}"
    spent += f" {np.mean([o.seconds for o in every]):8.0f}"
    return f"{name:16} {how:5} {n:4} {shares} {given / n:12.1%} {spent}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=200, help="of A/A, each kind")
    parser.add_argument("--power", type=int, default=60, help="of each planted difference")
    parser.add_argument("--moment", type=float, default=0.1, help="spread of moments, on the log scale")
    parser.add_argument("--only", default="", help="campaigns whose name begins so")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--how", nargs="+", default=list(HOW), choices=HOW)
    options = parser.parse_args()
    kinds = [Planted("A/A, settings"), Planted("A/A, rules", job_wide=False)]
    kinds += [Planted(f"gain {gain:.0%}", gain=gain) for gain in (0.02, 0.05, 0.1, 0.2)]
    kinds += [Planted(f"gain {gain:.0%}, one", gain=0.0, loss=-gain, confirmed=True) for gain in (0.1, 0.2)]
    kinds += [Planted(f"loss {loss:.0%}", gain=0.1, loss=loss) for loss in (0.0, 0.02, 0.05, 0.1, 0.2)]
    print(HEADING)
    with ProcessPoolExecutor(options.workers) as pool:
        for planted in kinds:
            if not planted.name.startswith(options.only):
                continue
            n = options.campaigns if planted.name.startswith("A/A") else options.power
            there = replace(planted, noise=replace(planted.noise, moment=options.moment))
            for how in options.how:
                found = pool.map(partial(verified, there, HOW[how]), range(n), chunksize=5)
                print(row(planted.name, how, found, not planted.name.startswith("A/A")), flush=True)


if __name__ == "__main__":
    main()
