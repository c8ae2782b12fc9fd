"""Load of a machine from other work, from its kernel's counters (between steps 6 and 7 of the flow).

Notation: a *core* is a logical processor of the kernel; loads are in cores: 1.0 is one of them, always busy.
"""

import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class CoreLimits:
    """From where on a machine is disturbed, and how long a launch waits for better cores."""

    quiet_cores: float = 0.1  # Other work up to so many cores is any machine's own: daemons, the timer.
    quiet_share: float = 0.05  # The same as a share of all cores.
    stolen_cores: float = 0.05  # The same of time taken by the host of a virtual machine.
    clock_share: float = 0.75  # Share of its highest frequency below which a core that measures is held back.
    near: float = 2.0  # Core-to-core latency over the usual one, up to which cores are as near as usual.
    fast: float = 1.15  # Duration of the core loop over the usual one, up to which cores are fast.
    slow: float = 1.3  # The ratio from which on it is reported: sharing a core takes so long at times.
    shared_s: float = 1e-5  # Cores lie a microsecond apart at most: where a line takes longer, one is shared.
    often: float = 0.5  # Share of launches on distant cores from which on it is no exception.
    moment_s: float = 0.5  # How long a launch of the search waits for fast cores: most can be taken out.
    longer_s: float = 5.0  # The same of the verification: on slow cores times vary ten times as much.
    day_s: float = 86400.0  # As long as a launch may wait at all.
    remembered: int = 24  # Launches of a placement that define what is usual for it.
    fewest: int = 3  # Launches without which nothing is usual.
    quantile: float = 0.25  # Of the times of these launches: low, most may have been disturbed.
    waiting_share: float = 0.5  # Of the time that launches took, what may be waited in all.
    least_hope: float = 1 / 32
    """Share of the patience that is left after many waits in vain: five launches without restore it."""


LIMITS = CoreLimits()


@dataclass(frozen=True, slots=True)
class Counters:
    """Counters of one machine's kernel until now, over all its cores."""

    at_s: float  # When, on any clock.
    busy_s: float  # Time in which a core did something.
    stolen_s: float  # Time in which the host of a virtual machine ran others on a core.
    cores: int  # That are there.
    throttled: int = 0  # How often a core was slowed down for heat or power.


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Interference with the ranks on one machine."""

    cores: float  # That are there.
    other_load_cores: float = 0.0  # Busy with other work than the ranks'.
    stolen_cores: float = 0.0  # Kept by the host of a virtual machine.
    throttled: float = 0.0  # How often a core was slowed down for heat or power.
    clock_share: float = 1.0  # Of its highest frequency, of the slowest core that measured.
    crowded_ranks: float = 0.0  # Ranks beyond the cores that they may use.
    core_latency_s: float = 0.0  # Round trip of a cache line between ranks of a node, the slowest; 0: unknown
    core_loop_s: float = 0.0  # Of a fixed piece of arithmetic, on the slowest core; 0: not known.
    cores_apart: float = 1.0  # The latency over what is usual for this placement; 1: not known.
    cores_slow: float = 1.0  # The same of the loop.
    waited_s: float = 0.0  # Until the cores were as near as usual.

    @property
    def figures(self) -> dict[str, float]:
        """By name, for the journal."""
        return {_figure(field.name): getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of(cls, figures: Mapping[str, float]) -> "Disturbance | None":
        """Out of what a launch reported; None: it did not."""
        names = {field.name: _figure(field.name) for field in fields(cls)}
        known = {name: figures[figure] for name, figure in names.items() if figure in figures}
        return cls(**known) if "cores" in known else None

    @property
    def words(self) -> tuple[str, ...]:
        """Interference beyond any machine's own, in words; none on a quiet one."""
        said = []
        if self.other_load_cores > max(LIMITS.quiet_cores, LIMITS.quiet_share * self.cores):
            said.append(f"other work on {self.other_load_cores:.1f} of {self.cores:g} cores")
        if self.stolen_cores > LIMITS.stolen_cores:
            said.append(f"{self.stolen_cores:.2f} cores taken by the host of this virtual machine")
        if self.throttled:
            said.append(f"cores slowed down {self.throttled:g} times for heat or power")
        if self.clock_share < LIMITS.clock_share:
            said.append(f"a core at {100 * self.clock_share:.0f} % of its frequency")
        if self.crowded_ranks:
            said.append(f"{self.crowded_ranks:g} ranks more than cores")
        if self.core_latency_s >= LIMITS.shared_s:
            said.append("ranks that waited for a core")
        elif self.cores_apart > LIMITS.near:
            said.append(f"cores {self.cores_apart:.1f} times as far apart as usual")
        if self.cores_slow > LIMITS.slow:
            said.append(f"cores {self.cores_slow:.2f} times as slow as usual")
        return tuple(said)


def _figure(name: str) -> str:
    """Name in the journal of a field of ``Disturbance``."""
    return {"cores": "machine_cores", "throttled": "throttled_times"}.get(name, name)


def far_apart(figures: Mapping[str, float]) -> bool:
    """Whether a launch's cores were further apart than usual, also where they were shared at times.

    Where the host put the cores says nothing of a setting; who shares one does: a setting may not bind ranks.
    """
    mean_s, apart = figures.get("core_latency_s", 0.0), figures.get("cores_apart", 1.0)
    return apart > LIMITS.near and (_latency_s(figures) > LIMITS.near * mean_s / apart or not mean_s)


def core_states(launches: Sequence[Mapping[str, float]]) -> tuple[int, ...]:
    """Which launches had cores equally far apart: the same number, 0 for the nearest.

    A threshold on ln of the latency parts the launches where the variance within both parts is least (Otsu
    1979), and each part again, as long as their means lie ``near`` apart. Absolute times show two states of
    a host from the first launch on; what is usual by then is either of them.

    References:
        Otsu: A threshold selection method from gray-level histograms. IEEE Transactions on Systems, Man, and
            Cybernetics 9 (1979) 62–66.
    """
    latencies = [_latency_s(one) for one in launches]
    limits = _thresholds(np.sort(np.log([seconds for seconds in latencies if seconds > 0])))
    return tuple(sum(seconds > math.exp(limit) for limit in limits) for seconds in latencies)


def _thresholds(x: Floats) -> list[float]:
    """Between the parts of ascending values, ascending."""
    if len(x) < 2:
        return []
    n = np.arange(1, len(x))
    low, high = np.cumsum(x)[:-1] / n, (x.sum() - np.cumsum(x)[:-1]) / (len(x) - n)
    at = int(np.argmax(n * (len(x) - n) * (high - low) ** 2))
    if high[at] - low[at] < math.log(LIMITS.near):
        return []
    below, above = x[: at + 1], x[at + 1 :]
    return [*_thresholds(below), float(below[-1] + above[0]) / 2, *_thresholds(above)]


def _latency_s(figures: Mapping[str, float]) -> float:
    """A launch's core-to-core latency; the best that it saw where it waited for a shared core; 0: unknown."""
    mean_s = figures.get("core_latency_s", 0.0)
    return mean_s if mean_s < LIMITS.shared_s else figures.get("best_core_latency_s", 0.0)


def often_apart(launches: Sequence[Mapping[str, float]]) -> bool:
    """Whether so many launches had cores further apart than usual that it is no exception."""
    return sum(map(far_apart, launches)) > LIMITS.often * len(launches)


def cores_in(figures: Mapping[str, float]) -> tuple[float, ...]:
    """Logarithms of a launch's core-to-core latency and core loop, which no knob moves, as far as known."""
    seconds = (figures.get(name, 0.0) for name in ("core_latency_s", "core_loop_s"))
    return tuple(float(np.log(s)) for s in seconds if s > 0)


def disturbance(before: Counters, after: Counters, own_s: float, clock_share: float = 1.0) -> Disturbance:
    """Interference on a machine between two looks, less ``own_s`` of the ranks' own processor time."""
    span_s = after.at_s - before.at_s
    if span_s <= 0:
        return Disturbance(after.cores, 0.0)
    other = (after.busy_s - before.busy_s - own_s) / span_s
    stolen = (after.stolen_s - before.stolen_s) / span_s
    throttled = max(0, after.throttled - before.throttled)
    return Disturbance(after.cores, max(0.0, other), max(0.0, stolen), throttled, clock_share)


def worst(found: Sequence[Disturbance]) -> Disturbance:
    """The worst figure of each kind over several machines, one at least."""
    least, most = (
        {field.name: pick(getattr(one, field.name) for one in found) for field in fields(Disturbance)}
        for pick in (min, max)
    )
    return Disturbance(**most | {name: least[name] for name in ("cores", "clock_share")})


def usual_s(times_s: Sequence[float]) -> float:
    """The usual time among those of some launches; 0 where they are too few."""
    return float(np.quantile(times_s, LIMITS.quantile)) if len(times_s) >= LIMITS.fewest else 0.0


@dataclass(frozen=True, slots=True)
class UsualCore:
    """The usual figures of the cores of one placement; 0: not known."""

    latency_s: float = 0.0  # Core to core.
    loop_s: float = 0.0  # Of the core loop.
    moment_s: float = LIMITS.moment_s  # How long slow cores may be waited for.
    spell_s: float = LIMITS.day_s  # How long those far apart may be.

    def worth_s(self, latency_s: float, loop_s: float, patience_s: float) -> float:
        """How long a launch may wait for other cores than those so near and so fast; 0: they are as usual."""
        if self.latency_s and latency_s > LIMITS.near * self.latency_s:
            return min(patience_s, self.spell_s)
        return min(patience_s, self.moment_s) if self.loop_s and loop_s > LIMITS.fast * self.loop_s else 0.0

    def figures(self, latency_s: float, loop_s: float, waited_s: float) -> dict[str, float]:
        """A launch's figures, by the names of ``Disturbance``."""
        return {
            "core_latency_s": latency_s,
            "core_loop_s": loop_s,
            "cores_apart": latency_s / self.latency_s if self.latency_s else 1.0,
            "cores_slow": loop_s / self.loop_s if self.loop_s else 1.0,
            "waited_s": waited_s,
        }


class UsualCores:
    """The usual figures of each placement of the ranks, by the launches made so far."""

    def __init__(self) -> None:
        self._owed_s, self._hope = 0.0, 1.0
        self._seen: dict[tuple[str, ...], deque[tuple[float, float]]] = defaultdict(
            lambda: deque(maxlen=LIMITS.remembered)
        )

    def of(
        self, placement: tuple[str, ...], patience_s: float, proving: bool = False
    ) -> tuple[UsualCore, float]:
        """The usual figures, and how long the next launch may wait for them: half as long after a vain wait.

        ``proving``: a launch of the verification waits for fast cores, and but for a moment for near ones:
        those far apart, which may last for a minute, are compared among themselves.
        """
        latencies, loops = zip(*self._seen[placement], strict=True) if self._seen[placement] else ((), ())
        left_s = self._hope * max(0.0, patience_s - self._owed_s)
        slow_s, far_s = (LIMITS.longer_s, LIMITS.moment_s) if proving else (LIMITS.moment_s, LIMITS.day_s)
        return UsualCore(usual_s(latencies), usual_s(loops), self._hope * slow_s, far_s), left_s

    def add(self, placement: tuple[str, ...], figures: Mapping[str, float], duration_s: float) -> None:
        """Learn from a launch."""
        if loop_s := figures.get("best_core_loop_s", 0.0):
            self._seen[placement].append((figures["best_core_latency_s"], loop_s))
        # A wait that was given up has changed nothing: what was measured then is as disturbed as without it.
        vain = figures.get("waited_in_vain", 0.0) > 0
        self._hope = max(self._hope / 2, LIMITS.least_hope) if vain else min(2 * self._hope, 1.0)
        # What earlier launches did not wait is not owed to those that follow: a verification would spend on
        # its first few what a whole discovery left, six seconds for each second of measuring.
        spent_s = figures.get("waited_s", 0.0) - LIMITS.waiting_share * duration_s
        self._owed_s = max(0.0, self._owed_s + spent_s)
