"""One row of somebody's table, whatever format it stood in."""

import math
from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """A benchmark's figures for one message size. None: the table lacks it."""

    source: str  # Name of the file.
    line: int  # Line in it, from 1.
    benchmark: str  # The benchmark's title, e.g. `OSU MPI Allreduce Latency Test`; empty for a plain table.
    version: str  # The benchmark's; empty where not printed.
    collective: str
    """Operation: a name of `collectives.COLLECTIVES` where it is one, else the benchmark's own
    in lower case; empty where the table does not say."""
    comm_size: int | None  # Ranks that took part.
    message_bytes: int
    """Message size as the benchmark counts it; 0 for a barrier. (OSU and Intel count the whole vector of a
    reduce-scatter, the block of one rank for other collectives that divide their data.)"""
    latency_us: float | None
    """Time of one call as the benchmark summarises it: mean for OSU and Intel, median for ReproMPI. Of
    a bandwidth or a message rate that of one message of a pair, each way, as the probe counts it."""
    min_us: float | None = None
    """Smallest of what the benchmark took the extremes of (ranks for OSU and Intel, calls for ReproMPI)."""
    max_us: float | None = None  # Largest of the same.
    iterations: int | None = None  # Calls behind the row.
    bandwidth_MBps: float | None = None  # noqa: N815 (MB and Mb are different units)
    """Bandwidth as printed, in 10⁶ bytes per second."""
    labels: tuple[tuple[str, str], ...] = ()
    """Further keys of a row: (name, value), e.g. datatype, variant, a table's further columns."""
    context: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """Words of the log before the table on how it was launched: (name, value), sorted. They are labels where
    they differ between tables, see ``context.told_apart``."""
    unread: str = field(default="", compare=False)
    """Lines between this table and the one before that no reader understands."""

    def __post_init__(self) -> None:
        """Check.

        Raises:
            ValueError: A number that is negative or not finite, or neither latency nor bandwidth.
        """
        for its in fields(self):
            value = getattr(self, its.name)
            if isinstance(value, int | float) and not 0 <= value < math.inf:
                raise ValueError(f"{its.name}={value} is not a finite number of at least 0")
        if self.comm_size == 0:
            raise ValueError("comm_size=0: at least one rank took part")
        if self.latency_us is None and self.bandwidth_MBps is None:
            raise ValueError("neither latency nor bandwidth")
