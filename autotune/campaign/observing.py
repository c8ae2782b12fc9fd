"""Observing a trial: what a launch of it shows (steps 4 to 7 of the flow).

Whoever makes trials is an ``Observer``: ``Launches`` here, where processes are started and a trial meets a
stack and a launcher, neither of which sees the other; a model, a recording or any program elsewhere. The
directory of a launch of processes holds ``request.json``, ``result.json``, ``samples.npz``, what was printed,
and the files of a deployed subject.
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

from autotune.campaign.failures import limit_s
from autotune.campaign.lost import made_until_not_lost
from autotune.errors import ScenarioError, StackError, allowed
from autotune.history.folder import make_empty
from autotune.history.objectives import Slot
from autotune.history.trial import (
    LOST_BEFORE,
    PLAIN_MEAN,
    Cell,
    Estimate,
    Observation,
    Phase,
    Status,
    Subject,
    Trial,
    status_of,
)
from autotune.measure.location import Estimator, estimate
from autotune.measure.machine import UsualCores
from autotune.probe.protocol import REQUEST, CellSamples, Heat, ProbeRequest, ProbeResult
from autotune.resources import user_bytes
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement, Rendering
from autotune.stacks.stack import Stack

_PROVING = 200
"""Samples of each cell in a launch of the verification, at least. Ten agree to 5 % within a tenth of a
millisecond, and show one moment of a launch: on two cores it was four times as slow in one launch of five.
There launches of one setting differed by 4 to 7 %, with half the samples by 6 to 10, a fifth 11 to 14: as
samples of a launch resemble each other, more and shorter launches say less in the same time."""


_HEAT_SHARE = 1 / 3
"""Share of a launch's time that one in a heat has: what differs there is what launches keep for their life,
2 % on two cores, and a third of the time leaves an error of as much within a launch."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurements of every launch, and how they are made."""

    probe: ProbeRequest  # What is measured; choices and expectations come from each trial.
    timeout_s: float  # Of one launch.
    estimator: str = "median"  # How samples become one number, see ``measure.location``.
    discovery_s: float = 0.3  # Of a launch of the discovery, for the timed part.
    other_loop: str = ""  # In which launches of the verification measure every cell too; empty: in none.
    beside: tuple[str, ...] = ()  # Patterns that launches of the verification measure, too.
    heat_s: float = 0.5  # Of a heat, for the turns of each of its launches.
    patience_s: float = 0.0  # How long a launch may wait until its cores are as near to each other as usual.
    amended: Callable[[Rendering], Rendering] = lambda rendering: rendering
    """Change of each rendering, where somebody's own settings are measured; only an MPI obeys it."""


class Observer(Protocol):
    """Makes trials."""

    def observe(self, trial: Trial) -> Observation:
        """The result of one launch of the trial; a launch that failed is an observation with its status.

        Raises:
            StackError: nothing can be launched at all.
            SpaceError: the stack has no word for something in the space.
            Interrupted: the user ended the work; nothing of the launch is left running.
        """


class Observers(Protocol):
    """Makes the observers of one place."""

    def __call__(self, measurement: Measurement, space: Space, directory: Path) -> Observer:
        """The observer of trials of a space; each launch gets a folder below ``launches/`` of a directory."""


@dataclass(frozen=True, slots=True)
class Launches:
    """Trials as processes: rendered, launched, measured by the probe."""

    stack: Stack  # Renders trials.
    launcher: Launcher  # Runs them.
    placement: Placement  # Where the ranks go, unless the trial maps them.
    measurement: Measurement  # What every launch measures.
    space: Space  # What the trials' points belong to.
    directory: Path  # Each launch gets a folder below its ``launches/``.
    usual: UsualCores = field(default_factory=UsualCores)  # What its launches say of the machine's cores.

    def observe(self, trial: Trial) -> Observation:
        """The result of one launch of the trial; see ``Observer``."""
        measurement = self.measurement
        rendering = self.stack.render(self.space, trial, measurement.probe.collectives)
        rendering = measurement.amended(rendering)
        directory = launch_directory(self.directory, trial).absolute()
        parts = rendering.launches()
        if len(parts) == 1:
            outcome = self._launched(trial, rendering, directory)
        else:
            # In another order each time: what drifts must not favour the same choices again and again.
            order = np.random.default_rng(trial.seed).permutation(len(parts)).tolist()
            ended: dict[int, LaunchOutcome] = {}
            for number in order:
                (folder := directory / f"{number:02d}").mkdir(mode=0o700)
                ended[number] = self._launched(trial, parts[number], folder, len(parts))
            outcome = self._together(parts, [ended[number] for number in range(len(parts))])
            if outcome.result is not None:
                outcome.result.write(directory)
        return observation(trial, outcome, measurement.estimator)

    def _launched(self, trial: Trial, rendering: Rendering, directory: Path, parts: int = 1) -> LaunchOutcome:
        """One launch in a directory; of several that share a trial's time one."""
        probe = self._asked(trial, rendering, parts)

        def attempt() -> LaunchOutcome:
            request = self._written(trial, rendering, directory, probe)
            return self.launcher.run(replace(request, timeout_s=request.timeout_s + probe.patience_s))

        outcome = self._as_asked(made_until_not_lost(attempt, directory), probe)
        if outcome.result is None:
            return outcome
        self.usual.add((rendering.map_by, rendering.bind_to), outcome.result.machine, outcome.duration_s)
        return _said(outcome, rendering.said, directory)

    def _asked(self, trial: Trial, rendering: Rendering, parts: int = 1) -> ProbeRequest:
        """The measurements of one launch; of several that share a trial's time one."""
        measurement = self.measurement
        probe = replace(
            measurement.probe, choices=rendering.choices, expect=rendering.expect, seed=trial.seed
        )
        if trial.phase is Phase.DISCOVERY:
            probe = replace(probe, budget_s=measurement.discovery_s)
        if trial.phase is Phase.VERIFY:
            probe = replace(probe, beside=measurement.beside)
            least = min(max(probe.min_samples, _PROVING), probe.max_samples)
            probe = replace(probe, other_loop=measurement.other_loop, min_samples=least)
        if parts > 1:
            probe = replace(probe, collectives=tuple(rendering.choices), budget_s=probe.budget_s / parts)
        placed = (rendering.map_by, rendering.bind_to)
        # Of many nodes some core is always slower than usual.
        patience_s = measurement.patience_s * (self.placement.nodes == 1)
        usual, patience_s = self.usual.of(placed, patience_s, proving=trial.phase is Phase.VERIFY)
        if trial.phase is Phase.DISCOVERY:  # it takes out what slow cores cost; waiting doubles its time
            usual = replace(usual, moment_s=0.0)
        return replace(probe, usual_core=usual, patience_s=patience_s)

    def _written(
        self, trial: Trial, rendering: Rendering, directory: Path, probe: ProbeRequest
    ) -> LaunchRequest:
        """A launch whose files are in its directory."""
        place = {k: getattr(rendering, k) for k in ("map_by", "bind_to") if getattr(rendering, k)}
        (directory / REQUEST).write_text(probe.to_json(), encoding="utf-8")
        for name, text in rendering.files.items():
            (directory / name).write_text(text, encoding="utf-8")
        return LaunchRequest(
            directory=directory,
            program=(sys.executable, "-P", "-m", "autotune.probe", str(directory)),
            env={k: v.replace("{directory}", str(directory)) for k, v in rendering.env.items()},
            placement=replace(self.placement, **place),
            timeout_s=trial.timeout_s or self.measurement.timeout_s,
        )

    def entered(
        self, trial: Trial, heat: Heat
    ) -> tuple[LaunchRequest, Callable[[LaunchOutcome], LaunchOutcome]]:
        """A launch that measures in turns with the others of a heat, and the check of its outcome.

        Raises:
            SpaceError: the stack has no word for something in the space.
            StackError: the trial needs several launches, which is no place in a heat.
        """
        rendering = self.measurement.amended(
            self.stack.render(self.space, trial, self.measurement.probe.collectives)
        )
        if len(rendering.launches()) > 1:
            raise StackError("a setting with choices that need launches of their own is no part of a heat")
        directory = launch_directory(self.directory, trial).absolute()
        probe = replace(
            self.measurement.probe,
            choices=rendering.choices,
            expect=rendering.expect,
            seed=trial.seed,
            beside=self.measurement.beside,
            other_loop=self.measurement.other_loop,
            heat=heat,
        )
        request = self._written(trial, rendering, directory, probe)

        def checked(outcome: LaunchOutcome) -> LaunchOutcome:
            outcome = self._as_asked(outcome, probe)
            return outcome if outcome.result is None else _said(outcome, rendering.said, directory)

        return replace(request, timeout_s=request.timeout_s + heat.seconds + heat.join_s), checked

    def _together(self, parts: Sequence[Rendering], outcomes: Sequence[LaunchOutcome]) -> LaunchOutcome:
        """One outcome of the launches that swept a trial's choices; where all failed, the first one's."""
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
                            where = (collective, comm_size, size, choice.values, np.empty(0))
                            cells.append(CellSamples(*where, str(outcome.status), outcome.reason))
        results = [outcome.result for outcome in good if outcome.result is not None]
        result = replace(
            results[0],
            cells=tuple(cells),
            memory_bytes=max(one.memory_bytes for one in results),
            notes=tuple(dict.fromkeys(note for one in results for note in one.notes)),
            applied={name: value for one in results for name, value in one.applied.items()},
        )
        return replace(
            good[0],
            result=result,
            lost_before=tuple(reason for outcome in outcomes for reason in outcome.lost_before),
            duration_s=sum(outcome.duration_s for outcome in outcomes),
            queue_s=sum(outcome.queue_s for outcome in outcomes),
        )

    def _as_asked(self, outcome: LaunchOutcome, probe: ProbeRequest) -> LaunchOutcome:
        """The outcome, ``invalid`` where its result has other cells than were asked for.

        One cell under a wrong name would be a size that no other launch has, and end every comparison.
        """
        if outcome.result is None:
            return outcome
        left: dict[Slot, list[Mapping[str, Any]]] = defaultdict(list)
        for collective in probe.collectives:
            values = [choice.values for choice in probe.choices.get(collective, ())] or [{}]
            for comm_size in probe.comm_sizes or (self.placement.ranks,):
                for size in probe.sizes_of(collective):
                    left[collective, comm_size, size] += values
        for cell in outcome.result.cells:
            asked = left[cell.collective, cell.comm_size, cell.message_bytes]
            if cell.values not in asked:
                where = f"{cell.collective}, {cell.comm_size} ranks, {cell.message_bytes} bytes"
                reason = f"damaged result: {where}, {dict(cell.values)} was not asked for, or only once"
                return replace(outcome, status=Status.INVALID, reason=reason, result=None)
            asked.remove(cell.values)
        return outcome


def _said(outcome: LaunchOutcome, wanted: Sequence[str], directory: Path) -> LaunchOutcome:
    """The outcome, ``not_applied`` where the launch did not print what it must."""
    path = directory / "stdout"
    if not wanted or not path.exists():  # not every launcher keeps what ranks print
        return outcome
    printed = user_bytes(path).decode(errors="replace")
    missing = next((words for words in wanted if words not in printed), "")
    if not missing:
        return outcome
    return replace(outcome, status=Status.NOT_APPLIED, reason=f"the library did not print {missing!r}")


def measurement_of(scenario: Scenario, ranks: int) -> Measurement:
    """The measurements in the launches of a scenario, on so many ranks.

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
        loop=scenario.loop,
    )
    return Measurement(
        probe,
        limit_s(scenario),
        options.estimator,
        discovery_s=scenario.discover.probe_s,
        heat_s=options.budget_s * _HEAT_SHARE,
        other_loop=scenario.other_loop,
        beside=tuple(name for name in scenario.verify.also if name not in scenario.collective),
        patience_s=scenario.launch.patience_s,
    )


def choices_of(space: Space, trial: Trial, collective: str) -> tuple[Point, ...]:
    """The call-level choices that a trial sweeps; none for one that leaves them to the stack or to rules."""
    return tuple(space.choices(collective, trial.point)) if trial.subject is Subject.SWEEP else ()


def launch_directory(directory: Path, trial: Trial) -> Path:
    """A new folder for a launch, in place of what an interrupted launch of the same trial left."""
    return make_empty(directory / "launches" / f"{trial.number:04d}")


def parameters(directory: Path, trial: Trial) -> Mapping[str, str]:
    """Every control variable that the launch of a trial read, on all ranks; empty: none was reported."""
    result = ProbeResult.read(directory / "launches" / f"{trial.number:04d}")
    return result.parameters if result else {}


def observation(trial: Trial, outcome: LaunchOutcome, estimator: str = "median") -> Observation:
    """The observation of a launch that has ended."""
    status, reason = outcome.status, outcome.reason
    again = tuple(f"made again: {why}" for why in outcome.lost_before)
    lost = {LOST_BEFORE: float(len(again))} if again else {}
    result, took = outcome.result, (outcome.duration_s, outcome.queue_s)
    if result is None:
        if status is Status.OK:
            status, reason = Status.LOST, "the launch ended well but left no result"
        return Observation(trial, status, (), reason, *took, tuple(outcome.hosts), lost, again)
    figures = {"memory_bytes": result.memory_bytes, "overhead_s": result.overhead_s}
    figures |= {f"beside {what}": seconds for what, seconds in result.beside.items()}
    return Observation(
        trial,
        status,
        tuple(_estimate(cell, estimator, trial.phase is Phase.VERIFY) for cell in result.cells),
        reason,
        *took,
        tuple(outcome.hosts) or tuple(dict.fromkeys(result.hosts)),
        {
            name: value
            for name, value in {**result.machine, **figures, **lost}.items()
            if not math.isnan(value)
        },
        (*((f"timing: {result.timing}",) if result.timing else ()), *result.notes, *again),
    ).believed()


def _estimate(cell: CellSamples, estimator: str, with_mean: bool) -> Estimate:
    """``with_mean``: with the plain mean of the calls too, which is what a program waits for."""
    what = Cell(cell.collective, cell.comm_size, cell.message_bytes, Point.of(cell.values))
    samples = cell.valid_s
    impossible = int(np.count_nonzero(~(np.isfinite(samples) & (samples >= 0))))
    status, reason = status_of(cell.status, cell.reason)
    if status is Status.OK and impossible:
        status, reason = Status.INVALID, f"{impossible} of {len(samples)} samples are no times"
    if status is Status.OK and not len(samples):
        status, reason = Status.INVALID, "no valid sample"
    if status is not Status.OK:
        return Estimate(what, math.nan, math.nan, len(samples), status, reason=reason)
    mean = {PLAIN_MEAN: float(samples.mean())} if with_mean else {}
    return replace(estimated(what, samples, estimator), extra={**cell.extra, **mean})


def estimated(cell: Cell, times_s: ArrayLike, estimator: Estimator | str = Estimator.MEDIAN) -> Estimate:
    """The estimate of a cell from its valid times `(n,)` in seconds, at least one."""
    with np.errstate(over="ignore", invalid="ignore"):
        located = estimate(times_s, estimator)
    # One sample says nothing about its error: take it as large as the value, so that nobody relies on it.
    sem_s = located.value_s if math.isnan(located.sem_s) else located.sem_s
    within = (located.low_s, located.high_s, located.n_outliers)
    return Estimate(cell, located.value_s, sem_s, located.n, Status.OK, *within)
