"""Simulated nights of a machine: launches that differ, days, drift, nodes that are exchanged, a loss."""

from dataclasses import dataclass

import numpy as np

from autotune.guard.kept import Launched, Night, slot_text
from autotune.guard.nights import of_launches
from autotune.guard.verbs import EACH_NIGHT

SLOTS = tuple((name, 4, 8**power) for name in ("allreduce", "bcast") for power in range(1, 6))


@dataclass(frozen=True)
class Machine:
    """How much what differs, as standard deviations of ln t."""

    launch: float = 0.05
    tails: bool = False  # Launches as t of three degrees of freedom.
    day: float = 0.0
    drift: float = 0.0  # A walk from night to night.
    exchange: float = 0.0  # Of the speed of a node; one is exchanged every fifth night, for good.
    weekend: float = 0.0  # How much slower two nights of seven are.
    broken: float = 0.0  # Share of nights on which a node is 30 % slower.
    own_day: float = 0.0  # Of the day of each size alone.
    own_side: float = 0.0  # Of the day of each size on each side alone.
    own_drift: float = 0.0  # A walk of each size alone.
    own_exchange: float = 0.0  # A node of each size alone.
    gain: float = 0.15

    def launches(self, n, series, rng, each, loss=None, slots=SLOTS):
        """Ln t of series of nights, ``(n, series, each, 2, n_slots)``, default first.

        ``loss``: (night, slot or None for all, ratio, whether the untouched stack loses too).
        """
        shape, night = (n, series, 1, 1, len(slots)), np.arange(n)[:, None, None, None, None]
        common = (*shape[:-1], 1)
        y = rng.standard_t(3, (n, series, each, 2, len(slots))) if self.tails else rng.normal(
            size=(n, series, each, 2, len(slots))
        )  # fmt: skip
        y *= self.launch
        for day, drift, exchange, of in (
            (self.day, self.drift, self.exchange, common),
            (self.own_day, self.own_drift, self.own_exchange, shape),
        ):
            y += rng.normal(0, day, of) + np.cumsum(rng.normal(0, drift, of), axis=0)
            y += np.cumsum(np.where(night % 5 == 4, rng.normal(0, exchange, of), 0), axis=0)
        y += rng.normal(0, self.own_side, (n, series, 1, 2, len(slots)))
        y += self.weekend * (night % 7 >= 5) + np.log(1.3) * (rng.random(common) < self.broken)
        y += np.log([1e-6 + slot[2] / 1e10 for slot in slots])
        y[:, :, :, 1] -= self.gain
        if loss:
            where = slice(None) if loss[1] is None else slots.index(loss[1])
            y[loss[0] :, :, :, 0 if loss[3] else 1 :, where] += np.log(loss[2])
        return y

    def means(self, n, series, rng, each=EACH_NIGHT, loss=None):
        """Settings and default as the check sees them, ``(n, series, n_slots)`` each."""
        y = self.launches(n, series, rng, each, loss)
        means = of_launches(np.moveaxis(y, 2, 0).reshape(each, -1))[0].reshape(n, series, 2, -1)
        return means[:, :, 1], means[:, :, 0]

    def nights(self, n, rng, each=8, loss=None, slots=SLOTS, states=None):
        """Nights of one series."""
        y, names = np.exp(self.launches(n, 1, rng, each, loss, slots)[:, 0]), [slot_text(s) for s in slots]
        made = []
        for number in range(n):
            launches = []
            for block in range(each // 4):
                rows = {
                    tuned: iter(y[number, 4 * block : 4 * block + 4, int(tuned)]) for tuned in (True, False)
                }
                for tuned in map(bool, rng.permutation([True, False] * 4)):
                    times = dict(zip(names, map(float, next(rows[tuned])), strict=True))
                    launches.append(Launched(tuned, block, times))
            state = states[number] if states else "one"
            made.append(
                Night(f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T02:00:00Z", state, tuple(launches))
            )
        return made
