"""How often a verification hands over what it should not, and what it should: planted machines.

Campaigns and noise are those of ``error_rates.py``; setting ``a`` has what is planted, in the search and in
the verification. Where it fails now and then it is 22 % faster, which is what makes it dangerous:

- crash, hang, lost, wrong (a wrong result at one size): so many of its launches end so;
- everybody crashes: as many of the untouched stack's launches, and of all others: no setting's fault;
- slow: so many of its launches are three times as slow, at every size or at one, which makes their mean
  slower than the default's; everybody slow: as many of all launches; slow calls: so many calls of each of its
  launches;
- gain: it is faster at every size; quiet: so it is, on a machine whose launches lie 0.3 % apart;
- one size: it is faster by 22 %, but for one size, where it is slower by so much;
- host: it is faster, or nothing differs, on a virtual machine whose host had the cores apart for long, so
  that this is usual, and puts them together for eight launches now and then: small messages take a third;
- nothing differs: as it is, and with a speed that alternates with a period of four launches (± 5 %), falls
  by half over the campaign, jumps by a fifth every ten launches, is a random walk, or depends on what was
  launched before.

Printed is how many of N campaigns handed the setting over, how many claimed what is not so (it was handed
over although it fails more often, or loses more at some size than the verdict excludes), and the launches
that the verification took.

    python benchmarks/adversaries.py [--campaigns 40] [--only crash]
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np
from error_rates import HOW, SIZES, Machine, Noise, Planted, campaign, seconds

from autotune.history.trial import PLAIN_MEAN, Estimate, Observation, Phase, Status, Subject, Trial

GAIN = 0.22
QUIET = Noise(0.003, (0.001, 0.001), (0.003, 0.003))


@dataclass(frozen=True)
class Adversary:
    """A machine on which something is planted."""

    speeds: Planted
    """Of its settings."""
    ending: Status = Status.OK
    """How launches end that do not end well."""
    rate: float = 0.0
    """So many of them."""
    everybody: bool = False
    """Whether that befalls launches of everything alike, or those of the setting alone."""
    slow_at: slice | None = None
    """Sizes at which such launches are three times as slow, in place of ending badly."""
    speed: Callable[[int, np.random.Generator], float] | None = None
    """Ln of how much slower the machine is in the n-th launch."""
    calls: float = 0.0
    """Share of the setting's calls that are three times as slow, which medians of the calls do not show."""
    host: bool = False
    """Whether its host moves the cores together and apart, where apart is usual."""
    after: float = 0.0
    """Ln of how much slower the launch after one of the setting is, whatever it is."""

    @property
    def unusable(self) -> bool:
        """Whether the setting itself is not to be handed over."""
        return (self.rate > 0.0 and not self.everybody) or self.calls > 0.0


class Failing:
    """A machine on which launches fail."""

    def __init__(self, planted: Adversary, seed: int) -> None:
        self.planted, self.machine = planted, Machine(planted.speeds, seed)
        self.rng = np.random.default_rng([seed, 8])
        self.before, self.far = False, True

    def observe(self, trials: Sequence[Trial]) -> list[Observation]:
        """Launches of one moment."""
        planted = self.planted
        common = planted.speed(trials[0].number, self.rng) if planted.speed else 0.0
        common += planted.after * self.before
        self.before = planted.speeds.uses(trials[-1])
        self.far ^= planted.host and bool(self.rng.random() < 1 / 8)
        return [self._ended(made, common) for made in self.machine.observe(trials)]

    def steady(self, trial: Trial) -> Observation:
        """A launch relative to the default of its heat."""
        return self._ended(self.machine.steady(trial), 0.0)

    def _ended(self, made: Observation, common: float) -> Observation:
        planted, mine = self.planted, self.planted.speeds.uses(made.trial)
        made = slower(made, common, slice(None))
        made = with_means(made, 1.0 + 2.0 * planted.calls * mine)
        if planted.host:
            made = slower(made, np.log(3) * self.far, slice(0, len(SIZES) // 2))
        if not (mine or planted.everybody) or self.rng.random() >= planted.rate:
            return made
        if planted.slow_at is not None:
            return slower(made, np.log(3), planted.slow_at)
        if planted.ending is Status.WRONG_RESULT:
            first, *rest = made.estimates
            return replace(made, estimates=(replace(first, status=planted.ending), *rest))
        return replace(made, status=planted.ending, estimates=(), reason="planted")


def slower(made: Observation, by: float, at: slice) -> Observation:
    """A launch whose calls took longer, at some of its sizes; ``by`` is a logarithm."""
    sizes, times = set(SIZES[at]), float(np.exp(by))

    def longer(e: Estimate) -> Estimate:
        if e.cell.message_bytes not in sizes:
            return e
        means = {name: mean * times for name, mean in e.extra.items() if name == PLAIN_MEAN}
        return replace(e, median_s=e.median_s * times, extra={**e.extra, **means})

    return replace(made, estimates=tuple(map(longer, made.estimates)))


def with_means(made: Observation, ratio: float) -> Observation:
    """A launch whose calls take so many medians on the average."""
    each = (replace(e, extra={**e.extra, PLAIN_MEAN: e.median_s * ratio}) for e in made.estimates)
    return replace(made, estimates=tuple(each))


class Walk:
    """A speed that wanders by 3 % a launch."""

    def __init__(self) -> None:
        self.at: dict[int, float] = {}

    def __call__(self, number: int, rng: np.random.Generator) -> float:
        """Ln of how much slower the n-th launch is."""
        return self.at.setdefault(number, self.at.get(number - 1, 0.0) + 0.03 * rng.normal())


@dataclass(frozen=True)
class Outcome:
    """Of one campaign."""

    handed_over: bool
    """Whether the setting was."""
    false: bool
    """Whether what was claimed is not so."""
    launches: int
    """Of the verification."""
    seconds: float
    """That it took."""
    said: str
    """The verdict."""


def outcome(planted: Adversary, heats: bool, seed: int) -> Outcome:
    """One campaign."""
    verdict, history = campaign(planted.speeds, Failing(planted, seed), heats, seed)
    spent = len(history.of(Phase.VERIFY, Phase.STARTS)), seconds(history)
    if verdict is None:
        return Outcome(False, False, *spent, "nothing to verify")
    held = verdict.recommendation
    if not held.gains:
        return Outcome(False, False, *spent, verdict.text)
    deployed = Trial(0, Phase.VERIFY, held.point, Subject.DEPLOYED, rules=held.rules)
    mine = planted.speeds.uses(deployed)
    true = planted.speeds.speedup(deployed)
    lost = true.min() < np.log1p(-max(verdict.hidden, 0.01))
    false = bool(lost or not true.max() > 0.0 or (mine and planted.unusable))
    return Outcome(mine, false, *spent, verdict.text)


def machines() -> Iterator[tuple[str, Adversary]]:
    """What is planted, by name."""
    faster = Planted("faster", gain=GAIN)
    for ending, name, rates in (
        (Status.CRASHED, "crash", (0.1, 0.3, 0.5)),
        (Status.TIMEOUT, "hang", (0.2,)),
        (Status.WRONG_RESULT, "wrong", (0.2,)),
        (Status.LOST, "lost", (0.2,)),
    ):
        for rate in rates:
            yield f"{name} {rate:.0%}", Adversary(faster, ending, rate)
    yield "everybody crashes 10%", Adversary(faster, Status.CRASHED, 0.1, everybody=True)
    for name, at in (("slow", slice(None)), ("slow at one size", slice(2, 3))):
        yield f"{name} 20%", Adversary(faster, rate=0.2, slow_at=at)
    ruled = Planted("ruled", job_wide=False, gain=GAIN, ruled=True)
    yield "ruled, gain 22%", Adversary(ruled)
    yield "ruled, slow 20%", Adversary(ruled, rate=0.2, slow_at=slice(None))
    yield "slow calls 20%", Adversary(faster, calls=0.2)
    yield "everybody slow 20%", Adversary(faster, rate=0.2, slow_at=slice(None), everybody=True)
    for gain in (0.05, 0.1, 0.2):
        yield f"gain {gain:.0%}", Adversary(Planted("gain", gain=gain))
    yield "gain 20% at one size", Adversary(Planted("gain", gain=0.0, loss=-0.2, confirmed=True))
    yield "quiet, gain 5%", Adversary(Planted("quiet", gain=0.05, noise=QUIET))
    for loss in (0.05, 0.16):
        yield f"one size -{loss:.0%}", Adversary(Planted("one size", gain=GAIN, loss=loss))
    nothing = Planted("nothing")
    yield "gain 20%, host", Adversary(Planted("gain", gain=0.2), host=True)
    yield "nothing, host", Adversary(nothing, host=True)
    yield "nothing differs", Adversary(nothing)
    yield "nothing, alternating", Adversary(nothing, speed=alternating)
    yield "nothing, drifting", Adversary(nothing, speed=drifting)
    yield "nothing, jumping", Adversary(nothing, speed=jumping)
    yield "nothing, wandering", Adversary(nothing, speed=Walk())
    yield "nothing, after-effect", Adversary(nothing, after=0.05)
    for name, speed in (("alternating", alternating), ("drifting", drifting), ("jumping", jumping)):
        yield f"gain 20%, {name}", Adversary(Planted("gain", gain=0.2), speed=speed)


def alternating(number: int, rng: np.random.Generator) -> float:
    """Two launches of four are 10 % slower."""
    return 0.1 * (number // 2 % 2)


def drifting(number: int, rng: np.random.Generator) -> float:
    """Half as fast after sixty launches."""
    return float(np.log(2) * number / 60)


def jumping(number: int, rng: np.random.Generator) -> float:
    """A fifth slower in ten launches of twenty."""
    return 0.2 * (number // 10 % 2)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--campaigns", type=int, default=40)
    parser.add_argument("--only", default="", help="machines whose name begins so")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--how", nargs="+", default=list(HOW), choices=HOW)
    parser.add_argument("--verdicts", type=int, default=0, help="print so many verdicts of each")
    options = parser.parse_args()
    print(
        f"{'machine':22} {'':5} {'n':>4} {'handed over':>11} {'false':>6} "
        f"{'launches: median':>17} {'90 %':>5} {'seconds':>8}"
    )
    with ProcessPoolExecutor(options.workers) as pool:
        for name, planted in machines():
            if not name.startswith(options.only):
                continue
            for how in options.how:
                made = list(pool.map(partial(outcome, planted, HOW[how]), range(options.campaigns)))
                print(row(name, how, made), flush=True)
                for one in islice(made, options.verdicts):
                    print(f"    {one.said}")


def row(name: str, how: str, made: Sequence[Outcome]) -> str:
    """One line of the table."""
    launches = [o.launches for o in made]
    shares = f"{sum(o.handed_over for o in made):11} {sum(o.false for o in made):6}"
    spent = f"{np.median(launches):17.0f} {np.percentile(launches, 90):5.0f}"
    took_s = np.mean([o.seconds for o in made])
    return f"{name:22} {how:5} {len(made):4} {shares} {spent} {took_s:8.0f}"


if __name__ == "__main__":
    main()
