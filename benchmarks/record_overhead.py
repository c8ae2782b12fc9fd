"""What recording costs: 10⁶ allreduces of 8 bytes between 2 ranks, with and without it, in turn.

    python benchmarks/record_overhead.py [--mpirun PATH] [--calls 1000000] [--pairs 10]

Prints the ratio of the time in the loop with the recorder to that without it, the mean over pairs with its
95 % interval (of the logarithm, Student's t), and exits with 1 where all of the interval lies above 1 %.
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

LIMIT = 0.01

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    long calls = atol(argv[1]);
    double in = 1, out;
    for (int i = 0; i < 10000; i++) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = 0; i < calls; i++) MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    double took = MPI_Wtime() - begin, longest;
    MPI_Reduce(&took, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) printf("%.9f\n", longest);
    MPI_Finalize();
    return 0;
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpirun", default=str(Path(sys.executable).with_name("mpirun")))
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=10)
    asked = parser.parse_args()
    installation = installation_of([asked.mpirun])
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        library = recorder(installation, folder)
        compiler = next(compilers(installation.library, os.environ["PATH"]))
        program = folder / "program"
        subprocess.run([compiler, "-O2", "-x", "c", "-", "-o", program], input=PROGRAM, text=True, check=True)
        argv = [asked.mpirun, "-n", "2", str(program), str(asked.calls)]

        def seconds(*, recorded: bool) -> float:
            root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            env = {**os.environ, **root, **(recording(library, folder) if recorded else {})}
            out = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
            return float(out.split()[-1])

        logs = []
        for number in range(asked.pairs):
            order = (False, True) if number % 2 else (True, False)
            times = {side: seconds(recorded=side) for side in order}
            logs.append(math.log(times[True] / times[False]))
            plain_us, with_us = (times[side] / asked.calls * 1e6 for side in (False, True))
            print(f"pair {number + 1:2}: without {plain_us:.4f} µs, with {with_us:.4f} µs a call", flush=True)
    mean, sem = float(np.mean(logs)), float(stats.sem(logs))
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * sem
    low, middle, high = (100 * math.expm1(x) for x in (mean - half, mean, mean + half))
    print(
        f"overhead {middle:+.2f} % ({low:+.2f} … {high:+.2f}) of {asked.calls} allreduces of 8 bytes, 2 ranks"
    )
    return int(low > 100 * LIMIT)


if __name__ == "__main__":
    sys.exit(main())
