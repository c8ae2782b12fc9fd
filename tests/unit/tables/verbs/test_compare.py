"""``python -m autotune compare LOG1 LOG2``."""

from pathlib import Path

import pytest

from autotune.cli import main
from autotune.tables.importers import read
from autotune.tables.two_logs import LogVerdict, compared
from tests.schemas import answer

FIELD = Path(__file__).parents[3] / "data/field"
HEAD = "mpirun -np {} ./osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size  Avg Latency(us)\n"


def log(*runs, ranks=4):
    tables = ("".join(f"{4 << i}  {us:.2f}\n" for i, us in enumerate(run)) for run in runs)
    return "".join(HEAD.format(ranks) + table for table in tables)


SLOW = log((10.1, 20.0), (9.9, 20.2), (10.0, 19.8))
FAST = log((8.1, 20.1), (7.9, 19.9), (8.0, 20.0))


@pytest.fixture
def files(tmp_path):
    def write(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.log").write_text(text)
        return [str(tmp_path / f"{name}.log") for name in texts]

    return write


def test_repeats_tell_what_is_faster_and_what_is_not(files, capsys):
    assert main(["compare", *files(slow=SLOW, fast=FAST), "--json"]) == 0
    first, second = answer(capsys.readouterr().out)["calls"]
    assert (first["message_bytes"], first["comm_size"], first["verdict"]) == (4, 4, "faster")
    assert first["speedup_low"] < 1.25 < first["speedup_high"]
    assert (second["verdict"], second["repeats"]) == ("inconclusive", [3, 3])
    assert second["speedup_low"] < 1 < second["speedup_high"]


def test_the_other_way_round_it_is_slower(files, capsys):
    assert main(["compare", *files(fast=FAST, slow=SLOW)]) == 0
    said = capsys.readouterr().out
    assert "0.80×" in said
    assert "of 2 calls in both: 1 slower, 1 inconclusive" in said


@pytest.mark.parametrize("single", [log((8.0, 20.0)), log((8.0,))])
def test_without_repeats_nothing_can_be_told(files, capsys, single):
    assert main(["compare", *files(slow=SLOW, single=single)]) == 0
    said = capsys.readouterr().out
    assert "no repeats" in said
    assert "faster" not in said


def test_repeats_that_look_the_same_scatter_as_their_rounding():
    same, other = (read(log((us,), (us,), (us,)), "x") for us in (0.50, 0.51))
    (pair,) = compared(same, other).pairs
    assert pair.verdict is not LogVerdict.INCONCLUSIVE
    assert pair.interval[0] < pair.speedup < pair.interval[1]


def test_a_table_that_is_there_twice_is_one_repeat():
    found = compared(read(log((10.1, 11.5)) * 3, "first"), read(log((10.7, 11.8)) * 3, "second")).pairs
    assert [pair.repeats for pair in found] == [(1, 1), (1, 1)]
    assert {pair.verdict for pair in found} == {LogVerdict.NO_REPEATS}


def test_repeats_that_agree_in_one_call_are_repeats():
    first = log((10.1, 11.5), (10.1, 11.6), (10.1, 11.5))
    found = compared(read(first, "first"), read(log((20.1, 11.4), (20.2, 11.6)), "second")).pairs
    assert [pair.repeats for pair in found] == [(2, 2), (2, 2)]
    assert found[0].verdict is LogVerdict.SLOWER


def test_calls_differ_by_what_tells_them_apart(files, capsys):
    assert main(["compare", *files(four=SLOW, eight=log((1, 2), (1, 2), ranks=8))]) == 2
    assert "four.log has allreduce on 4 ranks of 4 to 8 bytes" in capsys.readouterr().err
    both = log((1.0, 2.0), (1.0, 2.0), ranks=8) + SLOW
    assert main(["compare", *files(both=both, four=SLOW)]) == 0
    assert "2 calls are in both.log alone" in capsys.readouterr().out


def test_bandwidths_are_compared_by_the_time_of_a_message():
    def bandwidth(rate):
        return read(f"# OSU MPI Bandwidth Test v7.4\n# Size  Bandwidth (MB/s)\n4096  {rate:.2f}\n" * 2, "x")

    (pair,) = compared(bandwidth(100), bandwidth(200)).pairs
    assert (pair.first_us, pair.speedup) == (pytest.approx(40.96), pytest.approx(2))


def test_a_log_and_a_campaign_are_no_pair(files, capsys, tmp_path):
    (one,) = files(one=SLOW)
    for words in ([one], [one, str(tmp_path)], [one, one, one]):
        assert main(["compare", *words]) == 2
        assert "compare LOG1 LOG2" in capsys.readouterr().err


def test_launches_with_other_settings_are_no_repeats(capsys):
    assert main(["compare", str(FIELD / "p1_sweep.log"), str(FIELD / "p1_after.log"), "--json"]) == 0
    calls = answer(capsys.readouterr().out)["calls"]
    four = {c["setting"]["coll_tuned_allreduce_algorithm"]: c for c in calls if c["message_bytes"] == 4}
    assert {name: (c["first_us"], c["repeats"]) for name, c in four.items()} == {
        "1": (pytest.approx(100), [1, 1]),
        "3": (pytest.approx(5), [1, 1]),
        "4": (pytest.approx(12), [1, 1]),
    }
    assert main(["compare", str(FIELD / "p1_sweep.log"), str(FIELD / "p1_after.log")]) == 0
    assert "coll_tuned_allreduce_algorithm=4" in capsys.readouterr().out


def test_a_data_type_that_older_versions_do_not_print_is_their_default(capsys):
    assert main(["compare", str(FIELD / "p3_osu59.log"), str(FIELD / "p3_osu74.log"), "--json"]) == 0
    document = answer(capsys.readouterr().out)
    assert [c["message_bytes"] for c in document["calls"]] == [1, 2, 4]
    assert document["differences"] == []


def typed(*names, collective="Broadcast"):
    """A log with a table for each data type; without a name it says none."""
    title = f"mpirun -np 4 ./a\n# OSU MPI {collective} Latency Test v7.4\n"
    head = "# Size  Avg Latency(us)\n"
    return "".join(title + (f"# Datatype: {n}.\n" if n else "") + head + "4  5.00\n" for n in names)


def test_the_default_data_type_is_one_of_several(files, capsys):
    paths = files(old=typed(""), new=typed("MPI_CHAR", "MPI_INT"))
    assert main(["compare", *paths, "--json"]) == 0
    document = answer(capsys.readouterr().out)
    assert [c["setting"] for c in document["calls"]] == [{"datatype": "MPI_CHAR"}]
    assert [c["setting"] for c in document["only_second"]] == [{"datatype": "MPI_INT"}]


def test_older_reductions_had_another_data_type_which_is_named(files, capsys):
    paths = files(old=typed("", collective="Allreduce"), new=typed("MPI_CHAR", collective="Allreduce"))
    assert main(["compare", *paths]) == 0
    assert "datatype differs: none in old.log, MPI_CHAR in new.log" in capsys.readouterr().out


@pytest.mark.parametrize("label", ["algorithm", "Mapping"])
def test_a_label_that_names_the_side_does_not_stand_in_the_way(tmp_path, capsys, label):
    paths = [tmp_path / f"{name}.csv" for name in ("default", "tree")]
    for path in paths:
        path.write_text(f"collective,{label},ranks,size,latency\nbcast,{path.stem},4,8,1.5\n")
    assert main(["compare", *map(str, paths)]) == 0
    printed = capsys.readouterr().out
    assert "of 1 calls in both" in printed
    assert f"{label.lower()} differs: default in default.csv, tree in tree.csv" in printed


def test_labels_without_a_common_value_are_named(files, capsys):
    paths = files(first=typed("MPI_CHAR", "MPI_INT"), second=typed("MPI_FLOAT", "MPI_DOUBLE"))
    assert main(["compare", *paths]) == 2
    assert "they differ in datatype (MPI_CHAR, MPI_INT | MPI_DOUBLE, MPI_FLOAT)" in capsys.readouterr().err


def test_tables_that_nothing_tells_apart_are_named(files, capsys):
    unread = log((10.0, 20.0)) + "eager forced\n" + log((8.0, 19.0))
    assert main(["compare", *files(unread=unread, slow=SLOW)]) == 0
    assert "2 tables of allreduce on 4 ranks differ in nothing that is read" in capsys.readouterr().err
    assert main(["compare", *files(fast=FAST, slow=SLOW)]) == 0
    assert not capsys.readouterr().err
