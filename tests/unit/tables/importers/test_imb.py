"""Intel MPI Benchmarks: a published log, and every table that the sources of the suites print."""

from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read

DATA = Path(__file__).parents[3] / "data" / "logs"

HEAD = """#------------------------------------------------------------
#    Intel(R) MPI Benchmarks 2021.3, MPI-{part} part
#------------------------------------------------------------
# Minimum message length in bytes:   0
"""
END = "\n\n# All processes entering MPI_Finalize\n\n"


def table(benchmark, processes, header, *rows, mode=""):
    line = "#" + "-" * 60
    title = f"{line}\n# Benchmarking {benchmark} \n# {processes} \n{line}\n"
    return title + mode + header + "\n" + "\n".join(rows) + "\n"


RANGE = "       #bytes #repetitions  t_min[usec]  t_max[usec]  t_avg[usec]"
RATED = ("0 1000 1.00 1.20 1.10 0.00", "1 1000 1.00 1.20 1.10 1.67")
ALLREDUCES = ("0 1000 0.03 0.04 0.03", "4 1000 1.50 1.70 1.60", "8 1000 1.51 1.71 1.61")
WAITING = "#processes = 2\n# ( 2 additional processes waiting in MPI_Barrier)"
SUITE = "".join(
    (
        HEAD.format(part="1"),
        table("Allreduce", "#processes = 4", RANGE, *ALLREDUCES),
        table("Sendrecv", "#processes = 4", RANGE + "   Mbytes/sec", *RATED),
        table("Barrier", WAITING, RANGE.replace("#bytes", ""), "1000 0.90 1.10 1.00"),
        END,
    )
)


def test_published_pingpong():
    found = read((DATA / "imb2019.5_pingpong.txt").read_text(), "p.out")
    assert [m.message_bytes for m in found] == [0] + [2**i for i in range(23)]
    m = found[-1]
    said = (m.benchmark, m.version, m.collective, m.comm_size)
    assert said == ("IMB-MPI1 PingPong", "2019 Update 5", "pingpong", 2)
    assert (m.latency_us, m.iterations, m.bandwidth_MBps, m.labels) == (352.68, 10, 11892.60, ())


def test_all_tables_of_a_suite():
    found = read(SUITE, "log")
    assert [(m.collective, m.comm_size, m.message_bytes, m.latency_us) for m in found] == [
        ("allreduce", 4, 0, 0.03),
        ("allreduce", 4, 4, 1.60),
        ("allreduce", 4, 8, 1.61),
        ("sendrecv", 4, 0, 1.10),
        ("sendrecv", 4, 1, 1.10),
        ("barrier", 2, 0, 1.00),
    ]
    assert (found[1].min_us, found[1].max_us, found[1].bandwidth_MBps) == (1.50, 1.70, None)
    assert found[4].bandwidth_MBps == 1.67


def test_groups_running_side_by_side():
    rows = ["0 0 1000 1.00 0.00", "1 0 1000 1.10 0.00", "", "0 1 1000 1.20 0.80", "1 1 1000 1.30 0.77"]
    groups = "( 2 groups of 2 processes each running simultaneous )"
    text = table("Multi-PingPong", groups, "Group #bytes #repetitions t[usec] Mbytes/sec", *rows)
    found = read(HEAD.format(part="1") + text + END, "log")
    measured = [(m.message_bytes, m.latency_us, dict(m.labels)["group"]) for m in found]
    assert measured == [(0, 1.0, "0"), (0, 1.1, "1"), (1, 1.2, "0"), (1, 1.3, "1")]
    assert {(m.collective, m.comm_size, dict(m.labels)["groups"]) for m in found} == {("pingpong", 2, "2")}


def test_nonblocking_one_sided_and_message_rate_tables():
    overlap = "#bytes #repetitions t_ovrl[usec] t_pure[usec] t_CPU[usec]  overlap[%]"
    mode = "#\n#    MODE: {} \n#\n"
    one_sided = "#bytes #repetitions t[usec] Mbytes/sec"
    text = (
        HEAD.format(part="NBC")
        + table("Ibcast", "#processes = 2", overlap, "1 1000 5.00 2.00 3.10 4.00")
        + table("Ialltoall_pure", "#processes = 2", RANGE, "1 1000 2.00 3.00 2.50")
        + table("Ibarrier", "#processes = 2", overlap.removeprefix("#bytes "), "1000 5.00 2.00 3.10 4.00")
        + END
        + HEAD.format(part="2")
        + table("Unidir_Put", "#processes = 2", one_sided, "1 1000 0.05 20.00", mode=mode.format("AGGREGATE"))
        + "\n"
        + mode.format("NON-AGGREGATE")
        + one_sided
        + "\n1 100 0.90 1.11\n"
        + END
        + HEAD.format(part="1")
        + table("Uniband", "#processes = 2", "#bytes #repetitions Mbytes/sec Msg/sec", "1 1000 1.50 1500000")
        + END
    )
    found = read(text, "log")
    assert [(m.benchmark, m.collective, m.latency_us, m.bandwidth_MBps) for m in found] == [
        ("IMB-NBC Ibcast", "ibcast", 2.0, None),
        ("IMB-NBC Ibcast", "ibcast_overlap", 1.9, None),
        ("IMB-NBC Ialltoall_pure", "ialltoall", 2.5, None),
        ("IMB-NBC Ibarrier", "ibarrier", 2.0, None),
        ("IMB-NBC Ibarrier", "ibarrier_overlap", 1.9, None),
        ("IMB-EXT Unidir_Put", "put", 0.05, 20.0),
        ("IMB-EXT Unidir_Put", "put", 0.90, 1.11),
        ("IMB-MPI1 Uniband", "multipair", 0.666667, 1.5),
    ]
    assert [dict(m.labels).get("mode") for m in found[5:7]] == ["aggregate", "non-aggregate"]
    assert dict(found[0].labels)["overlap[%]"] == "4.00"


def test_pairs_share_a_rate_and_both_ways_count():
    rates = "#bytes #repetitions Mbytes/sec Msg/sec"
    tables = [table(name, "#processes = 4", rates, "0 1000 0.00 4000000") for name in ("Uniband", "Biband")]
    found = read(HEAD.format(part="1") + "".join(tables) + END, "log")
    assert [(m.collective, m.comm_size, m.latency_us) for m in found] == [
        ("multipair", 4, 0.5),
        ("bidirectional", 4, 1.0),
    ]


def test_the_suite_of_pairs_tells_of_its_lengths_in_its_command_alone():
    head = HEAD.format(part="P2P").replace("MPI-P2P", "IMB-P2P")
    columns, rows = "#bytes #repetitions t[usec] Mbytes/sec Msg/sec", ("8 2 0.33 48.29 9", "64 2 0.35 1.00 1")
    wide = table("SendRecv_Replace", "#processes = 2", columns, *rows)
    with pytest.raises(TableError, match="rows between 8 and 64 bytes are missing"):
        read(head + wide + END, "log")
    (m, _) = read(f"{head}# IMB-P2P -npmin 2 -msglen lengths\n{wide}{END}", "log")
    assert (m.benchmark, m.collective, m.latency_us) == ("IMB-P2P SendRecv_Replace", "sendrecv_replace", 0.33)


def test_persistent_collectives():
    columns = "#bytes #repetitions t_ovrl[usec] t_pure[usec] t_CPU[usec]  overlap[%]"
    table_of = table("Bcast_persist", "#processes = 2", columns, "1 9 5.00 2.00 3.10 4.00")
    text = HEAD.format(part="4") + table_of
    assert [m.collective for m in read(text + END, "log")] == ["bcast_init", "bcast_init_overlap"]


def test_old_title_and_user_defined_lengths():
    text = SUITE.replace("(R) MPI Benchmarks 2021.3", " (R) MPI Benchmark Suite V3.2")
    assert read(text, "log")[0].version == "3.2"
    gap = SUITE.replace(ALLREDUCES[2], "6" + ALLREDUCES[2].replace("8", "4", 1))
    lengths = gap.replace("# Minimum message length in bytes:   0", "# Message lengths were user defined")
    assert [m.message_bytes for m in read(lengths, "log")][:3] == [0, 4, 64]
    with pytest.raises(TableError, match="log:12: rows between 4 and 64 bytes are missing"):
        read(gap, "log")


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (lambda t: t.replace(END, ""), 26, "line 2 was cut off in Barrier"),
        (lambda t: t.replace(END, "") + t, 27, "line 2 was cut off in Barrier"),
        (lambda t: t[: t.index("1.51 1.71")], 12, "a row of 2 values in a table of 5 columns"),
        (lambda t: t.replace(ALLREDUCES[2], "8 time-out.; Time limit (secs_per_sample"), 12, "not measured"),
        (lambda t: t.replace(ALLREDUCES[2], "8 out-of-mem.; needed X= 1.0 GB"), 12, "not measured"),
        (lambda t: t.replace("Mbytes/sec", "Furlongs"), 17, "unknown column 'Furlongs'"),
        (lambda t: t.replace("1000 0.90 1.10 1.00\n", ""), 25, "a table without rows"),
        (lambda t: t.replace(RANGE + "\n0 ", "0 ", 1), 6, "Allreduce has no table"),
        (lambda t: t + "mpirun noticed that process rank 3 exited on signal 11\n", 31, "the run failed"),
    ],
)
def test_incomplete_or_failed_runs_say_where(change, line, words):
    with pytest.raises(TableError, match=words) as caught:
        read(change(SUITE), "job.out")
    assert caught.value.message.startswith(f"job.out:{line}: ")


def test_a_table_whose_title_is_lost_is_not_booked_under_another_one():
    with pytest.raises(TableError, match="log:16: a table without a title"):
        read(SUITE.replace("# Benchmarking Sendrecv \n", ""), "log")
    with pytest.raises(TableError, match="the end of a run without any table"):
        read(HEAD.format(part="1") + END, "log")


def test_defects_are_refused():
    rows = table("Bcast", "#processes = 2", RANGE + " defects", "1 1000 1.00 1.10 1.05 {}")
    text = HEAD.format(part="1") + rows + END
    assert read(text.format("0.00"), "log")[0].latency_us == 1.05
    with pytest.raises(TableError, match=r"log:10: Bcast: defects 1\.00"):
        read(text.format("1.00"), "log")
