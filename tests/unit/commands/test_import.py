"""``import``: files in, one table out, or one clear line and nothing written."""

import io
import sys
from pathlib import Path

import pandas as pd
import pytest

from autotune.cli import main

LOGS = Path(__file__).parents[2] / "data" / "logs"


def test_several_logs_become_one_table(tmp_path, capsys):
    out = tmp_path / "table.csv"
    assert main(["import", *map(str, sorted(LOGS.glob("*.txt"))), "--out", str(out)]) == 0
    frame = pd.read_csv(out)
    assert capsys.readouterr().err == f"59 rows of 4 files in {out}\n"
    assert frame["collective"].value_counts().to_dict() == {
        "pingpong": 24,
        "allreduce": 19,
        "allreduce_init": 4,
        "bcast": 12,
    }
    assert list(frame.columns[:8]) == [
        *("source", "line", "benchmark", "version", "collective", "comm_size", "message_bytes", "latency_us")
    ]
    row = frame[(frame["collective"] == "bcast") & (frame["message_bytes"] == 16384)].iloc[0]
    assert (row["latency_us"], row["min_us"], row["max_us"], row["iterations"]) == (22.53, 5.19, 31.72, 100)
    assert row["datatype"] == "MPI_FLOAT"


def test_parquet_keeps_types(tmp_path):
    out = tmp_path / "table.parquet"
    assert main(["import", str(LOGS / "osu7.4_bcast_full.txt"), "--out", str(out)]) == 0
    frame = pd.read_parquet(out)
    assert str(frame["iterations"].dtype) == "Int64"
    assert frame["bandwidth_MBps"].isna().all()


def test_an_operation_that_is_none_is_refused(tmp_path, capsys):
    log, out = LOGS / "osu7.4_bcast_full.txt", tmp_path / "table.csv"
    assert main(["import", str(log), "--collective", "nonsense", "--out", str(out)]) == 2
    assert "no collective 'nonsense'" in capsys.readouterr().err
    assert not out.exists()


def test_standard_input_and_what_a_file_does_not_say(monkeypatch, capsys):
    text = b"size,latency,np,line\n8,1.5,4,a\n16,1.6,,b\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert main(["import", "-", "--comm-size", "2", "--collective", "scan"]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert frame["comm_size"].tolist() == [4, 2]
    assert set(frame["collective"]) == {"scan"}
    assert frame["label.line"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing", None, "{path} cannot be read: No such file"),
        ("folder", "", "no file in {path}"),
        ("empty.log", b"", "{path}: no table of measurements in 0 lines"),
        ("binary.log", bytes(range(256)), "{path}: no table of measurements"),
        (
            "cut.log",
            b"# OSU MPI Scan Latency Test v7.4\n# Size  Avg Latency(us)\n8  1.",
            "{path}:3: Avg Latency(us)",
        ),
    ],
)
def test_one_bad_file_is_told_and_nothing_written(tmp_path, capsys, name, content, words):
    path, out = tmp_path / name, tmp_path / "table.csv"
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    assert main(["import", str(LOGS / "osu5.6.2_allreduce.txt"), str(path), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith(f"autotune: {words.format(path=path)}")
    assert not out.exists()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_log_as_editors_and_powershell_write_it(tmp_path, capsys, encoding):
    said = "mpirun -n 4 osu_bcast\n# OSU MPI Broadcast Latency Test v7.4\n# Size  Avg Latency(us)\n1   1.10\n"
    mark = b"\xfe\xff" if encoding.endswith("be") else b""
    (tmp_path / "a.log").write_bytes(mark + said.encode(encoding))
    assert main(["import", str(tmp_path / "a.log")]) == 0
    assert ",bcast,4,1,1.1," in capsys.readouterr().out
