"""``diagnose``: print where one run of a job spends time in MPI, why, and whether tuning can help."""

import contextlib
import io
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

import numpy as np

from autotune.application.diagnosis import ONE_SIDED, PAIRS, Advice, Diagnosis
from autotune.application.diagnosis import diagnose as diagnosed
from autotune.application.diagnosis_text import details, document, sentence
from autotune.application.documents import keep_floor, kept_floor, read_calls
from autotune.application.floor import Floor, FloorLaunch, gains_of
from autotune.application.reach import BOTHER
from autotune.application.recorded_time import PROBED
from autotune.application.recording import Recording
from autotune.application.scenario import sizes_of_calls
from autotune.application.verbs.record import record
from autotune.application.verbs.verify import in_force
from autotune.campaign.bench import Bench
from autotune.campaign.directory import read_campaign
from autotune.campaign.observing import Launches, Measurement, Observer, measurement_of
from autotune.campaign.turns import BlockTime, Side, Turn, are_heats, launch_each_once
from autotune.commands.hydra_bridge import answer_of
from autotune.commands.keys import quoted
from autotune.commands.verify import environment_in
from autotune.errors import CampaignError, ExitCode, UserError, check_installed
from autotune.exporters.document import recommendation_of
from autotune.history.trial import Phase, Subject, Trial
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.stacks.application import is_launcher
from autotune.stacks.ports import Rendering
from autotune.views.documents import answer_text
from autotune.views.text import changed_text

_SCAN = 0.7  # Share of the time in which settings are launched once; the rest is for repetitions.
_AT_ONCE = 2  # Number of settings that are launched at the same time as the default.
_FRESH_LAUNCHES = 2  # Number of further launches of the default and of each of the best settings.
_LEADERS = 2  # Number of best settings that are launched again.
_PAIRS_SHARE = 3  # Transfers, which have no algorithms to try, are measured in a third of a launch's time.


def diagnose(
    words: Sequence[str],
    settings: Sequence[Path],
    seconds: float,
    out: Path,
    composed: Sequence[str],
    as_json: bool,
) -> int:
    """Print the diagnosis of ``of_run`` in words or as JSON, and return the exit code."""
    code, diagnosis, floor, calls = of_run(words, settings, seconds, out, composed)
    text = f"{sentence(diagnosis, str(calls))}\n\n{details(diagnosis, floor)}kept in {calls}\n"
    if as_json:
        text = answer_text("diagnose", document(diagnosis, floor, str(calls)))
    sys.stdout.write(text)
    return code


def of_run(
    words: Sequence[str], settings: Sequence[Path], seconds: float, out: Path, composed: Sequence[str]
) -> tuple[int, Diagnosis, Floor | None, Path]:
    """Diagnose where a run spends time in MPI, from a recording or by recording an application.

    The floor is the best times of this machine for the recorded calls.

    Args:
        words: The path of a recording, or the words of a command, which is run and recorded into ``out``.
        settings: Parameter files, campaigns or recommendations whose settings are tried for the floor, and at
            most one search space.
        seconds: Time limit in seconds for measuring the floor; 0: a floor that was measured earlier is used.
        out: File for the recording of a command.
        composed: Words KEY=VALUE that set keys of the scenario with which the floor is measured.

    Returns:
        The exit code (1 if that of the application was not 0), the diagnosis, the floor if there is one, and
        the path of the recording.

    Raises:
        UserError: the words name neither a recording nor a command, a file sets nothing, or there are two
            search spaces.
        StackError: there is no MPI, or no compiler for the recorder.
        CampaignError: the default could not be measured.
        Interrupted: the user ended the run; the recording is kept.
    """
    code: int = ExitCode.WELL
    spaces = [path for path in settings if path.suffix in (".yaml", ".yml")]
    if len(spaces) > 1:
        raise UserError("two search spaces", "--conf takes one of them, and any number of other files")
    for path in spaces:
        user_text(path, raised=UserError)
    # The settings are read before the application runs, so that a mistake in them does not cost a run.
    settings_by_name = {str(path): _settings_in(path) for path in settings if path not in spaces}
    composed = [*(f"space={quoted(path)}" for path in spaces), *composed]
    if len(words) == 1 and words[0].endswith(".json"):
        out = Path(words[0])
    elif not words:
        hint = "give a recording, or the application behind --, e.g. -- mpirun -n 4 ./app"
        raise UserError("nothing to diagnose", hint)
    else:
        if seconds > 0:  # before the application runs
            check_installed("measuring best times", "scipy")
        with contextlib.redirect_stdout(io.StringIO()):  # hides the summary of ``record``
            code = ExitCode.FINDING if record(words, 1, out, None, False) else ExitCode.WELL
    recorded, floor = read_calls(out), kept_floor(out)
    diagnosis = diagnosed(recorded)
    if seconds > 0 and diagnosis.verdict is not Advice.LEAVE and _measurable(recorded):
        # A launcher that the user typed may be run; one that only the recording names is not run unasked.
        if len(words) > 1 and is_launcher(words[0]):
            composed = [f"mpi.mpirun={quoted(Path(words[0]))}", *composed]
        floor = _measured(out, recorded, settings_by_name, seconds, composed)
        keep_floor(floor, out)
    return code, diagnosed(recorded, floor), floor, out


def _measurable(recorded: Recording) -> bool:
    return any(call.tunable and call.busy_s > 0 for call in recorded.calls) or bool(_pairs(recorded)[0])


def _pairs(recorded: Recording) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the transfers between two ranks that the benchmark probe can measure, and their sizes in bytes.

    Both are empty if such transfers take less than the share ``BOTHER`` of the run.
    """
    between_two = [calls for calls in recorded.other if calls.family in (PAIRS, ONE_SIDED)]
    probed = [calls for calls in between_two if calls.operation in PROBED]
    if not probed or sum(calls.own_s for calls in between_two) < BOTHER * recorded.run_s:
        return (), ()
    # The time of a transfer by MPI_Put is recorded in its fence, so 1 µs is added for each call.
    weighed = ((calls.message_bytes, calls.own_s + 1e-6 * calls.calls_per_rank) for calls in probed)
    return tuple(sorted({PROBED[calls.operation] for calls in probed})), tuple(sizes_of_calls(weighed))


def _measured(
    path: Path,
    recorded: Recording,
    settings_by_name: Mapping[str, Recommendation | dict[str, str]],
    seconds: float,
    composed: Sequence[str],
) -> Floor:
    """Measure the floor (best times) by launches of the benchmark probe, for the calls of the recording."""
    words = ["conf=application", f"calls={quoted(path)}", "anyway=true"]
    names, sizes = _pairs(recorded)
    if not any(call.tunable and call.busy_s > 0 for call in recorded.calls):
        words += [f"collective=[{','.join(names)}]", f"sizes=[{','.join(map(str, sizes))}]"]

    def measured_by(scenario: Scenario, bench: Bench) -> Floor:
        with tempfile.TemporaryDirectory(prefix="autotune-floor-") as folder:
            directory = Path(folder)
            scenarios = [scenario]
            if names and scenario.collective != names:
                cluster = replace(scenario.cluster, comm_sizes=())
                probe = replace(scenario.probe, budget_s=scenario.probe.budget_s / _PAIRS_SHARE)
                pairs = replace(scenario, collective=names, sizes=sizes, cluster=cluster, probe=probe)
                scenarios.append(pairs)
            measurements = [measurement_of(each, bench.placement.ranks) for each in scenarios]
            variables_by_name = {
                name: _variables(setting, bench, directory / f"settings{i}", name)
                for i, (name, setting) in enumerate(settings_by_name.items())
            }
            floor = _FloorSearch(recorded, bench, measurements, directory, seconds).run(variables_by_name)
            return replace(floor, stack=bench.description)

    return answer_of(measured_by, [*words, *composed], launches=True)


def _settings_in(path: Path) -> Recommendation | dict[str, str]:
    """Return the recommendation in a campaign or document, or the environment variables that a file sets."""
    if path.is_dir():
        return read_campaign(path).recommended()
    text = user_text(path, raised=UserError)
    if path.suffix == ".json" and "autotune recommendation" in text[:200]:
        return recommendation_of(text, str(path))
    if env := environment_in(path):
        return env
    raise UserError(f"{path}: nothing is set there", "see: autotune lint FILE")


def _variables(
    setting: Recommendation | dict[str, str], bench: Bench, folder: Path, name: str
) -> dict[str, str]:
    if isinstance(setting, dict):
        return setting
    if not Path(name).is_dir():
        setting = replace(setting, provenance=replace(setting.provenance, family=bench.space.stack))
    return in_force(setting, bench.space.stack, folder, name)


@dataclass(frozen=True)
class _Setting:
    words: str  # The setting in words; empty: the default, alone or with all per-size choices tried.
    subject: Subject
    point: Point
    env: Mapping[str, str]  # Environment variables that a file of the user sets.


@dataclass
class _FloorSearch:
    recorded: Recording
    bench: Bench
    measurements: Sequence[Measurement]
    """Measurement of the collectives and, if the run has transfers between two ranks, that of the transfers;
    each setting has one launch for each of them."""
    directory: Path  # Folder for the launches.
    seconds: float  # Time limit of the search in seconds.
    launches: list[FloorLaunch] = field(default_factory=list)
    heats: int = 0  # Number of heats so far: groups of launches that run at the same time.
    default_launched: bool = False  # Whether the default was launched already.

    def run(self, variables_by_name: Mapping[str, Mapping[str, str]]) -> Floor:
        """Launch the settings, the user's first, until the time is used up, and return the floor."""
        search_started_s = time.monotonic()
        space = self.bench.whole
        default = _Setting("", Subject.UNTOUCHED, space.default, {})
        settings = [replace(default, subject=Subject.SWEEP)]
        settings += [replace(default, words=words, env=env) for words, env in variables_by_name.items()]
        settings += [
            _Setting(changed_text(point, space.unset), Subject.SWEEP, point, {})
            for point in _single_changes(space)
        ]
        launched, block_time = 0, BlockTime()
        while launched < len(settings):
            started_s = time.monotonic()
            if launched and not block_time.fits(_SCAN * self.seconds - (started_s - search_started_s)):
                break
            group = settings[launched : launched + _AT_ONCE]
            self._launch(default, *group)
            for launch in self.launches if not launched else ():
                if launch.default and not launch.seen.ok:
                    raise CampaignError(
                        f"the default could not be measured: {launch.seen.status}: {launch.seen.reason}",
                        "`autotune doctor` checks this machine; --seconds 0 diagnoses without a floor",
                    )
            launched += len(group)
            block_time.add(time.monotonic() - started_s)
        leaders = sorted(settings[:launched], key=self._gain, reverse=True)[:_LEADERS]
        for _ in range(_FRESH_LAUNCHES):
            self._launch(default, *leaders, fresh=True)
            if not block_time.fits(self.seconds - (time.monotonic() - search_started_s)):
                break
        tried = tuple(setting.words for setting in settings[:launched] if setting.words)
        left_out, spent_s = len(settings) - launched, time.monotonic() - search_started_s
        date = datetime.now(UTC).date().isoformat()
        floor = Floor(*gains_of(self.launches), tried, len(self.launches), spent_s)
        return replace(floor, date=date, left_out=left_out)

    def _launch(self, *settings: _Setting, fresh: bool = False) -> None:
        """Launch the default, which is the first setting, and the others; at the same time where possible."""
        for measurement in self.measurements:
            sides = [self._side(measurement, setting) for setting in settings]
            several = map(_needs_several_launches, (side.observer for side in sides), settings)
            heats = are_heats(sides) and not any(several)
            skip_default = not heats and not fresh and self.default_launched
            number = len(self.launches) + 1
            block = launch_each_once(sides[skip_default:], heats, np.random.default_rng(number), number)
            self.heats += heats
            for turn, observation in block:
                setting = settings[skip_default:][turn.side]
                failure = "" if observation.ok else f"  {observation.status}: {observation.reason}"
                swept = "default, each choice" if setting.subject is Subject.SWEEP else "default"
                sys.stderr.write(f"launch {observation.trial.number}  {setting.words or swept}{failure}\n")
                heat = self.heats if heats else 0
                self.launches.append(FloorLaunch(setting.words, observation, fresh, heat))
        self.default_launched = True

    def _side(self, measurement: Measurement, setting: _Setting) -> Side:
        def trial(turn: Turn) -> Trial:
            return _trial(setting, turn.number)

        def amended(rendering: Rendering) -> Rendering:
            return replace(rendering, env={**rendering.env, **setting.env})

        if setting.env:
            measurement = replace(measurement, amended=amended)
        observer = self.bench.observer(measurement, self.bench.whole, self.directory)
        return Side(setting.words or "default", observer, trial)

    def _gain(self, setting: _Setting) -> float:
        sides = {("", Subject.UNTOUCHED), (setting.words, setting.subject)}
        launches = [each for each in self.launches if (each.setting, each.seen.trial.subject) in sides]
        win = diagnosed(self.recorded, Floor(*gains_of(launches), (), 0, 0.0)).win
        return win[0] if win else 0.0


def _trial(setting: _Setting, number: int) -> Trial:
    phase = Phase.BASELINE if setting.subject is Subject.UNTOUCHED else Phase.SEARCH
    return Trial(number, phase, setting.point, setting.subject, seed=number)


def _needs_several_launches(observer: Observer, setting: _Setting) -> bool:
    """Return whether a setting needs several launches to try all of its per-size choices."""
    if not isinstance(observer, Launches):
        return True
    stack, collectives = observer.stack, observer.measurement.probe.collectives
    return len(stack.render(observer.space, _trial(setting, 0), collectives).launches()) > 1


def _single_changes(space: Space) -> Iterator[Point]:
    """Yield points that differ from the default in one parameter.

    The first points have the first other value of each parameter, the next points the second one, and so on.
    """
    near = space.neighbours(space.default)
    names = {point: changed_text(point, space.unset).split("=")[0] for point in near}
    rows = [[p for p in near if names[p] == name] for name in dict.fromkeys(names.values())]
    for column in zip_longest(*rows):
        yield from filter(None, column)
