"""What recording costs: 10⁶ allreduces of 8 bytes between 2 ranks, with and without it, in turn.

    python benchmarks/record_overhead.py [--mpirun PATH] [--calls 1000000] [--block 1000]

A program runs with the recorder preloaded. Blocks of calls to MPI_Allreduce, which are recorded, and to
PMPI_Allreduce, which go past the recorder, take turns in a random order, with a second block of the latter as
a control: whatever else the machine does meets all three alike. Printed are the medians over the blocks, and
the ratio of recorded to unrecorded with its 95 % interval (trimmed mean of the logarithms, Student's t); the
exit code is 1 where all of the interval lies above 1 %.
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

from autotune.probe.compiling import compilers
from autotune.stacks.application import installation_of, recorder, recording
from autotune.verification.paired_test import trimmed

LIMIT = 0.01

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int blocks = atoi(argv[1]), calls = atoi(argv[2]), rank;
    double in = 1, out, took[3], longest[3];
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    srand(1); /* the same order on all ranks */
    for (int b = -10; b < blocks; b++) {
        int first = rand() % 3, step = 1 + rand() % 2;
        for (int k = 0; k < 3; k++) {
            int side = (first + k * step) % 3;
            PMPI_Barrier(MPI_COMM_WORLD);
            double begin = PMPI_Wtime();
            if (side == 0)
                for (int i = 0; i < calls; i++)
                    MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            else
                for (int i = 0; i < calls; i++)
                    PMPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
            took[side] = PMPI_Wtime() - begin;
        }
        PMPI_Reduce(took, longest, 3, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0 && b >= 0) printf("%.9g %.9g %.9g\n", longest[0], longest[1], longest[2]);
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
        library = recorder(installation, folder)
        compiler = next(compilers(installation.library, os.environ["PATH"]))
        program = folder / "program"
        subprocess.run([compiler, "-O2", "-x", "c", "-", "-o", program], input=PROGRAM, text=True, check=True)
        blocks = max(2, asked.calls // asked.block)
        argv = [asked.mpirun, "-n", "2", str(program), str(blocks), str(asked.block)]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        env = {**os.environ, **root, **recording(library, folder)}
        out = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    times = np.array([line.split() for line in out.splitlines()], float) / asked.block * 1e6
    for name, column in zip(("recorded", "unrecorded", "unrecorded again"), times.T, strict=True):
        print(f"{name:18}{np.median(column):9.4f} µs a call")
    lows = {}
    for name, above, below in (("overhead", 0, 1), ("overhead", 0, 2), ("control", 2, 1)):
        mean, variance, left = trimmed(np.log(times[:, above] / times[:, below]))
        half = float(stats.t.ppf(0.975, left - 1)) * math.sqrt(variance / left)
        low, middle, high = (100 * math.expm1(x) for x in (mean - half, mean, mean + half))
        lows[above, below] = low
        print(
            f"{name:18}{middle:+9.2f} % ({low:+.2f} … {high:+.2f}) over {len(times)} blocks of {asked.block}"
        )
    return int(min(lows[0, 1], lows[0, 2]) > 100 * LIMIT)


if __name__ == "__main__":
    sys.exit(main())
