"""Load of a machine by other work while its ranks measure, read from the kernel's counters.

This belongs to step 6 of the data flow, the probe. It works on Linux only; elsewhere nothing is reported.
Each rank reads the counters twice, before and after the measurement. The processor time of a node's own ranks
is then added up and subtracted.
"""

import os
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.measure.machine import Counters, Disturbance, disturbance, worst

if TYPE_CHECKING:  # importing MPI initialises it, which is not needed to read counters
    from mpi4py import MPI

_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Look:
    """One reading of the kernel's counters by one rank."""

    counters: Counters | None  # Counters of the rank's machine; None if the kernel has no such counters.
    own_s: float  # Processor time of this process so far, in seconds.


def look() -> Look:
    """Read the machine's counters and this process's processor time now."""
    return Look(counters(), time.process_time())


def counters() -> Counters | None:
    """Return this machine's counters since its start; None if its kernel has no such counters."""
    try:
        first = Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()
        user, nice, system, _, _, irq, soft, stolen = (int(n) for n in first[1:9])
        tick = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None
    throttled = 0
    for core in os.sched_getaffinity(0):
        with suppress(OSError, ValueError):
            throttled += int(
                (_CPUS / f"cpu{core}/thermal_throttle/core_throttle_count").read_text(encoding="utf-8")
            )
    busy_s, cores = (user + nice + system + irq + soft) / tick, os.cpu_count() or 1
    return Counters(time.monotonic(), busy_s, stolen / tick, cores, throttled)


def since(world: "MPI.Intracomm", earlier: Look) -> Disturbance | None:
    """Return the interference of other work with the ranks since an earlier reading.

    All ranks must call this together, and get the same result: each figure comes from the node where it is
    worst. The result is None if no node could be observed.
    """
    later = look()
    allowed = sum(1 << core for core in os.sched_getaffinity(0))
    own_reading = _RankReadings(
        earlier.counters, later.counters, later.own_s - earlier.own_s, _clock_share(), allowed
    )
    nodes: dict[str, list[_RankReadings]] = defaultdict(list)
    for name, rank in world.allgather((os.uname().nodename, own_reading)):
        nodes[name].append(rank)
    disturbances = [node for node in map(_of_node, nodes.values()) if node is not None]
    return worst(disturbances) if disturbances else None


@dataclass(frozen=True, slots=True)
class _RankReadings:
    """Two readings of the counters by one rank, and what the rank observed of its own core."""

    first: Counters | None  # Counters at the first reading; None if the kernel has no such counters.
    second: Counters | None  # Counters at the second reading; None as for ``first``.
    own_s: float  # Processor time of the rank between the readings, in seconds.
    clock_share: float  # Frequency of the rank's core, as a share of the core's highest frequency.
    allowed: int  # Cores that the rank may use, one bit each.


def _of_node(ranks: Sequence[_RankReadings]) -> Disturbance | None:
    readings = [(rank.first, rank.second) for rank in ranks]
    complete = [(first, second) for first, second in readings if first is not None and second is not None]
    if not complete:
        return None
    own_s, cores = sum(rank.own_s for rank in ranks), reduce(or_, (rank.allowed for rank in ranks))
    return replace(
        disturbance(*complete[0], own_s, min(rank.clock_share for rank in ranks)),
        throttled=max(0, *(second.throttled - first.throttled for first, second in complete)),
        crowded_ranks=max(0, len(ranks) - cores.bit_count()),
    )


def _clock_share() -> float:
    """Return this core's frequency as a share of its highest frequency; 1 if it is not known."""
    with suppress(OSError, ValueError, IndexError, ZeroDivisionError):
        core = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[36]
        folder = _CPUS / f"cpu{core}/cpufreq"
        current, highest = (
            int((folder / name).read_text(encoding="utf-8"))
            for name in ("scaling_cur_freq", "cpuinfo_max_freq")
        )
        return min(1.0, current / highest)
    return 1.0
