"""One cell (a message size with a choice of algorithm) while it is measured: its call, samples and time.

This belongs to step 6 of the data flow, the probe.
"""

import math
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain, compress
from typing import Any, TypeAlias

from autotune.measure.rows import Row
from autotune.probe.exchange import Exchange
from autotune.probe.protocol import CellSamples, SweptChoice
from autotune.probe.synchronisation import Timed

Verdict: TypeAlias = tuple[str, str]  # Status of a cell as in ``CellSamples.status``, and the reason for it.
OK: Verdict = ("ok", "")  # The verdict on a cell without any problem.
NEVER_TIMED = "the launch's time was used up before its first timed call"
"""Reason given for a cell that has no sample because the time was used up."""


@dataclass(slots=True)
class TimedPart:
    """When the timed calls of a launch began, and how long they took together."""

    begun_s: float = math.nan  # Time at which the first timed call began, in seconds of CLOCK_MONOTONIC.
    seconds: float = 0.0  # Seconds spent in timed calls, including synchronisation.

    def add(self, seconds: float) -> None:
        """Add the duration, in seconds, of calls that ended just now."""
        if math.isnan(self.begun_s):
            self.begun_s = time.monotonic() - seconds
        self.seconds += seconds

    @classmethod
    def together(cls, parts: Iterable["TimedPart"]) -> "TimedPart":
        """Return the earliest beginning and the total duration of several parts."""
        parts = [part for part in parts if part.seconds]
        return cls(min((part.begun_s for part in parts), default=math.nan), sum(p.seconds for p in parts))


@dataclass(slots=True)
class SweptCell:
    """The state of one cell while it is measured: one message size with one choice, such as an algorithm."""

    message_bytes: int  # Message size in bytes.
    choice: SweptChoice  # The choice for the calls, such as an algorithm.
    verdict: Verdict = OK  # Status of the cell, and the reason for the status.
    exchange: Exchange | None = None  # Everything that the MPI call needs; None if the call is impossible.
    blocks: list[Timed] = field(default_factory=list)  # Samples and validity codes of each block, on rank 0.
    valid: Row = field(default_factory=Row)  # The valid samples.
    fastest_s: float = math.inf  # Smallest of all samples in seconds, on rank 0.
    timed_again: bool = False  # Whether the cell was timed again because it was slow, on rank 0.
    spent_s: float = 0.0  # Seconds spent on timed blocks.
    spent_on: int = 0  # Number of samples in the timed blocks.
    latest_s: float = 0.0  # Mean duration of a call in the last block, in seconds.
    started: bool = False  # Whether the cell's check, warm-up and first block are complete.
    took_s: float = 0.0  # Seconds that the cell's check, warm-up and first block took.
    extra: dict[str, float] = field(default_factory=dict)  # Further figures, see ``CellSamples.extra``.

    def add(self, block: Timed) -> None:
        """Add the samples of a block of calls, on rank 0."""
        self.blocks.append(block)
        times, codes = block
        self.fastest_s = min(self.fastest_s, *times)
        self.valid.extend(times if codes is None else compress(times, [not code for code in codes]))

    def samples(self, collective: str, comm_size: int, untimed: str = NEVER_TIMED) -> CellSamples:
        """Return the samples taken so far, on rank 0.

        If the cell was never timed, its status is ``invalid`` and its reason ``untimed``.
        """
        # These are arrays of the standard library; the program that reads the result gets numpy arrays.
        codes: list[bytes] = [codes for _, codes in self.blocks if codes is not None]
        validity: Any = array("B", b"".join(codes)) if codes else None
        times: Any = array("d", chain.from_iterable(times for times, _ in self.blocks))
        never = not self.blocks and self.verdict == OK
        status, reason = ("invalid", untimed) if never else self.verdict
        return CellSamples(
            collective=collective,
            comm_size=comm_size,
            message_bytes=self.message_bytes,
            values=dict(self.choice.values),
            samples_s=times,
            status=status,
            reason=reason,
            validity=validity,
            extra=self.extra,
        )
