"""The replay launcher gives recorded runs, each once before any twice."""

from pathlib import Path

import pytest

from autotune.history.trial import Rule
from autotune.probe.protocol import Choice, ProbeRequest
from autotune.replay.recorded_table import read_recorded
from autotune.space import Point
from autotune.stacks.ports import LaunchOutcome, LaunchRequest, Placement
from hydra_plugins.autotune._replay import Replay

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
    return Replay(read_recorded(path, call_level=["algorithm"], per_job=["tls"]), seed=1)


def launch(
    replay: Replay, directory: Path, values: dict[str, str], sweep: bool = True, rules: tuple[Rule, ...] = ()
) -> LaunchOutcome:
    directory.mkdir(parents=True, exist_ok=True)
    choices = {"bcast": (Choice({"algorithm": 0}), Choice({"algorithm": 1}))} if sweep else {}
    probe = ProbeRequest(("bcast",), (8, 1024), choices)
    return replay.run(
        LaunchRequest(directory, (), {}, Placement(2), 60.0, probe, point=Point.of(values), rules=rules)
    )


def times_us(outcome: LaunchOutcome) -> list[float]:
    assert outcome.result is not None
    return [round(float(t) * 1e6, 6) for cell in outcome.result.cells for t in cell.samples_s]


def test_repeated_launches_give_each_run_once(replay: Replay, tmp_path: Path) -> None:
    first = [times_us(launch(replay, tmp_path / f"launches/{n}", {"tls": "tcp"})) for n in range(3)]
    assert sorted(run[0] for run in first) == [10.0, 11.0, 12.0]
    assert all(run == [run[0], run[0] + 2, run[0] + 20, run[0] + 10] for run in first)
    again = launch(replay, tmp_path / "launches/3", {"tls": "tcp"})
    assert times_us(again) == first[0]


def test_a_new_process_goes_on_where_the_last_one_stopped(replay: Replay, tmp_path: Path) -> None:
    whole = [times_us(launch(replay, tmp_path / f"whole/{n}", {"tls": "tcp"})) for n in range(3)]
    launch(replay, tmp_path / "cut/0", {"tls": "tcp"})
    launch(replay, tmp_path / "cut/1", {"tls": "tcp"})
    resumed = Replay(replay.recorded, seed=1)
    assert times_us(launch(resumed, tmp_path / "cut/1", {"tls": "tcp"})) == whole[1]
    assert times_us(launch(resumed, tmp_path / "cut/2", {"tls": "tcp"})) == whole[2]


def test_the_untouched_stack_is_the_default_choice(replay: Replay, tmp_path: Path) -> None:
    outcome = launch(replay, tmp_path / "launches/0", {"tls": "tcp"}, sweep=False)
    assert times_us(outcome) in ([10.0, 30.0], [11.0, 31.0], [12.0, 32.0])
    assert outcome.result is not None
    assert all(not cell.values for cell in outcome.result.cells)


def test_deployed_rules_choose_at_each_size(replay: Replay, tmp_path: Path) -> None:
    rules = (
        Rule("bcast", 0, 0, Point.of({"algorithm": 0})),
        Rule("bcast", 0, 1024, Point.of({"algorithm": 1})),
    )
    small, large = times_us(launch(replay, tmp_path / "l/0", {"tls": "tcp"}, sweep=False, rules=rules))
    assert large == small + 10


def test_what_was_not_recorded(replay: Replay, tmp_path: Path) -> None:
    assert launch(replay, tmp_path / "l/0", {"tls": "sm"}).status == "crashed"
    assert launch(replay, tmp_path / "l/1", {"tls": "rc"}).status == "invalid"
