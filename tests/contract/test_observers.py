"""What all that observe trials promise: a launch that failed is an observation that says so, not an error."""

import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from autotune.campaign.observing import Launches, Measurement, Observer
from autotune.errors import StackError
from autotune.history.events import observation_event, observation_of
from autotune.history.trial import Observation, Phase, Rule, Status, Subject, Trial
from autotune.probe.protocol import SweptChoice
from autotune.replay.recorded_table import read_recorded
from autotune.resources import folder
from autotune.scenario.sections import Program
from autotune.simulate.machine import machine_from
from autotune.simulate.noise import Faults, NoiseModel
from autotune.space import Level, Parameter, Point, Space
from autotune.stacks.installation import Installation
from autotune.stacks.ports import LaunchRequest, Placement, Rendering
from autotune.structure import plain
from hydra_plugins.autotune._command import ProgramRuns
from hydra_plugins.autotune._mpirun import Mpirun
from hydra_plugins.autotune._replay import Replay
from hydra_plugins.autotune._simulated import Simulated
from tests.asking import probe_request
from tests.campaigns import SPACE as PRETEND
from tests.campaigns import World
from tests.contract.implementations import implementations

ALGORITHM = Parameter("algorithm", ("default", "ring"), "default", level=Level.CALL, per_size=True)
FATES = ("good", "crash", "hang", "nothing", "damaged", "not a number")
BY_FATE = Space("fates", (Parameter("fate", FATES, "good"), ALGORITHM))
ASKED = probe_request(("allreduce",), (8, 4096), ranks=2, min_samples=2, max_samples=3, budget_s=0.1)
MEASURED = Measurement(ASKED, timeout_s=120.0)
HASTY = replace(MEASURED, timeout_s=1.5)
"""For launches that hang; one that is to end well could be late on a busy machine."""

MPIRUN = f"""#!{sys.executable}
import json, os, sys, time
from pathlib import Path
import numpy as np
from autotune.probe.protocol import CellSamples, ProbeRequest, ProbeResult
directory, fate = Path(sys.argv[-1]), os.environ.get("FATE", "good")
if fate == "crash":
    sys.exit("signal 11 on rank 1")
if fate == "hang":
    time.sleep(600)
if fate == "damaged":
    (directory / "result.json").write_text("{{")
if fate in ("good", "not a number"):
    asked = ProbeRequest.from_json((directory / "request.json").read_text())
    cells = []
    for size in asked.sizes_bytes:
        for values in [dict(c.values) for c in asked.choices.get("allreduce", ())] or [{{}}]:
            samples, status = np.array([1e-6, 1.1e-6, 1.2e-6]), ("ok", "")
            if fate == "not a number":
                samples, status = np.empty(0), ("wrong_result", "rank 0 found other data than expected")
            cells.append(CellSamples("allreduce", 2, size, values, samples, *status))
    ProbeResult("ok", cells=tuple(cells), hosts=("here",)).write(directory)
"""
"""In place of an MPI: what a launch can do, with real processes."""

PROGRAM = """
import json, sys, time
fate = [w for w in sys.argv if w.startswith("fate=")][0].removeprefix("fate=")
if fate == "crash":
    sys.exit("no such device")
if fate == "hang":
    time.sleep(600)
if fate == "damaged":
    print("{")
if fate in ("good", "not a number"):
    print(json.dumps({"seconds": 0.5 if fate == "good" else float("nan")}))
"""

TABLE = """fate,algorithm,message_bytes,latency_us,is_default
good,default,8,10,1
good,ring,8,12,0
good,default,4096,30,1
good,ring,4096,20,0
crash,default,8,,0
"""


class ByFate:
    """A stack whose one variable tells the pretended MPI what to do."""

    def render(self, space: Space, trial: Trial, collectives: tuple[str, ...]) -> Rendering:
        choices = space.choices("allreduce") if trial.subject is Subject.SWEEP else ()
        said = {} if trial.subject is Subject.UNTOUCHED else {"FATE": str(trial.point["fate"])}
        return Rendering(
            said, choices={"allreduce": tuple(SweptChoice(dict(c)) for c in choices)} if choices else {}
        )


@dataclass(frozen=True)
class Case:
    """One observer, and points that end well and badly on it."""

    observer: Observer
    space: Space
    good: Point
    bad: tuple[Point, ...]


def launches(directory: Path, measured: Measurement = MEASURED) -> Case:
    mpirun = directory / "mpirun"
    mpirun.write_text(MPIRUN)
    mpirun.chmod(0o755)
    launcher = Mpirun(Installation("openmpi", "5.0", mpirun, directory / "libmpi.so", "scenario"))
    observer = Launches(ByFate(), launcher, Placement(2), measured, BY_FATE, directory)
    return by_fate(observer)


def command(directory: Path, measured: Measurement = MEASURED) -> Case:
    program = directory / "program.py"
    program.write_text(PROGRAM)
    options = Program((sys.executable, str(program), "fate={fate}"), way="template")
    space = replace(BY_FATE, parameters=BY_FATE.parameters[:1])
    return by_fate(ProgramRuns(options, {"seconds": "min"}, measured, space, directory), space)


def by_fate(observer: Observer, space: Space = BY_FATE) -> Case:
    points = [space.complete({"fate": fate}) for fate in FATES]
    return Case(observer, space, points[0], tuple(points[1:]))


def replay(directory: Path, measured: Measurement = MEASURED) -> Case:
    path = directory / "allreduce.csv"
    path.write_text(TABLE)
    recorded = read_recorded(path, call_level=["algorithm"], per_job=["fate"])
    measured = replace(measured, probe=replace(ASKED, collectives=(recorded.collective,)))
    observer = Replay(recorded, 1, measured, recorded.space, directory)
    bad = (Point.of({"fate": "crash"}), Point.of({"fate": "never recorded"}))
    return Case(observer, recorded.space, Point.of({"fate": "good"}), bad)


def simulated(directory: Path, measured: Measurement = MEASURED, faults: Faults | None = None) -> Case:
    text = sorted((folder("conf") / "machine").glob("*.yaml"))[0].read_text()
    space = Space("modelled", (Parameter("UCX_ZCOPY_THRESH", ("auto", "soon"), "auto"), ALGORITHM))
    place = Placement(8, nodes=2, ppn=4)
    noise = NoiseModel(within=0.05)
    machine = machine_from(yaml.safe_load(text))
    observer = Simulated(machine, place, measured, space, noise, faults or Faults(), seed=1)
    return Case(observer, space, space.default, (Point.of({"UCX_ZCOPY_THRESH": "soon"}),))


def world(directory: Path, measured: Measurement = MEASURED) -> Case:
    observer = World(fails=lambda t: Status.CRASHED if t.point.get("tls") == "tcp" else None)
    return Case(observer, PRETEND, PRETEND.default, (PRETEND.complete({"tls": "tcp"}),))


OBSERVERS: dict[str, Callable[..., Case]] = {
    "Launches": launches,
    "ProgramRuns": command,
    "Replay": replay,
    "Simulated": simulated,
    "World": world,
}
ELSEWHERE = {
    "Disturbed": "a machine with one disturbed launch in tests/unit/campaign/test_strategy.py",
    "HangingMachine": "launches that hang with one value in tests/unit/verification/test_shared_failures.py",
    "Moments": "launches that share their moment in tests/unit/campaign/test_heats.py",
    "Machine": "the true speeds of tests/unit/verification/test_rounds.py, drawn from one stream",
    "_Timed": "another observer's launches and their time, in tests/integration/test_guard.py",
    "Planted": "a machine that is slower beside a load in tests/unit/site/test_load.py",
    "Wrong": "a machine with wrong results in tests/unit/campaign/test_failures.py",
}
LAUNCHERS_ELSEWHERE = {
    "InAllocation": "tests/unit/launchers/test_slurm_inside.py and tests/cluster",
    "TrialJobs": "tests/cluster",
    "Attempts": "launches that are lost and made again in tests/unit/campaign/test_observing.py",
    "Ending": "who ends us, in tests/unit/campaign/test_observing.py",
    "Runs": "launches without some variables in tests/unit/campaign/test_observing.py",
    "Queued": "a job that never starts in tests/unit/campaign/test_observing.py",
    "Left": "damaged results in tests/unit/campaign/test_observing.py",
    "Mpi": "the check of exported files in tests/unit/exporters/test_export_check.py",
}


@pytest.fixture(params=OBSERVERS.values(), ids=OBSERVERS)
def case(request, tmp_path) -> Case:
    return request.param(tmp_path)


def trial(point: Point, number: int = 1, subject: Subject = Subject.SWEEP) -> Trial:
    rules = (Rule("allreduce", 2, 0, Point()),) if subject is Subject.DEPLOYED else ()
    return Trial(number, Phase.SEARCH, point, subject, seed=number, rules=rules)


def assert_sound(seen: Observation, made: Trial) -> None:
    """What holds of every observation, whatever became of the launch."""
    assert seen.trial == made
    assert seen.ok == (not seen.reason)
    assert "\n" not in seen.reason
    assert all(0 <= seconds < math.inf for seconds in (seen.duration_s, seen.queue_s))
    assert all(isinstance(host, str) and host for host in seen.hosts)
    assert len({e.cell for e in seen.estimates}) == len(seen.estimates)
    for e in seen.estimates:
        if e.status is Status.OK:
            assert 0 < e.median_s < math.inf
            assert 0 <= e.sem_s < math.inf
            assert e.n >= 1
        else:
            assert math.isnan(e.median_s)
    assert any(seen.usable) == seen.ok
    event = json.loads(json.dumps(plain(observation_event(seen))))
    assert plain(observation_of(event, made)) == plain(seen)


def test_every_observer_and_every_launcher_is_under_this_suite():
    assert implementations("observe(trial)") == OBSERVERS.keys() | ELSEWHERE.keys()
    assert implementations("run(request)") == {"Mpirun"} | LAUNCHERS_ELSEWHERE.keys()


@pytest.mark.parametrize("subject", Subject)
def test_a_launch_that_ends_well_has_a_figure_for_each_cell(case, subject):
    made = trial(case.good, subject=subject)
    seen = case.observer.observe(made)
    assert_sound(seen, made)
    assert seen.ok
    swept = {e.cell.choice for e in seen.usable}
    collective = next(seen.usable).cell.collective
    assert swept == (
        set(case.space.choices(collective, case.good)) if subject is Subject.SWEEP else {Point()}
    )


@pytest.mark.parametrize("made_of", OBSERVERS.values(), ids=OBSERVERS)
def test_a_launch_that_ends_badly_says_how(made_of, tmp_path):
    case = made_of(tmp_path, HASTY)
    for number, point in enumerate(case.bad, start=1):
        made = trial(point, number)
        seen = case.observer.observe(made)
        assert_sound(seen, made)
        assert not seen.ok, point


def test_the_same_trial_can_be_made_again(case):
    """As a campaign does that was interrupted in the middle of one."""
    made = trial(case.good)
    first, second = case.observer.observe(made), case.observer.observe(made)
    assert_sound(second, made)
    assert [(e.cell, e.median_s) for e in first.usable] == [(e.cell, e.median_s) for e in second.usable]


@pytest.mark.parametrize("fate", ["hang", "crash", "lost_node", "wrong_result"])
def test_what_the_simulated_cluster_does_wrong_is_an_observation_too(fate, tmp_path):
    case = simulated(tmp_path, faults=Faults(**{fate: 1.0}))
    made = trial(case.good)
    seen = case.observer.observe(made)
    assert any(e.status is not Status.OK for e in seen.estimates) or not seen.ok
    assert seen.trial == made


def test_where_nothing_can_be_launched_at_all_it_is_an_error(tmp_path):
    gone = Mpirun(Installation("openmpi", "5.0", tmp_path / "mpirun", tmp_path / "libmpi.so", "scenario"))
    request = LaunchRequest(tmp_path, ("true",), {}, Placement(2), 1.0)
    with pytest.raises(StackError, match="cannot start"):
        gone.run(request)
