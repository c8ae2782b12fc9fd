"""Whether turns change what is measured: ratios to the default in heats and in launches alone, in turn.

    python benchmarks/heat_fidelity.py [--stack openmpi5] [--python VENV/bin/python] [--seconds 0.5]
    python benchmarks/heat_fidelity.py --control 200

Each pass launches the default with two settings at a time, once as a heat and once apart, in random order;
ten settings are five such groups, and all cells are measured in both loops. Target: at every size the two
ratios differ by at most 2 %, or by less than twice their joint error (of means over passes). Where a setting
changes nothing both are 1, so settings that fail to differ are of use, too: what is left is what turns add.

``--control`` makes heats of the default with itself alone: by how much its two launches differ, and at how
many sizes a t-test over so many heats separates them at 1 %, corrected for the number of sizes (Holm).
"""

import argparse
import math
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import stats

from autotune.probe.protocol import REQUEST, Heat, ProbeRequest, ProbeResult
from autotune.scenario import defaults
from autotune.stacks import dialect

SIZES = (8, 512, 2048, 8192, 32768, 131072, 524288, 1048576)
LOOPS = ("tight", "interleaved")
ALLOWED = 0.02  # Of the ratio, between heats and launches alone.
LIMIT_S = 120.0
UCX = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_opal_common_ucx_tls": "any",
    "OMPI_MCA_opal_common_ucx_devices": "any",
}


def _tuned(algorithm: int) -> dict[str, str]:
    rules = "OMPI_MCA_coll_tuned_use_dynamic_rules"
    return {rules: "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": str(algorithm)}


SETTINGS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "openmpi5": {
        "ucx": UCX,
        "ucx, short fifo": {**UCX, "UCX_MM_FIFO_ELEM_SIZE": "256"},
        "ucx, tcp": {**UCX, "UCX_TLS": "tcp,self"},
        "eager 32768": {"OMPI_MCA_btl_sm_eager_limit": "32768"},
        "no single copy": {"OMPI_MCA_smsc": "^cma,xpmem,knem"},
        "ring": _tuned(4),
        "nonoverlapping": _tuned(2),
        "basic": {"OMPI_MCA_coll": "basic,libnbc,self,inter,sync"},
        "no fast box": {"OMPI_MCA_btl_sm_fbox_threshold": "1000000000"},
        "tcp": {"OMPI_MCA_btl": "tcp,self"},
    },
    "openmpi41": {
        "eager 32768": {"OMPI_MCA_btl_vader_eager_limit": "32768"},
        "eager 1024": {"OMPI_MCA_btl_vader_eager_limit": "1024"},
        "no single copy": {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"},
        "ring": _tuned(4),
        "nonoverlapping": _tuned(2),
        "rabenseifner": _tuned(6),
        "basic": {"OMPI_MCA_coll": "basic,libnbc,self,inter,sync"},
        "no fast box": {"OMPI_MCA_btl_vader_fbox_threshold": "1000000000"},
        "segments 8 KiB": {"OMPI_MCA_btl_vader_max_send_size": "8192"},
        "tcp": {"OMPI_MCA_btl": "tcp,self"},
    },
    "mpich": {
        "recursive doubling": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "recursive_doubling"},
        "reduce-scatter": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "reduce_scatter_allgather"},
        "ring": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"},
        "no shared memory": {"MPIR_CVAR_NOLOCAL": "1"},
        "no device collectives": {"MPIR_CVAR_DEVICE_COLLECTIVES": "none"},
        "release gather": {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "release_gather"},
        "eager 1024": {"MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE": "1152"},
        "eager 65536": {"MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_CELL_SIZE": "65664"},
        "cells 16": {"MPIR_CVAR_CH4_SHM_POSIX_IQUEUE_NUM_CELLS": "16"},
        "tree": {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "tree"},
    },
    "intel": {
        **{f"algorithm {n}": {"I_MPI_ADJUST_ALLREDUCE": str(n)} for n in (1, 2, 3, 5, 7, 8)},
        "ofi": {"I_MPI_FABRICS": "ofi"},
        "short cells": {"I_MPI_SHM_CELL_FWD_SIZE": "16384", "I_MPI_SHM_CELL_BWD_SIZE": "16384"},
        "long cells": {"I_MPI_SHM_CELL_FWD_SIZE": "131072"},
        "no single copy": {"I_MPI_SHM_CMA": "disable"},
    },
}  # fmt: skip
"""By stack, name and variable; what a release does not know leaves the default as it is."""

Curve = dict[tuple[str, int], float]
"""Logarithm of seconds by loop and message size."""


class Bench:
    """Launches with the ``mpirun`` beside an interpreter."""

    def __init__(
        self, stack: str, python: str, sizes: Sequence[int], seconds: float, heat: Mapping[str, float]
    ) -> None:
        """``seconds``: of each launch; ``heat``: fields of the heat that are not as shipped."""
        known = ProbeRequest.__dataclass_fields__
        words = {k: v for k, v in defaults()["probe"].items() if k in known}
        self.request = ProbeRequest(
            ("allreduce",), tuple(sizes), ranks=2,
            **{**words, "budget_s": seconds, "timing": "auto", "loop": LOOPS[0], "other_loop": LOOPS[1]},
        )  # fmt: skip
        self.python, self.seconds, self.heat = python, seconds, dict(heat)
        root = str(Path(__file__).parents[1])
        self.environment = {
            **os.environ, "PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_btl": "^ofi",
            "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        mpirun = shutil.which("mpirun", path=self.environment["PATH"])
        if mpirun is None:
            sys.exit(f"no mpirun beside {python}")
        self.mpirun = mpirun
        if stack == "intel":  # its wheel needs words on where its files are
            self.environment |= dialect("intelmpi").surroundings(Path(mpirun))

    def heat_of(self, settings: Sequence[Mapping[str, str]], seed: int) -> list[Curve | None]:
        """The curve of each setting, alive at once; None: the launch failed."""
        with tempfile.TemporaryDirectory() as folder:
            place = Heat(
                folder,
                secrets.token_hex(16),
                0,
                len(settings),
                self.seconds * len(settings),
                seed,
                **self.heat,
            )

            def job(number: int) -> Curve | None:
                try:
                    return self._launched(
                        Path(folder, str(number)), settings[number], replace(place, job=number)
                    )
                finally:
                    place.ended(number).touch()

            with ThreadPoolExecutor(len(settings)) as pool:
                return list(pool.map(job, range(len(settings))))

    def alone(self, settings: Sequence[Mapping[str, str]]) -> list[Curve | None]:
        """The curve of each setting, one launch after the other in random order."""
        curves: dict[int, Curve | None] = {}
        for number in random.sample(range(len(settings)), len(settings)):
            with tempfile.TemporaryDirectory() as folder:
                curves[number] = self._launched(Path(folder, "launch"), settings[number], None)
        return [curves[number] for number in range(len(settings))]

    def _launched(self, folder: Path, setting: Mapping[str, str], heat: Heat | None) -> Curve | None:
        folder.mkdir()
        (folder / REQUEST).write_text(replace(self.request, heat=heat).to_json())
        argv = [self.mpirun, "-n", "2", self.python, "-m", "autotune.probe", str(folder)]
        try:
            errors = subprocess.run(
                argv, env={**self.environment, **setting}, capture_output=True, text=True, timeout=LIMIT_S
            ).stderr
        except subprocess.TimeoutExpired:
            errors = f"nothing after {LIMIT_S:g} s"
        result = ProbeResult.read(folder)
        if result is None or result.status != "ok":
            reason = result.reason if result else errors[-300:]
            print(f"  failed: {dict(setting)}: {reason}", file=sys.stderr)
            return None
        curve: Curve = {}
        for cell in result.cells:
            if cell.status == "ok":
                curve[LOOPS[0], cell.message_bytes] = math.log(float(np.median(cell.valid_s)))
                curve[LOOPS[1], cell.message_bytes] = math.log(cell.extra["other_loop_s"])
        return curve


Ratios = dict[tuple[str, str, int], list[float]]
"""Logarithms of ratios by setting, loop and size, one of each pass."""


def add(ratios: Ratios, names: Sequence[str], curves: Sequence[Curve | None]) -> None:
    """Note the ratios of settings to the default, whose curve is the first."""
    default, *others = curves
    for name, curve in zip(names, others, strict=True):
        for cell in set(default or ()) & set(curve or ()):
            ratios[name, *cell].append(default[cell] - curve[cell])


def compare(bench: Bench, settings: Mapping[str, Mapping[str, str]], passes: int) -> int:
    """Measure in passes, print; at how many cells the target was missed."""
    heats: Ratios = defaultdict(list)
    apart: Ratios = defaultdict(list)
    names = list(settings)
    for number in range(passes):
        random.shuffle(names)
        for pair in (names[i : i + 2] for i in range(0, len(names), 2)):
            group = [{}, *(settings[name] for name in pair)]
            for together in random.sample([True, False], 2):
                curves = bench.heat_of(group, random.getrandbits(30)) if together else bench.alone(group)
                add(heats if together else apart, pair, curves)
        print(f"pass {number + 1} of {passes}", file=sys.stderr, flush=True)
    print(f"{'':18}{'':13}" + "".join(f"{size:>14}" for size in bench.request.sizes_bytes))
    print("in heats/apart, difference ± its standard error in %; ! target missed")
    missed = cells = 0
    spreads: dict[str, list[float]] = {"heats": [], "apart": []}
    worst = []
    for name in settings:
        for loop in LOOPS:
            shown = []
            for size in bench.request.sizes_bytes:
                both = heats.get((name, loop, size), []), apart.get((name, loop, size), [])
                if min(map(len, both)) < 2:
                    shown.append(f"{'failed':>14}")
                    continue
                (heat, alone), errors = map(np.mean, both), [float(stats.sem(side)) for side in both]
                away, error = math.expm1(heat - alone), math.hypot(*errors)
                miss = abs(away) > max(ALLOWED, 2 * error)
                missed, cells = missed + miss, cells + 1
                worst.append((abs(away), name, loop, size))
                for side, of in zip(spreads, both, strict=True):
                    spreads[side].append(float(np.std(of, ddof=1)))
                shown.append(f"{math.exp(heat):.2f}/{math.exp(alone):.2f} {'!' if miss else ' '}")
                shown[-1] += f"{100 * away:+.1f}±{100 * error:.1f}"
            print(f"{name:18}{loop:13}" + " ".join(f"{text:>14}" for text in shown))
    for side, of in spreads.items():
        mean = math.sqrt(np.mean(np.square(of)))
        print(f"standard deviation of one ratio, {side}: {mean:.1%} (median over cells {np.median(of):.1%})")
    middle, largest = np.median([away for away, *_ in worst]), max(worst)
    print(f"{passes} passes, {cells} cells, {missed} missed; differences: median {middle:.1%}")
    print(f"largest {largest[0]:.1%}: {', '.join(map(str, largest[1:]))}")
    return missed


def control(bench: Bench, heats: int) -> int:
    """Heats of the default with itself, print; at how many cells it differs from itself."""
    ratios: Ratios = defaultdict(list)
    for number in range(heats):
        add(ratios, ["default again"], bench.heat_of([{}, {}], number))
    tests = {cell: stats.ttest_1samp(of, 0.0).pvalue for cell, of in ratios.items() if len(of) > 2}
    claimed, ordered = 0, sorted(tests.values())
    for rank, p in enumerate(ordered):
        if p > 0.01 / (len(ordered) - rank):
            break
        claimed += 1
    for loop in LOOPS:
        row = [ratios["default again", loop, size] for size in bench.request.sizes_bytes]
        print(
            f"{loop:13}" + " ".join(f"{math.exp(np.mean(of)):.3f} ± {np.std(of, ddof=1):.1%}" for of in row)
        )
        overall = np.mean(row, axis=0)
        print(f"{'all sizes':13}{math.exp(np.mean(overall)):.4f} ± {np.std(overall, ddof=1):.1%} (one heat)")
    print(f"{heats} heats, {len(tests)} cells: {claimed} claimed to differ")
    return claimed


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stack", choices=SETTINGS, default="openmpi5")
    parser.add_argument("--python", default=sys.executable, help="whose mpirun and mpi4py to use")
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=0.5, help="of timed calls in each launch")
    parser.add_argument("--settings", nargs="*", help="names of the stack's settings")
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--heat", nargs="*", default=[], metavar="FIELD=VALUE", help="fields of the heat")
    parser.add_argument("--control", type=int, default=0, help="heats of the default with itself alone")
    asked = parser.parse_args()
    fields = {name: float(value) for name, value in (word.split("=") for word in asked.heat)}
    bench = Bench(asked.stack, asked.python, asked.sizes, asked.seconds, fields)
    if asked.control:
        return int(control(bench, asked.control) > 0)
    settings = {name: SETTINGS[asked.stack][name] for name in asked.settings or SETTINGS[asked.stack]}
    return int(compare(bench, settings, asked.passes) > 0)


if __name__ == "__main__":
    sys.exit(main())
