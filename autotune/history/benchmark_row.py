"""One row of a benchmark's table, whatever the format of the file."""

import math
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A benchmark's figures for one message size; None where the table lacks a figure."""

    source: str  # Name of the file.
    line: int  # Line number in the file, from 1.
    benchmark: str  # The benchmark's title, e.g. `OSU MPI Allreduce Latency Test`; empty for a plain table.
    version: str  # The benchmark's version; empty where it is not printed.
    collective: str
    """Operation: a name of `collectives.COLLECTIVES` where it is one, otherwise the benchmark's own name in
    lower case; empty where the table does not name it."""
    comm_size: int | None  # Number of ranks that took part.
    message_bytes: int
    """Message size in bytes as the benchmark counts it; 0 for a barrier. OSU and Intel count the whole vector
    of a reduce-scatter, and the block of one rank for other collectives that divide their data."""
    latency_us: float | None
    """Time of one call in µs as the benchmark summarises it: the mean for OSU and Intel, the median for
    ReproMPI. If the benchmark measures a bandwidth or a message rate, it is the time of one message between
    two ranks in each direction, as the probe counts it."""
    min_us: float | None = None
    """Smallest time in µs: over ranks for OSU and Intel, over calls for ReproMPI."""
    max_us: float | None = None  # Largest time in µs, over ranks or calls as ``min_us``.
    iterations: int | None = None  # Number of calls that the row summarises.
    bandwidth_MBps: float | None = None  # noqa: N815 (MB and Mb are different units)
    """Bandwidth as printed, in 10⁶ bytes per second."""
    labels: tuple[tuple[str, str], ...] = ()
    """Further keys of a row as (name, value), such as datatype, variant or further columns of a table."""
    context: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Settings of the launch as (name, value), sorted, taken from the lines of the log before the table. They
    become labels where they differ between tables, see ``context.told_apart``."""
    unread: str = field(default="", compare=False)
    """Lines between this table and the previous one that could not be parsed."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: A number is negative or not finite, or the row has neither latency nor bandwidth.
        """
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise ValueError(f"{column.name}={value} is not a finite number of at least 0")
        if self.comm_size == 0:
            raise ValueError("comm_size=0: at least one rank took part")
        if self.latency_us is None and self.bandwidth_MBps is None:
            raise ValueError("neither latency nor bandwidth")
