"""What a verification that has time for 80 launches hands over of sixty settings of two families: planted.

The search launched each setting once, on a machine whose launches lie 3 to 6 % apart (noise as in
``error_rates.py``, on ten sizes). Settings of ``ob1`` gain at large messages; those of ``ucx`` gain twice as
much, and differ little. Planted besides:

- moved: at 128 B all of ucx were 1.35 times as fast in the search (its cores lay far apart), and in half of
  their fresh launches take twice as long;
- the same, confirmed: the best of ob1 was confirmed by a discovery;
- nothing, and the same, confirmed: as they are;
- some lose: two of three values of a parameter of ucx cost 12 % at 32 B;
- all lose a little: 5 % at 128 B;
- nothing gains: all settings are the same.

Printed is in how many of N campaigns something was verified, what it truly gains on the whole (0: nothing
was; ln), how many lose more at some size than is excluded, and the launches, which stop where no setting
promises more than what holds.

    python benchmarks/races.py [--campaigns 40] [--seed 100]
"""

import argparse
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from zlib import crc32

import numpy as np
from error_rates import OBJECTIVES, SIZES, calls, noise

from autotune.history.trial import History, Observation, Phase, Status, Subject, Trial
from autotune.space import Parameter, Point, Space
from autotune.verification.rounds import Verifier
from autotune.verification.sequential import SequentialDesign

OB1, UCX = {"pml": ("ob1",)}, {"pml": ("ucx",)}
SPACE = Space(
    "races",
    (
        Parameter("pml", ("ob1", "ucx"), "ob1"),
        Parameter("eager", ("4k", "8k", "32k", "64k"), "4k", ordered=True, when=OB1),
        Parameter("smsc", ("auto", "^cma"), "auto", when=OB1),
        Parameter("rndv", ("auto", "16k", "64k", "256k", "inf"), "auto", when=UCX),
        Parameter("zcopy", ("auto", "4k", "16k"), "auto", when=UCX),
        Parameter("tls", ("all", "sysv", "posix"), "all", when=UCX),
        Parameter("fifo", ("64", "128", "256"), "64", when=UCX),
    ),
)
BEST = SPACE.complete({"pml": "ob1", "eager": "32k", "smsc": "^cma"})
DESIGN = SequentialDesign(max_loss=0.03, timed=True)
SETTINGS, LAUNCHES = 60, 80


@dataclass(frozen=True)
class Planted:
    """A machine."""

    name: str
    confirmed: bool = False
    """Whether a discovery confirmed the best of ob1."""
    moved: float = 0.0
    """Ln by which all of ucx were faster in the search at 128 B, and are slower on the average since."""
    some: float = 0.0
    """What some of ucx lose at 32 B, ln."""
    all: float = 0.0
    """What all of ucx lose at 128 B, ln."""
    gains: bool = True

    def speedup(self, point: Point, fresh: bool = True) -> np.ndarray:
        """Ln of the speed-up at each size."""
        gain = np.zeros(len(SIZES))
        if not self.gains:
            return gain
        if point["pml"] == "ob1":
            gain[5:7] += np.array([0.9, 0.4]) * (point["eager"] in ("32k", "64k"))
            gain[6:] += 0.4 * (point["smsc"] == "^cma")
            return gain
        gain[:] = (0.15, 0.0, 0.0, 0.25, 0.25, 1.2, 1.0, 0.7, 0.5, 0.4)
        own = [crc32(f"{dict(point)} {size}".encode()) % 7 - 3 for size in range(3, len(SIZES))]
        gain[3:] += 0.01 * np.array(own)
        gain[2] -= self.all + (self.moved if fresh else -self.moved)
        gain[1] -= self.some * (point["tls"] != "all")
        return gain


class Machine:
    """Answers trials."""

    def __init__(self, planted: Planted, seed: int) -> None:
        self.planted, self.rng = planted, np.random.default_rng([seed, 5])
        self.spread, self.common = self.rng.uniform(0.03, 0.06), self.rng.uniform(0.2, 0.9)

    def observe(self, trial: Trial) -> Observation:
        """One launch."""
        planted, slower = self.planted, noise(self.rng, self.spread, self.common)
        if trial.subject is not Subject.UNTOUCHED:
            fresh = trial.phase is Phase.VERIFY
            slower -= planted.speedup(trial.point, fresh)
            if fresh and trial.point["pml"] == "ucx":
                slower[2] += planted.moved * (1 if self.rng.random() < 0.5 else -1)
        return Observation(trial, Status.OK, tuple(calls(self.rng, slower)))


def searched(machine: Machine, seed: int) -> History:
    """One launch of each of some settings, with the baseline between them."""
    rng = np.random.default_rng([seed, 1])
    drawn = (
        SPACE.complete({p.name: p.values[rng.integers(len(p.values))] for p in SPACE.parameters})
        for _ in range(SETTINGS)
    )
    points = [point for point in dict.fromkeys([*drawn, BEST]) if point != SPACE.default]
    history = History()
    for i, point in enumerate([None, None, *points]):
        if point is None or i % 10 == 9:
            trial = Trial(history.next_number, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED)
            history = history.plus([machine.observe(trial)])
        if point is not None:
            history = history.plus([machine.observe(Trial(history.next_number, Phase.SEARCH, point))])
    return history


def raced(planted: Planted, seed: int) -> tuple[bool, float, bool, int]:
    """Whether something was verified, its true gain, whether it loses too much, and the launches."""
    machine, confirmed = Machine(planted, seed), (BEST,) * planted.confirmed
    judge = Verifier(SPACE, OBJECTIVES, DESIGN, seed, confirmed=confirmed)
    history, left = searched(machine, seed), LAUNCHES
    while left and (trial := judge.next_trial(history, left)) is not None:
        history, left = history.plus([machine.observe(trial)]), left - 1
    verdict = judge.verdict(history)
    if verdict is None or not judge.holds(history):
        return False, 0.0, False, LAUNCHES - left
    true = planted.speedup(verdict.recommendation.point)
    return True, float(true.mean()), bool(true.min() < DESIGN.hidden), LAUNCHES - left


def machines() -> Iterator[Planted]:
    """By name."""
    yield Planted("moved", moved=0.3)
    yield Planted("moved, confirmed", True, moved=0.3)
    yield Planted("nothing")
    yield Planted("nothing, confirmed", True)
    yield Planted("some lose", some=0.12)
    yield Planted("all lose a little", all=0.05)
    yield Planted("nothing gains", gains=False)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=40)
    parser.add_argument("--seed", type=int, default=100, help="of the first")
    options = parser.parse_args()
    print(f"{'machine':20} {'n':>4} {'verified':>8} {'true gain':>9} {'false':>6} {'launches: median':>17}")
    with ProcessPoolExecutor(2) as pool:
        for planted in machines():
            seeds = range(options.seed, options.seed + options.campaigns)
            held, gains, false, launches = zip(*pool.map(partial(raced, planted), seeds), strict=True)
            shares = f"{sum(held):8} {np.mean(gains):9.3f} {sum(false):6}"
            print(f"{planted.name:20} {len(held):4} {shares} {np.median(launches):17.0f}", flush=True)


if __name__ == "__main__":
    main()
