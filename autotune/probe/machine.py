"""Other activity of a machine while its ranks measure, from its kernel (step 6 of the flow).

Linux only; elsewhere nothing is known, and nothing is said. Each rank looks twice, before and after the
sweeps; the ranks of a node then add up the processor time that was their own.
"""

import os
import platform
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

if TYPE_CHECKING:  # it initialises MPI, and counters are read without
    from mpi4py import MPI

_CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Look:
    """One look of one rank."""

    counters: Counters | None  # Its machine's; None: its kernel has none.
    own_s: float  # Processor time of this process.


def look() -> Look:
    """The counters now."""
    return Look(counters(), time.process_time())


def counters() -> Counters | None:
    """This machine's counters until now; None where its kernel has none."""
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


def since(world: "MPI.Intracomm", before: Look) -> Disturbance | None:
    """Interference with the ranks since a look; the same on all of them, that of the worst node."""
    after = look()
    allowed = sum(1 << core for core in os.sched_getaffinity(0))
    mine = _SeenByRank(before.counters, after.counters, after.own_s - before.own_s, _clock_share(), allowed)
    nodes: dict[str, list[_SeenByRank]] = defaultdict(list)
    for name, rank in world.allgather((platform.node(), mine)):
        nodes[name].append(rank)
    found = [one for one in map(_of_node, nodes.values()) if one is not None]
    return worst(found) if found else None


@dataclass(frozen=True, slots=True)
class _SeenByRank:
    before: Counters | None
    after: Counters | None
    own_s: float
    clock_share: float
    allowed: int  # The cores that it may use, as bits.


def _of_node(ranks: Sequence[_SeenByRank]) -> Disturbance | None:
    """Interference with the ranks of one node."""
    seen = [(rank.before, rank.after) for rank in ranks]
    complete = [(before, after) for before, after in seen if before is not None and after is not None]
    if not complete:
        return None
    own_s, cores = sum(rank.own_s for rank in ranks), reduce(or_, (rank.allowed for rank in ranks))
    return replace(
        disturbance(*complete[0], own_s, min(rank.clock_share for rank in ranks)),
        throttled=max(0, *(after.throttled - before.throttled for before, after in complete)),
        crowded_ranks=max(0, len(ranks) - cores.bit_count()),
    )


def _clock_share() -> float:
    """The frequency of this core now, as a share of its highest one; 1 where it is not known."""
    with suppress(OSError, ValueError, IndexError, ZeroDivisionError):
        core = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[36]
        folder = _CPUS / f"cpu{core}/cpufreq"
        now, top = (
            int((folder / name).read_text(encoding="utf-8"))
            for name in ("scaling_cur_freq", "cpuinfo_max_freq")
        )
        return min(1.0, now / top)
    return 1.0
