"""Observe trials with any program, which gets the parameters and prints numbers (*responses*).

A launch runs the program once or several times, as its budget allows; each run gives one sample of every
response. A failure becomes a status, as with MPI: ``crashed`` for a nonzero exit code, ``timeout`` for a
hang, ``lost`` for an end by another process's signal, ``invalid`` for an answer that cannot be read,
``wrong_result`` for a number that is not finite.
"""

import json
import math
import re
import reprlib
import shutil
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.bench import Bench, placement
from autotune.campaign.lost import made_until_not_lost
from autotune.campaign.observing import Measurement, launch_directory, observation
from autotune.errors import ScenarioError, SpaceError, StackError, UserError, ending
from autotune.history.objectives import response_slot
from autotune.history.trial import Observation, Status, Subject, Trial
from autotune.probe.protocol import CellSamples, ProbeResult
from autotune.resources import space_text, user_text
from autotune.scenario import Scenario
from autotune.scenario.pattern import found
from autotune.scenario.sections import Program
from autotune.space import Point, Space, names_in
from autotune.space.given import fixed
from autotune.space.loader import load_space
from autotune.space.parameter import check_words, worded
from autotune.stacks.ports import LaunchOutcome
from hydra_plugins.autotune import _processes

_FROM_OUTSIDE = tuple(-number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM))
"""Exit codes of a program that another process ended; without SIGKILL, which the kernel also sends if memory
runs out."""
_SMALLEST, _LARGEST = 1e-150, 1e150
"""Limits of a response: beyond them, the square of the number or of its inverse would be 0 or infinite."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf|infinity)", re.I)
"""Pattern of a number as C prints it. Python's ``float`` also accepts ``1_0`` and digits of any script."""


@dataclass(frozen=True)
class ProgramRuns:
    """Observe trials by running a program."""

    options: Program  # The program, and how its answer is read.
    goals: Mapping[str, str]  # Maps each response to ``min`` or ``max``.
    measurement: Measurement  # How often the program is run.
    space: Space  # The search space; an untouched launch (with the defaults) passes ``space.untouched``.
    directory: Path  # The campaign's directory; each launch gets a folder in its ``launches/``.

    def observe(self, trial: Trial) -> Observation:
        """Return the responses of as many runs as fit into the budget; see ``Observer``.

        Raises:
            StackError: the program cannot be started at all.
        """
        folder = launch_directory(self.directory, trial)
        outcome = made_until_not_lost(lambda: self._run(trial, folder), folder)
        return observation(trial, outcome, self.measurement.estimator)

    def _run(self, trial: Trial, directory: Path) -> LaunchOutcome:
        started = time.monotonic()
        point = self.space.untouched if trial.subject is Subject.UNTOUCHED else trial.point
        if self.options.way == "template":  # a template also has placeholders for inactive parameters
            point = self.space.unset.replace(**point)
        probe = self.measurement.probe
        samples: dict[str, list[float]] = {name: [] for name in self.goals}
        longest, limit_s = 0.0, trial.timeout_s or self.measurement.timeout_s
        for number in range(probe.max_samples):
            spent = time.monotonic() - started
            if number >= probe.min_samples and spent + longest > probe.budget_s:
                break
            failed, answers, took = self._once(directory, point, number, limit_s - spent)
            if failed is not None:
                return LaunchOutcome(*failed, duration_s=time.monotonic() - started)
            longest = max(longest, took)
            for name, value in answers.items():
                samples[name].append(value)
        times = {name: np.array([self._as_time(name, v) for v in vs]) for name, vs in samples.items()}
        cells = tuple(CellSamples(*response_slot(name), {}, values) for name, values in times.items())
        result = ProbeResult("ok", cells=cells, library=self.options.run[0])
        return LaunchOutcome(Status.OK, result=result, duration_s=time.monotonic() - started)

    def _once(
        self, folder: Path, point: Point, number: int, remaining_s: float
    ) -> tuple[tuple[Status, str] | None, dict[str, float], float]:
        """Run the program once; return (status, reason) of a failure or None, responses, and seconds."""
        out, err = folder / f"stdout.{number}", folder / f"stderr.{number}"
        file = Path(self.options.file.format(directory=folder)) if self.options.file else None
        try:
            if file is not None and file.is_file():
                file.unlink()  # so that the answer of an earlier run is not read as that of this run
        except OSError as exc:
            raise StackError(f"{file} cannot be removed: {exc.strerror}", "see probe.options.file") from exc
        words, env = passed(self.options, point, folder)
        try:
            process_end = _processes.run(words, env, out, err, max(remaining_s, 0.1))
        except (OSError, ValueError) as exc:
            why = getattr(exc, "strerror", None) or exc
            raise StackError(f"cannot start {words[0]!r}: {why}", "see probe.options.run") from exc
        if process_end.exit_code != 0:
            status = Status.TIMEOUT if process_end.exit_code is None else Status.CRASHED
            if process_end.exit_code in _FROM_OUTSIDE:
                status = Status.LOST
            reason = f"{process_end.cause}: {_processes.last_words(err, out)}"
            return (status, reason), {}, process_end.duration_s
        try:
            text = user_text(file or out, "the answer", lenient=True)
        except UserError as exc:
            return (Status.INVALID, f"{exc.message}: {file or out}"), {}, process_end.duration_s
        failed, answers = responses(text, self.options, tuple(self.goals))
        return failed, answers, process_end.duration_s

    def _as_time(self, name: str, value: float) -> float:
        return 1.0 / value if self.goals[name] == "max" else value


def passed(options: Program, point: Point, directory: Path) -> tuple[list[str], dict[str, str]]:
    """Return the command line and the additional environment by which a run gets the values of a point."""
    values = {name: worded(value) for name, value in point.items()}
    if options.way == "environment":
        return list(options.run), values
    if options.way == "template":
        return [word.format_map({**values, "directory": str(directory)}) for word in options.run], {}
    return [*options.run, *(w for name, value in values.items() for w in (f"--{name}", value))], {}


def responses(
    text: str, options: Program, names: Sequence[str]
) -> tuple[tuple[Status, str] | None, dict[str, float]]:
    """Return (None, responses) from the answer of a program, or ((status, reason), {}) if it is unusable."""
    raw_values: Any = {}
    if options.answer == "patterns":
        for name in names:
            matched = next(found(options.patterns[name], text), None)
            if matched is None:
                return (Status.INVALID, f"nothing matches {options.patterns[name]!r} for {name}"), {}
            raw_values[name] = matched.strip()
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            raw_values = json.loads(text if options.file else (lines[-1] if lines else ""))
        except (ValueError, RecursionError) as exc:  # also raised for a number with thousands of digits
            return (Status.INVALID, f"the answer is not JSON: {exc}: {ending(text, 200)!r}"), {}
        if not isinstance(raw_values, dict):
            return (Status.INVALID, f"the answer is not a JSON object: {reprlib.repr(raw_values)}"), {}
    answers = {}
    for name in names:
        if name not in raw_values:
            reason = f"the answer lacks {name!r}; it has {reprlib.repr([*raw_values])}"
            return (Status.INVALID, reason), {}
        value = _number(raw_values[name])
        if value is None:
            return (Status.INVALID, f"{name} = {reprlib.repr(raw_values[name])} is not a number"), {}
        if not math.isfinite(value):
            return (Status.WRONG_RESULT, f"{name} = {reprlib.repr(raw_values[name])} is not finite"), {}
        if not _SMALLEST <= value <= _LARGEST:
            why = "responses are compared by ratio, and must lie"
            return (Status.INVALID, f"{name} = {value:g}: {why} from {_SMALLEST:g} to {_LARGEST:g}"), {}
        answers[name] = value
    return None, answers


def _number(answer: object) -> float | None:
    """Return a value in an answer as a number; None if it is not a number (truth values are not)."""
    written = isinstance(answer, str) and _NUMBER.fullmatch(answer)
    if not written and (isinstance(answer, bool) or not isinstance(answer, int | float)):
        return None
    try:
        return float(answer)  # type: ignore[arg-type] # a number, or a text that contains one
    except OverflowError:  # an integer of more than 308 digits
        return math.inf


def command_bench(scenario: Scenario) -> Bench:
    """Return the bench (observer, search space and description) for a campaign with an external program.

    Raises:
        ScenarioError: options are wrong, or the program cannot be found.
        SpaceError: the search space cannot be read.
    """
    options = scenario.program()
    declared = replace(load_space(space_text(scenario.space), scenario.space), stack="command")
    space = fixed(declared, scenario.fix)
    goals = {objective.name: objective.goal for objective in scenario.judged()}
    if options.answer == "patterns" and (missing := [n for n in goals if n not in options.patterns]):
        raise ScenarioError(f"probe.options.patterns has none for {', '.join(missing)}")
    if options.way == "template":
        for word in options.run:
            _checked("run", word, ["directory", *(p.name for p in space.job)])
    if options.way == "environment":
        for parameter in space.job:
            check_words("env", parameter.name, "")
    if options.file:
        _checked("file", options.file, ["directory"])
    if (options.way != "template" or "{" not in options.run[0]) and shutil.which(options.run[0]) is None:
        raise ScenarioError(f"probe.options.run: {options.run[0]!r} is not a program that can be found")
    return Bench(
        observer=partial(ProgramRuns, options, goals),
        space=space,
        placement=placement(scenario),
        description=f"command {' '.join(options.run)}",
        findings=(
            ("program", " ".join(options.run)),
            ("gets parameters as", options.way),
            ("responses", ", ".join(f"{name} ({goal})" for name, goal in goals.items())),
        ),
    )


def _checked(key: str, template: str, names: Iterable[str]) -> None:
    try:
        names_in(template, names)
    except SpaceError as exc:
        raise ScenarioError(f"probe.options.{key}: {exc.message}", exc.hint) from exc
