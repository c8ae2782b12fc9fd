"""Proposers against each other on recorded campaigns: who needs how many launches (beside the flow).

Every contest begins with one launch of the table's default, the baseline that a campaign makes anyway, and
counts it. After n launches the contender has what ``recommend`` would choose from what it was shown: one
job-wide setting with the best of its per-size choices, or one configuration for all sizes. Where a table has
several runs of a configuration, half of them are shown and the others judge.

Notation: a *configuration* is a job-wide point with a call-level choice; *excess* is a time over the best
that the table has, as the geometric mean over the slots: 1.00 is perfect.
"""

import math
import time
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from autotune.campaign.ports import Problem, Proposer
from autotune.history.objectives import Objective, Slot, by_setting, envelope, job_setting, slot_of
from autotune.history.trial import History, Observation, Phase, Status, Trial
from autotune.replay.observed import observed
from autotune.replay.recorded_table import RecordedTable, Run
from autotune.space import Point

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
    proposer: Proposer,
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
            suggestion = proposer.propose(problem, history, seed)
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
