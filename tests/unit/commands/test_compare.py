"""``python -m autotune compare LOG1 LOG2``."""

import json

import pytest

from autotune.cli import main
from autotune.importers import read
from autotune.recommend.two_logs import LogVerdict, compared

HEAD = "mpirun -np {} ./osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size  Avg Latency(us)\n"


def log(*runs, ranks=4):
    return "".join(
        HEAD.format(ranks) + "".join(f"{4 << i}  {us:.2f}\n" for i, us in enumerate(run)) for run in runs
    )


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
    first, second = json.loads(capsys.readouterr().out)["calls"]
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
