"""What recording costs: 10⁶ allreduces of 8 bytes between 2 ranks, with and without it, in turn.

    python benchmarks/record_overhead.py [--mpirun PATH] [--calls 1000000] [--block 1000]

A program runs with the recorder preloaded. Blocks of calls take turns in a random order, all through the
same pointer: to PMPI_Allreduce, which goes past the recorder, twice, the second time as a control; through a
wrapper that does nothing but call it, and one that adds one to a number, in a library of their own: no
recorder can cost less; and to MPI_Allreduce, which is recorded. Whatever else the machine does meets all
alike. It times calls for 1/1024 of a run, and would do so on the fifth that is recorded alone: 0.4 %
too much; so fifteen blocks more of recorded calls follow each round, 0.03 % too much.
Printed are medians over the blocks, and ratios to the first with 95 % intervals (trimmed mean of the
logarithms, Student's t); the exit code is 1 where all of the recorder's lies above 1 %.
"""

import argparse
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from autotune.application.reach import trimmed
from autotune.probe.compiling import compilers
from autotune.stacks.application import installation_of, preload, recording

LIMIT = 0.01
SIDES = ("not recorded", "not recorded again", "empty wrapper", "counting wrapper", "recorded")

WRAPPERS = r"""
#include <mpi.h>
long counted;
int empty(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
    return PMPI_Allreduce(s, r, n, t, o, c);
}
int counting(const void *s, void *r, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c) {
    counted++;
    return PMPI_Allreduce(s, r, n, t, o, c);
}
"""
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
typedef int function(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm);
function empty, counting;
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    function *sides[] = {PMPI_Allreduce, PMPI_Allreduce, empty, counting, MPI_Allreduce};
    enum { SIDES = sizeof sides / sizeof *sides };
    int blocks = atoi(argv[1]), calls = atoi(argv[2]), rank, order[SIDES];
    double in = 1, out, took[SIDES], longest[SIDES];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    srand(1); /* the same order on all ranks */
    for (int k = 0; k < SIDES; k++) order[k] = k;
    for (int b = -10; b < blocks; b++) {
        for (int k = SIDES - 1; k > 0; k--) {
            int other = rand() % (k + 1), side = order[k];
            order[k] = order[other];
            order[other] = side;
        }
        for (int k = 0; k < SIDES; k++) {
            function *volatile chosen = sides[order[k]], *call = chosen;
            PMPI_Barrier(MPI_COMM_WORLD);
            double begin = PMPI_Wtime();
            for (int i = 0; i < calls; i++) call(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            took[order[k]] = PMPI_Wtime() - begin;
        }
        for (int i = 0; i < 15 * calls; i++) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        PMPI_Reduce(took, longest, SIDES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        for (int k = 0; rank == 0 && b >= 0 && k < SIDES; k++)
            printf(k < SIDES - 1 ? "%.9g " : "%.9g\n", longest[k]);
    }
    MPI_Finalize();
    return 0;
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", default=str(Path(sys.executable).with_name("mpirun")))
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--block", type=int, default=1000)
    asked = parser.parse_args()
    installation = installation_of([asked.mpirun])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        library = preload(installation, folder)
        compiler = str(next(compilers(installation.library, os.environ["PATH"])))
        program, wrappers = folder / "program", folder / "libwrappers.so"
        for text, out, flags in (
            (WRAPPERS, wrappers, ["-fPIC", "-shared"]),
            (PROGRAM, program, []),
        ):
            words = [compiler, "-O2", *flags, "-x", "c", "-", "-o", str(out)]
            if out == program:
                words += ["-x", "none", str(wrappers), f"-Wl,-rpath,{folder}"]
            subprocess.run(words, input=text, text=True, check=True)
        blocks = max(2, asked.calls // asked.block)
        argv = [asked.mpirun, "-n", "2", str(program), str(blocks), str(asked.block)]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        env = {**os.environ, **root, **recording(library, folder)}
        out_text = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    times = np.array([line.split() for line in out_text.splitlines()], float) / asked.block * 1e9
    print(f"{len(times)} blocks of {asked.block} calls; ns a call, more than the first, 95 % interval")
    low = 0.0
    for name, column in zip(SIDES, times.T, strict=True):
        print(f"{name:20}{np.median(column):9.2f}", end="")
        if name != SIDES[0]:
            mean, variance, left = trimmed(np.log(column / times[:, 0]))
            half = float(stats.t.ppf(0.975, left - 1)) * math.sqrt(variance / left)
            low, middle, high = (100 * math.expm1(x) for x in (mean - half, mean, mean + half))
            print(f"{middle:+9.2f} % ({low:+.2f} … {high:+.2f})", end="")
        print()
    return int(low > 100 * LIMIT)


if __name__ == "__main__":
    sys.exit(main())
