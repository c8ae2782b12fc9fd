"""Which patterns a knob moves here: launches in turn with one knob of each family changed, against none.

    python -m benchmarks.knobs_by_pattern --rounds 5 runs.json      # measures; once more adds launches
    python -m benchmarks.knobs_by_pattern later.json --rounds 3 --only osc_rdma_buffer_size=1048576
    python -m benchmarks.knobs_by_pattern --rounds 0 runs.json later.json --write TABLE.md

A setting is compared with its base, Open MPI's own or that with UCX below, of the same file alone: launches
of another day are another machine's. A cell is shown where it differs
at 1 % over its whole row (Welch's t of logarithms, Bonferroni): how many times as fast, else ``=``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind

from autotune.errors import UserError
from autotune.probe.protocol import REQUEST, ProbeRequest, ProbeResult

NAMES = (
    *("pingpong", "multipair", "halo", "halo_neighbor", "put", "put_fence", "get", "accumulate"),
    *("iallreduce", "iallreduce_overlap", "allreduce"),
)
SIZES = (8, 8192, 1 << 20)
UCX = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
# Family → setting → (MCA parameters, variables of UCX, words of mpirun, with UCX below).
SETTINGS: dict[str, tuple[str, dict[str, str], dict[str, str], list[str], bool]] = {
    "Open MPI's own": ("", {}, {}, [], False),
    "pml=ucx": ("layer below", {}, {}, [], True),
    "btl_sm_eager_limit=96": ("eager limit", {"btl_sm_eager_limit": "96"}, {}, [], False),
    "btl_sm_eager_limit=65536": ("eager limit", {"btl_sm_eager_limit": "65536"}, {}, [], False),
    "UCX_RNDV_THRESH=0": ("rendezvous", {}, {"UCX_RNDV_THRESH": "0"}, [], True),
    "UCX_RNDV_THRESH=inf": ("rendezvous", {}, {"UCX_RNDV_THRESH": "inf"}, [], True),
    "UCX_ZCOPY_THRESH=1k": ("zero copy", {}, {"UCX_ZCOPY_THRESH": "1k"}, [], True),
    "UCX_MM_FIFO_ELEM_SIZE=512": ("FIFO", {}, {"UCX_MM_FIFO_ELEM_SIZE": "512"}, [], True),
    "UCX_MM_FIFO_SIZE=32": ("FIFO", {}, {"UCX_MM_FIFO_SIZE": "32"}, [], True),
    "UCX_MM_SEG_SIZE=2064": ("segments", {}, {"UCX_MM_SEG_SIZE": "2064"}, [], True),
    "UCX_CMA_SEG_SIZE=8m": ("segments", {}, {"UCX_CMA_SEG_SIZE": "8m"}, [], True),
    "btl_sm_fifo_size=64": ("FIFO", {"btl_sm_fifo_size": "64"}, {}, [], False),
    "smsc=^cma": ("single copy", {"smsc": "^cma"}, {}, [], False),
    "osc_rdma_buffer_size=1048576": ("one-sided", {"osc_rdma_buffer_size": "1048576"}, {}, [], False),
    "coll_libnbc_iallreduce_algorithm=ring": (
        "non-blocking",
        {"coll_libnbc_iallreduce_algorithm": "ring"},
        {},
        [],
        False,
    ),
    "osc=^sm": ("one-sided", {"osc": "^sm"}, {}, [], False),
    "mpi_yield_when_idle=1": ("progress", {"mpi_yield_when_idle": "1"}, {}, [], False),
    "--bind-to none": ("binding", {}, {}, ["--bind-to", "none"], False),
}


OWN, BELOW = "Open MPI's own", "pml=ucx"
Runs = dict[str, list[dict[str, float]]]
"""By setting, the cells of each launch."""


def launch(name: str, seed: int, seconds: float) -> dict[str, float]:
    """Median seconds of each cell of one launch under a setting."""
    _, mca, variables, words, ucx = SETTINGS[name]
    mca = {"btl": "^ofi", **(UCX if ucx else {}), **mca}
    request = ProbeRequest(
        NAMES,
        SIZES,
        budget_s=seconds,
        precision=0.05,
        min_samples=10,
        max_samples=200,
        timing="native",
        sync="barrier",
        check=True,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, REQUEST).write_text(request.to_json(), encoding="utf-8")
        words = ["-n", "2", *words, *(word for key, value in mca.items() for word in ("--mca", key, value))]
        mpirun = str(Path(sys.executable).with_name("mpirun"))
        exported = [word for key in variables for word in ("-x", key)]
        root = dict.fromkeys(("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1")
        subprocess.run(
            [mpirun, *words, *exported, sys.executable, "-m", "autotune.probe", folder],
            env={**os.environ, **root, **variables},
            check=True,
            capture_output=True,
            timeout=300,
        )
        result = ProbeResult.read(Path(folder))
    if result is None or result.status != "ok":
        raise UserError(f"{name}: {result and result.reason}")
    return {
        f"{cell.collective} {cell.message_bytes}": float(np.median(cell.valid_s))
        for cell in result.cells
        if cell.status == "ok" and len(cell.valid_s)
    }


def base(name: str) -> str:
    """The setting that one is compared with."""
    return BELOW if SETTINGS[name][-1] and name != BELOW else OWN


def table(files: list[Runs]) -> str:
    """The table in Markdown, each row out of the first file that has it."""
    sizes = "/".join(f"{size >> 20} MiB" if size >> 20 else f"{size} B" for size in SIZES)
    lines = [
        f"| family | setting | {' | '.join(NAMES)} |",
        f"|---|---|{'---|' * len(NAMES)}",
    ]
    counts = set()
    for name, (family, *_) in SETTINGS.items():
        runs: Runs = next((its for its in files if {name, base(name)} <= its.keys()), {})
        if name == OWN or not runs:
            continue
        counts.add(min(len(runs[name]), len(runs[base(name)])))
        cells = ([_cell(runs, name, base(name), f"{pattern} {size}") for size in SIZES] for pattern in NAMES)
        row = ["=" if set(its) == {"="} else " / ".join(its) for its in cells]
        lines.append(f"| {family} | `{name}` | " + " | ".join(row) + " |")
    n = " or ".join(map(str, sorted(counts)))
    head = (
        f"# Knobs by pattern\n\nHow many times as fast at {sizes} (`=`: no difference shown, `?`: no\n"
        f"time left); {n} launches each in turn, {date.today():%d %B %Y}, virtual machine with two cores\n"
        "(Intel Xeon), Open MPI 5.0.11, UCX 1.20.1; made by `python -m benchmarks.knobs_by_pattern`.\n"
        "UCX's variables are compared with `pml=ucx`, all others with nothing set.\n"
        "Registration has no row: without a network card no memory is registered.\n\n"
    )
    return head + "\n".join(lines) + "\n"


def _cell(runs: Runs, name: str, base: str, cell: str) -> str:
    """How many times as fast, where the launches show a difference."""
    mine, others = (np.log([run[cell] for run in runs[side] if cell in run]) for side in (name, base))
    if min(len(mine), len(others)) < 3:
        return "?"
    p = float(ttest_ind(mine, others, equal_var=False).pvalue)
    gain = float(np.exp(np.median(others) - np.median(mine)))
    return f"{gain:.2g}" if p < 0.01 / (len(NAMES) * len(SIZES)) else "="


def main() -> None:
    """Measure, and write the table."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    asked.add_argument("files", type=Path, nargs="+", help="of launches; more are added to the first")
    asked.add_argument("--rounds", type=int, default=5)
    asked.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    asked.add_argument("--seconds", type=float, default=1.2, help="of a launch's timed part")
    asked.add_argument("--write", type=Path)
    its = asked.parse_args()
    files: list[Runs] = [json.loads(f.read_text(encoding="utf-8")) if f.exists() else {} for f in its.files]
    runs = files[0]
    names = list(dict.fromkeys([*map(base, its.only), *its.only]))
    for turn in range(its.rounds):
        begun = sum(map(len, runs.values()))
        for name in map(str, np.random.default_rng([turn, begun]).permutation(names)):
            runs.setdefault(name, []).append(launch(name, turn, its.seconds))
        its.files[0].write_text(json.dumps(runs), encoding="utf-8")
    text = table(files)
    if its.write:
        its.write.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
