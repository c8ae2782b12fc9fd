"""Copies of a table are no repeats: a log that `tee` wrote twice says nothing of the noise."""

from autotune.tables.importers import read
from autotune.tables.two_logs import LogVerdict, compared

HEAD = "$ mpirun -np 8 ./osu_allreduce\n# OSU MPI Allreduce Latency Test v7.4\n# Size       Avg Latency(us)\n"


def table(*times_us):
    return HEAD + "".join(f"{4 << i:<24}{time_us:.2f}\n" for i, time_us in enumerate(times_us))


def pairs(first, second):
    return compared(read(first, "first"), read(second, "second")).pairs


def test_a_table_that_is_there_twice_is_one_repeat():
    found = pairs(table(10.1, 11.5) * 3, table(10.7, 11.8) * 3)
    assert [pair.repeats for pair in found] == [(1, 1), (1, 1)]
    assert {pair.verdict for pair in found} == {LogVerdict.NO_REPEATS}


def test_repeats_that_agree_in_one_call_are_repeats():
    first = table(10.1, 11.5) + table(10.1, 11.6) + table(10.1, 11.5)
    found = pairs(first, table(20.1, 11.4) + table(20.2, 11.6))
    assert [pair.repeats for pair in found] == [(2, 2), (2, 2)]
    assert found[0].verdict is LogVerdict.SLOWER
    assert pairs(table(10.1) * 2, table(20.1) * 2)[0].repeats == (2, 2)
