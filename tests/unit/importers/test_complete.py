"""``--complete`` and ``--from-name``: what is whole in a failed log, and what names of files say."""

import io
import json

import pandas as pd
import pytest

from autotune.cli import main
from autotune.errors import TableError, UserError
from autotune.importers import NamePattern, read, read_complete
from benchmarks import arena
from tests.unit.importers import test_imb, test_reprompi

OSU = """mpirun -np {ranks} osu_bcast

# OSU MPI Broadcast Latency Test v7.4
# Size       Avg Latency(us)
{rows}"""
KILLED = "slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***\n"


def osu(ranks, sizes=range(10)):
    return OSU.format(ranks=ranks, rows="".join(f"{1 << k:<10}{k + 1.25:>18.2f}\n" for k in sizes))


NIGHT = osu(2) + osu(4) + osu(8, range(4)) + KILLED


def test_a_night_that_ran_into_its_limit_keeps_its_whole_tables():
    with pytest.raises(TableError, match="DUE TO TIME LIMIT"):
        read(NIGHT, "night.out")
    found, left_out = read_complete(NIGHT, "night.out")
    assert [(its.comm_size, its.message_bytes) for its in found] == [
        (n, 1 << k) for n in (2, 4) for k in range(10)
    ]
    above = NIGHT[: NIGHT.index(osu(4))].count("\n")
    assert min(its.line for its in found if its.comm_size == 4) == above + 5
    (why,) = left_out
    assert why.startswith(f"night.out:{NIGHT.count(chr(10))}: the run failed: slurmstepd")


def test_a_failure_between_tables_costs_one_of_them():
    text = osu(2) + osu(4, range(3)) + "MPI_ABORT was invoked on rank 0\n" + osu(8)
    found, left_out = read_complete(text, "log")
    assert {its.comm_size for its in found} == {2, 8}
    assert len(left_out) == 1


def test_a_row_cut_in_the_middle_costs_its_table():
    text = (osu(2) + osu(4))[:-4]
    found, left_out = read_complete(text, "log")
    assert {its.comm_size for its in found} == {2}
    assert len(left_out) == 1


def test_a_whole_log_loses_nothing():
    text = osu(2) + osu(4)
    assert read_complete(text, "log") == (read(text, "log"), [])


def test_where_nothing_is_whole_there_is_nothing_to_take():
    with pytest.raises(TableError, match=r"no table is whole; .*DUE TO TIME LIMIT"):
        read_complete(osu(8) + KILLED, "log")
    with pytest.raises(TableError, match="no table of measurements"):
        read_complete("hello\n", "log")


def test_plain_tables_keep_the_rows_before_the_trouble():
    text = "Processes,Size,Latency\n2,8,1.25\n2,16,1.50\n" + KILLED
    found, left_out = read_complete(text, "t.csv")
    assert [its.message_bytes for its in found] == [8, 16]
    assert left_out == ["t.csv:4: this line and what follows"]
    found, left_out = read_complete("Processes,Size,Latency\n2,8,1.25\n2,16,1.50\n4,8,", "t.csv")
    assert len(found) == 2
    assert left_out == ["t.csv:4: this line and what follows"]


def test_an_intel_run_that_was_cut_off_keeps_the_tables_before():
    whole = read(test_imb.SUITE, "imb.log")
    assert read_complete(test_imb.SUITE, "imb.log") == (whole, [])
    cut = test_imb.SUITE[: test_imb.SUITE.rindex("# Benchmarking")] + "# Benchmarking Bcast\n"
    found, left_out = read_complete(cut, "imb.log")
    assert 0 < len(found) < len(whole)
    assert found == whole[: len(found)]
    assert len(left_out) == 1
    found, left_out = read_complete(cut + test_imb.SUITE, "imb.log")
    assert len(found) > len(whole)
    assert len(left_out) == 1


def test_reprompis_tables_are_told_apart_by_their_settings():
    one = test_reprompi.HEAD.format(size=4) + test_reprompi.runtimes() + test_reprompi.END
    bad = one.replace("MPI_Bcast", "MPI_Scan").rsplit("\n", 4)[0] + "\n" + KILLED
    found, left_out = read_complete(one + bad, "r.log")
    assert found == read(one, "r.log")
    assert len(left_out) == 1


def wrote(capsys, *words):
    code = main(["import", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_folder_of_logs_with_what_their_names_say(tmp_path, capsys):
    for algorithm in ("ring", "scatter_allgather"):
        for ranks in (2, 16):
            path = tmp_path / "night" / f"bcast_{algorithm}_{ranks}.out"
            path.parent.mkdir(exist_ok=True)
            path.write_text(osu(ranks).partition("\n")[2])  # no launcher's command
    (tmp_path / "night" / "notes.txt").write_text("not a log")
    words = [tmp_path / "night", "--from-name", "bcast_{algorithm}_{ranks}.out"]
    code, out, err = wrote(capsys, *words)
    frame = pd.read_csv(io.StringIO(out))
    assert code == 0
    assert len(frame) == 40
    assert sorted(set(zip(frame["algorithm"], frame["comm_size"], strict=True))) == [
        *(("ring", 2), ("ring", 16), ("scatter_allgather", 2), ("scatter_allgather", 16))
    ]
    assert (
        err
        == f"left out: 1 files of {tmp_path / 'night'} that do not fit bcast_{{algorithm}}_{{ranks}}.out\n"
    )


def test_what_was_left_out_is_said(tmp_path, capsys):
    log = tmp_path / "night.out"
    log.write_text(NIGHT)
    assert wrote(capsys, log)[0] == 2
    code, out, err = wrote(capsys, log, "--complete")
    assert (code, out.count("\n")) == (0, 21)
    assert err.startswith(f"left out: {log}:")


def test_imported_tables_go_into_screen_model_and_benchmark(tmp_path, capsys):
    for algorithm, factor in (("ring", 2), ("chain", 3)):
        for ranks in (2, 4, 8, 16):
            text = osu(ranks, range(1, 8)).partition("\n")[2]
            for k in range(1, 8):
                text = text.replace(f"{k + 1.25:.2f}\n", f"{factor * ranks + k * 1.5:.2f}\n")
            (tmp_path / f"bcast_{algorithm}_{ranks}.out").write_text(text)
    table = tmp_path / "t.csv"
    words = [tmp_path, "--from-name", "{collective}_{algorithm}_{ranks}.out", "--out", table]
    assert wrote(capsys, *words)[0] == 0
    assert (
        main(
            ["model", str(table), "--response", "latency_us", "--terms", "comm_size,message_bytes", "--json"]
        )
        == 0
    )
    document = json.loads(capsys.readouterr().out)
    assert document["n"] == 56
    assert document["loggp"] is not None
    assert (
        main(["screen", str(table), "--factors", "algorithm,comm_size", "--responses", "latency_us:min"]) == 0
    )
    assert "algorithm  chain → ring" in capsys.readouterr().out
    arena.compete(table, ["random"], "2", seeds=2, out=None, call_level=(), per_job=(), jobs=1)
    assert "| 2 | random | 2 | 1.000 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("bcast.out", "does not say what the names hold"),
        ("{a}_{a}.out", "does not say"),
        ("{a_{b}.out", "does not say"),
        ("{}.out", "does not say"),
        ("{1a}.out", "begins with a digit"),
    ],
)
def test_templates_that_say_nothing(template, message):
    with pytest.raises(UserError, match=message):
        NamePattern.of(template)


def test_names_that_contradict_or_do_not_fit(tmp_path, capsys):
    log = tmp_path / "bcast_ring_4.out"
    log.write_text(osu(2))
    code, _, err = wrote(capsys, log, "--from-name", "bcast_{algorithm}_{ranks}.out")
    assert code == 2
    assert "ranks is 2 in the file and 4 in its name" in err
    code, _, err = wrote(capsys, log, "--from-name", "reduce_{algorithm}_{ranks}.out")
    assert code == 2
    assert "does not fit --from-name" in err
    code, _, err = wrote(capsys, tmp_path, "--from-name", "reduce_{algorithm}.out")
    assert code == 2
    assert "no file in" in err
    assert NamePattern.of("{mapping}/{collective}_{size}.out").fields("a/b/core/bcast_64k.out") == {
        "mapping": "core", "collective": "bcast", "size": "64k"}  # fmt: skip
