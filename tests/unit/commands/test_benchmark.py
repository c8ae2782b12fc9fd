"""``python -m autotune benchmark``."""

import csv
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands.benchmark import named
from autotune.proposers.optuna import Optuna

TABLE = "algorithm,message_bytes,latency_us,is_default\na,8,2,1\nb,8,1,0\nc,8,3,0\n"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    for name in ("x_bcast.csv", "y_bcast.csv"):
        (tmp_path / name).write_text(TABLE)
    return tmp_path


def test_results_table_and_plot(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tables / "out" / "results.csv"
    out.parent.mkdir()
    words = ["benchmark", "--tables", str(tables), "--proposers", "grid,random", "--launches", "1,3"]
    assert main([*words, "--seeds", "2", "--out", str(out)]) == 0
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
def test_mistakes_are_named(
    tables: Path, capsys: pytest.CaptureFixture[str], words: list[str], part: str
) -> None:
    assert main(["benchmark", "--tables", str(tables), *words]) == 2
    assert part in capsys.readouterr().err


def test_a_bad_table_and_an_empty_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", "--tables", str(tmp_path)]) == 2
    assert "no tables" in capsys.readouterr().err
    (tmp_path / "bad_bcast.csv").write_text("message_bytes,latency_us\n8,fast\n")
    assert main(["benchmark", "--tables", str(tmp_path)]) == 2
    assert "row 2, column latency_us" in capsys.readouterr().err


def test_options_of_a_proposer() -> None:
    assert named("optuna:sampler=gp:initial=3") == Optuna(sampler="gp", initial=3)


def test_of_a_table_of_several_collectives_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "source,line,benchmark,version,collective,comm_size,message_bytes,latency_us,algorithm\n"
    rows = [
        f"{a}.log,1,OSU,,{c},4,8,{us},{a}\n" for c in ("bcast", "reduce") for a, us in (("x", 2), ("y", 1))
    ]
    table = tmp_path / "several.csv"
    table.write_text(head + "".join(rows))
    words = ["benchmark", "--tables", str(table), "--proposers", "grid", "--launches", "2", "--seeds", "1"]
    assert main(words) == 2
    assert "holds bcast, reduce" in capsys.readouterr().err
    assert main([*words, "--collective", "reduce"]) == 0
    assert main(["report", str(table), "--collective", "reduce"]) == 0
    assert "reduce" in table.with_suffix(".html").read_text()
    capsys.readouterr()
    assert main(["report", str(table), "--collective", "scan"]) == 2
    assert "--collective NAME" in capsys.readouterr().err
    assert main(["report", str(tmp_path), "--collective", "scan"]) == 2
    assert "no table" in capsys.readouterr().err
