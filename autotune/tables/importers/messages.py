"""Bandwidths, message rates and overlap of benchmarks, as the times that the probe measures for its patterns.

OSU and Intel print the bytes of all pairs together, in both directions where they send both ways; the probe
times one message of a pair in each direction. For a call that computes before it waits they print the whole
time; the probe counts the time inside of MPI alone. One-sided bandwidths are those of many operations with
one completion.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.collectives import COLLECTIVES, Pattern
from autotune.history.benchmark_row import BenchmarkRow

_OF_TWO = (Pattern.PAIR, Pattern.PAIRS, Pattern.ONE_SIDED)
_EPOCHS = {"MPI_Win_lock/unlock": "_lock", "MPI_Win_fence": "_fence", "MPI_Win_flush": ""}
"""How OSU completes an operation → suffix of the probe's name for it."""


def one_sided(collective: str, labels: dict[str, str]) -> str:
    """Return the probe's name of an operation; a label that the name replaces is removed from ``labels``."""
    if f"{collective}_fence" in COLLECTIVES and labels.get("synchronization") in _EPOCHS:
        return collective + _EPOCHS[labels.pop("synchronization")]
    return collective


def ranks(collective: str, pairs: int | None) -> int | None:
    """Return the ranks of a pattern whose log does not name them; None for any other operation.

    They are two for each pair, and OSU's benchmarks without a number of pairs have one.
    """
    pattern_facts = COLLECTIVES.get(collective)
    return 2 * (pairs or 1) if pairs or (pattern_facts and pattern_facts.pattern in _OF_TWO) else None


def message_us(row: BenchmarkRow, rate: float | None) -> float | None:
    """Return the time in µs of one message of a pair in each direction, or None where nothing gives it.

    Args:
        row: A row with a bandwidth in 10⁶ B/s.
        rate: Messages per second, which takes precedence; None where the table has none.
    """
    pattern_facts = COLLECTIVES.get(row.collective)
    pairs = (row.comm_size or 2) // 2 if pattern_facts and pattern_facts.pattern is Pattern.PAIRS else 1
    directions = 2 if row.collective == "bidirectional" or "bi_directional" in row.collective else 1
    if rate:
        return round(1e6 * pairs * directions / rate, 6)
    return (
        round(row.message_bytes * pairs * directions / row.bandwidth_MBps, 6) if row.bandwidth_MBps else None
    )


def with_overlap(row: BenchmarkRow, figures: Mapping[str, str]) -> Iterator[BenchmarkRow]:
    """Yield the row, and a second one where the table gives the time of a call outside of computation."""
    yield row
    overall = figures.get("Overall(us)", figures.get("t_ovrl[usec]"))
    computed = figures.get("Compute(us)", figures.get("t_CPU[usec]"))
    if overall and computed:
        left_us = round(max(0.0, float(overall) - float(computed)), 2)
        yield replace(
            row, collective=f"{row.collective}_overlap", latency_us=left_us, min_us=None, max_us=None
        )
