"""How long a launch may still wait for its cores, and what it saw of them (step 6 of the flow)."""

import math
from dataclasses import replace

import numpy as np

from autotune.measure.machine import UsualCore

_PART_S = 0.02  # Measured time between two looks: cores are as usual for a few tenths of a second at a time.


class Steadiness:
    """State of a launch's cores, and the time it may still wait for them; shared by all of its sweeps."""

    def __init__(self, usual: UsualCore, patience_s: float) -> None:
        """``usual``: of earlier launches; what is not known of them the best of this one says."""
        self._usual, self._patience_s = usual, patience_s
        self.part_s = _PART_S if patience_s else math.inf
        """Measured time between two looks."""
        self._seen: list[tuple[float, float]] = []
        self._best = (math.inf, math.inf)
        self.lost_s = 0.0
        """Waited until they were as usual, or measured while they were not."""
        self._in_vain = False

    def keep(self, *seen: tuple[float, float]) -> None:
        """Something was measured between these two looks at latency and loop."""
        self._seen += seen

    def goes_on(self, latency_s: float, loop_s: float) -> bool:
        """Whether cores that are so near and so fast are used as they are."""
        self._best = min(self._best[0], latency_s), min(self._best[1], loop_s)
        usual = replace(
            self._usual,
            latency_s=self._usual.latency_s or self._best[0],
            loop_s=self._usual.loop_s or self._best[1],
        )
        worth_s = usual.worth_s(latency_s, loop_s, self._patience_s)
        self._in_vain |= 0 < worth_s <= self.lost_s
        return self.lost_s >= worth_s

    @property
    def figures(self) -> dict[str, float]:
        """As in ``measure.machine``; nothing where nobody looked."""
        if not self._seen:
            return {}
        latency_s, loop_s = np.mean(self._seen, axis=0).tolist()
        return self._usual.figures(latency_s, loop_s, self.lost_s) | {
            "best_core_latency_s": self._best[0],
            "best_core_loop_s": self._best[1],
            "waited_in_vain": float(self._in_vain),
        }
