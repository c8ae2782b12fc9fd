"""Bandwidths, message rates and overlap of benchmarks, as the times that the probe gives its patterns.

OSU and Intel print what all pairs send together, both ways where they send both ways; the probe times one
message of a pair each way. Of a call that computes before it waits they print the whole; the probe counts
the time inside of MPI alone. One-sided bandwidths are those of many operations with one completion.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.collectives import COLLECTIVES, Pattern
from autotune.importers.benchmark_row import BenchmarkRow

_OF_TWO = (Pattern.PAIR, Pattern.PAIRS, Pattern.ONE_SIDED)
_EPOCHS = {"MPI_Win_lock/unlock": "_lock", "MPI_Win_fence": "_fence", "MPI_Win_flush": ""}
"""How OSU completes an operation → what the probe's name of it ends in."""


def one_sided(collective: str, labels: dict[str, str]) -> str:
    """The probe's name of an operation; what the name says is taken out of the labels."""
    if f"{collective}_fence" in COLLECTIVES and labels.get("synchronization") in _EPOCHS:
        return collective + _EPOCHS[labels.pop("synchronization")]
    return collective


def ranks(collective: str, pairs: int | None) -> int | None:
    """Ranks of a pattern whose log does not name them: two for each pair, and OSU's pairs are one."""
    its = COLLECTIVES.get(collective)
    return 2 * (pairs or 1) if pairs or (its and its.pattern in _OF_TWO) else None


def message_us(row: BenchmarkRow, rate: float | None) -> float | None:
    """Time of one message of a pair each way, of a bandwidth in 10⁶ B/s or of messages a second."""
    its = COLLECTIVES.get(row.collective)
    pairs = (row.comm_size or 2) // 2 if its and its.pattern is Pattern.PAIRS else 1
    ways = 2 if row.collective == "bidirectional" or "bi_directional" in row.collective else 1
    if rate:
        return round(1e6 * pairs * ways / rate, 6)
    return round(row.message_bytes * pairs * ways / row.bandwidth_MBps, 6) if row.bandwidth_MBps else None


def with_overlap(row: BenchmarkRow, figures: Mapping[str, str]) -> Iterator[BenchmarkRow]:
    """The row, and one more where the table says what is left of a call beside computation."""
    yield row
    whole = figures.get("Overall(us)", figures.get("t_ovrl[usec]"))
    computed = figures.get("Compute(us)", figures.get("t_CPU[usec]"))
    if whole and computed:
        left_us = round(max(0.0, float(whole) - float(computed)), 2)
        yield replace(
            row, collective=f"{row.collective}_overlap", latency_us=left_us, min_us=None, max_us=None
        )
