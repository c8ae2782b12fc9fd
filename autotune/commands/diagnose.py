"""``diagnose``: what a job loses in MPI, to whom, and whether tuning can help, from one run of it."""

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

from autotune.campaign.directory import read_campaign
from autotune.campaign.interruption import check
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.campaign.site import Site
from autotune.commands.application import read_calls, sizes_of_calls
from autotune.commands.floors import keep_floor, kept_floor
from autotune.commands.hydra_bridge import answer_of
from autotune.commands.keys import quoted
from autotune.commands.record import record
from autotune.commands.verify import environment_in
from autotune.commands.verify_application import in_force
from autotune.errors import CampaignError, ExitCode, UserError
from autotune.exporters.document import recommendation_of
from autotune.history.trial import Phase, Subject, Trial
from autotune.importers.recorded_time import PROBED
from autotune.importers.recording import Recording
from autotune.recommend.diagnosis import ONE_SIDED, PAIRS, Advice, Diagnosis
from autotune.recommend.diagnosis import diagnose as diagnosed
from autotune.recommend.floor import Floor, FloorLaunch, gains_of
from autotune.recommend.reach import BOTHER
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import Scenario
from autotune.space import Point, Space
from autotune.stacks.application import is_launcher
from autotune.views.diagnosis import details, document, sentence
from autotune.views.documents import json_text
from autotune.views.text import changed_text

_SCAN = 0.7  # Share of it in which each setting is launched once; the rest launches the best again.
_AGAIN, _LEADERS = 2, 2  # Fresh launches of each of so many settings, and of the default.
_PAIRS_SHARE = 3  # Pairs of ranks have a third of a launch's time: they have no choices to sweep.


def diagnose(
    words: Sequence[str],
    settings: Sequence[Path],
    seconds: float,
    out: Path,
    composed: Sequence[str],
    as_json: bool,
) -> int:
    """Print the diagnosis in a sentence, with its evidence; 1 where the application did not end well.

    Raises as ``of_run``.
    """
    code, found, floor, calls = of_run(words, settings, seconds, out, composed)
    if as_json:
        sys.stdout.write(json_text(document(found, floor, str(calls))))
    else:
        sys.stdout.write(f"{sentence(found, str(calls))}\n\n{details(found, floor)}kept in {calls}\n")
    return code


def of_run(
    words: Sequence[str], settings: Sequence[Path], seconds: float, out: Path, composed: Sequence[str]
) -> tuple[int, Diagnosis, Floor | None, Path]:
    """Exit code, diagnosis, floor and recording of a run.

    ``words``: a recording, or a command that is recorded into ``out``. ``seconds``: for the floor; 0 takes
    one that was measured before. ``settings``: files or campaigns whose settings are tried; ``composed``:
    words for the scenario by which the floor is measured.

    Raises:
        UserError: neither a recording nor a command, or a file that sets nothing.
        StackError: no MPI, or no compiler for the recorder.
        CampaignError: the default could not be measured.
        Interrupted: the user ended it; the recording is kept.
    """
    code: int = ExitCode.WELL
    spaces = [one for one in settings if one.suffix in (".yaml", ".yml")]
    if len(spaces) > 1:
        raise UserError("two search spaces", "--conf takes one of them, and any number of other files")
    for one in spaces:
        user_text(one, raised=UserError)
    given = {str(one): _given(one) for one in settings if one not in spaces}  # before the application runs
    composed = [*(f"space={quoted(one)}" for one in spaces), *composed]
    if len(words) == 1 and words[0].endswith(".json"):
        out = Path(words[0])
    elif not words:
        raise UserError(
            "nothing to diagnose", "give a recording, or the application behind --, e.g. -- mpirun -n 4 ./app"
        )
    else:
        with contextlib.redirect_stdout(io.StringIO()):  # its own summary: the sentence comes first
            code = ExitCode.FINDING if record(words, 1, out, None, False) else ExitCode.WELL
    recorded, floor = read_calls(out), kept_floor(out)
    found = diagnosed(recorded)
    if seconds > 0 and found.verdict is not Advice.LEAVE and _measurable(recorded):
        # A launcher of the user's own words is theirs; what a recording names is not run unasked.
        own = [f"mpi.mpirun={quoted(Path(words[0]))}"] if len(words) > 1 and is_launcher(words[0]) else []
        floor = _measured(out, recorded, given, seconds, [*own, *composed])
        keep_floor(floor, out)
    return code, diagnosed(recorded, floor), floor, out


def _measurable(recorded: Recording) -> bool:
    return any(one.tunable and one.busy_s > 0 for one in recorded.calls) or bool(_pairs(recorded)[0])


def _pairs(recorded: Recording) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Transfers between two ranks that the probe measures, and their sizes; none for a share of 0 %."""
    made = [one for one in recorded.other if one.operation in PROBED and one.family in (PAIRS, ONE_SIDED)]
    total_s = sum(one.own_s for one in recorded.other if one.family in (PAIRS, ONE_SIDED))
    if not made or total_s < BOTHER * recorded.run_s:
        return (), ()
    # Of a transfer by MPI_Put the fence has the time: sizes count by calls as well.
    names = tuple(sorted({PROBED[one.operation] for one in made}))
    weighed = [(one.message_bytes, one.own_s + 1e-6 * one.calls_per_rank) for one in made]
    return names, tuple(sizes_of_calls(weighed))


def _measured(
    path: Path,
    recorded: Recording,
    given: Mapping[str, Recommendation | dict[str, str]],
    seconds: float,
    composed: Sequence[str],
) -> Floor:
    """The floor, by launches of the probe under the scenario that the recording makes."""
    words = ["conf=application", f"calls={quoted(path)}", "anyway=true"]
    names, sizes = _pairs(recorded)
    if not any(one.tunable and one.busy_s > 0 for one in recorded.calls):
        words += [f"collective=[{','.join(names)}]", f"sizes=[{','.join(map(str, sizes))}]"]

    def measured_by(scenario: Scenario, site: Site) -> Floor:
        with tempfile.TemporaryDirectory(prefix="autotune-floor-") as folder:
            place = Path(folder)
            measured = [measurement_of(scenario, site.placement.ranks)]
            if names and scenario.collective != names:
                pairs = replace(
                    scenario,
                    collective=names,
                    sizes=sizes,
                    cluster=replace(scenario.cluster, comm_sizes=()),
                    probe=replace(scenario.probe, budget_s=scenario.probe.budget_s / _PAIRS_SHARE),
                )
                measured.append(measurement_of(pairs, site.placement.ranks))
            own = {
                name: _variables(one, site, place / f"settings{i}", name)
                for i, (name, one) in enumerate(given.items())
            }
            floor = _FloorSearch(recorded, site, measured, place, seconds).run(own)
            return replace(floor, stack=site.description)

    return answer_of(measured_by, [*words, *composed], launches=True)


def _given(path: Path) -> Recommendation | dict[str, str]:
    """A recommendation, a campaign's or a document's, or the variables that a file sets."""
    if path.is_dir():
        return read_campaign(path).recommended()
    text = user_text(path, raised=UserError)
    if path.suffix == ".json" and "autotune recommendation" in text[:200]:
        return recommendation_of(text, str(path))
    if env := environment_in(path):
        return env
    raise UserError(f"{path}: nothing is set there", "see: autotune lint FILE")


def _variables(given: Recommendation | dict[str, str], site: Site, folder: Path, name: str) -> dict[str, str]:
    if isinstance(given, dict):
        return given
    if not Path(name).is_dir():
        given = replace(given, provenance=replace(given.provenance, family=site.space.stack))
    return in_force(given, site.space.stack, folder, name)


@dataclass(frozen=True)
class _Setting:
    words: str
    subject: Subject
    point: Point
    env: Mapping[str, str]


@dataclass
class _FloorSearch:
    recorded: Recording
    site: Site
    measured: Sequence[Measurement]
    place: Path
    seconds: float
    launches: list[FloorLaunch] = field(default_factory=list)

    def run(self, own: Mapping[str, Mapping[str, str]]) -> Floor:
        """Launch by launch, until the time is used up.

        Raises:
            CampaignError: the default could not be launched.
        """
        began = time.monotonic()
        space = self.site.whole
        default = _Setting("", Subject.UNTOUCHED, space.default, {})
        tried = [
            _Setting("", Subject.SWEEP, space.default, {}),
            *(_Setting(words, Subject.UNTOUCHED, space.default, env) for words, env in own.items()),
            *(_Setting(changed_text(p, space.unset), Subject.SWEEP, p, {}) for p in _one_off(space)),
        ]
        self._launch(default)
        if not all(launch.seen.ok for launch in self.launches):
            bad = next(launch.seen for launch in self.launches if not launch.seen.ok)
            raise CampaignError(
                f"the default could not be measured: {bad.status}: {bad.reason}",
                "`autotune doctor` checks this machine; --seconds 0 diagnoses without a floor",
            )
        made, longest_s = 0, 0.0
        for setting in tried:
            before = time.monotonic()
            if made and before - began + longest_s > _SCAN * self.seconds:
                break
            self._launch(setting)
            made, longest_s = made + 1, max(longest_s, time.monotonic() - before)
        leaders = sorted(tried[:made], key=self._wins, reverse=True)[:_LEADERS]
        for _ in range(_AGAIN):
            for setting in (default, *leaders):
                self._launch(setting, again=True)
            if time.monotonic() - began + (1 + len(leaders)) * longest_s > self.seconds:
                break
        gains, best = gains_of(self.launches)
        return Floor(
            gains,
            best,
            tuple(one.words for one in tried[:made] if one.words),
            len(self.launches),
            time.monotonic() - began,
            date=datetime.now(UTC).date().isoformat(),
            left_out=len(tried) - made,
        )

    def _launch(self, setting: _Setting, again: bool = False) -> None:
        for measurement in self.measured:
            check()
            number = len(self.launches) + 1
            phase = Phase.BASELINE if setting.subject is Subject.UNTOUCHED else Phase.SEARCH
            trial = Trial(number, phase, setting.point, setting.subject, seed=number)
            seen = self._observer(measurement, setting).observe(trial)
            how = "" if seen.ok else f"  {seen.status}: {seen.reason}"
            sys.stderr.write(f"launch {number}  {setting.words or 'default'}{how}\n")
            self.launches.append(FloorLaunch(setting.words, seen, again))

    def _observer(self, measurement: Measurement, setting: _Setting) -> Observer:
        if setting.env:
            measurement = replace(
                measurement, amended=lambda its: replace(its, env={**its.env, **setting.env})
            )
        return self.site.observer(measurement, self.site.whole, self.place)

    def _wins(self, setting: _Setting) -> float:
        wanted = {("", Subject.UNTOUCHED), (setting.words, setting.subject)}
        made = [one for one in self.launches if (one.setting, one.seen.trial.subject) in wanted]
        gains, best = gains_of(made)
        win = diagnosed(self.recorded, Floor(gains, best, (), 0, 0.0)).win
        return win[0] if win else 0.0


def _one_off(space: Space) -> Iterator[Point]:
    """Points that differ from the default in one parameter, the first value of each parameter first."""
    near = space.neighbours(space.default)
    names = {point: changed_text(point, space.unset).split("=")[0] for point in near}
    rows = [[p for p in near if names[p] == name] for name in dict.fromkeys(names.values())]
    for column in zip_longest(*rows):
        yield from filter(None, column)
