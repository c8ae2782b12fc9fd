"""Contests on a small table whose best answers are known by hand."""

import csv
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.proposers import proposer
from autotune.proposers.optuna import Optuna
from autotune.replay.recorded_table import RecordedTable, read_recorded
from benchmarks.arena import Result, contest, main, named, standings, standings_page, standings_text

# Best at 8 bytes: c; at 1024: b. All three have the same geometric mean but for a: 4, 8 and 8 µs.
TABLE = """algorithm,message_bytes,latency_us,is_default
a,8,2,1
a,1024,8,1
b,8,16,0
b,1024,4,0
c,8,1,0
c,1024,64,0
"""


def read(tmp_path: Path, text: str = TABLE, **keys: list[str]) -> RecordedTable:
    path = tmp_path / "hand_bcast.csv"
    path.write_text(text)
    return read_recorded(path, **keys)


def test_excess_of_envelope_and_single(tmp_path: Path) -> None:
    found = contest(read(tmp_path), "grid", proposer("grid"), [1, 2, 3, 9], seed=0)
    best = math.sqrt(1 * 4)
    assert [r.envelope for r in found] == pytest.approx([4 / best, math.sqrt(8) / best, 1, 1])
    assert [r.single for r in found] == pytest.approx([1.0] * 4)  # a itself: sqrt(16), then b: 8, c: 8
    assert found[0].speedup == pytest.approx(1.0)
    assert found[2].speedup == pytest.approx(2.0)
    assert [r.used for r in found] == [1, 2, 3, 3]
    assert found[0].configurations == 3


def test_per_job_and_call_level_choices(tmp_path: Path) -> None:
    [_, last] = contest(read(tmp_path, per_job=["algorithm"]), "grid", proposer("grid"), [2, 3], seed=0)
    assert (last.envelope, last.speedup) == pytest.approx((1.0, 1.0))
    text = "tls," + TABLE.replace("\n", "\ntcp,").removesuffix("tcp,")
    [first] = contest(read(tmp_path, text, call_level=["algorithm"]), "grid", proposer("grid"), [1], seed=0)
    assert first.envelope == pytest.approx(1.0)


def test_other_runs_judge_than_those_that_were_shown(tmp_path: Path) -> None:
    text = "algorithm,message_bytes,latency_us,run,is_default\n"
    for run, (a, b) in enumerate([(10, 20), (10, 20), (10, 1), (10, 1)]):
        text += f"a,8,{a},{run},1\nb,8,{b},{run},0\n"
    table = read(tmp_path, text)
    found = [contest(table, "grid", proposer("grid"), [2], seed=s)[0].envelope for s in range(12)]
    assert max(found) > 1.5  # b looked good and was not, or the other way round


def test_failed_configurations_are_survived(tmp_path: Path) -> None:
    found = contest(read(tmp_path, TABLE + "d,8,,0\n"), "grid", proposer("grid"), [4], seed=0)
    assert found[0].envelope == pytest.approx(1.0)


def test_thinking_time_is_the_mean_over_suggestions(tmp_path: Path) -> None:
    ticks = iter(range(100))
    [found] = contest(read(tmp_path), "grid", proposer("grid"), [3], seed=0, clock=lambda: float(next(ticks)))
    assert found.suggestion_s == pytest.approx(1.0)


def test_standings_are_sorted_by_mean_within_a_budget() -> None:
    one = Result("t.csv", 3, "x", 0, 4, 4, 1.5, 1.2, 1.0, 0.1)
    others = [replace(one, proposer="y", envelope=envelope) for envelope in (1.2, 1.0)]
    first, second = standings([one, replace(one, table="u.csv", envelope=1.1), *others])
    assert (first.proposer, first.mean, first.contests) == ("y", pytest.approx(1.1), 2)
    assert (second.proposer, second.mean, second.median) == ("x", pytest.approx(1.3), pytest.approx(1.3))
    assert second.p90 == pytest.approx(1.46)
    row = "| 4 | x | 2 | 1.300 | 1.300 | 1.460 | 1.200 | 1.200 | 0.100 |"
    assert standings_text([second]).splitlines()[-1] == row
    page = standings_page(standings([replace(one, proposer="a-name-to-find")]))
    assert "a-name-to-find" in page
    assert "<script src=" not in page  # it needs no network


def test_without_a_marked_default_there_is_no_speedup_over_it(tmp_path: Path) -> None:
    text = "\n".join(row.rpartition(",")[0] for row in TABLE.splitlines())
    found = contest(read(tmp_path, text), "grid", proposer("grid"), [1, 3], seed=0)
    assert [r.envelope for r in found][1] == pytest.approx(1.0)
    assert all(math.isnan(r.speedup) for r in found)


ROWS = "algorithm,message_bytes,latency_us,is_default\na,8,2,1\nb,8,1,0\nc,8,3,0\n"


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["arena.py", *map(str, words)])
    main()


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name in ("x_bcast.csv", "y_bcast.csv"):
        (tmp_path / name).write_text(ROWS)
    return tmp_path


def test_results_table_and_plot(tables: Path, capsys, monkeypatch) -> None:
    out = tables / "out" / "results.csv"
    out.parent.mkdir()
    words = ("--proposers", "grid,random", "--launches", "1,3", "--seeds", "2", "--out", out)
    run(monkeypatch, tables, *words)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 2 * 2 * 2 * 2  # tables, proposers, seeds, budgets
    assert {row["envelope"] for row in rows if row["launches"] == "3"} == {"1"}
    assert {row["envelope"] for row in rows if row["launches"] == "1"} == {"2"}
    assert out.with_suffix(".html").stat().st_size > 10_000
    assert "| 3 | grid | 4 | 1.000" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--proposers", "gird"], "did you mean 'grid'"),
        (["--proposers", "optuna:sampler"], "NAME:OPTION=VALUE"),
        (["--launches", "4,x"], "whole numbers"),
        (["--launches", "0"], "from 1 on"),
        (["--seeds", "0"], "from 1 on"),
        (["--proposers", "grid", "--out", "no/such/folder/r.csv"], "cannot write no/such/folder/r.csv"),
    ],
)
def test_mistakes_are_named(tables, capsys, monkeypatch, words: list[str], part: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tables, *words)
    assert part in capsys.readouterr().err


def test_a_bad_table_and_an_empty_folder(tmp_path: Path, capsys, monkeypatch) -> None:
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path)
    assert "no tables" in capsys.readouterr().err
    (tmp_path / "bad_bcast.csv").write_text("message_bytes,latency_us\n8,fast\n")
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch, tmp_path)
    assert "row 2, column latency_us" in capsys.readouterr().err


def test_options_of_a_proposer() -> None:
    assert named("optuna:sampler=gp:initial=3") == Optuna(sampler="gp", initial=3)
