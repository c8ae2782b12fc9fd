"""A rank in the tests of turns: real calls of one job on a clock of the test's own.

``python scripted_turns.py REQUEST COLD ROUNDS``: in each turn the first calls of a cell, so many, take twice
as long as the later ones: 1 µs, or in larger messages that for each KiB. Rank 0 prints the samples of each
cell in µs, what it has of the other loop, and how often each message size was called. Rank 1 leaves the last
turn a good while after rank 0.
"""

import json
import sys
import time
from array import array
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

from mpi4py import MPI

from autotune.probe import heat, sweep
from autotune.probe.loops import PythonLoop
from autotune.probe.mpit import ControlVariables, ToolInterface
from autotune.probe.native import load
from autotune.probe.protocol import ProbeRequest
from autotune.probe.turns import Turns

NOW = [0.0]
MADE: dict[int, int] = {}
"""Calls of each message size in this turn."""
CALLED: dict[int, int] = {}
"""The same of the whole heat."""


def main(request: ProbeRequest, cold: int, rounds: int) -> None:
    """Run the turns of a request: so many rounds."""
    for module in (heat, sweep):
        module.time = SimpleNamespace(perf_counter=lambda: NOW[0])
    call, leave, left = PythonLoop.run, Turns.leave, [0]

    def run(self, exchange, calls, starts_s=None, tight=False):
        call(self, exchange, min(calls, 2), starts_s, tight)
        size = exchange.elements * exchange.datatype.Get_size()
        before = MADE.get(size, 0)
        MADE[size] = before + calls
        CALLED[size] = CALLED.get(size, 0) + calls
        each_s = [1e-6 * max(1.0, size / 1024) * (2 if before + i < cold else 1) for i in range(calls)]
        ends = array("d", accumulate(each_s, initial=NOW[0]))
        NOW[0] = ends[-1]
        return ends[:-1], ends[1:]

    def left_again(self, turn, last):
        MADE.clear()
        left[0] += 1
        if last and MPI.COMM_WORLD.rank:
            time.sleep(0.2)
        leave(self, turn, last)

    PythonLoop.run, Turns.leave = run, left_again
    Turns.over = property(lambda self: left[0] >= rounds)
    tools = ToolInterface(MPI)
    kernel = load(MPI.COMM_WORLD, tools.library, Path()) if request.timing == "native" else None
    heat.loop_of = lambda comm, _: PythonLoop(comm)
    measured, *_ = heat.measure_heat(MPI.COMM_WORLD, request, request.heat, kernel, ControlVariables(tools))
    if MPI.COMM_WORLD.rank == 0:
        cells = [[[1e6 * s for s in c.samples_s], 1e6 * c.extra["other_loop_s"]] for c in measured]
        sys.stdout.write(json.dumps([cells, CALLED]) + "\n")


if __name__ == "__main__":
    main(ProbeRequest.from_json(Path(sys.argv[1]).read_text()), *map(int, sys.argv[2:]))
