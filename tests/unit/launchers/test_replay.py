"""A replayed campaign gives recorded runs, each once before any twice."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.campaign.observing import Measurement
from autotune.history.trial import Phase, Rule, Status, Subject, Trial
from autotune.replay.recorded_table import read_recorded
from autotune.space import Point
from autotune.stacks.ports import LaunchOutcome
from hydra_plugins.autotune._replay import Replay
from tests.asking import probe_request

TABLE = """tls,algorithm,message_bytes,latency_us,run,is_default
tcp,0,8,10,a,1
tcp,1,8,12,a,0
tcp,0,1024,30,a,1
tcp,1,1024,20,a,0
tcp,0,8,11,b,1
tcp,1,8,13,b,0
tcp,0,1024,31,b,1
tcp,1,1024,21,b,0
tcp,0,8,12,c,1
tcp,1,8,14,c,0
tcp,0,1024,32,c,1
tcp,1,1024,22,c,0
sm,0,8,,a,0
"""


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    path = tmp_path / "two_nodes_bcast.csv"
    path.write_text(TABLE)
    recorded = read_recorded(path, call_level=["algorithm"], per_job=["tls"])
    measurement = Measurement(probe_request(("bcast",), (8, 1024)), 60.0)
    return Replay(recorded, 1, measurement, recorded.space, tmp_path)


def launch(replay: Replay, number, tls, subject=Subject.SWEEP, rules=()) -> LaunchOutcome:
    return replay.run(Trial(number, Phase.SEARCH, Point.of({"tls": tls}), subject, rules=rules))


def times_us(outcome: LaunchOutcome) -> list[float]:
    assert outcome.result is not None
    return [round(float(t) * 1e6, 6) for cell in outcome.result.cells for t in cell.samples_s]


def test_repeated_launches_give_each_run_once(replay: Replay) -> None:
    first = [times_us(launch(replay, n, "tcp")) for n in range(3)]
    assert sorted(run[0] for run in first) == [10.0, 11.0, 12.0]
    assert all(run == [run[0], run[0] + 2, run[0] + 20, run[0] + 10] for run in first)
    again = launch(replay, 3, "tcp")
    assert times_us(again) == first[0]


def test_a_new_process_goes_on_where_the_last_one_stopped(replay: Replay, tmp_path: Path) -> None:
    whole = [times_us(launch(replay, n, "tcp")) for n in range(3)]
    cut = replace(replay, directory=tmp_path / "cut")
    launch(cut, 0, "tcp")
    launch(cut, 1, "tcp")
    assert times_us(launch(cut, 1, "tcp")) == whole[1]
    assert times_us(launch(cut, 2, "tcp")) == whole[2]


def test_a_launch_is_an_observation(replay: Replay) -> None:
    seen = replay.observe(Trial(1, Phase.SEARCH, Point.of({"tls": "tcp"})))
    assert seen.ok
    assert [e.cell.message_bytes for e in seen.usable] == [8, 8, 1024, 1024]
    assert replay.observe(Trial(2, Phase.SEARCH, Point.of({"tls": "sm"}))).status is Status.CRASHED


def test_the_untouched_stack_is_the_default_choice(replay: Replay) -> None:
    outcome = launch(replay, 0, "tcp", Subject.DEPLOYED)
    assert times_us(outcome) in ([10.0, 30.0], [11.0, 31.0], [12.0, 32.0])
    assert outcome.result is not None
    assert all(not cell.values for cell in outcome.result.cells)


def test_deployed_rules_choose_at_each_size(replay: Replay) -> None:
    rules = (
        Rule("bcast", 0, 0, Point.of({"algorithm": 0})),
        Rule("bcast", 0, 1024, Point.of({"algorithm": 1})),
    )
    small, large = times_us(launch(replay, 0, "tcp", Subject.DEPLOYED, rules))
    assert large == small + 10


def test_what_was_not_recorded(replay: Replay) -> None:
    assert launch(replay, 0, "sm").status == "crashed"
    assert launch(replay, 1, "rc").status == "invalid"
