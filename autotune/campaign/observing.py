"""Observing a trial: what a launch of it shows (steps 4 to 7 of the flow).

Whoever makes trials is an ``Observer``: ``Launches`` here, where processes are started and a trial meets a
stack and a launcher, neither of which sees the other; a model, a recording or any program elsewhere. The
directory of a launch of processes holds ``request.json``, ``result.json``, ``samples.npz``, what was printed,
and the files of a deployed subject.
"""

import math
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from autotune.errors import ScenarioError, allowed
from autotune.history.trial import Cell, Estimate, Observation, Status, Subject, Trial
from autotune.measure.location import Estimator, estimate
from autotune.probe.protocol import REQUEST, CellSamples, ProbeRequest
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement, Rendering, Stack


@dataclass(frozen=True, slots=True)
class Measurement:
    """What every launch measures, and how."""

    probe: ProbeRequest
    """What is measured; choices and expectations come from each trial."""
    timeout_s: float
    """Of one launch."""
    estimator: str = "median"
    """How samples become one number, see ``measure.location``."""
    amended: Callable[[Rendering], Rendering] = lambda rendering: rendering
    """What becomes of each rendering, where somebody's own settings are measured; only an MPI heeds it."""


class Observer(Protocol):
    """Makes trials."""

    def observe(self, trial: Trial) -> Observation:
        """What one launch of the trial shows; a launch that failed is an observation with its status.

        Raises:
            StackError: nothing can be launched at all.
            SpaceError: the stack has no word for something in the space.
            Interrupted: the user ended the work; nothing of the launch is left running.
        """
        ...


class Observers(Protocol):
    """Makes the observers of one place."""

    def __call__(self, measurement: Measurement, space: Space, directory: Path) -> Observer:
        """What observes trials of a space; each launch gets a folder below ``launches/`` of a directory."""
        ...


@dataclass(frozen=True, slots=True)
class Launches:
    """Trials as processes: rendered, launched, measured by the probe."""

    stack: Stack
    """Renders trials."""
    launcher: Launcher
    """Runs them."""
    placement: Placement
    """Where the ranks go, unless the trial maps them."""
    measurement: Measurement
    """What every launch measures."""
    space: Space
    """What the trials' points belong to."""
    directory: Path
    """Each launch gets a folder below its ``launches/``."""

    def observe(self, trial: Trial) -> Observation:
        """What one launch of the trial shows; see ``Observer``."""
        measurement = self.measurement
        rendering = self.stack.render(self.space, trial, measurement.probe.collectives)
        rendering = measurement.amended(rendering)
        directory = launch_directory(self.directory, trial).absolute()
        place = {k: getattr(rendering, k) for k in ("map_by", "bind_to") if getattr(rendering, k)}
        probe = replace(
            measurement.probe, choices=rendering.choices, expect=rendering.expect, seed=trial.seed
        )
        request = LaunchRequest(
            directory=directory,
            program=(sys.executable, "-m", "autotune.probe", str(directory)),
            env={k: v.replace("{directory}", str(directory)) for k, v in rendering.env.items()},
            placement=replace(self.placement, **place),
            timeout_s=measurement.timeout_s,
        )
        (directory / REQUEST).write_text(probe.to_json())
        for name, text in rendering.files.items():
            (directory / name).write_text(text)
        return observation(trial, self.launcher.run(request), measurement.estimator)


def measurement_of(scenario: Scenario, ranks: int) -> Measurement:
    """What the launches of a scenario measure, on so many ranks.

    Raises:
        ScenarioError: an unknown estimator.
        UserError: what the probe refuses.
    """
    options = scenario.probe
    if options.estimator not in list(Estimator):
        raise ScenarioError(f"probe.estimator={options.estimator}", allowed(options.estimator, Estimator))
    probe = ProbeRequest(
        collectives=scenario.collective,
        sizes_bytes=scenario.sizes,
        comm_sizes=scenario.cluster.comm_sizes,
        ranks=ranks,
        budget_s=options.budget_s,
        precision=options.precision,
        min_samples=options.min_samples,
        max_samples=options.max_samples,
        timing=options.timing,
        sync=options.sync,
        check=options.check,
        memory="memory" in scenario.objectives,
    )
    # Besides the timed part a launch starts ranks, warms cells up and checks results.
    timeout_s = scenario.launch.timeout_s or 60.0 + 5 * options.budget_s
    return Measurement(probe, timeout_s, options.estimator)


def choices_of(space: Space, trial: Trial, collective: str) -> tuple[Point, ...]:
    """The call-level choices that a trial sweeps; none for one that leaves them to the stack or to rules."""
    return tuple(space.choices(collective, trial.point)) if trial.subject is Subject.SWEEP else ()


def launch_directory(directory: Path, trial: Trial) -> Path:
    """A new folder for a launch, in place of what an interrupted launch of the same trial left."""
    made = directory / "launches" / f"{trial.number:04d}"
    if made.exists():
        shutil.rmtree(made)
    made.mkdir(parents=True)
    return made


def observation(trial: Trial, outcome: LaunchOutcome, estimator: str = "median") -> Observation:
    """What a launch that has ended showed."""
    status, reason = Status(outcome.status), outcome.reason
    result = outcome.result
    if result is None:
        if status is Status.OK:
            status, reason = Status.LOST, "the launch ended well but left no result"
        return Observation(
            trial, status, (), reason, outcome.duration_s, outcome.queue_s, tuple(outcome.hosts)
        )
    estimates = tuple(_estimate(cell, estimator) for cell in result.cells)
    if status is Status.OK and not any(e.status is Status.OK for e in estimates):
        worst = next((c for c in result.cells if c.status != Status.OK), None)
        status = Status(worst.status) if worst else Status.INVALID
        reason = worst.reason if worst else "nothing was measured"
    extra = {} if math.isnan(result.memory_bytes) else {"memory_bytes": result.memory_bytes}
    if not math.isnan(result.overhead_s):
        extra["overhead_s"] = result.overhead_s
    notes = (f"timing: {result.timing}", *result.notes) if result.timing else result.notes
    return Observation(
        trial,
        status,
        estimates,
        reason,
        outcome.duration_s,
        outcome.queue_s,
        tuple(outcome.hosts) or tuple(dict.fromkeys(result.hosts)),
        extra,
        notes,
    )


def _estimate(cell: CellSamples, estimator: str) -> Estimate:
    what = Cell(cell.collective, cell.comm_size, cell.message_bytes, Point.of(cell.values))
    status = Status(cell.status)
    if not len(cell.valid_s):
        status = Status.INVALID if status is Status.OK else status
    if status is not Status.OK:
        return Estimate(what, math.nan, math.nan, len(cell.valid_s), status)
    located = estimate(cell.valid_s, estimator)
    # One sample says nothing about its error: take it as large as the value, so that nobody relies on it.
    sem_s = located.value_s if math.isnan(located.sem_s) else located.sem_s
    return Estimate(
        what, located.value_s, sem_s, located.n, status, located.low_s, located.high_s, located.n_outliers
    )
