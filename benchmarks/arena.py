"""Proposers against each other on recorded campaigns: who needs how many launches.

    python benchmarks/arena.py DIR|TABLE [--proposers curve,optuna:sampler=gp] [--launches 4,8,12,16]
        [--seeds 5] [--out results.csv] [--call-level NAME,…] [--per-job NAME,…] [--jobs 1]
        [--collective NAME]

Parameters of ``--call-level`` are swept inside each launch, those of ``--per-job`` a job must fix, in the
tables that have them. All results go to the CSV, with the plot beside it as ``.html``; without a file there
are the standings only.

Every contest begins with one launch of the table's default, the baseline that a campaign makes anyway, and
counts it. After n launches the contender has what ``recommend`` would choose from what it was shown: one
job-wide setting with the best of its per-size choices, or one configuration for all sizes. Where a table has
several runs of a configuration, half of them are shown and the others judge.

Notation: a *configuration* is a job-wide point with a call-level choice; *excess* is a time over the best
that the table has, as the geometric mean over the slots: 1.00 is perfect.
"""

import argparse
import csv
import math
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np

from autotune.campaign.ports import Problem, Proposer
from autotune.errors import AutotuneError, UserError
from autotune.history.objectives import Objective, Slot, by_setting, envelope, job_setting, slot_of
from autotune.history.trial import History, Observation, Phase, Status, Trial
from autotune.proposers import proposer
from autotune.replay.observed import observed
from autotune.replay.recorded_table import RecordedTable, Run, read_recorded
from autotune.space import Point

Task = tuple[RecordedTable, str, tuple[int, ...], int]
Configuration = tuple[Point, Point]
"""Job-wide point and call-level choice."""


@dataclass(frozen=True, slots=True)
class Result:
    """Where one contender stands after some launches of one table."""

    table: str
    """Its file name."""
    configurations: int
    """How many the table has."""
    proposer: str
    """As the user named it."""
    seed: int
    """Of the proposer, and of which runs are shown."""
    launches: int
    """The budget, the baseline included."""
    used: int
    """How many of them the proposer made: less where it had nothing more to propose."""
    envelope: float
    """Excess of the best job-wide setting with its per-size choices."""
    single: float
    """Excess of the best single configuration over the best single one of the table."""
    speedup: float
    """The default's time over the chosen setting's: below one means harm."""
    suggestion_s: float
    """Mean thinking time per suggestion, seconds."""


@dataclass(frozen=True, slots=True)
class Standings:
    """One proposer at one budget over all tables and seeds."""

    proposer: str
    """As the user named it."""
    launches: int
    """The budget."""
    contests: int
    """Tables × seeds."""
    mean: float
    """Mean excess of the envelope."""
    median: float
    """Median excess of the envelope."""
    p90: float
    """Its 90th percentile."""
    single_mean: float
    """Mean excess of the best single configuration."""
    single_p90: float
    """Its 90th percentile."""
    suggestion_s: float
    """Mean thinking time per suggestion, seconds; NaN where none was asked for."""


def contest(
    recorded: RecordedTable,
    name: str,
    contender: Proposer,
    budgets: Sequence[int],
    seed: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[Result]:
    """One proposer on one table: a result for each budget, in ascending order."""
    shown, judging = _split(recorded, seed)
    judge = _Judge(recorded, judging)
    problem = Problem(recorded.space, (Objective("latency"),))
    history = History((_observe(recorded.space.default, shown, History()),))
    results, thinking = [], []
    for budget in sorted(set(budgets)):
        while len(history) < budget:
            started = clock()
            suggestion = contender.propose(problem, history, seed)
            thinking.append(clock() - started)
            if suggestion is None:
                break
            history = history.plus([_observe(suggestion.point, shown, history)])
        excess, single, speedup = judge.verdict(history)
        results.append(
            Result(
                recorded.space.name,
                len(judge.times),
                name,
                seed,
                budget,
                min(len(history), budget),
                excess,
                single,
                speedup,
                fmean(thinking) if thinking else math.nan,
            )
        )
    return results


def standings(results: Iterable[Result]) -> list[Standings]:
    """The results by budget and proposer, the best mean first within each budget."""
    groups: dict[tuple[int, str], list[Result]] = defaultdict(list)
    for result in results:
        groups[result.launches, result.proposer].append(result)
    table = []
    for (launches, name), group in groups.items():
        joint = np.array([r.envelope for r in group])
        single = np.array([r.single for r in group])
        thinking = [r.suggestion_s for r in group if not math.isnan(r.suggestion_s)]
        table.append(
            Standings(
                name,
                launches,
                len(group),
                float(joint.mean()),
                float(np.median(joint)),
                float(np.quantile(joint, 0.9)),
                float(single.mean()),
                float(np.quantile(single, 0.9)),
                fmean(thinking) if thinking else math.nan,
            )
        )
    return sorted(table, key=lambda s: (s.launches, s.mean))


def standings_text(table: Sequence[Standings]) -> str:
    """The standings as a Markdown table, one block of rows for each budget."""
    lines = [
        "| launches | proposer | contests | mean | median | p90 | single mean | single p90 | s/suggestion |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {s.launches} | {s.proposer} | {s.contests} | {s.mean:.3f} | {s.median:.3f} | {s.p90:.3f} "
        f"| {s.single_mean:.3f} | {s.single_p90:.3f} | {s.suggestion_s:.3f} |"
        for s in table
    ]
    return "\n".join(lines) + "\n"


def standings_page(table: Sequence[Standings]) -> str:
    """Mean and 90th percentile of the envelope's excess against launches, as a page that needs no network."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, subplot_titles=("mean", "90th percentile"), shared_yaxes=True)
    for name in dict.fromkeys(s.proposer for s in table):
        mine = sorted((s for s in table if s.proposer == name), key=lambda s: s.launches)
        for column, values in enumerate(([s.mean for s in mine], [s.p90 for s in mine]), start=1):
            figure.add_scatter(
                x=[s.launches for s in mine],
                y=[100 * (v - 1) for v in values],
                name=name,
                legendgroup=name,
                showlegend=column == 1,
                row=1,
                col=column,
            )
    figure.update_xaxes(title_text="launches")
    figure.update_yaxes(title_text="excess over the best, %", col=1)
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


class _Judge:
    """What the runs that no proposer sees say about choices."""

    def __init__(self, recorded: RecordedTable, judging: dict[Point, tuple[Run, ...]]) -> None:
        self.space = recorded.space
        cells: dict[Configuration, dict[Slot, list[float]]] = defaultdict(lambda: defaultdict(list))
        for point, runs in judging.items():
            for run in runs:
                for cell, times in run.items():
                    cells[point, cell.choice][slot_of(cell)].append(math.log(np.median(times)))
        slots = sorted({slot for by_slot in cells.values() for slot in by_slot})
        self.slots = slots
        self.times = {
            c: np.array([np.median(by_slot[s]) if s in by_slot else np.inf for s in slots])
            for c, by_slot in cells.items()
        }
        settings: dict[Point, list[Configuration]] = defaultdict(list)
        for c in self.times:
            settings[job_setting(self.space, c[0])].append(c)
        self.best = min(
            float(np.min([self.times[c] for c in members], axis=0).mean()) for members in settings.values()
        )
        self.best_single = min(float(t.mean()) for t in self.times.values())
        self.default = self.times.get(recorded.default) if recorded.default else None

    def verdict(self, history: History) -> tuple[float, float, float]:
        """Excess of the envelope, excess of the single best, and speedup over the default.

        Infinite excess while nothing complete was measured; no speedup (NaN) where no default is marked.
        """
        per_size = {p.name for p in self.space.job if p.per_size}
        chosen: list[tuple[float, float]] = []
        for setting, group in by_setting(self.space, history).items():
            curve = envelope(self.space, group)
            if any(slot not in curve for slot in self.slots):
                continue
            truth = []
            for j, slot in enumerate(self.slots):
                winner = curve[slot].choice
                point = Point.of({**setting, **winner.restricted(per_size)})
                call = Point.of({k: v for k, v in winner.items() if k not in per_size})
                truth.append(self.times[point, call][j])
            shown = fmean(math.log(curve[slot].median_s) for slot in self.slots)
            chosen.append((shown, fmean(truth)))
        single = self._single(history)
        if not chosen or single is None:
            return math.inf, math.inf, math.nan
        _, truth_log = min(chosen)
        speedup = math.nan if self.default is None else math.exp(float(self.default.mean()) - truth_log)
        return math.exp(truth_log - self.best), math.exp(single - self.best_single), speedup

    def _single(self, history: History) -> float | None:
        """True mean cost of the configuration that looks best when one is used for all sizes."""
        seen: dict[Configuration, dict[Slot, list[float]]] = defaultdict(lambda: defaultdict(list))
        for observation in history:
            for e in observation.usable:
                seen[observation.trial.point, e.cell.choice][slot_of(e.cell)].append(math.log(e.median_s))
        complete = {
            c: fmean(fmean(by_slot[s]) for s in self.slots)
            for c, by_slot in seen.items()
            if all(s in by_slot for s in self.slots)
        }
        if not complete:
            return None
        return float(self.times[min(complete, key=lambda c: complete[c])].mean())


def _split(
    recorded: RecordedTable, seed: int
) -> tuple[dict[Point, tuple[Run, ...]], dict[Point, tuple[Run, ...]]]:
    """The runs of each point that are shown, and those that judge; a single run does both."""
    shown, judging = {}, {}
    for point, runs in recorded.runs.items():
        order = np.random.default_rng([seed, zlib.crc32(str(point).encode())]).permutation(len(runs))
        half = (len(runs) + 1) // 2
        shown[point] = tuple(runs[i] for i in order[:half])
        judging[point] = tuple(runs[i] for i in order[half:]) or shown[point]
    return shown, judging


def _observe(point: Point, shown: dict[Point, tuple[Run, ...]], history: History) -> Observation:
    """The next launch: a run of the point, another one each time."""
    number = len(history) + 1
    trial = Trial(number, Phase.SEARCH if number > 1 else Phase.BASELINE, point)
    runs = shown[point]
    if not runs:
        return Observation(trial, Status.CRASHED, reason="every recorded run failed")
    return observed(trial, runs[sum(o.trial.point == point for o in history) % len(runs)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tables", type=Path, help="folder of recorded tables, or one of them")
    parser.add_argument("--proposers", type=words, default=words("curve,ax,optuna,smac,random,ofat"))
    parser.add_argument("--launches", default="4,8,12,16", help="budgets")
    parser.add_argument("--seeds", type=int, default=5, help="contests of each proposer on each table")
    parser.add_argument("--out", type=Path, help="CSV of all results; the plot goes beside it as .html")
    parser.add_argument("--call-level", type=words, default=())
    parser.add_argument("--per-job", type=words, default=())
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--collective", help="which one, of tables that hold several")
    try:
        compete(**vars(parser.parse_args()))
    except AutotuneError as error:
        parser.error(str(error))


def words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def compete(
    tables: Path,
    proposers: Sequence[str],
    launches: str,
    seeds: int,
    out: Path | None,
    call_level: Sequence[str],
    per_job: Sequence[str],
    jobs: int,
    collective: str | None = None,
) -> None:
    """Run all contests, print the standings, and write results and plot."""
    counts = budgets(launches)
    if min(counts) < 1 or seeds < 1 or jobs < 1:
        raise UserError(
            f"--launches {launches}, --seeds {seeds}, --jobs {jobs}", "needed: whole numbers from 1 on"
        )
    for name in proposers:
        named(name)
    read = [_read(path, call_level, per_job, collective) for path in _files(tables)]
    tasks = [(r, name, counts, seed) for r, name, seed in product(read, proposers, range(seeds))]
    results: list[Result] = []
    with _table(out) as write:
        for number, finished in enumerate(_all(tasks, jobs), start=1):
            results += finished
            write(finished)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{number} of {len(tasks)} contests" + "\n" * (number == len(tasks)))
    table = standings(results)
    print(standings_text(table), end="")
    if out is not None:
        page = out.with_suffix(".html")
        page.write_text(standings_page(table), encoding="utf-8")
        print(f"{out}, {page}", file=sys.stderr)


def budgets(text: str) -> tuple[int, ...]:
    """The launches in ``4,8,12``.

    Raises:
        UserError: something that is not a whole number.
    """
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise UserError(f"--launches {text}", "expected whole numbers: --launches 4,8,12,16") from None


def named(text: str) -> Proposer:
    """The proposer that ``name:option=value:…`` means.

    Raises:
        ScenarioError: an unknown proposer or option.
        UserError: an option without a value.
    """
    name, *pairs = text.split(":")
    options: dict[str, object] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UserError(f"proposer {text!r}: option {pair!r} has no value", "expected NAME:OPTION=VALUE")
        options[key] = _scalar(value)
    return proposer(name, **options)


def _scalar(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text


def _all(tasks: Sequence[Task], jobs: int) -> Iterator[list[Result]]:
    if jobs == 1:
        yield from map(_contest, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_contest, tasks)


def _contest(task: Task) -> list[Result]:
    recorded, name, launches, seed = task
    return contest(recorded, name, named(name), launches, seed)


def _files(tables: Path) -> list[Path]:
    if tables.is_file():
        return [tables]
    files = sorted([*tables.glob("*.csv"), *tables.glob("*.parquet")])
    if not files:
        raise UserError(
            f"no tables in {tables}", "expected CSV or Parquet files: message_bytes, latency_us, …"
        )
    return files


def _read(
    path: Path, call_level: Sequence[str], per_job: Sequence[str], collective: str | None = None
) -> RecordedTable:
    """A table, with those of the named parameters that it has."""
    plain = read_recorded(path, collective=collective)
    names = {p.name for p in plain.space.parameters}
    call, job = names & set(call_level), names & set(per_job)
    return read_recorded(path, call, job, collective) if call or job else plain


@contextmanager
def _table(out: Path | None) -> Iterator[Callable[[Sequence[Result]], None]]:
    """A function that appends results to the table, whole contests at a time: an interrupted run keeps them.

    Raises:
        UserError: the file cannot be written; found out before the first contest.
    """
    if out is None:
        yield lambda _: None
        return
    try:
        file = out.open("w", encoding="utf-8", newline="")
    except OSError as exc:
        message = f"cannot write {out}: {exc.strerror or exc}"
        raise UserError(message, "choose another file with --out") from exc
    with file:
        writer = csv.DictWriter(file, [f.name for f in fields(Result)])
        writer.writeheader()

        def write(results: Sequence[Result]) -> None:
            for result in results:
                row = asdict(result)
                writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})
            file.flush()

        yield write


if __name__ == "__main__":
    main()
