"""What ``run`` costs and gains in real jobs: each pair is one launch as it is and one that tunes itself.

    python benchmarks/running.py --pairs 40 --null -- mpirun -n 2 CALLS 1000000 allreduce:8
    python benchmarks/running.py --pairs 10 --budget 5% -- mpirun -n 2 ./app
    python benchmarks/running.py --pairs 10 --variable I_MPI_TUNING_MODE=auto -- mpirun -n 2 CALLS …

``--null`` makes every candidate the default, so that whatever is decided is wrong. ``--variable``
compares the launch with itself under a variable, in place of ``run``. ``--within`` compares in each
launch thousands of calls by MPI_ with as many by PMPI_, past the switcher, in turn. The word CALLS
stands for a program that makes so many rounds of the calls named behind it. Its time is that of its
loop; of other programs it is the wall time of the launch. Printed are the ratio of times with a 95 % t
interval of its logarithm, and in how many runs anything was decided. Broadcasts
(CALLS 4000 bcast:65536) ran with bcast_algorithm=3, bcast_algorithm_segmentsize=64; LAMMPS ran
``tests/data/applications/profile.in`` under OMPI_MCA_coll_tuned_…: use_dynamic_rules=1,
allreduce_algorithm=5, allreduce_algorithm_segmentsize=8; Quantum ESPRESSO its ``silicon.in`` as dynamics
(calculation='md') of 20 steps with ecutwfc=6 and nbnd=20, under btl=self,tcp.
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

from autotune.application.verbs import run as verb
from autotune.stacks.application import installation_of
from autotune.stacks.switched import Offer, offers

CALLS = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define BY(name, ...) (by ? PMPI_##name : MPI_##name)(__VA_ARGS__, MPI_COMM_WORLD)
#define A a, size, MPI_DOUBLE
#define B b, size, MPI_DOUBLE
static double a[1 << 18], b[1 << 18];
static void rounds(long count, int n, char **words, int by) {
    while (count-- > 0)
        for (int k = 2; k < n; k++) {
            int size = atoi(strchr(words[k], ':') + 1) / 8;
            if (words[k][0] == 'b') BY(Bcast, A, 0);
            else if (words[k][3] == 'g') BY(Allgather, A, B);
            else if (words[k][3] == 't') BY(Alltoall, A, B);
            else BY(Allreduce, a, B, MPI_SUM);
        }
}
int main(int n, char **words) {
    double took[2] = {0, 0};
    int rank, within = getenv("WITHIN") != NULL;
    MPI_Init(&n, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    for (long left = atol(words[1]), piece = within ? 1000 : left; left > 0; left -= piece)
        for (int by = 0; by <= within; by++) {
            double begin = MPI_Wtime();
            rounds(piece, n, words, by);
            took[by] += MPI_Wtime() - begin;
        }
    MPI_Finalize();
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Get_library_version(library, &n);
    if (!rank) printf("seconds %.9f %.9f by %.*s\n", took[0], took[1], (int)strcspn(library, ",\n"), library);
    return 0;
}
"""
NULL = ("coll_tuned_use_dynamic_rules=0",)
"""What Open MPI has by default."""


def launched(
    command: list[str], variables: dict[str, str], tuned: dict[str, str] | None
) -> tuple[float, int, float, str]:
    """Seconds of one launch, kinds of calls decided otherwise than by default, seconds past ``run``, MPI."""
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
        seconds = time.monotonic() - begin_s
        found = re.search(r"seconds (\S+) (\S+) by (.+)", said.read_text())
        if found:
            seconds = float(found[1])
        library = f" by {found[3]}" if found else ""
        if tuned is None:
            return seconds, 0, 0.0, library
        document = json.loads(out.read_text())
        decided = sum(one["algorithm"] != "default" for one in document["cells"])
        past_s = float(found[2]) if found else 0.0
        return seconds if found else document["run_s"], decided, past_s, library


def main() -> None:
    """Launch in pairs, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--budget", default="0.5%")
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--within", action="store_true")
    parser.add_argument("--variable", default="")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    if asked.within:
        os.environ["WITHIN"] = "1"
    tuned = None if asked.variable else {"budget": asked.budget}
    variables = dict([asked.variable.split("=", 1)]) if asked.variable else {}
    if asked.null:
        real = offers(installation_of(asked.command))
        null = {name: Offer(one.names, dict.fromkeys(one.assignments, NULL)) for name, one in real.items()}
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
            for switched in [True] if asked.within else random.sample([False, True], 2):
                arm = (tuned, variables) if switched else (None, {})
                with contextlib.redirect_stderr(io.StringIO()):  # what a run says at its beginning
                    pair[switched] = launched(command, arm[1], arm[0])
            if asked.within:
                pair[False] = (pair[True][2], 0, 0.0, "")
            ratios.append(math.log(pair[True][0] / pair[False][0]))
            plain_s.append(pair[False][0])
            decided.append(pair[True][1])
            sys.stdout.write(f"{pair[False][0]:.4f} {pair[True][0]:.4f} {pair[True][1]}\n")
            sys.stdout.flush()
    at, half = np.mean(ratios), stats.sem(ratios) * stats.t.ppf(0.975, len(ratios) - 1)
    low, middle, high = (math.expm1(one) for one in (at - half, at, at + half))
    sys.stdout.write(
        f"{len(ratios)} pairs{pair[True][3]}, {np.median(plain_s):.3f} s: "
        f"{middle:+.2%} ({low:+.2%} ... {high:+.2%}); "
        f"median {math.expm1(np.median(ratios)):+.2%}; decided in {sum(map(bool, decided))} runs\n"
    )


if __name__ == "__main__":
    main()
