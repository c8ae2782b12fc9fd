"""OSU tables: real ones, and every shape that the sources of 5.x to 7.x print."""

from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read

DATA = Path(__file__).parents[3] / "data" / "logs"

ALLREDUCE = """
# OSU MPI Allreduce Latency Test v5.6.2
# Size       Avg Latency(us)
4                       5.38
8                       5.31
16                      5.44
"""


def rows(text):
    return [(m.message_bytes, m.latency_us) for m in read(text, "log")]


def test_published_allreduce():
    found = read((DATA / "osu5.6.2_allreduce.txt").read_text(), "a.out")
    assert len(found) == 19
    first, last = found[0], found[-1]
    assert (first.source, first.line, first.benchmark) == ("a.out", 4, "OSU MPI Allreduce Latency Test")
    assert (first.version, first.collective, first.comm_size) == ("5.6.2", "allreduce", None)
    assert (first.message_bytes, first.latency_us, first.min_us, first.iterations) == (4, 5.38, None, None)
    assert (last.line, last.message_bytes, last.latency_us) == (22, 1048576, 3708.30)


def test_published_full_table():
    found = read((DATA / "osu7.4_bcast_full.txt").read_text(), "b.txt")
    assert [m.message_bytes for m in found] == [2**i for i in range(3, 15)]
    m = found[-1]
    figures = (m.collective, m.latency_us, m.min_us, m.max_us, m.iterations)
    assert figures == ("bcast", 22.53, 5.19, 31.72, 100)
    assert m.labels == (("datatype", "MPI_FLOAT"),)


def test_published_log_with_chatter_between_rows():
    found = read((DATA / "osu7.4_allreduce_persistent_interleaved.txt").read_text(), "c.txt")
    assert [(m.message_bytes, m.latency_us) for m in found] == [(8, 8.69), (16, 8.30), (32, 8.32), (64, 8.93)]
    assert {m.labels for m in found} == {(("datatype", "MPI_FLOAT"),)}
    assert {m.collective for m in found} == {"allreduce_init"}


def test_non_blocking_table_gives_the_pure_communication():
    text = """
# OSU MPI Non-blocking Allreduce Latency Test v5.9
# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait

# Size           Overall(us)       Compute(us)    Pure Comm.(us)        Overlap(%)
4                      12.33              6.41              6.02              1.54
8                      12.50              6.51              6.11              1.96
"""
    *_, m, left = read(text, "log")
    assert (m.collective, m.message_bytes, m.latency_us) == ("iallreduce", 8, 6.11)
    assert (left.collective, left.message_bytes, left.latency_us) == ("iallreduce_overlap", 8, 5.99)
    assert dict(m.labels) == {"Overall(us)": "12.50", "Compute(us)": "6.51", "Overlap(%)": "1.96"}


def test_full_non_blocking_table_of_version_7():
    text = """
# OSU MPI-CUDA Non-Blocking Broadcast Latency Test v7.4
# Overall = Coll. Init + Compute + MPI_Test + MPI_Wait

# Datatype: MPI_CHAR.
# Size           Overall(us)         Compute(us)      Coll. Init(us)        MPI_Test(us)        MPI_Wait(us)\
      Pure Comm.(us)       Min Comm.(us)       Max Comm.(us)          Overlap(%)
1                       4.00                1.00                0.50                0.10                0.40\
                2.00                1.50                2.50               10.00
"""
    m, left = read(text, "log")
    assert (m.collective, m.latency_us, m.min_us, m.max_us) == ("ibcast", 2.0, 1.5, 2.5)
    assert (left.collective, left.latency_us, left.min_us) == ("ibcast_overlap", 3.0, None)
    assert dict(m.labels)["memory"] == "cuda"


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"Avg Latency(us)": "1.27"}, (1.27, None, None, None)),
        ({"Avg Latency(us)": "1.27", "Min Latency(us)": "1.20", "Iterations": "9"}, (1.27, 1.2, None, 9)),
    ],
)
def test_a_barrier_has_no_sizes(columns, expected):
    text = f"# OSU MPI Barrier Latency Test v7.0\n# {'  '.join(columns)}\n  {'  '.join(columns.values())}\n"
    (m,) = read(text, "log")
    assert (m.collective, m.message_bytes) == ("barrier", 0)
    assert (m.latency_us, m.min_us, m.max_us, m.iterations) == expected


@pytest.mark.parametrize(
    ("title", "collective"),
    [
        ("OSU MPI All-to-All Personalized Exchange Latency Test", "alltoall"),
        ("OSU MPI Non-blocking All-to-All Latency Test", "ialltoall"),
        ("OSU MPI-ROCM Allgatherv Persistent Latency Test", "allgatherv_init"),
        ("OSU MPI Reduce_scatter_block Latency Test", "reduce_scatter_block"),
        ("OSU MPI-CUDA MANAGED Gather Latency Test", "gather"),
        ("OSU MPI Latency Test", "pingpong"),
        ("OSU MPI Multi Latency Test", "multi"),
        ("OSU MPI Bandwidth Persistent Test", "multipair"),
        ("OSU MPI_Get latency Test", "get"),
        ("OSU One Sided MPI_Put latency Test", "put"),
        ("OSU MPI Neighborhood Allgather Latency Test", "neighborhood_allgather"),
        ("OSU MPI_Fetch_and_op latency Test", "mpi_fetch_and_op"),
    ],
)
def test_operations_by_title(title, collective):
    (m,) = read(f"# {title} v5.8\n# Size          Latency (us)\n8                       1.00\n", "log")
    assert (m.benchmark, m.collective) == (title, collective)


def test_one_sided_settings_and_bandwidth():
    text = """
# OSU MPI_Put Bandwidth Test v5.6.2
# Window creation: MPI_Win_create
# Synchronization: MPI_Win_flush
# Size      Bandwidth (MB/s)
1                       1.91
2                       3.80
"""
    m = read(text, "log")[0]
    assert (m.collective, m.comm_size, m.latency_us, m.bandwidth_MBps) == ("put", 2, 0.52356, 1.91)
    assert m.labels == (("mode", "aggregate"), ("window_creation", "MPI_Win_create"))
    of_fences = read(text.replace("MPI_Win_flush", "MPI_Win_fence"), "log")[0]
    assert (of_fences.collective, of_fences.labels) == ("put_fence", m.labels)
    others = read(text.replace("MPI_Win_flush", "MPI_Win_flush_local"), "log")[0]
    assert others.labels[-1] == ("synchronization", "MPI_Win_flush_local")


RATES = "Multiple Bandwidth / Message Rate Test v7.4\n# [ pairs: 4 ] [ window size: 64 ]"


@pytest.mark.parametrize(
    ("head", "row", "expected"),
    [
        ("Bandwidth Test v5.9\n# Size      Bandwidth (MB/s)", "64  128.00", ("multipair", 2, 0.5)),
        ("Bi-Directional Bandwidth Test\n# Size  Bandwidth (MB/s)", "64 256.00", ("bidirectional", 2, 0.5)),
        (f"{RATES}\n# Size  MB/s  Messages/s", "64  512.00  8000000.00", ("multipair", 8, 0.5)),
        (f"{RATES}\n# Size  MB/s", "64  512.00", ("multipair", 8, 0.5)),
    ],
)
def test_bandwidths_and_rates_are_times_of_one_message_of_a_pair_each_way(head, row, expected):
    (m,) = read(f"# OSU MPI {head}\n{row}\n", "log")
    assert (m.collective, m.comm_size, m.latency_us, m.labels) == (*expected, ())


def test_another_window_is_another_setting():
    (m,) = read(f"# OSU MPI {RATES}\n# Size  MB/s\n8  16.00\n".replace("64", "16"), "log")
    assert m.labels == (("window", "16"),)


def test_concatenated_runs_with_the_commands_echoed():
    text = (
        "+ mpirun -np 16 --mca pml ucx ./osu_allreduce -i 100\n"
        + ALLREDUCE
        + "some node: load is 64\n+ srun --ntasks=32 ./osu_latency\n"
        + "# OSU MPI Hello World Test v7.4\n"
        + "# OSU MPI Latency Test v7.4\n# Datatype: MPI_CHAR.\n"
        + "# Size       Avg Latency(us)\n0    0.20\n1    0.21\n"
    )
    found = read(text, "log")
    assert [m.comm_size for m in found] == [16] * 3 + [32] * 2
    assert [m.collective for m in found] == ["allreduce"] * 3 + ["pingpong"] * 2


@pytest.mark.parametrize(
    ("command", "ranks"),
    [
        ("$ mpirun -n 144 -N 36 -hostfile ~/hosts -x UCX_NET_DEVICES=mlx5_2:1 osu_allreduce", 144),
        ("time flux run -N2 --tasks-per-node=96 -o cpu-affinity=per-task x.sif osu_allreduce", 192),
        ("srun -N 2 --ntasks-per-node=4 ./osu_allreduce", 8),
        ("mpirun -np 4 ./osu_bcast\nmpirun ./osu_allreduce", None),
        ("srun --nodes=2 ./osu_allreduce", None),
        ("the mpirunner took -np 4", None),
    ],
)
def test_ranks_from_the_echoed_command(command, ranks):
    assert {m.comm_size for m in read(command + "\n" + ALLREDUCE, "log")} == {ranks}


@pytest.mark.parametrize(
    "chatter",
    [
        "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1",
        "slurmstepd: error: couldn't chdir to `/home/x': No such file or directory: going to /tmp instead",
        "[ 3420.098285] infiniband mlx5_1: create_qp:3323:(pid 300371): Create QP type 2 failed",
        "[flux-user000001:313200] shmem: mmap: an error occurred while determining whether or not",
        "real    0m7.045s",
        "128 tasks on 4 nodes",
    ],
)
def test_harmless_chatter_is_no_failure(chatter):
    lines = ALLREDUCE.splitlines()
    assert rows("\n".join([*lines[:4], chatter, *lines[4:]]) + "\n") == rows(ALLREDUCE)


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (lambda t: t.replace("8                       5.31\n", ""), 5, "between 4 and 16 bytes are missing"),
        (lambda t: t[: t.index("5.44")], 6, "a row of 1 values in a table of 2 columns"),
        (lambda t: t[: t.index("44\n")], 6, r"Avg Latency\(us\) is '5\.'"),
        (lambda t: t[: t.index("44\n")] + "4", 6, r"Avg Latency\(us\) is '5\.4'"),
        (lambda t: t[: t.index("4  ")], 3, "a table without rows"),
        (lambda t: t[: t.index("# Size")], 2, "has no table"),
        (lambda t: t + "4                       5.38\n", 7, "size 4 after 16"),
        (lambda t: t.replace("5.31", "nan"), 5, r"Avg Latency\(us\) is 'nan'"),
        (lambda t: t.replace("16     ", "16.0   "), 6, r"Size is '16\.0'"),
        (lambda t: t.replace("Avg Latency(us)", "Avg Latency(us)   Median(us)"), 3, "unknown column 'Median"),
        (lambda t: t + "mpirun noticed that process rank 1 exited on signal 9\n", 7, "the run failed"),
    ],
)
def test_incomplete_or_failed_runs_say_where(change, line, words):
    with pytest.raises(TableError, match=words) as caught:
        read(change(ALLREDUCE), "job.out")
    assert caught.value.message.startswith(f"job.out:{line}: ")


def test_a_table_whose_title_is_lost_is_not_booked_under_another_one():
    second = ALLREDUCE.replace("Allreduce", "Bcast").replace("# OSU MPI Bcast Latency Test v5.6.2\n", "")
    with pytest.raises(TableError, match="log:8: a table without a title"):
        read(ALLREDUCE + second, "log")


def test_failed_validation():
    text = ALLREDUCE.replace("Latency(us)", "Latency(us)        Validation").replace("\n4 ", "\n4 ")
    good = "\n".join(line + "  Pass" if line[:1].isdigit() else line for line in text.splitlines())
    assert rows(good) == rows(ALLREDUCE)
    with pytest.raises(TableError, match="job:5: the benchmark's own validation failed"):
        read(good.replace("5.31  Pass", "5.31  Fail"), "job")


def test_a_log_of_benchmarks_without_tables_is_no_empty_success():
    with pytest.raises(TableError, match="log: no table of measurements in 2 lines"):
        read("# OSU MPI Init Test v7.4\nnprocs: 2, min: 90 ms, max: 91 ms, avg: 90 ms\n", "log")


def test_a_second_barrier_row_is_refused():
    with pytest.raises(TableError, match="log:4: a second row"):
        read("# OSU MPI Barrier Latency Test v5.8\n# Avg Latency(us)\n  1.27\n  1.30\n", "log")
