"""Simulated nights of a machine: launches that differ, days, drift, nodes that are exchanged, a loss."""

from dataclasses import dataclass

import numpy as np

from autotune.guard.kept import Launched, Night, slot_text

SLOTS = tuple((name, 4, 8**power) for name in ("allreduce", "bcast") for power in range(1, 6))


@dataclass(frozen=True)
class Machine:
    """How much what differs, as standard deviations of ln t."""

    launch: float = 0.05
    day: float = 0.0
    drift: float = 0.0
    """A walk from night to night."""
    exchange: float = 0.0
    """Of the speed of a node; one is exchanged every fifth night, for good."""
    gain: float = 0.15

    def nights(self, n, rng, each=8, loss=None, slots=SLOTS, states=None):
        """``loss``: (night, slot, ratio, whether the untouched stack loses too)."""
        level = 0.0
        made = []
        for number in range(n):
            level += rng.normal(0, self.drift) if self.drift else 0.0
            if self.exchange and number % 5 == 4:
                level += rng.normal(0, self.exchange)
            day = level + (rng.normal(0, self.day) if self.day else 0.0)
            launches = []
            for block in range(each // 4):
                for tuned in rng.permutation([True, False] * 4):
                    times = {}
                    for slot in slots:
                        y = (
                            np.log(1e-6 + slot[2] / 1e10)
                            + day
                            + rng.normal(0, self.launch)
                            - self.gain * bool(tuned)
                        )
                        if loss and number >= loss[0] and slot == loss[1] and (tuned or loss[3]):
                            y += np.log(loss[2])
                        times[slot_text(slot)] = float(np.exp(y))
                    launches.append(Launched(bool(tuned), block, False, times))
            state = states[number] if states else "one"
            made.append(
                Night(f"2026-{1 + number // 28:02d}-{1 + number % 28:02d}T02:00:00Z", state, tuple(launches))
            )
        return made
