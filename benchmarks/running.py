"""What ``run`` costs and gains in real jobs: each pair is one launch as it is and one that tunes itself.

    python benchmarks/running.py --pairs 40 --null -- mpirun -n 2 CALLS 1000000 allreduce:8
    python benchmarks/running.py --pairs 10 --budget 5% -- mpirun -n 2 ./app
    python benchmarks/running.py --pairs 10 --variable I_MPI_TUNING_MODE=auto -- mpirun -n 2 CALLS …

``--null`` makes every candidate the default, so that whatever is decided is wrong. ``--variable`` compares
the launch with itself under a variable, in place of ``run``. The word CALLS stands for a program that makes
so many rounds of the calls named behind it. Its time is that of its loop; of other programs it is the wall
time of the launch. Printed are the ratio of times with a 95 % t interval of its logarithm, and in how many
runs anything was decided.
"""

import argparse
import contextlib
import io
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy import stats

from autotune.commands import run as verb
from autotune.stacks.application import installation_of
from autotune.stacks.switched import Offer, offers

CALLS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int n, char **words) {
    static double a[1 << 18], b[1 << 18];
    int rank, size;
    MPI_Init(&n, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    double begin = MPI_Wtime();
    for (long i = atol(words[1]); i > 0; i--)
        for (int k = 2; k < n; k++) {
            int count = atoi(strchr(words[k], ':') + 1) / 8;
            if (words[k][0] == 'b') MPI_Bcast(a, count, MPI_DOUBLE, 0, MPI_COMM_WORLD);
            else if (words[k][3] == 'g')
                MPI_Allgather(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, MPI_COMM_WORLD);
            else if (words[k][3] == 't')
                MPI_Alltoall(a, count, MPI_DOUBLE, b, count, MPI_DOUBLE, MPI_COMM_WORLD);
            else MPI_Allreduce(a, b, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        }
    double took = MPI_Wtime() - begin;
    MPI_Finalize();
    if (!rank) printf("seconds %.9f\n", took);
    return 0;
}
"""
NULL = ("coll_tuned_use_dynamic_rules=0",)
"""What Open MPI has by default."""


def launched(
    command: list[str], variables: dict[str, str], tuned: dict[str, str] | None
) -> tuple[float, int]:
    """Seconds of one launch, and how many kinds of calls were decided to go by another algorithm."""
    with tempfile.TemporaryDirectory() as folder:
        said, out = Path(folder, "said"), Path(folder, "run.json")
        begin_s = time.monotonic()
        with said.open("wb") as file:
            if tuned is None:
                subprocess.run(command, env=os.environ | variables, stdout=file, check=True)
            else:
                kept = os.dup(1)
                os.dup2(file.fileno(), 1)
                try:
                    verb.run_job(command, True, tuned["budget"], None, False, out, True)
                finally:
                    sys.stdout.flush()
                    os.dup2(kept, 1)
        seconds, found = time.monotonic() - begin_s, re.search(r"seconds ([0-9.]+)", said.read_text())
        if found:
            seconds = float(found[1])
        if tuned is None:
            return seconds, 0
        document = json.loads(out.read_text())
        decided = sum(one["algorithm"] != "default" for one in document["cells"])
        return seconds if found else document["run_s"], decided


def main() -> None:
    """Launch in pairs, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--budget", default="0.5%")
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--variable", default="")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    tuned = None if asked.variable else {"budget": asked.budget}
    variables = dict([asked.variable.split("=", 1)]) if asked.variable else {}
    if asked.null:
        real = offers(installation_of(asked.command))
        null = {name: Offer(one.names, dict.fromkeys(one.tried, NULL)) for name, one in real.items()}
        verb.offers = lambda _: null
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "calls")
        if "CALLS" in asked.command:
            source = program.with_suffix(".c")
            source.write_text(CALLS)
            subprocess.run(["mpicc", "-O2", str(source), "-o", str(program)], check=True)
        command = [str(program) if word == "CALLS" else word for word in asked.command]
        ratios, plain_s, decided = [], [], []
        for _ in range(asked.pairs):
            pair = {}
            for switched in random.sample([False, True], 2):
                arm = (tuned, variables) if switched else (None, {})
                with contextlib.redirect_stderr(io.StringIO()):  # what a run says at its beginning
                    pair[switched] = launched(command, arm[1], arm[0])
            ratios.append(math.log(pair[True][0] / pair[False][0]))
            plain_s.append(pair[False][0])
            decided.append(pair[True][1])
            sys.stdout.write(f"{pair[False][0]:.4f} {pair[True][0]:.4f} {pair[True][1]}\n")
            sys.stdout.flush()
    at, half = np.mean(ratios), stats.sem(ratios) * stats.t.ppf(0.975, len(ratios) - 1)
    low, middle, high = (math.expm1(one) for one in (at - half, at, at + half))
    sys.stdout.write(
        f"{len(ratios)} pairs, {np.median(plain_s):.3f} s: {middle:+.2%} ({low:+.2%} ... {high:+.2%}); "
        f"median {math.expm1(np.median(ratios)):+.2%}; decided in {sum(map(bool, decided))} runs\n"
    )


if __name__ == "__main__":
    main()
