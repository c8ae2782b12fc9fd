"""Logs and tables as they stand in public material, each kind as small as it can be."""

from pathlib import Path

import pytest

from autotune.cli import main
from autotune.errors import TableError
from autotune.tables.importers import read

FIELD = Path(__file__).parents[3] / "data/field"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        (
            "b1_jsrun.log",
            [("allreduce", 8, 4, 10.05), ("allreduce", 8, 8, 10.84), ("allreduce", 8, 16, 11.19)],
        ),
        ("c1_two_tables.log", [("allreduce", 4, 4, 12.45), ("allreduce", 4, 8, 12.41)]),
        ("d1_ibarrier.log", [("ibarrier", 4, 0, 2505.98), ("ibarrier_overlap", 4, 0, 1294.91)]),
        ("d2_indented.log", [("alltoall", 8, 1, 12.46), ("alltoall", 8, 2, 12.05)]),
        ("o1_imb41.log", [("bcast", 2, 0, 0.37), ("bcast", 2, 1, 1.63), ("bcast", 2, 2, 1.66)]),
        ("o2_osu72_bw.log", [("multipair", 2, 1 << i, us) for i, us in enumerate((0.99, 1.68, 1.69))]),
        ("o3_osu_nccl.log", [("allreduce", 8, 1 << 30, 8955.18)]),
        ("o4_oneccl.log", [("allreduce", 2, 4 << i, us) for i, us in enumerate((30.68, 29.73, 29.95))]),
        ("o5_escaped.md", [("alltoallv", 384, 4096, 467.38), ("alltoallv", 384, 4096, 123.45)]),
        ("o6_messagesize.csv", [("", 2, 1, 0.2), ("", 2, 2, 0.2), ("", 2, 4, 0.2)]),
    ],
)
def test_a_log_of_the_field_is_read(name, rows):
    found = read((FIELD / name).read_text(), name)
    assert [(m.collective, m.comm_size, m.message_bytes, round(m.latency_us, 2)) for m in found] == rows


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a1_pbs_walltime.log", ":8: the run failed: =>> PBS: job killed: walltime"),
        ("a2_mpirun_rsh.log", "terminated with signal 7"),
    ],
)
def test_a_run_of_the_field_that_failed_is_refused(name, said):
    with pytest.raises(TableError) as refused:
        read((FIELD / name).read_text(), name)
    assert said in refused.value.message


@pytest.mark.parametrize(
    ("title", "operation", "labels"),
    [
        ("OSU NCCL-CUDA Allreduce Latency Test", "allreduce", {"library": "nccl", "memory": "cuda"}),
        ("OSU RCCL-ROCM Broadcast Latency Test", "bcast", {"library": "rccl", "memory": "rocm"}),
        ("OSU MPI-CUDA Managed Allreduce Latency Test", "allreduce", {"memory": "cuda managed"}),
    ],
)
def test_the_library_of_a_title_is_a_column_and_no_part_of_the_operation(title, operation, labels):
    found = read(f"# {title} v7.5\n# Size       Avg Latency(us)\n8    10.00\n", "job.log")
    assert [(m.collective, dict(m.labels)) for m in found] == [(operation, labels)]


@pytest.mark.parametrize(
    "comment", ["# Datatype: MPI_INT.", "# Window creation: MPI_Win_create", "# a remark"]
)
def test_comments_between_the_header_and_the_first_row_belong_to_the_table(comment):
    head = "# OSU MPI_Put Latency Test v7.2\n# Size          Latency (us)\n"
    found = read(head + comment + "\n1    1.01\n2    1.19\n", "job.log")
    assert [m.message_bytes for m in found] == [1, 2]
    assert {"MPI_INT"} == {dict(m.labels).get("datatype", "MPI_INT") for m in found}


def test_several_data_types_of_a_test_of_pairs_have_a_table_each():
    head = "# Size          Bandwidth (MB/s)\n"
    first = "# OSU MPI Bandwidth Test v7.2\n" + head + "# Datatype: MPI_CHAR.\n1    1.00\n2    2.00\n"
    found = read(first + "# Datatype: MPI_INT.\n" + head + "4    4.00\n8    8.00\n", "job.log")
    types = [(m.message_bytes, dict(m.labels)["datatype"]) for m in found]
    assert types == [(1, "MPI_CHAR"), (2, "MPI_CHAR"), (4, "MPI_INT"), (8, "MPI_INT")]


@pytest.mark.parametrize(
    "titles",
    [
        "CommSize,MessageSize,AvgLatency,MinLatency",
        "nRanks,msgSize,MeanLatency,MinLatency",
        "numProcs,MsgSize[KiB],Latency[us],LatencyMinimum",
        "NumberOfProcesses,MessageBytes,LatencyUs,note",
        "NProcs,MSGSize,TimeMs,note",
    ],
)
def test_titles_in_camel_case_mean_what_they_mean_with_blanks(titles):
    (row,) = read(f"{titles}\n4,8,12.5,1\n", "own.csv")
    kilo, milli = ("KiB" in titles), ("Ms" in titles.replace("MSG", "").replace("Msg", ""))
    assert (row.comm_size, row.message_bytes) == (4, 8192 if kilo else 8)
    assert row.latency_us == (12500.0 if milli else 12.5)


def test_a_barrier_needs_no_sizes():
    text = (FIELD / "o7_ranks_alone.csv").read_text()
    wanted = [(2, 0, 0.18), (6, 0, 1.05), (10, 0, 2.02), (14, 0, 2.29), (18, 0, 2.6)]
    for found in (read(text, "t.csv", "barrier"), read(text, "results/barrier.csv")):
        assert [(m.comm_size, m.message_bytes, m.latency_us) for m in found] == wanted
        assert {m.collective for m in found} == {"barrier"}
    named = read("operation,ranks,latency\nMPI_Barrier,4,1.5\n", "t.csv")
    assert [(m.collective, m.message_bytes) for m in named] == [("barrier", 0)]
    for table, collective in ((text, ""), (text, "bcast"), ("operation,ranks,latency\nbcast,4,1.5\n", "")):
        with pytest.raises(TableError):
            read(table, "t.csv", collective)


def test_a_table_that_import_wrote_is_judged_as_the_log_was(capsys):
    assert main(["compare", "--guidelines", str(FIELD / "e1_own_table.csv")]) == 1
    assert "2 of 3 guidelines violated" in capsys.readouterr().out
