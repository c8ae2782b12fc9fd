"""Layouts of other benchmarks, launchers, pages and locales."""
# ruff: noqa: E501 - the tables stand here as their benchmarks print them

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read

OSU = """mpirun -np 4 ./osu_allreduce
# OSU MPI Allreduce Latency Test v5.8
# Size       Avg Latency(us)
4                      12.45
8                      12.41
"""
MINE = [(4, 12.45), (8, 12.41)]


def rows(text, name="log"):
    return [(m.message_bytes, m.latency_us) for m in read(text, name)]


@pytest.mark.parametrize(
    "mark",
    [
        "[1,0]<stdout>: ",
        "[1,0]<stdout>:",
        "[Thu Nov 26 13:47:07 2026][1,0]<stdout>: ",
        "Thu Nov  5 13:47:07 2026[1,0]<stdout>:",
        "Thu Nov  5 13:47:07 2026<stdout>:",
        "[Thu Nov 26 13:47:07 2026]<stdout>: [1,0][n1:25017]<stdout>: ",
        "[Thu Nov 26 13:47:08 2026]<stdout>: [prterun-n1-25044@1,0]<stdout>: ",
        "[0]<stdout>: ",
        "0: ",
        " 3: ",
        "[0] ",
    ],
)
def test_marks_of_launchers_are_taken_off(mark):
    assert rows("".join(f"{mark}{line}\n" for line in OSU.splitlines())) == MINE


def test_decimal_commas_are_points():
    assert rows(OSU.replace(".4", ",4")) == MINE
    assert rows("size;latency (us);mean of\n1024;0,125;3\n2048;1,5;3\n") == [(1024, 0.125), (2048, 1.5)]
    assert rows("size\tlatency\n4\t2,25\n") == [(4, 2.25)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (OSU.replace("8    ", "1,024"), "Size is '1,024'"),
        (OSU.replace("12.45", "1,245"), "Latency.us. is '1,245'"),
        ("size\tlatency\n4\t2,250\n", "latency is '2,250'"),
        ("size;latency\n1,024;2,25\n", "size is '1,024'"),
    ],
)
def test_a_comma_that_may_stand_for_thousands_is_refused(text, words):
    with pytest.raises(TableError, match=words):
        read(text, "log")


def test_a_table_of_markdown_is_read():
    assert rows("| Size | Latency (us) |\n|-----:|:--------|\n| 4 | 12.45 |\n| 8 | 12.41 |\n") == MINE


def test_omb_py():
    text = "# OMB Python MPI Allreduce Test\n# Size (B)      Latency (us)\n4              12.45\n8        12.41\n"
    (first, _) = read(text, "log")
    assert (first.collective, first.message_bytes, first.latency_us) == ("allreduce", 4, 12.45)
    (bw,) = read("# OMB-Py MPI Bandwidth Test\n# Size (B)  Bandwidth (MB/s)\n4      12.45\n", "log")
    assert (bw.collective, bw.bandwidth_MBps) == ("multipair", 12.45)


NCCL = """mpirun -np 2 ./build/all_gather_perf -b 1M -e 2M -f 2 -g 1
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid 548419 on   n1 device  0 [000f:01:00] A GPU
#  Rank  1 Group  0 Pid 546336 on   n2 device  0 [000f:01:00] A GPU
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        131072     float    none      -1    272.1    3.85    1.93       0    258.1    4.06    2.03       0
n1:78499:78499 [0] NCCL INFO TUNER/Plugin: Closing tuner
     2097152        262144     float    none      -1    544.3    3.85    1.93       0    486.9    4.31    2.15     N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 1.9033
#
"""


def test_nccl_tests():
    found = read(NCCL, "log")
    assert [(m.message_bytes, m.latency_us, m.bandwidth_MBps) for m in found] == [
        (1 << 19, 272.1, 3850.0),
        (1 << 19, 258.1, pytest.approx(4060)),
        (1 << 20, 544.3, 3850.0),
        (1 << 20, 486.9, pytest.approx(4310)),
    ]
    assert {(m.collective, m.comm_size) for m in found} == {("allgather", 2)}
    assert dict(found[1].labels) == {"type": "float", "redop": "none", "root": "-1", "buffers": "in place"}
    old = NCCL.replace("redop    root", "redop").replace("none      -1", "none").replace("#wrong", "error")
    times = [m.latency_us for m in read(old.replace("all_gather", "all_reduce"), "log")]
    assert times == [272.1, 258.1, 544.3, 486.9]


@pytest.mark.parametrize(
    ("was", "now", "words"),
    [
        ("# Avg bus bandwidth    : 1.9033\n", "", "log:10: the run that begins here was cut off"),
        ("1.93       0    258.1", "1.93       3    258.1", "log:12: 3 wrong values out of place"),
        ("values : 0 OK", "values : 2 FAILED", "log:15: Out of bounds values : 2 FAILED"),
        ("    258.1    4.06    2.03       0", "", "log:12: a row of 9 values in a table of 13"),
        ("     2097152 ", "     1048576 ", "log:14: size 1048576 after 1048576"),
        ("272.1", "272.1.", "log:12: a time or bandwidth is '272.1.'"),
    ],
)
def test_half_a_run_of_nccl_tests_is_refused(was, now, words):
    with pytest.raises(TableError, match=words):
        read(NCCL.replace(was, now), "log")


def test_totals_need_a_number_of_ranks():
    text = "".join(line for line in NCCL.splitlines(True) if "Rank" not in line and "mpirun" not in line)
    with pytest.raises(TableError, match="sizes of allgather are those of all ranks"):
        read(text, "log")
    assert read(text.replace("all_gather", "all_reduce"), "log")[0].message_bytes == 1 << 20


PERFLOG = """result|job_completion_time|version|display_name|info|num_tasks|latency_value|latency_unit|latency_ref|flops_value|flops_unit|message_size|system|partition|environ
pass|2024-02-21T22:51:16|reframe 4.9.0|osu_run %benchmark=osu_allreduce %mapping=core|osu_run /ab12|64|12.5|us|0|null|null|8|hpc|cpu|gnu
pass|2024-02-21T22:52:16|reframe 4.9.0|osu_run %benchmark=osu_bcast %mapping=core|osu_run /ab13|64|0.5|ms|0|3.0|Gflops|65536|hpc|cpu|gnu
"""


@pytest.mark.parametrize("delimiter", ["|", ",", "\t"])
def test_reframe_s_performance_log(delimiter):
    first, second = read(PERFLOG.replace("|", delimiter), "osu_run.log")
    assert (first.line, first.collective, first.comm_size, first.message_bytes) == (2, "allreduce", 64, 8)
    assert (first.latency_us, second.latency_us, second.message_bytes) == (12.5, 500.0, 65536)
    assert (first.version, dict(first.labels)["mapping"], second.collective) == ("4.9.0", "core", "bcast")


def test_reframe_s_performance_log_of_version_3():
    text = "2021-05-20T21:35:00|reframe 3.6.1|osu on hpc:cpu using gnu|jobid=1234|num_tasks=4|bcast_64k=10.5|ref=0 (l=None, u=0.1)|us\n"
    (m,) = read(text, "osu.log")
    assert (m.collective, m.comm_size, m.message_bytes, m.latency_us) == ("bcast", 4, 65536, 10.5)


def test_a_test_of_reframe_that_failed_is_named():
    text = PERFLOG.replace("pass", "fail", 1).replace("|12.5|us", "|null|us")
    with pytest.raises(TableError, match=r"2: test osu_run %benchmark=osu_allreduce .*: result 'fail'"):
        read(text, "osu_run.log")
    with pytest.raises(TableError, match=r"osu_run.log:3: a row of 14 values"):
        read(PERFLOG.replace("|65536|", "|"), "osu_run.log")
