"""Our campaign against the vendor's own tuner, both with the same wall-clock time, scored by IMB-MPI1.

    python benchmarks/incumbents.py --prefix .venv-intel [--ranks 2] [--collectives allreduce reduce bcast]

``mpitune_fast --enable-per-msg-size`` runs first; the campaign (``conf=intelmpi_local``, search and
verification together) then gets the time that it took, and no more. What each leaves, a file for
``I_MPI_TUNING_BIN`` and a script of ``I_MPI_ADJUST_*``, is scored by the independent IMB-MPI1 of the same
package, in rounds with the untouched default in turn. Printed for each: the geometric mean of default / tuned
over all sizes, the worst size, launches and minutes. To win: as fast on the mean at least, no size slower
than the default beyond noise, in no more time. ``mpitune_fast`` wants ``ssh`` also for this one machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from autotune.importers import read

SIZES = [8 << 2 * i for i in range(9)]
Scores = dict[tuple[str, int], list[float]]


def main() -> None:
    """Tune twice, score, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--prefix", type=Path, default=Path(".venv-intel"), help="where impi-rt is")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--collectives", nargs="+", default=["allreduce", "reduce", "bcast"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    prefix = options.prefix.absolute()
    if not (prefix / "bin/mpitune_fast").exists():
        sys.exit(f"no mpitune_fast in {prefix}/bin: make stacks")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("I_MPI_", "FI_"))}
    own = {"I_MPI_ROOT": str(prefix), "LD_LIBRARY_PATH": str(prefix / "lib")}
    env = {**clean, **own, "PATH": f"{prefix / 'bin'}{os.pathsep}{clean['PATH']}"}
    with tempfile.TemporaryDirectory() as name:
        theirs, their_s, their_launches = vendor(Path(name), env, options.ranks, options.collectives)
        ours, our_s, our_launches = campaign(
            Path(name), {**clean, "AUTOTUNE_STACKS": str(prefix)}, options.ranks, options.collectives, their_s
        )
        sides = {"default": {}, "mpitune_fast": theirs, "autotune": ours}
        seen = {side: defaultdict(list) for side in sides}
        for number in range(options.rounds):
            for side in list(sides)[number % 3 :] + list(sides)[: number % 3]:
                for slot, t_us in imb(prefix, {**env, **sides[side]}, options).items():
                    seen[side][slot].append(t_us)
    print(f"Intel MPI, {options.ranks} ranks, IMB t_max over {options.rounds} rounds in turn")
    costs = {"mpitune_fast": (their_s, their_launches), "autotune": (our_s, our_launches)}
    for side, (seconds, launches) in costs.items():
        report(side, sides[side], seen["default"], seen[side], seconds, launches)


def vendor(
    place: Path, env: dict[str, str], ranks: int, collectives: list[str]
) -> tuple[dict[str, str], float, int]:
    """What ``mpitune_fast`` leaves, its seconds, and its launches."""
    folder = place / "vendor"
    folder.mkdir()
    words = ["-d", str(folder), "-hosts", "localhost", "-n", "1", "-ppn", str(ranks)]
    begin = time.monotonic()
    done = subprocess.run(
        ["mpitune_fast", *words, "-c", ",".join(collectives), "--enable-per-msg-size"],
        env=env,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    took = time.monotonic() - begin
    made = sorted(folder.glob("cluster_merged_*.dat"))
    if done.returncode or not made:
        sys.exit(f"mpitune_fast failed:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return {"I_MPI_TUNING_BIN": str(made[-1])}, took, 0  # it does not tell how many


def campaign(
    place: Path, env: dict[str, str], ranks: int, collectives: list[str], seconds: float
) -> tuple[dict[str, str], float, int]:
    """What our campaign leaves in so many seconds, those that it took, and its launches."""
    folder = place / "ours"
    begin = time.monotonic()
    words = [
        "conf=intelmpi_local",
        f"collective=[{','.join(collectives)}]",
        f"sizes={SIZES}".replace(" ", ""),
        f"cluster.ranks={ranks}",
        f"budget.seconds={0.6 * seconds:.0f}",  # the rest is the verification's
        "verify.launches=8",
        "budget.launches=1000",
        "probe.budget_s=8",  # of eight launches, one for each algorithm
        "screening.enabled=false",
        f"campaign.dir={folder}",
    ]
    done = subprocess.run([sys.executable, "-m", "autotune", *words], env=env, capture_output=True, text=True)
    took = time.monotonic() - begin
    if done.returncode:
        sys.exit(f"the campaign failed:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    text = (folder / "export/intel-mpi-env.sh").read_text()
    pairs = re.findall(r"^export (\w+)=(.*)$", text, re.MULTILINE)
    events = map(json.loads, (folder / "journal.jsonl").read_text().splitlines())
    trials = [event for event in events if event["event"] == "observation"]
    parts = len(list((folder / "launches").glob("*/*/result.json")))
    print(
        "\n".join(line for line in done.stdout.splitlines() if "speed-up over all" in line or "never" in line)
    )
    return {name: shlex.split(value)[0] for name, value in pairs}, took, max(parts, len(trials))


def imb(prefix: Path, env: dict[str, str], options: argparse.Namespace) -> dict[tuple[str, int], float]:
    """µs of every slot, as IMB's ``t_max``."""
    words = [str(prefix / "bin/mpiexec"), "-n", str(options.ranks), str(prefix / "bin/IMB-MPI1")]
    words += ["-npmin", str(options.ranks), "-msgsize", ",".join(map(str, SIZES)), *options.collectives]
    done = subprocess.run(words, env=env, stdout=subprocess.PIPE, text=True, check=True)
    return {(row.collective, row.message_bytes): row.max_us or 0.0 for row in read(done.stdout, "IMB-MPI1")}


def report(
    side: str, sets: dict[str, str], default: Scores, tuned: Scores, seconds: float, launches: int
) -> None:
    """One side's lines: all sizes by the lowest round, and by the median with the rounds' spread."""
    low = {slot: min(default[slot]) / min(tuned[slot]) for slot in default if slot in tuned}
    mid = {slot: statistics.median(default[slot]) / statistics.median(tuned[slot]) for slot in low}
    made = f"{launches} launches" if launches else "launches not told"
    print(f"\n{side}: {seconds / 60:.1f} min, {made}, sets {len(sets)} variable(s)")
    for name, ratios in (("lowest round", low), ("median", mid)):
        worst = min(ratios, key=lambda slot: ratios[slot])
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        print(f"  {name}: {mean:.3f}× on the whole, worst {ratios[worst]:.3f}× at {worst[1]} B of {worst[0]}")
    for slot in sorted(low):
        noise = statistics.median(default[slot]) / min(default[slot]) - 1
        words = f"median {mid[slot]:6.3f}×; default's rounds ± {noise:.0%}"
        print(f"  {slot[0]:10} {slot[1]:8} B  {low[slot]:6.3f}×  ({words})")


if __name__ == "__main__":
    main()
