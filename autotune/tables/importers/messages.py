"""Convert bandwidths, message rates and overlap of other benchmarks to the times that the probe measures.

For bandwidths, OSU's and Intel's benchmarks count the bytes of all pairs of ranks, and of both directions if
both ranks of a pair send; this project's probe measures the time of one message of a pair in each direction.
For a call with computation before the wait, the benchmarks print the whole time; the probe counts only the
time inside of MPI. One-sided bandwidths are those of many operations that are completed together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.collectives import COLLECTIVES, Pattern
from autotune.history.benchmark_row import BenchmarkRow

_OF_TWO = (Pattern.PAIR, Pattern.PAIRS, Pattern.ONE_SIDED)
_EPOCHS = {"MPI_Win_lock/unlock": "_lock", "MPI_Win_fence": "_fence", "MPI_Win_flush": ""}
"""Maps the way in which OSU's benchmark completes a one-sided operation to the suffix that the probe's name
of the operation has."""


def one_sided(collective: str, labels: dict[str, str]) -> str:
    """Return the probe's name of an operation, and remove from ``labels`` what the name already says.

    The name of a one-sided operation contains the way in which it is completed.
    """
    if f"{collective}_fence" in COLLECTIVES and labels.get("synchronization") in _EPOCHS:
        return collective + _EPOCHS[labels.pop("synchronization")]
    return collective


def ranks(collective: str, pairs: int | None) -> int | None:
    """Return how many ranks take part in a point-to-point operation; None for any other operation.

    The number is two for each pair of ranks. There is one pair if OSU's benchmark prints no number of pairs.
    """
    pattern_facts = COLLECTIVES.get(collective)
    return 2 * (pairs or 1) if pairs or (pattern_facts and pattern_facts.pattern in _OF_TWO) else None


def message_us(row: BenchmarkRow, rate: float | None) -> float | None:
    """Return the time in µs of one message of a pair in each direction; None without rate and bandwidth.

    Args:
        row: A row with a bandwidth in 10⁶ B/s.
        rate: Number of messages per second, from which the time is computed; if it is None, the time is
            computed from the bandwidth.
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
    """Yield the row and, if ``figures`` have overall and computation times, a row with their difference.

    The difference is the time inside of MPI.
    """
    yield row
    overall = figures.get("Overall(us)", figures.get("t_ovrl[usec]"))
    computed = figures.get("Compute(us)", figures.get("t_CPU[usec]"))
    if overall and computed:
        left_us = round(max(0.0, float(overall) - float(computed)), 2)
        yield replace(
            row, collective=f"{row.collective}_overlap", latency_us=left_us, min_us=None, max_us=None
        )
