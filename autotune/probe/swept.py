"""One cell of a sweep on its way: what was called, what came of it, and what it took (step 6 of the flow)."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from autotune.probe.exchange import Exchange
from autotune.probe.protocol import CellSamples, SweptChoice
from autotune.probe.synchronisation import Timed

Verdict: TypeAlias = tuple[str, str]  # Status and reason.
OK: Verdict = ("ok", "")
NEVER_TIMED = "the launch's time was used up before its first timed call"
"""Why a cell has no sample."""


@dataclass(slots=True)
class SweptCell:
    """One message size with one choice."""

    message_bytes: int
    choice: SweptChoice
    verdict: Verdict = OK
    exchange: Exchange | None = None
    blocks: list[Timed] = field(default_factory=list)
    spent_s: float = 0.0
    spent_on: int = 0
    latest_s: float = 0.0  # What each call of the last block took.
    begun: bool = False  # Whether its check, warm-up and first block were made.
    took_s: float = 0.0  # What these took.
    extra: dict[str, float] = field(default_factory=dict)

    def samples(self, collective: str, comm_size: int, untimed: str = NEVER_TIMED) -> CellSamples:
        """Samples so far, on rank 0; a cell that was never timed cannot be used, and ``untimed`` says why."""
        codes = [codes for _, codes in self.blocks if codes is not None]
        never = not self.blocks and self.verdict == OK
        status, reason = ("invalid", untimed) if never else self.verdict
        return CellSamples(
            collective=collective,
            comm_size=comm_size,
            message_bytes=self.message_bytes,
            values=dict(self.choice.values),
            samples_s=np.concatenate([times for times, _ in self.blocks] or [np.empty(0)]),
            status=status,
            reason=reason,
            validity=np.concatenate(codes) if codes else None,
            extra=self.extra,
        )
