"""Trials by any program: it gets the parameters and answers with numbers.

A launch runs the program once or several times, as its budget allows; each run gives one sample of every
response. What goes wrong is a status, as with MPI: an exit code ``crashed``, a hang ``timeout``, an answer
that cannot be read ``invalid``, a number that is not finite ``wrong_result``.
"""

import json
import math
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from string import Formatter
from typing import Any

import numpy as np

from autotune.campaign.observing import Measurement, launch_directory, observation
from autotune.campaign.site import Site, placement
from autotune.errors import ScenarioError, StackError, allowed
from autotune.history.objectives import response_slot
from autotune.history.trial import Observation, Status, Subject, Trial
from autotune.probe.protocol import CellSamples, ProbeResult
from autotune.resources import space_text
from autotune.scenario import Scenario
from autotune.space import Point, Space, Value
from autotune.space.given import fixed
from autotune.space.loader import load_space
from autotune.stacks.ports import LaunchOutcome
from hydra_plugins.autotune import _processes

_ANSWER_BYTES = 16 << 20
"""More is read of no answer."""
_WAYS = ("arguments", "environment", "template")
_ANSWERS = ("json", "patterns")


@dataclass(frozen=True)
class Options:
    """``probe.options`` of ``probe=command``."""

    run: tuple[str, ...]
    """Words of the program; none is read by a shell."""
    way: str = field(default="arguments", metadata={"key": "pass"})
    """How the parameters reach it: ``arguments``, ``environment`` or ``template``."""
    answer: str = "json"
    """``json``: an object on the last line of its output or in ``file``; ``patterns``."""
    file: str | None = None
    """Where the answer is, if not on stdout; ``{directory}`` is the folder of the launch."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Response → regular expression with one group."""


@dataclass(frozen=True)
class Command:
    """Observes trials by running a program."""

    options: Options
    """What is run and how it answers."""
    goals: Mapping[str, str]
    """Response → ``min`` or ``max``."""
    measurement: Measurement
    """How often it is run."""
    space: Space
    """What the trials' points belong to; its own values are what an untouched launch passes."""
    directory: Path
    """Each launch gets a folder below its ``launches/``."""

    def observe(self, trial: Trial) -> Observation:
        """The responses of as many runs as fit into the budget; see ``Observer``.

        Raises:
            StackError: the program cannot be started at all.
        """
        outcome = self._run(trial, launch_directory(self.directory, trial))
        return observation(trial, outcome, self.measurement.estimator)

    def _run(self, trial: Trial, directory: Path) -> LaunchOutcome:
        started = time.monotonic()
        point = self.space.untouched if trial.subject is Subject.UNTOUCHED else trial.point
        probe = self.measurement.probe
        samples: dict[str, list[float]] = {name: [] for name in self.goals}
        longest, limit_s = 0.0, trial.timeout_s or self.measurement.timeout_s
        for number in range(probe.max_samples):
            spent = time.monotonic() - started
            enough = number >= probe.min_samples
            if enough and spent + longest > probe.budget_s:
                break
            failed, answers, took = self._once(directory, point, number, limit_s - spent)
            if failed is not None:
                return LaunchOutcome(*failed, duration_s=time.monotonic() - started)
            longest = max(longest, took)
            for name, value in answers.items():
                samples[name].append(value)
        cells = tuple(
            CellSamples(*response_slot(name), {}, np.array([self._as_time(name, v) for v in values]))
            for name, values in samples.items()
        )
        result = ProbeResult("ok", cells=cells, library=self.options.run[0])
        return LaunchOutcome(Status.OK, result=result, duration_s=time.monotonic() - started)

    def _once(
        self, folder: Path, point: Point, number: int, left_s: float
    ) -> tuple[tuple[Status, str] | None, dict[str, float], float]:
        """One run: why it failed, or its responses; and how long it took."""
        out, err = folder / f"stdout.{number}", folder / f"stderr.{number}"
        file = self._file(folder)
        if file is not None:
            file.unlink(missing_ok=True)
        words, env = passed(self.options, point, folder)
        try:
            ended = _processes.run(words, env, out, err, max(left_s, 0.1))
        except OSError as exc:
            raise StackError(
                f"cannot start {words[0]}: {exc.strerror or exc}", "see probe.options.run"
            ) from exc
        if ended.exit_code != 0:
            status = Status.TIMEOUT if ended.exit_code is None else Status.CRASHED
            return (status, f"{ended.cause}: {_processes.last_words(err, out)}"), {}, ended.duration_s
        try:
            with (file or out).open("rb") as answer:
                text = answer.read(_ANSWER_BYTES).decode(errors="replace")
        except OSError:
            return (Status.INVALID, f"no answer in {file}"), {}, ended.duration_s
        failed, answers = responses(text, self.options, tuple(self.goals))
        return failed, answers, ended.duration_s

    def _file(self, folder: Path) -> Path | None:
        return Path(self.options.file.replace("{directory}", str(folder))) if self.options.file else None

    def _as_time(self, name: str, value: float) -> float:
        """As a slot carries it: more is better becomes less is better."""
        return 1.0 / value if self.goals[name] == "max" else value


def passed(options: Options, point: Point, directory: Path) -> tuple[list[str], dict[str, str]]:
    """The words of one run and its additional environment."""
    values = {name: _text(value) for name, value in point.items()}
    if options.way == "environment":
        return list(options.run), values
    if options.way == "template":
        fields_ = {**values, "directory": str(directory)}
        return [word.format_map(fields_) for word in options.run], {}
    return [*options.run, *(w for name, value in values.items() for w in (f"--{name}", value))], {}


def responses(
    text: str, options: Options, names: Sequence[str]
) -> tuple[tuple[Status, str] | None, dict[str, float]]:
    """The responses in what a program answered, or (status, reason) where they cannot be used."""
    given: Any = {}
    if options.answer == "patterns":
        for name in names:
            match = re.search(options.patterns[name], text)
            if match is None:
                return (Status.INVALID, f"nothing matches {options.patterns[name]!r} for {name}"), {}
            given[name] = match[1]
    else:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            given = json.loads(text if options.file else (lines[-1] if lines else ""))
        except ValueError as exc:
            return (Status.INVALID, f"the answer is not JSON: {exc}: {text.strip()[-200:]!r}"), {}
        if not isinstance(given, dict):
            return (Status.INVALID, f"the answer is not a JSON object: {str(given)[:200]}"), {}
    answers = {}
    for name in names:
        if name not in given:
            return (
                Status.INVALID,
                f"the answer lacks {name!r}; it has {', '.join(map(str, given)) or 'nothing'}",
            ), {}
        try:
            value = float(given[name])
        except (TypeError, ValueError):
            return (Status.INVALID, f"{name} = {given[name]!r} is not a number"), {}
        if not math.isfinite(value):
            return (Status.WRONG_RESULT, f"{name} = {value} is not finite"), {}
        if value <= 0:
            return (
                Status.INVALID,
                f"{name} = {value:g}: responses are compared by ratio and must be above 0",
            ), {}
        answers[name] = value
    return None, answers


def command_site(scenario: Scenario) -> Site:
    """The site of an external program.

    Raises:
        ScenarioError: options that are wrong, or a program that is not there.
        SpaceError: the space cannot be read.
    """
    options = options_of(scenario)
    declared = replace(load_space(space_text(scenario.space), scenario.space), stack="command")
    space = fixed(declared, scenario.fix)
    goals = {objective.name: objective.goal for objective in scenario.judged()}
    if options.answer == "patterns" and (missing := [n for n in goals if n not in options.patterns]):
        raise ScenarioError(f"probe.options.patterns has none for {', '.join(missing)}")
    if options.way == "template":
        known = {p.name for p in space.job} | {"directory"}
        for word in options.run:
            for name in (n for _, n, _, _ in Formatter().parse(word) if n):
                if name not in known:
                    raise ScenarioError(f"probe.options.run names {{{name}}}", allowed(name, sorted(known)))
    return Site(
        observer=partial(Command, options, goals),
        space=space,
        placement=placement(scenario),
        description=f"command {' '.join(options.run)}",
        findings=(
            ("program", " ".join(options.run)),
            ("gets parameters as", options.way),
            ("responses", ", ".join(f"{name} ({goal})" for name, goal in goals.items())),
        ),
    )


def options_of(scenario: Scenario) -> Options:
    """``probe.options`` of a scenario, checked.

    Raises:
        ScenarioError: an unknown key, a value that is not allowed, or a program that is not there.
    """
    known = {f.metadata.get("key", f.name): f.name for f in fields(Options)}
    given = dict(scenario.probe.options)
    for key in given:
        if key not in known:
            raise ScenarioError(f"unknown key 'probe.options.{key}'", allowed(key, known))
    run = given.pop("run", ())
    words = tuple(map(str, run)) if isinstance(run, list | tuple) else (str(run),)
    if not words or not words[0]:
        raise ScenarioError("probe.options.run is empty", "e.g. probe.options.run=[python3,my_app.py]")
    if "{" not in words[0] and shutil.which(words[0]) is None:
        raise ScenarioError(f"probe.options.run: {words[0]!r} is not a program that can be found")
    options = Options(words, **{known[key]: value for key, value in given.items()})
    for key, value, choices in (("pass", options.way, _WAYS), ("answer", options.answer, _ANSWERS)):
        if value not in choices:
            raise ScenarioError(f"probe.options.{key}={value}", allowed(value, choices))
    for name, pattern in options.patterns.items():
        try:
            groups = re.compile(str(pattern)).groups
        except re.error as exc:
            raise ScenarioError(f"probe.options.patterns.{name}={pattern!r}: {exc}") from exc
        if groups != 1:
            raise ScenarioError(f"probe.options.patterns.{name}={pattern!r}", "needed: exactly one group")
    return options


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
