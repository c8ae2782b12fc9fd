"""Profiles of calls: tables, mpiP's report as its sources print it, a run under Open MPI's monitoring."""

from pathlib import Path

import pytest

from autotune.application.profiles import CallProfile, Calls, read_profile
from autotune.errors import TableError

MONITORED = Path(__file__).parents[2] / "data" / "profiles" / "openmpi5_monitoring_3ranks.prof"

LINE = "-" * 75 + "\n"
MPIP = f"""@ mpiP
@ Command : ./amg -P 4 1 1
@ Version                  : 3.5.0
@ MPI Task Assignment      : 0 node1
@ MPI Task Assignment      : 1 node1

{LINE}@--- MPI Time (seconds) ---------------------------------------------------
{LINE}Task    AppTime    MPITime     MPI%
   0       9.50      0.168     1.76
   1       9.60      0.228     2.40
   *       19.1      0.396     2.06
{LINE}@--- Callsites: 4 ---------------------------------------------------------
{LINE} ID Lev File/Address             Line Parent_Funct             MPI_Call
  1   0 stubs.c                  1172 hypre_MPI_Allreduce      Allreduce
{LINE}@--- Callsite Time statistics (all, milliseconds): 6 ----------------------
{LINE}Name              Site Rank  Count      Max     Mean      Min   App%   MPI%
Allreduce            1    *     40    0.106    0.106    0.106   0.00   0.00

Barrier              3    0      5    0.161    0.085    0.010   1.06   2.10
Barrier              3    1      5    0.161    0.085    0.010   1.06   2.10
Barrier              3    *     10    0.161    0.085    0.010   1.06   2.10
{LINE}@--- Callsite Message Sent statistics (all, sent bytes) -------------------
{LINE}Name              Site Rank   Count       Max      Mean       Min       Sum
Allreduce            1    0      20         8         8         8       160
Allreduce            1    1      20         8         8         8       160
Allreduce            1    *      40         8         8         8       320

Alltoall             4    *       6 1.311e+05 1.311e+05 1.311e+05 7.866e+05

Isend                2    *      80      6000      6000      6000   4.8e+05
{LINE}@--- End of Report --------------------------------------------------------
{LINE}"""


def test_a_table_with_everything():
    head = "# application_s = 3600\nCollective,Comm Size,Message Size (KiB),Calls\n"
    text = head + "MPI_Allreduce,64,1,1e6\nbcast,,2,10\n"
    profile = read_profile(text, "calls.csv")
    assert profile == CallProfile(
        "calls.csv", (Calls(1024.0, 1e6, "allreduce", 64), Calls(2048.0, 10.0, "bcast")), 3600.0
    )


def test_sizes_and_counts_alone():
    profile = read_profile("size;count\n8;100\n64k;3\n", "calls.csv")
    assert [(c.message_bytes, c.count, c.collective, c.comm_size) for c in profile.calls] == [
        (8.0, 100.0, "", None),
        (65536.0, 3.0, "", None),
    ]
    assert profile.application_s is None


def test_mpip_report():
    profile = read_profile(MPIP, "amg.mpiP")
    assert profile.application_s == pytest.approx(9.55)
    assert [(c.collective, c.message_bytes, c.count) for c in profile.calls] == [
        ("barrier", 0.0, 5.0),
        ("allreduce", 8.0, 20.0),
        ("alltoall", 131100.0, 3.0),
    ]


def test_monitored_run_of_open_mpi():
    profile = read_profile(MONITORED.read_text(), "all.prof")
    found = {c.collective: c for c in profile.calls}
    bcast_bytes = 8 * (100 * 8 + 10 * 1024 + 3 * 131072)
    assert found["one_to_all"].count == 113
    assert found["one_to_all"].message_bytes == pytest.approx(bcast_bytes / 113)
    assert found["all_to_one"].count == 3 * (2 + 1)
    assert found["all_to_one"].message_bytes == pytest.approx(8 * 3 * (8 + 1024 + 131072) / 9)
    assert found["all_to_all"].count == 113 + 3 + 1
    assert {c.comm_size for c in profile.calls} == {3}


def test_monitoring_without_the_file_of_a_rank():
    text = MONITORED.read_text()
    with pytest.raises(TableError, match=r"MPI_COMM_WORLD: nothing of rank 2.*\n.*cat"):
        read_profile(text[: text.index("I\t2\t0")], "some.prof")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "calls.csv: no profile of calls in 0 lines"),
        ("size,latency\n8,1\n", "calls.csv: no profile of calls in 2 lines"),
        ("size,count\n", "calls.csv:1: a table without rows"),
        ("size,count\n8\n", "calls.csv:2: a row of 1 values in a table of 2 columns"),
        ("size,count\n8,\n", "calls.csv:2: a row without a count"),
        ("size,count\n8,-1\n", "calls.csv:2: count is '-1'"),
        ("size,count\neight,1\n", "calls.csv:2: size is 'eight'"),
        ("size,count,collective\n8,1,alreduce\n", "csv:2: unknown collective 'alreduce'\n.*mean 'allreduce'"),
        ("size,count,np\n8,1,0\n", "calls.csv:2: a communicator of 0 ranks"),
        ("# application_s = long\nsize,count\n8,1\n", "calls.csv:1: application_s is 'long'"),
        (MPIP[: MPIP.index("@--- End")], "calls.csv:39: the mpiP report was cut off"),
        (
            MPIP.replace("Message Sent statistics (all,", "Message Sent statistics (all callsites,"),
            "without sizes",
        ),
        (MPIP.replace("1.311e+05 1.311e+05 1.3", "1.311e+05 x 1.3"), "calls.csv:36: 'x' is not a number"),
        ("O2A\t0\t0 bytes\t0 msgs sent\nD\tMPI_COMM_SELF\tprocs: 0\n", "calls.csv:1: traffic of an unknown"),
        ("D\tMPI_COMM_SELF\tprocs: 0\nO2A\t0\t0 bytes\t0 msgs sent\n", "no collective was called"),
    ],
)
def test_what_cannot_be_read_says_where(text, words):
    with pytest.raises(TableError, match=words):
        read_profile(text, "calls.csv")


def weights(calls, slots, **more):
    return CallProfile("p", tuple(calls)).weights(slots, **more)


def test_calls_fall_on_the_sizes_around_theirs():
    slots = [("bcast", 2, m) for m in (8, 32, 1024)]
    assert weights([Calls(16, 3)], slots) == pytest.approx(dict(zip(slots, (0.5, 0.5, 0.0), strict=True)))
    assert weights([Calls(32, 3)], slots)["bcast", 2, 32] == 1.0
    ends = weights([Calls(0, 1), Calls(1 << 30, 3)], slots)
    assert ends == pytest.approx(dict(zip(slots, (0.25, 0.0, 0.75), strict=True)))


def test_collective_class_and_communicator_size_choose_the_curve():
    slots = [("allreduce", 2, 8), ("allreduce", 64, 8), ("bcast", 2, 8)]
    assert weights([Calls(8, 1, "allreduce", 48)], slots)["allreduce", 64, 8] == 1.0
    assert weights([Calls(8, 1, "all_to_all", 2)], slots)["allreduce", 2, 8] == 1.0
    assert weights([Calls(8, 1, "one_to_all")], slots)["bcast", 2, 8] == 1.0
    assert list(weights([Calls(8, 1)], slots).values()) == pytest.approx([1 / 3] * 3)


def test_weights_by_time():
    slots = [("bcast", 2, 8), ("bcast", 2, 1024)]
    time_s = dict(zip(slots, (1e-6, 9e-6), strict=True))
    found = weights([Calls(8, 30), Calls(1024, 10)], slots, time_s=time_s)
    assert found == pytest.approx(dict(zip(slots, (0.25, 0.75), strict=True)))


def test_a_profile_of_something_else_is_refused():
    words = "calls nothing of what was measured\n  it calls bcast; measured: allreduce"
    with pytest.raises(TableError, match=words):
        weights([Calls(8, 5, "bcast")], [("allreduce", 2, 8)])


@pytest.mark.parametrize("wrong", [(-1, 1), (1, float("nan")), (1, 1, "nothing"), (1, 1, "bcast", 0)])
def test_impossible_calls(wrong):
    with pytest.raises(ValueError, match=r"calls of|unknown|communicator of"):
        Calls(*wrong)
