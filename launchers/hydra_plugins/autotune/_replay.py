"""Observe trials with recorded launches in place of a cluster.

A launch of a point returns one of the recorded runs of the point, and a repeated launch another one. The
order of the runs is random, but determined by (seed, point). The directories of earlier launches show which
run is next, so a campaign that was interrupted continues as if nothing had happened. If only one run was
recorded, each launch returns this run.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.bench import Bench
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.observing import Measurement, choices_of, launch_directory, observation
from autotune.campaign.spec import BenchKind, Stamp
from autotune.errors import ScenarioError, TableError, allowed
from autotune.history.lookup import rule_at
from autotune.history.trial import Cell, Observation, Phase, Rule, Status, Subject, Trial
from autotune.probe.protocol import CellSamples, ProbeResult
from autotune.replay.recorded_table import RecordedTable, Run, read_recorded
from autotune.resources import user_text
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.space.given import fixed
from autotune.stacks.ports import LaunchOutcome, Placement

RECORD = "replayed.json"  # File in the directory of each launch: which recorded run the launch returned.


@dataclass(frozen=True)
class Replay:
    """Observe trials with the runs of a recorded campaign."""

    recorded: RecordedTable  # The recorded runs.
    seed: int  # Random seed of the order in which the runs of a point are returned.
    measurement: Measurement  # The requested measurements.
    space: Space  # The search space.
    directory: Path  # The campaign's directory; each launch gets a folder in its ``launches/``.

    def observe(self, trial: Trial) -> Observation:
        """Return the observation of a recorded run; see ``Observer``."""
        return observation(trial, self.run(trial), self.measurement.estimator)

    def run(self, trial: Trial) -> LaunchOutcome:
        """Return a recorded run of the trial's point as the outcome of a launch."""
        directory = launch_directory(self.directory, trial)
        requested = Point() if trial.subject is Subject.UNTOUCHED else trial.point
        if trial.subject is Subject.UNTOUCHED and not self.recorded.knows_defaults:
            return LaunchOutcome(Status.INVALID, "the table does not say which rows the stack's defaults are")
        point = self._recorded_point(requested)
        if point is None:
            return LaunchOutcome(Status.INVALID, f"not in {self.recorded.space.name}: {requested}")
        number = _launched(directory, point)
        record = {"point": dict(point), "number": number}
        (directory / RECORD).write_text(json.dumps(record), encoding="utf-8")
        if self.recorded.untouched and not requested:
            cells = tuple(self._untouched(number))
        elif self.recorded.runs.get(point):
            cells = tuple(self._cells(trial, point, number))
        else:
            return LaunchOutcome(Status.CRASHED, f"every recorded run of {point} failed")
        return LaunchOutcome(Status.OK, result=ProbeResult("ok", cells=cells))

    def _recorded_point(self, point: Point) -> Point | None:
        if not point:
            return self.recorded.space.default
        restricted = point.restricted({p.name for p in self.recorded.space.job})
        return restricted if restricted in self.recorded.runs else None

    def _slots(self) -> Iterator[tuple[int, int]]:
        for comm_size in self.recorded.comm_sizes:
            for size in self.recorded.sizes_bytes:
                if size in self.measurement.probe.sizes_bytes:
                    yield comm_size, size

    def _untouched(self, number: int) -> Iterator[CellSamples]:
        run = self._drawn(self.recorded.untouched, "untouched", number)
        for comm_size, size in self._slots():
            yield _samples(run, Cell(self.recorded.collective, comm_size, size, Point()), Point())

    def _cells(self, trial: Trial, point: Point, number: int) -> Iterator[CellSamples]:
        choices = choices_of(self.space, trial, self.recorded.collective)
        for comm_size, size in self._slots():
            for choice in choices:
                cell = Cell(self.recorded.collective, comm_size, size, choice)
                yield _samples(self._run(point, number), cell, cell.choice)
            if not choices:
                deployed, ruled = self._deployed(trial.rules, point, comm_size, size)
                cell = Cell(self.recorded.collective, comm_size, size, ruled)
                yield _samples(self._run(deployed, number), cell, Point())

    def _deployed(
        self, rules: Sequence[Rule], point: Point, comm_size: int, size: int
    ) -> tuple[Point, Point]:
        """Return the recorded point and the per-size choice that rules select for one size.

        If no rule applies, or its values were not recorded, these are the given point and the first choice.
        """
        if rule := rule_at(rules, (self.recorded.collective, comm_size, size)):
            ruled = rule.choice
            call = {p.name for p in self.recorded.space.call}
            per_size = {p.name for p in self.recorded.space.job if p.per_size}
            job_wide = {k: v for k, v in point.items() if k not in per_size}
            deployed = Point.of({**job_wide, **ruled.restricted(per_size)})
            if deployed in self.recorded.runs and (ruled.restricted(call) or not call):
                return deployed, ruled.restricted(call)
        return point, self.recorded.space.choices(self.recorded.collective)[0]

    def _run(self, point: Point, number: int) -> Run:
        return self._drawn(self.recorded.runs.get(point, ()), str(point), number)

    def _drawn(self, runs: Sequence[Run], name: str, number: int) -> Run:
        """Return the run for a repetition; the runs are used in turn, in an order drawn from (seed, name)."""
        if not runs:
            return {}
        order = np.random.default_rng([self.seed, zlib.crc32(name.encode())]).permutation(len(runs))
        return runs[int(order[number % len(runs)])]


def replay_bench(scenario: Scenario) -> Bench:
    """Return the bench that takes results from the table or campaign that the scenario's ``replay`` names.

    A bench has the observer, the search space and the description for a campaign.

    Raises:
        ScenarioError: a key is unknown, no table is named, or a campaign has several collectives and none is
            named.
        TableError: the table cannot be used.
        UserError: the directory contains no campaign.
    """
    options: dict[str, Any] = dict(scenario.replay)
    table, collective = options.pop("table", None), options.pop("collective", None)
    call_level, per_job = (_names(options.pop(key, None)) for key in ("call_level", "per_job"))
    if options:
        keys = ("table", "call_level", "per_job", "collective")
        raise ScenarioError(f"unknown key replay.{next(iter(options))}", allowed(next(iter(options)), keys))
    if not table:
        hint = "replay.table=FILE: a CSV or Parquet table, or a campaign's directory"
        raise ScenarioError("replay.table is not set", hint)
    if (path := Path(str(table))).is_dir():
        source = recorded_campaign(read_campaign(path), collective)
    else:
        source = read_recorded(path, call_level, per_job, collective)
    return Bench(
        partial(Replay, source, scenario.seed),
        fixed(source.space, scenario.fix),
        Placement(ranks=max(source.comm_sizes)),
        f"recorded in {path}",
        stamp=Stamp(BenchKind.REPLAYED, f"from {source.space.name}"),
        collective=(source.collective,),
        sizes=source.sizes_bytes,
        has_defaults=source.knows_defaults,
    )


def recorded_campaign(campaign: CampaignDirectory, collective: str | None = None) -> RecordedTable:
    """Return the launches of a campaign for replay, with raw samples if these are stored, else with medians.

    Launches that failed are replayed as failures.

    Raises:
        ScenarioError: the collective was not measured, has no results, or is not named although the campaign
            measured several.
    """
    space, measured = campaign.about.space, campaign.about.scenario.collective
    if collective is None and len(measured) > 1:
        hint = "name one of them: replay.collective=NAME"
        raise ScenarioError(f"{campaign.path} measured {', '.join(measured)}", hint)
    if collective is not None and collective not in measured:
        raise ScenarioError(f"replay.collective={collective}", allowed(collective, measured))
    collective = collective or measured[0]
    runs: dict[Point, list[Run]] = defaultdict(list)
    untouched: list[Run] = []
    for observed in campaign.history:
        result = ProbeResult.read(campaign.path / "launches" / f"{observed.trial.number:04d}")
        times = {} if result is None else {_cell_of(c): c.samples_s for c in result.cells}
        run: Run = {
            e.cell: tuple(float(t) for t in times.get(e.cell, ())) or (e.median_s,)
            for e in observed.usable
            if e.cell.collective == collective
        }
        if observed.trial.subject is Subject.SWEEP:
            runs[observed.trial.point] += [run] if run else []
        elif observed.trial.phase is Phase.BASELINE and run:
            untouched.append(run)
    cells = [cell for several in (*runs.values(), untouched) for run in several for cell in run]
    if not cells:
        raise ScenarioError(f"{campaign.path} has no result of {collective}", "there is nothing to replay")
    return RecordedTable(
        replace(space, listed=tuple(dict.fromkeys([space.default, *runs]))),
        collective,
        tuple(sorted({cell.message_bytes for cell in cells})),
        tuple(sorted({cell.comm_size for cell in cells})),
        {point: tuple(several) for point, several in runs.items()},
        default=None,
        untouched=tuple(untouched),
    )


def _cell_of(cell: CellSamples) -> Cell:
    return Cell(cell.collective, cell.comm_size, cell.message_bytes, Point.of(cell.values))


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return tuple(str(name) for name in value) if isinstance(value, list | tuple) else ()


def _samples(run: Run, cell: Cell, values: Point) -> CellSamples:
    times = np.array(run.get(cell, ()))
    missing = () if times.size else ("invalid", "not recorded")
    return CellSamples(cell.collective, cell.comm_size, cell.message_bytes, dict(values), times, *missing)


def _launched(directory: Path, point: Point) -> int:
    """Return how many other launches of the campaign have returned a run of the point."""
    records = (path for path in directory.parent.glob(f"*/{RECORD}") if path.parent != directory)
    return sum(_recorded(path) == dict(point) for path in records)


def _recorded(path: Path) -> object:
    text = user_text(path)
    try:
        return json.loads(text)["point"]
    except (ValueError, LookupError, TypeError, RecursionError) as exc:
        raise TableError(f"{path} is no record of a replayed launch: {exc}") from exc
