"""Our campaign against the tuner that a stack has, both with the same wall-clock time, scored side by side.

    python benchmarks/incumbents.py DIRECTORY --stack intelmpi --prefix .venv-intel --ranks 2
    python benchmarks/incumbents.py DIRECTORY --stack openmpi --imb IMB-MPI1 --ranks 4
    python benchmarks/incumbents.py DIRECTORY                             the table of all that is there

The incumbent tunes first: under Intel MPI ``mpitune_fast --enable-per-msg-size``, which wants ``ssh`` also
for this one machine; under Open MPI a sweep as its project's ``ompi-collectives-tuning`` scripts make it:
each algorithm forced by its id, three runs of a benchmark each, the mean of their averages, at each size the
fastest algorithm (never the stack's own choice, but for sizes below the first), written as a rules file. A
campaign, search and verification together, then gets the time that this took. Last, three sides are scored:
the untouched default, what the incumbent leaves, and what we leave. A round is a run of IMB-MPI1 of the same
stack by each side in turn, which is no instrument of ours. Intel MPI brings IMB-MPI1; for Open MPI it is
built from its sources (``make IMB-MPI1 CC=mpicc CXX=mpicxx``).

For each side: minutes, launches, the geometric mean of default / tuned, and the worst size. A ratio is the
median over the rounds of what two launches of one round show; behind it stand the least and the greatest
round, between which the true median lies with 98 % in seven rounds. A size is slower where each round says
so. To win: no worse than the incumbent on the mean, no size seen slower than the default, in no more time. A
side that sets nothing is the default, as fast as it; its row then shows the noise.

What is done is kept in DIRECTORY, and the same command goes on from there.
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
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autotune.errors import TableError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.stacks import coll_tuned
from autotune.tables.importers import read

if TYPE_CHECKING:
    pass

SIZES = [8 << 2 * i for i in range(9)]
SWEEP_RUNS = 3
AROUND_S = 15.0  # of a campaign's time: its start, and the check of its files
IMB_SECONDS = 1  # of a size; IMB makes 1000 calls where they take less
SIDES = ("default", "incumbent", "autotune")
Env = dict[str, str]
Round = dict[str, Any]
"""Side → its time of each collective and size, µs."""


@dataclass(frozen=True)
class Cell:
    """One stack on so many ranks, and where its results are kept."""

    folder: Path
    stack: str
    prefix: Path
    imb: Path
    ranks: int
    collectives: tuple[str, ...]

    @property
    def clean(self) -> Env:
        """Nothing that somebody set for this stack."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("I_MPI_", "FI_", "OMPI_MCA_"))}
        path = f"{self.prefix / 'bin'}{os.pathsep}{clean['PATH']}"
        return {**clean, "PATH": path, "AUTOTUNE_STACKS": str(self.prefix)}

    @property
    def env(self) -> Env:
        """Of every launch of IMB and of the incumbent."""
        clean = self.clean
        if self.stack == "intelmpi":
            own = {"I_MPI_ROOT": str(self.prefix), "LD_LIBRARY_PATH": str(self.prefix / "lib")}
            return {**clean, **own}
        # As a campaign has it: ranks that spin on a core that another one needs take milliseconds.
        waits = self.ranks > len(os.sched_getaffinity(0))
        return {
            **clean,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **({"OMPI_MCA_mpi_yield_when_idle": "1"} if waits else {}),
        }

    def benchmark(self, sets: Mapping[str, str], collectives: tuple[str, ...]) -> list[BenchmarkRow]:
        """One run of IMB-MPI1 with these variables; nothing where it gave a size up as too slow."""
        words = ["mpiexec", "-n", str(self.ranks)]
        words += ["--oversubscribe"] if self.stack == "openmpi" else []
        words += [str(self.imb), "-npmin", str(self.ranks), "-time", str(IMB_SECONDS)]
        words += ["-msgsize", ",".join(map(str, SIZES)), *collectives]
        done = subprocess.run(words, env={**self.env, **sets}, stdout=subprocess.PIPE, text=True, check=True)
        try:
            return read(done.stdout, "IMB-MPI1")
        except TableError:
            return []


@dataclass(frozen=True)
class Tuned:
    """What one side leaves, and what it took."""

    sets: Env
    seconds: float
    launches: int | None
    """None: it does not tell."""


def main() -> None:
    """Tune twice and score, as far as it is not done; or print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--stack", choices=["intelmpi", "openmpi"])
    parser.add_argument("--prefix", type=Path, help="of the stack; default: .venv-intel, this environment")
    parser.add_argument("--imb", type=Path, help="default: bin/IMB-MPI1 of the prefix")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--collectives", nargs="+", default=["allreduce", "reduce", "bcast"])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    if options.stack:
        prefix = options.prefix or Path(".venv-intel" if options.stack == "intelmpi" else sys.prefix)
        imb = options.imb or prefix / "bin/IMB-MPI1"
        name = f"{options.stack}-{options.ranks}-{'-'.join(options.collectives)}"
        cell = Cell(
            (options.directory / name).absolute(),
            options.stack,
            prefix.absolute(),
            imb.absolute(),
            options.ranks,
            tuple(options.collectives),
        )
        for needed in (imb, prefix / "bin/mpiexec"):
            if not needed.exists():
                sys.exit(f"no {needed}: see --prefix and --imb")
        cell.folder.mkdir(parents=True, exist_ok=True)
        compare(cell, options.rounds)
    report(options.directory)


def compare(cell: Cell, rounds: int) -> None:
    """What is not done yet of a cell."""
    incumbent = mpitune_fast if cell.stack == "intelmpi" else sweep
    theirs = kept(cell, "incumbent", lambda place: incumbent(cell, place))
    ours = kept(cell, "autotune", lambda place: campaign(cell, place, theirs.seconds))
    sets = {"default": {}, "incumbent": theirs.sets, "autotune": ours.sets}
    with (cell.folder / "scores.jsonl").open("a+") as scores:
        scores.seek(0)
        made = scores.readlines()
        for number in range(len(made), rounds):
            scores.write(json.dumps(score_round(cell, sets, number)) + "\n")
            scores.flush()


def score_round(cell: Cell, sets: Mapping[str, Env], number: int) -> Round:
    """A round of IMB-MPI1, one side after the other."""
    turn = SIDES[number % 3 :] + SIDES[: number % 3]
    seen = {side: cell.benchmark(sets[side], cell.collectives) for side in turn}
    return {side: [(m.collective, m.message_bytes, m.max_us or 0.0) for m in seen[side]] for side in SIDES}


def kept(cell: Cell, side: str, tune: Callable[[Path], tuple[Env, int | None]]) -> Tuned:
    """What a side left before, or leaves now."""
    result, place = cell.folder / f"{side}.json", cell.folder / side
    if not result.exists():
        if place.exists():
            sys.exit(f"{place} was begun and not ended: remove {cell.folder}")
        place.mkdir()
        begin = time.monotonic()
        sets, launches = tune(place)
        document = {"sets": sets, "seconds": time.monotonic() - begin, "launches": launches}
        result.write_text(json.dumps(document))
    return Tuned(**json.loads(result.read_text()))


def mpitune_fast(cell: Cell, place: Path) -> tuple[Env, int | None]:
    """A tuning file; it does not tell how often it launched."""
    words = ["-d", str(place), "-hosts", "localhost", "-n", "1", "-ppn", str(cell.ranks)]
    words += ["-c", ",".join(cell.collectives), "--enable-per-msg-size"]
    done = subprocess.run(["mpitune_fast", *words], env=cell.env, cwd=place, capture_output=True, text=True)
    made = sorted(place.glob("cluster_merged_*.dat"))
    if done.returncode or not made:
        sys.exit(f"mpitune_fast failed:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    return {"I_MPI_TUNING_BIN": str(made[-1])}, None


def sweep(cell: Cell, place: Path) -> tuple[Env, int]:
    """A rules file of the fastest algorithm at each size, as Open MPI's own scripts make it."""
    launches = 0
    lines = [str(len(cell.collectives))]
    for collective in cell.collectives:
        means: dict[int, dict[int, float]] = {size: {} for size in SIZES}
        for number in range(len(coll_tuned.algorithms(collective, (5, 0)))):
            forced = {
                "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
                f"OMPI_MCA_coll_tuned_{collective}_algorithm": str(number),
            }
            runs = [cell.benchmark(forced, (collective,)) for _ in range(SWEEP_RUNS)]
            launches += SWEEP_RUNS
            for size, times in means.items() if all(runs) else ():
                times[number] = statistics.fmean(
                    m.latency_us or 0.0 for run in runs for m in run if m.message_bytes == size
                )
        rows = [(0, 0)]  # a table begins at 0 bytes, where nothing was measured
        for size, times in means.items():
            times.pop(0, None)  # measured as the reference alone
            fastest = min(times, key=times.__getitem__)
            if fastest != rows[-1][1]:
                rows.append((size, fastest))
        lines += [str(coll_tuned.COLLECTIVE_IDS[collective]), "1", str(cell.ranks), str(len(rows))]
        lines += [f"{size} {number} 0 0" for size, number in rows]
    path = place / "decision.file"
    path.write_text("\n".join(lines) + "\n")
    return {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(path),
    }, launches


def campaign(cell: Cell, place: Path, seconds: float) -> tuple[Env, int]:
    """What a campaign exports: about half of the time is the search's, the rest is the verification's."""
    hours = f"budget.node_hours={max(10.0, seconds - AROUND_S) / 3600:.5f}"
    script, conf, words = {
        "intelmpi": (
            "intel-mpi-env.sh",
            "intelmpi_local",
            ["export=[intel]", f"probe.budget_s={seconds / 60:.1f}"],
        ),
        # What each rank is bound to is no variable, so that it cannot be part of a side here.
        "openmpi": (
            "autotune-env.sh",
            "allreduce_local",
            ["export=[env_sh]", "fix.bind_to=default", f"probe.budget_s={seconds / 40:.1f}", hours],
        ),
    }[cell.stack]
    words += [
        f"conf={conf}",
        f"collective=[{','.join(cell.collectives)}]",
        f"sizes={SIZES}".replace(" ", ""),
        f"cluster.ranks={cell.ranks}",
        f"budget.seconds={0.45 * seconds:.0f}",
        "budget.launches=1000",
        "baseline.launches=2",
        "screening.enabled=false",
        "verify.launches=8",
        f"campaign.dir={place}",
    ]
    command = [sys.executable, "-m", "autotune", *words]
    done = subprocess.run(command, env=cell.clean, capture_output=True, text=True)
    (place / "stdout").write_text(done.stdout)
    if done.returncode:
        sys.exit(f"the campaign failed:\n{done.stdout[-2000:]}{done.stderr[-1000:]}")
    pairs = re.findall(r"^export (\w+)=(.*)$", (place / "export" / script).read_text(), re.MULTILINE)
    # A launch of Intel MPI sweeps no algorithms: each is a launch of its own, of one trial.
    results = (place / "launches").glob("**/result.json")
    return {name: shlex.split(value)[0] for name, value in pairs}, len(list(results))


def report(directory: Path) -> None:
    """The table of all cells, and the ratios at each size."""
    details: list[str] = []
    print("| cell | side | minutes | launches | whole | worst size | sizes slower |")
    print("|---" * 7 + "|")
    for folder in sorted(path.parent for path in directory.glob("*/scores.jsonl")):
        rounds = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
        found = {}
        for side in SIDES[1:]:
            tuned = Tuned(**json.loads((folder / f"{side}.json").read_text()))
            ratios = dict(ratios_of(rounds, side))
            whole, slower = whole_of(ratios), [s for s, r in ratios.items() if max(r) < 1]
            # A side that sets nothing is the default: its ratios tell what noise is.
            found[side] = (tuned, whole, slower) if tuned.sets else (tuned, [1.0], [])
            worst = min(ratios, key=lambda slot: statistics.median(ratios[slot]))
            named = side if tuned.sets else f"{side}: sets nothing"
            print(
                f"| {folder.name} | {named} | {tuned.seconds / 60:.1f} | {tuned.launches or 'not told'} "
                f"| {spread(whole)} | {spread(ratios[worst])} at {worst[1]} B of {worst[0]} | {len(slower)} |"
            )
            details += [f"{folder.name} {side} sets: {', '.join(tuned.sets) or 'nothing'}"]
            details += [f"  {slot[0]:10}{slot[1]:8} B  {spread(r)}" for slot, r in ratios.items()]
        (they, their_whole, _), (we, our_whole, slower) = found["incumbent"], found["autotune"]
        as_fast = statistics.median(our_whole) >= statistics.median(their_whole)
        in_time = said(we.seconds <= they.seconds)
        print(f"| {folder.name} | wins? | {in_time} | | {said(as_fast)} | | {said(not slower)} |")
    print("\n".join(["", *details]))


def ratios_of(rounds: list[Round], side: str) -> Iterator[tuple[tuple[str, int], list[float]]]:
    """Default / tuned of each slot in each round."""
    for i, (collective, size, _) in enumerate(rounds[0]["default"]):
        yield (collective, size), [row["default"][i][2] / row[side][i][2] for row in rounds]


def whole_of(ratios: Mapping[tuple[str, int], list[float]]) -> list[float]:
    """The geometric mean over all slots in each round."""
    return [
        math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios.values(), strict=True)
    ]


def spread(values: list[float]) -> str:
    """The median, the least and the greatest."""
    return f"{statistics.median(values):.3f}× ({min(values):.3f} … {max(values):.3f})"


def said(holds: bool) -> str:
    """Yes or no."""
    return "yes" if holds else "no"


if __name__ == "__main__":
    main()
