"""Recorded and imported tables as histories, and the page made of them."""

import pytest

from autotune.cli import main
from autotune.commands.report import table_input
from autotune.history.trial import Phase, Status, Subject
from autotune.replay.observed import history_of
from autotune.replay.recorded_table import read_recorded

HEAD = "algorithm,message_bytes,run,latency_us,is_default\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "bcast.csv"
    rows = [
        f"{algorithm},{size},{run},{us * size / 8 * (1 + 0.01 * run):.4f},{int(algorithm == 'default')}"
        for algorithm, us in (("default", 3), ("ring", 2), ("chain", 5))
        for size in (8, 64)
        for run in (1, 2, 3)
    ]
    path.write_text(HEAD + "\n".join([*rows, "broken,8,1,,0", "broken,64,1,,0"]) + "\n")
    return path


def test_every_run_is_an_observation_and_the_default_a_baseline(table):
    history = history_of(read_recorded(table))
    baseline = history.of(Phase.BASELINE)
    assert [o.trial.subject for o in baseline] == [Subject.UNTOUCHED] * 3
    assert len(history) == 3 + 9 + 1
    assert [o.status for o in history if o.trial.point.get("algorithm") == "broken"] == [Status.CRASHED]
    assert {e.sem_s for o in history for e in o.estimates} == {0.0}  # runs speak for themselves


def test_a_single_time_has_an_error_as_large_as_itself(tmp_path):
    path = tmp_path / "one_bcast.csv"
    path.write_text(HEAD + "a,8,1,2.0,0\nb,8,1,3.0,0\n")
    assert all(e.sem_s == e.median_s for o in history_of(read_recorded(path)) for e in o.estimates)


def test_the_page_of_a_table_recommends_what_is_fastest_in_it(table, capsys):
    inputs = table_input(table)
    *rules, end = inputs.recommendation.rules
    assert {rule.choice["algorithm"] for rule in rules} == {"ring"}
    assert not end.choice  # nothing is known of larger messages
    assert inputs.recommendation.speedup == pytest.approx(1.5, rel=1e-3)
    assert main(["report", str(table)]) == 0
    page = table.with_suffix(".html")
    assert capsys.readouterr().out == f"{page}\n"
    assert "bcast.csv" in page.read_text()


def test_a_file_that_is_no_such_table_is_told(tmp_path, capsys):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n")
    assert main(["report", str(path)]) == 2
    assert "x.csv: no column message_bytes, latency_us" in capsys.readouterr().err
    assert not path.with_suffix(".html").exists()
