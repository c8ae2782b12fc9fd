"""Observe a trial: launch it and turn its measurements into an observation (data flow: trial to observation).

An ``Observer`` makes trials. ``Launches``, in this module, starts processes: a stack renders the trial, a
launcher starts the ranks, and neither of the two knows the other. Other observers compute trials by a model,
look them up in a recorded table, or run any program. The directory of a launch of processes contains
``request.json``, ``result.json``, ``samples.npz``, the printed output, and the files of a deployed setting.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from autotune.campaign.apart import HeatsHere
from autotune.campaign.failures import limit_s
from autotune.campaign.lost import made_until_not_lost
from autotune.errors import ScenarioError, allowed
from autotune.history.folder import make_empty
from autotune.history.objectives import Slot
from autotune.history.trial import (
    INTERRUPTIONS,
    LOST_BEFORE,
    PLAIN_MEAN,
    TIMED,
    UNINTERRUPTED_MEAN,
    UNINTERRUPTED_S,
    UNINTERRUPTED_SEM,
    Cell,
    Estimate,
    Observation,
    Phase,
    Status,
    Subject,
    Trial,
    status_of,
)
from autotune.measure.location import Estimator, estimate, interrupted
from autotune.probe.protocol import REQUEST, TIMED_S, CellSamples, ProbeRequest, ProbeResult
from autotune.resources import user_bytes
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement, Rendering
from autotune.stacks.stack import Stack

_HEAT_SHARE = 1 / 3
"""Time that a launch measures in a heat (launches that are alive at once and measure in turns), as a share of
the time of a launch alone. Launches of a heat differ by properties that each keeps until it ends, such as the
place of its memory: by 2 % on two cores. With a third of the time the error within a launch is as large."""


_CHECKED = 6
"""Number of timed calls of each cell (one collective, communicator size, message size and algorithm) in a
launch that only shows whether it fails; the call whose result is checked precedes them. The probe times no
fewer calls."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """Describe what every launch measures, and how."""

    probe: ProbeRequest  # Request to the probe, to which each trial adds choices and expected settings.
    timeout_s: float  # Time limit of one launch, in seconds.
    estimator: str = "median"  # Reduces samples to one number, see ``measure.location``.
    discovery_s: float = 0.3  # Time that a launch of the discovery measures, in seconds.
    other_loop: str = ""  # Second loop in which the verification measures every cell; empty: none.
    other_calls: tuple[str, ...] = ()  # Calls that are not tuned, which the verification measures too.
    heat_s: float = 0.5  # Time for the turns of each launch of a heat, in seconds.
    amended: Callable[[Rendering], Rendering] = lambda rendering: rendering
    """Changes environment and files of each launch where a user's own settings are measured; for MPI only."""


class Observer(Protocol):
    """Launch trials and return their observations."""

    def observe(self, trial: Trial) -> Observation:
        """Launch a trial and return its observation; a launch that failed has a status that says how.

        Raises:
            StackError: nothing can be launched at all.
            SpaceError: the stack cannot express a parameter or a value of the space.
            Interrupted: the user ended the work; nothing of the launch is left running.
        """


class Observers(Protocol):
    """Make the observers of one place."""

    def __call__(self, measurement: Measurement, space: Space, directory: Path) -> Observer:
        """Return the observer of a space's trials.

        Each launch gets a folder in ``launches/`` of the directory.
        """


@dataclass(frozen=True, slots=True)
class Launches:
    """Observe trials as processes: rendered by a stack, started by a launcher, measured by the probe."""

    stack: Stack  # Turns a trial into environment variables, files and choices.
    launcher: Launcher  # Starts processes.
    placement: Placement  # Nodes and cores of the ranks, unless the trial sets a mapping.
    measurement: Measurement  # What every launch measures.
    space: Space  # The space of the trials' points.
    directory: Path  # Each launch gets a folder in ``launches/`` of this directory.
    heats: HeatsHere = field(default_factory=HeatsHere)
    """Whether heats (launches alive at once, measuring in turns) are possible, by the heats made so far."""

    def observe(self, trial: Trial) -> Observation:
        """Launch a trial and return its observation; see ``Observer``."""
        measurement = self.measurement
        rendering = self.stack.render(self.space, trial, measurement.probe.collectives)
        rendering = measurement.amended(rendering)
        directory = launch_directory(self.directory, trial).absolute()
        parts = rendering.launches()
        if len(parts) == 1:
            outcome = self._launched(trial, rendering, directory)
        else:
            # The order differs each time, so that drift does not favour the same choices again and again.
            order = np.random.default_rng(trial.seed).permutation(len(parts)).tolist()
            outcomes: dict[int, LaunchOutcome] = {}
            for number in order:
                (folder := directory / f"{number:02d}").mkdir(mode=0o700)
                outcomes[number] = self._launched(trial, parts[number], folder, len(parts))
            outcome = self.together(parts, [outcomes[number] for number in range(len(parts))])
            if outcome.result is not None:
                outcome.result.write(directory)
        return observation(trial, outcome, measurement.estimator)

    def _launched(self, trial: Trial, rendering: Rendering, directory: Path, parts: int = 1) -> LaunchOutcome:
        """Make a launch in a directory and return its outcome; ``parts`` launches share the trial's time."""
        probe = self.probe_request(trial, rendering, parts)

        def attempt() -> LaunchOutcome:
            request = self.write_request(trial, rendering, directory, probe)
            return self.launcher.run(request)

        outcome = self.with_requested_cells(made_until_not_lost(attempt, directory), probe)
        if outcome.result is None:
            return outcome
        return as_printed(outcome, rendering.must_print, directory)

    def probe_request(self, trial: Trial, rendering: Rendering, parts: int = 1) -> ProbeRequest:
        """Return the request to the probe of one launch; ``parts`` launches share the trial's time."""
        measurement = self.measurement
        probe = replace(
            measurement.probe, choices=rendering.choices, expect=rendering.expect, seed=trial.seed
        )
        if trial.phase is Phase.DISCOVERY:
            probe = replace(probe, budget_s=measurement.discovery_s)
        if trial.phase is Phase.STARTS:
            probe = replace(probe, min_samples=1, max_samples=_CHECKED)
        if trial.phase is Phase.VERIFY:
            probe = replace(probe, beside=measurement.other_calls, other_loop=measurement.other_loop)
        if parts > 1:
            probe = replace(probe, collectives=tuple(rendering.choices), budget_s=probe.budget_s / parts)
        return probe

    def write_request(
        self, trial: Trial, rendering: Rendering, directory: Path, probe: ProbeRequest
    ) -> LaunchRequest:
        """Write the files of a launch into its directory and return the request to the launcher."""
        place = {k: getattr(rendering, k) for k in ("map_by", "bind_to") if getattr(rendering, k)}
        unset_prefix = ("env", *(f"--unset={name}" for name in rendering.unset)) if rendering.unset else ()
        (directory / REQUEST).write_text(probe.to_json(), encoding="utf-8")
        for name, text in rendering.files.items():
            (directory / name).write_text(text, encoding="utf-8")
        return LaunchRequest(
            directory=directory,
            program=(*unset_prefix, sys.executable, "-P", "-m", "autotune.probe", str(directory)),
            env={k: v.replace("{directory}", str(directory)) for k, v in rendering.env.items()},
            placement=replace(self.placement, **place),
            timeout_s=trial.timeout_s or self.measurement.timeout_s,
        )

    def together(self, parts: Sequence[Rendering], outcomes: Sequence[LaunchOutcome]) -> LaunchOutcome:
        """Merge the outcomes of launches that swept a trial's choices; return the first if all failed."""
        good = [outcome for outcome in outcomes if outcome.result is not None and outcome.status is Status.OK]
        if not good or good[0].result is None:
            return outcomes[0]
        probe = self.measurement.probe
        cells: list[CellSamples] = []
        for part, outcome in zip(parts, outcomes, strict=True):
            if outcome.status is Status.OK and outcome.result is not None:
                cells += outcome.result.cells
                continue
            for collective, choices in part.choices.items():
                for comm_size in probe.comm_sizes or (self.placement.ranks,):
                    for size in probe.sizes_of(collective):
                        for choice in choices:
                            cell = (collective, comm_size, size, choice.values, np.empty(0))
                            cells.append(CellSamples(*cell, str(outcome.status), outcome.reason))
        results = [outcome.result for outcome in good if outcome.result is not None]
        result = replace(
            results[0],
            cells=tuple(cells),
            memory_bytes=max(part_result.memory_bytes for part_result in results),
            notes=tuple(dict.fromkeys(note for part_result in results for note in part_result.notes)),
            applied={name: value for part_result in results for name, value in part_result.applied.items()},
        )
        return replace(
            good[0],
            result=result,
            lost_before=tuple(reason for outcome in outcomes for reason in outcome.lost_before),
            duration_s=sum(outcome.duration_s for outcome in outcomes),
            queue_s=sum(outcome.queue_s for outcome in outcomes),
        )

    def with_requested_cells(self, outcome: LaunchOutcome, probe: ProbeRequest) -> LaunchOutcome:
        """Return the outcome, with status ``invalid`` if its result has other cells than were requested.

        A cell under a wrong name would add a message size that no other launch has, so that no other launch
        would count as complete.
        """
        if outcome.result is None:
            return outcome
        missing: dict[Slot, list[Mapping[str, Any]]] = defaultdict(list)
        for collective in probe.collectives:
            values = [choice.values for choice in probe.choices.get(collective, ())] or [{}]
            for comm_size in probe.comm_sizes or (self.placement.ranks,):
                for size in probe.sizes_of(collective):
                    missing[collective, comm_size, size] += values
        for cell in outcome.result.cells:
            expected = missing[cell.collective, cell.comm_size, cell.message_bytes]
            if cell.values not in expected:
                place = f"{cell.collective}, {cell.comm_size} ranks, {cell.message_bytes} bytes"
                reason = f"damaged result: {place}, {dict(cell.values)} was not asked for, or only once"
                return replace(outcome, status=Status.INVALID, reason=reason, result=None)
            expected.remove(cell.values)
        return outcome


def as_printed(outcome: LaunchOutcome, required: Sequence[str], directory: Path) -> LaunchOutcome:
    """Return the outcome, with status ``not_applied`` if the launch did not print all required texts."""
    path = directory / "stdout"
    if not required or not path.exists():  # some launchers do not store what ranks print
        return outcome
    printed = user_bytes(path).decode(errors="replace")
    missing = next((words for words in required if words not in printed), "")
    if not missing:
        return outcome
    return replace(outcome, status=Status.NOT_APPLIED, reason=f"the library did not print {missing!r}")


def measurement_of(scenario: Scenario, ranks: int) -> Measurement:
    """Return what the launches of a scenario measure, for a number of ranks.

    Raises:
        ScenarioError: an unknown estimator.
        UserError: an option that the probe refuses.
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
        loop=scenario.loop,
    )
    return Measurement(
        probe,
        limit_s(scenario),
        options.estimator,
        discovery_s=scenario.discover.probe_s,
        heat_s=options.budget_s * _HEAT_SHARE,
        other_loop=scenario.other_loop,
        other_calls=tuple(name for name in scenario.verify.also if name not in scenario.collective),
    )


def choices_of(space: Space, trial: Trial, collective: str) -> tuple[Point, ...]:
    """Return the per-call choices that a trial sweeps; empty if the stack or a rules file chooses."""
    return tuple(space.choices(collective, trial.point)) if trial.subject is Subject.SWEEP else ()


def launch_directory(directory: Path, trial: Trial) -> Path:
    """Make and return an empty folder for a launch; files of an interrupted attempt are removed."""
    return make_empty(directory / "launches" / f"{trial.number:04d}")


def parameters(directory: Path, trial: Trial) -> Mapping[str, str]:
    """Return the values of all MPI control variables that a trial's launch reported; empty without any."""
    result = ProbeResult.read(directory / "launches" / f"{trial.number:04d}")
    return result.parameters if result else {}


def observation(trial: Trial, outcome: LaunchOutcome, estimator: str = "median") -> Observation:
    """Return the observation of a launch that has ended."""
    status, reason = outcome.status, outcome.reason
    notes = tuple(f"made again: {why}" for why in outcome.lost_before)
    lost = {LOST_BEFORE: float(len(notes))} if notes else {}
    result, times = outcome.result, (outcome.duration_s, outcome.queue_s)
    if result is None:
        if status is Status.OK:
            status, reason = Status.LOST, "the launch ended well but left no result"
        return Observation(trial, status, (), reason, *times, tuple(outcome.hosts), lost, notes)
    figures = {"memory_bytes": result.memory_bytes, "overhead_s": result.overhead_s, TIMED: result.timed_s}
    figures |= {f"beside {call}": seconds for call, seconds in result.beside.items()}
    return Observation(
        trial,
        status,
        tuple(_estimate(cell, estimator, trial.phase is Phase.VERIFY) for cell in result.cells),
        reason,
        *times,
        tuple(outcome.hosts) or tuple(dict.fromkeys(result.hosts)),
        {
            name: value
            for name, value in {**result.machine, **figures, **lost}.items()
            if not math.isnan(value)
        },
        (*((f"timing: {result.timing}",) if result.timing else ()), *result.notes, *notes),
    ).believed()


def _estimate(cell: CellSamples, estimator: str, with_mean: bool) -> Estimate:
    """Return the estimate of a cell.

    ``with_mean`` adds the plain mean of the calls, since a program waits for the sum of its calls.
    """
    estimated_cell = Cell(cell.collective, cell.comm_size, cell.message_bytes, Point.of(cell.values))
    samples = cell.valid_s
    impossible = int(np.count_nonzero(~(np.isfinite(samples) & (samples >= 0))))
    status, reason = status_of(cell.status, cell.reason)
    if status is Status.OK and impossible:
        status, reason = Status.INVALID, f"{impossible} of {len(samples)} samples are no times"
    if status is Status.OK and not len(samples):
        status, reason = Status.INVALID, "no valid sample"
    if status is not Status.OK:
        return Estimate(estimated_cell, math.nan, math.nan, len(samples), status, reason=reason)
    mean = _means(cell) if with_mean else {}
    return replace(estimated(estimated_cell, samples, estimator), extra={**cell.extra, **mean})


def _means(cell: CellSamples) -> dict[str, float]:
    """Return figures about the calls of a cell that other work interrupted.

    The figures are the mean of all calls, the mean of the uninterrupted calls with its standard error, the
    number of interrupted calls, and the seconds for which the cell was measured without the interruptions.
    """
    times_s = cell.valid_s
    interrupted_calls = interrupted(times_s)
    quiet = times_s[~interrupted_calls]
    mean = estimate(quiet, Estimator.MEAN)
    lost_s = float(times_s[interrupted_calls].sum()) - int(interrupted_calls.sum()) * mean.value_s
    measured_s = cell.extra.get(TIMED_S, float(times_s.sum())) - lost_s
    error = {} if math.isnan(mean.sem_s) else {UNINTERRUPTED_SEM: mean.sem_s}
    return error | {
        PLAIN_MEAN: float(times_s.mean()),
        UNINTERRUPTED_MEAN: mean.value_s,
        INTERRUPTIONS: float(interrupted_calls.sum()),
        UNINTERRUPTED_S: max(measured_s, float(quiet.sum())),
    }


def estimated(cell: Cell, times_s: ArrayLike, estimator: Estimator | str = Estimator.MEDIAN) -> Estimate:
    """Return the estimate of a cell from its valid times `(n,)` in seconds, at least one."""
    with np.errstate(over="ignore", invalid="ignore"):
        located = estimate(times_s, estimator)
    # One sample gives no standard error. An error as large as the value makes sure that nobody relies on it.
    sem_s = located.value_s if math.isnan(located.sem_s) else located.sem_s
    within = (located.low_s, located.high_s, located.n_outliers)
    return Estimate(cell, located.value_s, sem_s, located.n, Status.OK, *within)
