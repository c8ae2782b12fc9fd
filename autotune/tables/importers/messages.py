"""Convert other benchmarks' bandwidths, message rates and overlap to the times that the probe measures.

For bandwidths, OSU's and Intel's benchmarks count the bytes of all pairs of ranks, in both directions if
these send to each other; this project's probe measures the time of one message of a pair in each direction.
For a call with computation before the wait they print the whole time; the probe counts only the time inside
of MPI. One-sided bandwidths are those of many operations that are completed together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from autotune.collectives import COLLECTIVES, Pattern
from autotune.history.benchmark_row import BenchmarkRow

_OF_TWO = (Pattern.PAIR, Pattern.PAIRS, Pattern.ONE_SIDED)
_EPOCHS = {"MPI_Win_lock/unlock": "_lock", "MPI_Win_fence": "_fence", "MPI_Win_flush": ""}
"""Maps how OSU's benchmark completes a one-sided operation to a suffix of the probe's name for the
operation."""


def one_sided(collective: str, labels: dict[str, str]) -> str:
    """Return the probe's name of an operation, and remove the label that the name replaces from ``labels``.

    For one-sided operations the name contains how they are completed.
    """
    if f"{collective}_fence" in COLLECTIVES and labels.get("synchronization") in _EPOCHS:
        return collective + _EPOCHS[labels.pop("synchronization")]
    return collective


def ranks(collective: str, pairs: int | None) -> int | None:
    """Return how many ranks take part in a point-to-point operation; None for any other operation.

    It is two for each pair; OSU's benchmarks that print no number of pairs have one pair.
    """
    pattern_facts = COLLECTIVES.get(collective)
    return 2 * (pairs or 1) if pairs or (pattern_facts and pattern_facts.pattern in _OF_TWO) else None


def message_us(row: BenchmarkRow, rate: float | None) -> float | None:
    """Return the time in µs of one message of a pair in each direction, or None without rate and bandwidth.

    Args:
        row: A row with a bandwidth in 10⁶ B/s.
        rate: Number of messages per second, from which the time is computed if it is given; None: the time is
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
    """Yield the row and, if the table has overall and computation times, a row with their difference.

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
