r"""The trap of the library's own barrier: an untouched broadcast's times under each barrier algorithm.

    mpirun -np 2 --mca coll_han_priority 0 --mca coll_tuned_use_dynamic_rules 1 \
        python benchmarks/barrier_trap.py

One job: before each broadcast there is a barrier, as in OSU's and Intel's benchmarks, and all that changes
is the algorithm of ``coll_tuned`` for that barrier, written by MPI_T before its communicator is made; beside
them the probe's own barrier of sends and receives. The broadcast has one communicator and one algorithm.
Blocks of 200 calls come in a drawn order, each kind once a round. A block's value is the median over calls of
the slowest rank's time; printed is the median over rounds of its ratio to the library's choice in the same
round, with the middle half of the rounds.
"""

import argparse
from time import perf_counter

import numpy as np
from mpi4py import MPI

from autotune.probe.loops import partners
from autotune.probe.mpit import ToolInterface

ALGORITHMS = {"the library's choice": 0, "linear": 1, "double ring": 2, "recursive doubling": 3, "bruck": 4}
OWN = "sends and receives"
CALLS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--sizes", default="8,1024,65536")
    options = parser.parse_args()
    world, barriers = MPI.COMM_WORLD, {}
    tools = ToolInterface(MPI)
    for name, number in ALGORITHMS.items():
        tools.write("coll_tuned_barrier_algorithm", number)
        barriers[name] = world.Dup().Barrier
    tools.write("coll_tuned_barrier_algorithm", 0)
    barriers[OWN] = dissemination(world.Dup())
    comm = world.Dup()
    lines = []
    for size in map(int, options.sizes.split(",")):
        buffer, rng = np.zeros(size, np.uint8), np.random.default_rng(size)
        values = {name: [] for name in barriers}
        for _ in range(options.rounds):
            for name in rng.permutation(list(barriers)):
                values[str(name)].append(block(comm, barriers[str(name)], buffer))
        lines.append((size, {name: np.array(its) for name, its in values.items()}))
    if world.rank:
        return
    print("| barrier | " + " | ".join(f"{size} B" for size, _ in lines) + " |")
    print("|---|" + "--:|" * len(lines))
    for name in barriers:
        cells = []
        for _, values in lines:
            base = values["the library's choice"]
            if values[name] is base:
                cells.append(f"{np.median(base) * 1e6:.2f} µs")
                continue
            low, middle, high = np.quantile(values[name] / base, [0.25, 0.5, 0.75])
            cells.append(f"{middle:.2f}× ({low:.2f} … {high:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


def block(comm: MPI.Intracomm, barrier, buffer: np.ndarray) -> float:
    """Median over calls of the slowest rank's time, on rank 0."""
    mine, slowest = np.empty(CALLS), np.empty(CALLS)
    for call in range(CALLS):
        barrier()
        began = perf_counter()
        comm.Bcast(buffer, 0)
        mine[call] = perf_counter() - began
    comm.Reduce(mine, slowest, MPI.MAX, 0)
    return float(np.median(slowest))


def dissemination(comm: MPI.Intracomm):
    """The probe's barrier."""
    tell, hear = bytearray(1), bytearray(1)
    rounds = partners(comm.rank, comm.size)

    def barrier() -> None:
        for to, source in rounds:
            comm.Sendrecv(tell, to, recvbuf=hear, source=source)

    return barrier


if __name__ == "__main__":
    main()
