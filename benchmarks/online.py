"""How often ``run`` decides wrongly inside a job, what it costs, and how many calls it takes: simulated.

The decision is the C of ``autotune/probe/switcher/decide.h`` itself; the job is simulated. Ranks come to
a call unevenly: each is late by a gamma-distributed time, in a tenth of the calls a straggler comes late
by twenty times the call. After the last has come a call takes its setting's time with a lognormal spread
of 5 %, one in a hundred ten times as long, and a drift of 5 % from order to order. What is measured is
what the program measures over several nodes: the least duration over the ranks.

- null: all settings are as fast as the default.
- planted: the default takes twice as long as the best candidate; others are up to six times slower than it.
- small: one candidate gains 5 %. awful: every candidate is 30 times slower.

Printed are, for each number of ranks: runs with a wrong decision (a taken candidate that gains less than a
hundredth), cells in which a candidate was taken, the harm as a part of the elapsed time, and the calls until
all cells were settled.

    python benchmarks/online.py [--runs 40] [--ranks 64 512 4096] [--calls 200000]
"""

import argparse
import ctypes
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir

import numpy as np

from autotune.errors import StackError
from autotune.probe.compiling import FLAGS, built

SOURCES = Path(__file__).parents[1] / "autotune/probe/switcher"
SETTINGS, PIECES, MOST, STRENGTHS = 16, 8, 12, 6  # As in decide.h.
CALLS, TRY, BLOCK = range(3)
SETTLED = 3
LOOK_S, MAKE_S = 2e-5, 5e-4
"""An order: a reduction and a broadcast. One more communicator."""
GAPS_S = 1e-4
"""What the program computes between two calls."""


class Order(ctypes.Structure):
    """``struct order``."""

    _fields_ = tuple((name, ctypes.c_int32) for name in ("what", "setting", "pattern", "calls"))


class Cell(ctypes.Structure):
    """``struct cell``."""

    _fields_ = (
        *(
            (name, ctypes.c_int32)
            for name in ("state", "settings", "best", "tested", "tests", "blocks", "rest", "again")
        ),
        ("tried", ctypes.c_uint32),
        ("out", ctypes.c_uint32),
        ("seconds", ctypes.c_double * SETTINGS),
        ("period_s", ctypes.c_double),
        ("spent_s", ctypes.c_double),
        ("alpha", ctypes.c_double),
        ("log_e", ctypes.c_double * STRENGTHS),
        ("gain", ctypes.c_double),
        ("y", ctypes.c_double * (MOST * PIECES)),
        ("apart", ctypes.c_double * (MOST * PIECES)),
        ("last", ctypes.c_double * PIECES),
        ("patterns", ctypes.c_int32 * MOST),
    )


class Process(ctypes.Structure):
    """``struct process``."""

    _fields_ = (
        *((name, ctypes.c_double) for name in ("alpha", "share", "elapsed_s", "spent_s", "look_s", "make_s")),
        ("tests", ctypes.c_int64),
    )


def library(folder: Path) -> ctypes.CDLL:
    """The decision, compiled into a folder."""
    flags = (*FLAGS, f"-I{SOURCES}", "-lm")
    text = (SOURCES / "decide.c").read_text()
    for compiler in ("cc", "gcc", "clang"):
        try:
            found = ctypes.CDLL(str(built(Path(compiler), text, None, folder / "decide.so", flags)))
            break
        except StackError:
            continue
    else:
        raise SystemExit("no C compiler")
    found.next_order.restype = Order
    found.evidence.restype = ctypes.c_double
    return found


@dataclass(frozen=True)
class Job:
    """What is true of a simulated job: seconds of a call, ``[cell][setting]``, the default first."""

    seconds: np.ndarray
    ranks: int

    def costs(
        self, rng: np.random.Generator, cell: int, settings: np.ndarray, drift: np.ndarray
    ) -> np.ndarray:
        """What is measured of calls by these settings: the least duration over the ranks."""
        n, usual = len(settings), self.seconds[cell, 0]
        late = rng.gamma(1.0, usual, (n, self.ranks))
        stragglers = rng.random(n) < 0.1
        late[stragglers, rng.integers(self.ranks, size=int(stragglers.sum()))] += 20 * usual
        took = self.seconds[cell, settings] * np.exp(0.05 * rng.standard_normal(n) + drift)
        took[rng.random(n) < 0.01] *= 10
        last = late.max(axis=1, keepdims=True)
        left = last + took[:, None] * (1 - 0.2 * rng.random((n, self.ranks)))
        return (left - late).min(axis=1)


@dataclass
class Outcome:
    """How a simulated job ended."""

    chosen: list[int]
    harm: float  # Seconds that trying cost, over those of the job.
    settled_after: int  # Calls; the job's where a cell was not settled.


def simulate(decide: ctypes.CDLL, job: Job, calls: int, seed: int, share: float = 0.005) -> Outcome:
    """One job: its cells are called in turn, until each was called so often."""
    rng = np.random.default_rng(seed)
    process = Process(alpha=0.05, share=share, look_s=LOOK_S, make_s=MAKE_S)
    cells = [Cell() for _ in job.seconds]
    for cell in cells:
        decide.begin(ctypes.byref(cell), job.seconds.shape[1], ctypes.c_uint32(~0))
    made, done, settled, harm_s, level = 1, np.zeros(len(cells), int), [calls] * len(cells), 0.0, 0.0
    while (turn := int(done.argmin())) >= 0 and done[turn] < calls:
        cell, true = cells[turn], job.seconds[turn]
        cell.period_s = process.elapsed_s / max(1, done[turn])
        random = ctypes.c_uint64(int(rng.integers(1 << 63)))
        order = decide.next_order(ctypes.byref(cell), ctypes.byref(process), ctypes.c_uint32(made), random)
        pieces = (
            [order.setting]
            if order.what != BLOCK
            else [order.setting * (order.pattern >> i & 1) for i in range(8)]
        )
        settings = np.repeat(pieces, order.calls)
        beside_s = LOOK_S
        for setting in {*pieces} - {i for i in range(SETTINGS) if made >> i & 1}:
            made |= 1 << setting
            beside_s += MAKE_S
        level += 0.2 * (0.05 * rng.standard_normal() - level)
        if order.what == CALLS:
            process.spent_s += LOOK_S
            cell.spent_s += LOOK_S
        else:
            costs = np.ascontiguousarray(job.costs(rng, turn, settings, np.full(len(settings), level)))
            harm_s += float(np.maximum(0, true[settings] - true[0]).sum())
            pointer = costs.ctypes.data_as(ctypes.c_void_p)
            if decide.told(
                ctypes.byref(cell), ctypes.byref(process), order, pointer, ctypes.c_double(beside_s)
            ):
                settled[turn] = min(settled[turn], int(done.sum()))
        harm_s += beside_s
        process.elapsed_s += float((true[settings] * (1 + job.ranks**0.1)).sum()) + GAPS_S * len(settings)
        done[turn] += len(settings)
    return Outcome([cell.best for cell in cells], harm_s / process.elapsed_s, max(settled))


JOBS = {
    "null": lambda n: np.ones(n),
    "planted": lambda n: np.array([2.0, *np.linspace(1.0, 12.0, n - 1)]),
    "small": lambda n: np.array([1.0, 0.95, *np.ones(n - 2)]),
    "awful": lambda n: np.array([1.0, *np.full(n - 1, 30.0)]),
}
TIMES_S = (5e-6, 4e-5, 1e-3)
"""Of the default in the three cells of a job."""


def jobs(kind: str, ranks: int) -> Job:
    """A job of a kind: three cells of seven settings."""
    return Job(np.outer(TIMES_S, JOBS[kind](7) / JOBS[kind](7)[0]), ranks)


def wrong(job: Job, outcome: Outcome) -> bool:
    """Whether a candidate was taken that gains less than a hundredth."""
    return any(c and row[c] > 0.99 * row[0] for c, row in zip(outcome.chosen, job.seconds, strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 512, 4096])
    parser.add_argument("--calls", type=int, default=200_000)
    asked = parser.parse_args()
    decide = library(Path(gettempdir()) / "autotune-online")
    sys.stdout.write("job      ranks  runs  wrong  cells improved  harm (worst)  calls until settled\n")
    for kind in JOBS:
        for ranks in asked.ranks:
            job = jobs(kind, ranks)
            every = [simulate(decide, job, asked.calls, seed) for seed in range(asked.runs)]
            better = sum(sum(1 for c in one.chosen if c) for one in every)
            sys.stdout.write(
                f"{kind:8} {ranks:5} {len(every):5} {sum(wrong(job, one) for one in every):6} "
                f"{better:6} of {len(every) * len(TIMES_S):4}  {np.mean([o.harm for o in every]):.3%} "
                f"({max(o.harm for o in every):.3%})  {np.median([o.settled_after for o in every]):9.0f}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
