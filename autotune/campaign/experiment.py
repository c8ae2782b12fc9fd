"""One trial, made: rendered, launched, measured (steps 4 to 7 of the flow).

This is where a trial meets a stack and a launcher; neither sees the other. The directory of a launch holds
``request.json``, ``result.json``, ``samples.npz``, what was printed, and the files of a deployed subject.
"""

import math
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotune.history.trial import Cell, Estimate, Observation, Status, Subject, Trial
from autotune.measure.location import estimate
from autotune.probe.protocol import REQUEST, CellSamples, ProbeRequest
from autotune.space import Point, Space
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement, Renderer, Rendering


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that the launches of one campaign share."""

    stack: Renderer
    """Renders trials."""
    launcher: Launcher
    """Runs them."""
    space: Space
    """What the trials' points belong to."""
    probe: ProbeRequest
    """What every launch measures; choices and expectations come from the rendering."""
    placement: Placement
    """Where the ranks go, unless the trial maps them."""
    directory: Path
    """Of the campaign; each launch gets a folder below ``launches/``."""
    timeout_s: float
    """Of one launch."""
    estimator: str = "median"
    """How samples become one number, see ``measure.location``."""
    program: Sequence[str] = field(default=(sys.executable, "-m", "autotune.probe"))
    """The probe; the directory of the launch is appended."""

    def observe(self, trial: Trial) -> Observation:
        """What one launch of the trial shows; a launch that failed is an observation with its status.

        Raises:
            StackError: nothing can be launched at all.
            SpaceError: the stack has no word for something in the space.
        """
        rendering = self.stack.render(self.space, trial, self.probe.collectives)
        directory = self.directory / "launches" / f"{trial.number:04d}"
        if directory.exists():  # an interrupted launch of the same trial
            shutil.rmtree(directory)
        directory.mkdir(parents=True)
        request = self._request(trial, rendering, directory)
        (directory / REQUEST).write_text(request.probe.to_json())
        for name, text in rendering.files.items():
            (directory / name).write_text(text)
        return observation(trial, self.launcher.run(request), self.estimator)

    def _request(self, trial: Trial, rendering: Rendering, directory: Path) -> LaunchRequest:
        place = {k: getattr(rendering, k) for k in ("map_by", "bind_to") if getattr(rendering, k)}
        return LaunchRequest(
            directory=directory,
            program=(*self.program, str(directory.absolute())),
            env={k: v.replace("{directory}", str(directory.absolute())) for k, v in rendering.env.items()},
            placement=replace(self.placement, **place),
            timeout_s=self.timeout_s,
            probe=replace(self.probe, choices=rendering.choices, expect=rendering.expect, seed=trial.seed),
            point=Point() if trial.subject is Subject.UNTOUCHED else trial.point,
            rules=trial.rules,
            seed=trial.seed,
            number=trial.number,
        )


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
    found = estimate(cell.valid_s, estimator)
    # One sample says nothing about its error: take it as large as the value, so that nobody relies on it.
    sem_s = found.value_s if math.isnan(found.sem_s) else found.sem_s
    return Estimate(what, found.value_s, sem_s, found.n, status, found.low_s, found.high_s, found.n_outliers)
