"""The history as a table: every row and column, types, and the files."""

import io
import math
from dataclasses import replace

import pandas as pd
import pytest

from autotune.cli import main
from autotune.commands.history import history as print_history
from autotune.commands.history import print_or_write
from autotune.errors import TableError, UserError
from autotune.history.benchmark_row import BenchmarkRow
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Point
from autotune.views.frames import Table, history_frame, history_table, measurement_table

COLUMNS = [
    *("trial", "phase", "subject", "status", "reason"),
    *("UCX_RNDV_THRESH", "coll_han", "ranks_per_node"),
    *("collective", "comm_size", "message_bytes"),
    *("allreduce_algorithm", "allreduce_segsize"),
    *("median_us", "sem_us", "low_us", "high_us", "n", "outliers"),
]


def estimate(algorithm: int, size: int, median_s: float, status: Status = Status.OK) -> Estimate:
    choice = Point.of({"allreduce_algorithm": algorithm, "allreduce_segsize": "4k"} if algorithm else {})
    cell = Cell("allreduce", 2, size, choice)
    return Estimate(cell, median_s, median_s / 50, 40, status, median_s * 0.95, median_s * 1.05, 3)


@pytest.fixture
def history() -> History:
    swept = Point.of({"UCX_RNDV_THRESH": "auto", "coll_han": True, "ranks_per_node": 2})
    fewer = Point.of({"UCX_RNDV_THRESH": "64k", "coll_han": False})
    untouched = Trial(1, Phase.BASELINE, Point(), Subject.UNTOUCHED)
    wrong = estimate(4, 8, math.nan, Status.WRONG_RESULT)
    return History(
        (
            Observation(untouched, Status.OK, (estimate(0, 8, 2.8e-6),)),
            Observation(Trial(2, Phase.SCREENING, swept), Status.OK, (estimate(3, 8, 1.4e-6), wrong)),
            Observation(Trial(3, Phase.SEARCH, fewer), Status.TIMEOUT, reason="ended after 60 s"),
            Observation(
                Trial(4, Phase.SEARCH, fewer),
                Status.NOT_APPLIED,
                (estimate(3, 8, 1e-6),),
                reason="tcp in use",
            ),
        )
    )


def test_one_row_for_each_estimate_and_for_each_launch_without_one(history):
    frame = history_frame(history)
    assert list(frame.columns) == COLUMNS
    assert frame["trial"].tolist() == [1, 2, 2, 3, 4]
    assert frame["status"].tolist() == ["ok", "ok", "wrong_result", "timeout", "not_applied"]
    assert frame["subject"].tolist() == ["untouched", "sweep", "sweep", "sweep", "sweep"]
    assert frame["reason"].isna().tolist() == [True, True, True, False, False]
    failed = frame.set_index("trial").loc[3]
    assert (failed["UCX_RNDV_THRESH"], failed["coll_han"]) == ("64k", False)
    assert failed[[*COLUMNS[8:], "ranks_per_node"]].isna().all()


def test_tight_loops_have_the_fastest_rank_and_the_average_too():
    cell = Cell("bcast", 2, 8)
    told = Estimate(cell, 2e-6, 1e-8, 12, extra={"ranks_min_s": 1e-6, "ranks_avg_s": 1.5e-6})
    trial = Trial(1, Phase.SEARCH, Point())
    lost = Observation(Trial(2, Phase.SEARCH, Point()), Status.LOST)
    frame = history_frame(History((Observation(trial, Status.OK, (told, Estimate(cell, 3e-6, 0, 9))), lost)))
    assert frame["ranks_min_us"].dropna().tolist() == [1.0]
    assert frame["ranks_avg_us"].dropna().tolist() == [1.5]
    assert len(frame) == 3


def test_a_cell_that_is_not_usable_has_its_own_reason():
    cell = Cell("allgatherv", 2, 8, Point.of({"algorithm": "ring"}))
    refused = Estimate(cell, math.nan, math.nan, 0, Status.NOT_APPLIED, reason="refused (code 64)")
    row = history_frame(History((Observation(Trial(1, Phase.SEARCH, Point()), Status.OK, (refused,)),))).iloc[
        0
    ]
    assert (row["status"], row["reason"]) == ("not_applied", "refused (code 64)")


def test_figures_are_microseconds_without_binary_noise_and_types_hold_the_values_as_they_are(history):
    frame = history_frame(history)
    row, types = frame.iloc[0], frame.dtypes.astype(str).to_dict()
    assert (row["median_us"], row["sem_us"], row["low_us"], row["high_us"]) == (2.8, 0.056, 2.66, 2.94)
    assert (row["n"], row["outliers"]) == (40, 3)
    whole = ("trial", "comm_size", "message_bytes", "n", "allreduce_algorithm", "ranks_per_node")
    assert {types[name] for name in whole} == {"Int64"}
    assert types["coll_han"] == "boolean"
    assert types["UCX_RNDV_THRESH"] == types["allreduce_segsize"] == types["status"] == "string"
    assert types["median_us"] == "float64"


def test_mixed_values_become_text():
    def seen(number, value):
        return Observation(Trial(number, Phase.SEARCH, Point.of({"a": value, "b": number})), Status.CRASHED)

    frame = history_frame(History((seen(1, "auto"), seen(2, 4096), seen(3, True), seen(4, 0.5))))
    assert frame["a"].tolist() == ["auto", "4096", "true", "0.5"]
    assert str(frame["b"].dtype) == "Int64"


def test_a_parameter_named_like_a_column_keeps_both():
    trial = Trial(7, Phase.SEARCH, Point.of({"n": 3}))
    frame = history_frame(History((Observation(trial, Status.LOST),)))
    assert frame["parameter.n"].tolist() == [3]
    assert frame["n"].isna().all()


def test_an_empty_history_still_has_its_columns():
    frame = history_frame(History())
    assert len(frame) == 0
    assert list(frame.columns) == COLUMNS[:5] + COLUMNS[8:11] + COLUMNS[13:]


def test_csv_goes_to_standard_output_or_a_file(history, capsys, tmp_path):
    table = history_table(history)
    print_or_write(table, None)
    shown = capsys.readouterr().out
    assert shown.splitlines()[1] == "1,baseline,untouched,ok,,,,,allreduce,2,8,,,2.8,0.056,2.66,2.94,40,3"
    assert shown.splitlines()[4] == "3,search,sweep,timeout,ended after 60 s,64k,False," + "," * 11
    print_or_write(table, tmp_path / "history.parquet")  # a file has the format of its name
    assert len(pd.read_parquet(tmp_path / "history.parquet")) == 5
    print_or_write(table, tmp_path / "history.csv")
    assert (tmp_path / "history.csv").read_text() == shown
    assert len(pd.read_csv(io.StringIO(shown))) == len(table.frame)


def test_csv_is_that_of_pandas(history):
    label = (("datatype", "MPI_FLOAT"), ("share", "0.5"))
    rows = [
        BenchmarkRow("a.log", 3, "OSU", "7.4", "bcast", 8, 4, 5.0, 1e-7, None, 100, None, label),
        BenchmarkRow("b, c.log", 4, "", "", "", None, 1 << 40, None, bandwidth_MBps=1e22),
    ]
    for table in (history_table(history), history_table(history, Point()), measurement_table(rows)):
        assert table.written("csv").decode() == table.frame.to_csv(index=False)


def test_parquet_gives_the_same_frame_back(history):
    table = history_table(history)
    read = pd.read_parquet(io.BytesIO(table.written("parquet")))
    pd.testing.assert_frame_equal(read, table.frame)


def test_what_cannot_be_written_is_said(tmp_path):
    with pytest.raises(TableError, match="csv, parquet"):
        print_history(tmp_path, "xlsx", None)
    with pytest.raises(TableError, match="--out"):
        print_history(tmp_path, "parquet", None)
    with pytest.raises(UserError, match="cannot write"):
        print_or_write(Table({}, ()), tmp_path / "nowhere" / "history.csv")


def test_import_takes_a_history_without_what_failed(history, tmp_path, capsys):
    crashed, table, out = history.observations[2], tmp_path / "all.csv", tmp_path / "table.csv"
    crashed = replace(crashed, status=Status.CRASHED, reason='rank 0: "Segmentation fault",\tand | so on')
    table.write_bytes(history_table(History((*history, crashed))).written("csv"))
    assert main(["import", str(table), "--out", str(out)]) == 0
    assert f"left out: 4 rows of {table} whose status is not ok\n" in capsys.readouterr().err
    taken = pd.read_csv(out)
    assert taken["latency_us"].tolist() == [2.8, 1.4]
    assert taken["line"].tolist() == [2, 3]


def test_only_what_was_searched_has_a_column_and_every_launch_says_what_it_set():
    unset = Point.of({"a": 0, "b": 0, "c": 0})
    trials = (
        Trial(1, Phase.DISCOVERY, unset.replace(a=1), Subject.DEPLOYED),
        Trial(2, Phase.SEARCH, unset.replace(b=1)),
    )
    history = History(tuple(Observation(trial, Status.CRASHED) for trial in trials))
    frame = history_frame(history, unset)
    assert frame["set"].tolist() == ["a=1", "b=1"]
    assert {"a", "b", "c"} & set(frame.columns) == {"b"}
    assert {"a", "b", "c"} <= set(history_frame(history).columns)
