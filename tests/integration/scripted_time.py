"""What each rank runs in the tests of shared time: real calls on a clock of the test's own.

``python scripted_time.py REQUEST COSTS``: a request as the probe reads it, and seconds by collective. A call
moves the clock on by what its collective costs, times its bytes over 1024 where these are more, and longer by
``skew`` on each further rank; nothing else takes time. Rank 0 prints what was called in which order, and what
came of each cell.
"""

import json
import sys
import time
from array import array
from types import SimpleNamespace

from mpi4py import MPI

from autotune.probe import sweep, sweeps, tight
from autotune.probe.loops import PythonLoop
from autotune.probe.mpit import ControlVariables, ToolInterface
from autotune.probe.protocol import ProbeRequest

NOW = [0.0]
BLOCKS: list[str] = []


def main(request: ProbeRequest, costs: dict[str, float]) -> None:
    """Run the sweeps of a request."""
    clock = SimpleNamespace(perf_counter=lambda: NOW[0], sleep=time.sleep)
    for module in (sweep, sweeps, tight):
        module.time = clock
    call = PythonLoop.run

    def run(self, exchange, calls, starts_s=None, tight=False):
        call(self, exchange, calls, starts_s, tight)
        size = exchange.elements * exchange.datatype.Get_size()
        cost_s = costs[exchange.operation.name] * max(1.0, size / 1024)
        cost_s *= 1 + costs.get("skew", 0.0) * MPI.COMM_WORLD.rank
        begins = [NOW[0] + cost_s * i for i in range(calls)]
        NOW[0] += calls * cost_s
        return array("d", begins), array("d", [begin + cost_s for begin in begins])

    PythonLoop.run = run
    for kind in (sweep.Sweep, tight.TightSweep):
        for name in ("_time_first", "_sample"):
            observe(kind, name)
    world = MPI.COMM_WORLD
    cells, notes, _ = sweeps.sweeps(world, request, None, ControlVariables(ToolInterface(MPI)))
    if world.rank == 0:
        made = [[c.collective, c.comm_size, c.message_bytes, len(c.samples_s), c.reason] for c in cells]
        found = {"cells": made, "notes": notes, "order": BLOCKS, "took_s": NOW[0]}
        sys.stdout.write(json.dumps(found) + "\n")


def observe(kind: type, name: str) -> None:
    """Write down when a part of a sweep begins."""
    if name not in vars(kind):
        return
    part = vars(kind)[name]

    def observed(self, *given):
        BLOCKS.append(name)
        return part(self, *given)

    setattr(kind, name, observed)


if __name__ == "__main__":
    main(ProbeRequest.from_json(sys.argv[1]), json.loads(sys.argv[2]))
