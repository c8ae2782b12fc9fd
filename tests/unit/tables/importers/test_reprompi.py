"""ReproMPI's three kinds of table, written as its sources print them."""

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read

HEAD = """#Command-Line Arguments: ./bin/mpibenchmark --calls-list=MPI_Bcast
#MPI calls:
#	MPI_Bcast
#@datatype=MPI_CHAR
#@datatype_size_bytes={size}
#@reproMPIcommitSHA1=abc123
#@nprocs=2
#@procsync=window
"""
END = "# Benchmark started at Mon Jan  1\n# Execution time: 3s\n"


def runtimes(n=3, code="0"):
    lines = [f"{'test':>50} {'nrep':>10} {'count':>12} {'errorcode':>10} {'runtime_sec':>14} "]
    for count, base in ((8, 1e-6), (16, 2e-6)):
        start = f"{'MPI_Bcast':>50}"
        lines += [f"{start} {i:10d} {count:12d} {code:>10} {base * (i + 1):14.10f}" for i in range(n)]
    return "\n".join(lines) + "\n"


def test_run_times_become_a_median_per_size():
    a, b = read(HEAD.format(size=4) + runtimes() + END, "r.dat")
    assert (a.benchmark, a.version, a.collective, a.comm_size) == ("ReproMPI MPI_Bcast", "abc123", "bcast", 2)
    assert (a.line, a.message_bytes, a.iterations) == (10, 32, 3)
    assert (a.latency_us, a.min_us, a.max_us) == pytest.approx((2.0, 1.0, 3.0))
    assert (b.message_bytes, b.latency_us) == (64, pytest.approx(4.0))
    assert a.labels == (("procsync", "window"), ("datatype", "MPI_CHAR"))


def test_invalid_repetitions_do_not_count():
    text = runtimes().replace("         0   0.0000030000", "         1   0.0000030000")
    a = read(HEAD.format(size=1) + text + END, "r.dat")[0]
    assert (a.iterations, a.latency_us) == (2, pytest.approx(1.5))
    with pytest.raises(TableError, match=r"r\.dat:10: none of 3 repetitions of MPI_Bcast is valid"):
        read(HEAD.format(size=1) + runtimes(code="2") + END, "r.dat")


def test_summaries():
    text = """test msize_bytes total_nrep valid_nrep mean_sec median_sec min_sec max_sec
MPI_Allreduce 1024 100 98 0.0000051 0.0000050 0.0000045 0.0000090
"""
    (m,) = read(HEAD.format(size=4) + text, "r.out")
    assert (m.collective, m.message_bytes, m.iterations) == ("allreduce", 1024, 98)
    assert (m.latency_us, m.min_us, m.max_us) == pytest.approx((5.0, 4.5, 9.0))


def test_stamps_on_the_global_clock_span_first_entry_to_last_exit():
    text = """process test nrep count loc_tstart_sec loc_tend_sec gl_tstart_sec gl_tend_sec
0 MPI_Scan 0 8 5.0 5.000002 1.000000 1.000002
0 MPI_Scan 1 8 6.0 6.000002 2.000000 2.000002
1 MPI_Scan 0 8 7.0 7.000002 1.000001 1.000003
1 MPI_Scan 1 8 8.0 8.000002 2.000003 2.000005
"""
    (m,) = read(HEAD.format(size=1) + text + END, "r.dat")
    assert (m.latency_us, m.min_us, m.max_us) == pytest.approx((4.0, 3.0, 5.0))
    local = text.replace(" gl_tstart_sec gl_tend_sec", "")
    local = "\n".join(" ".join(line.split()[:6]) for line in local.splitlines()) + "\n"
    (m,) = read(HEAD.format(size=1) + local + END, "r.dat")
    assert m.latency_us == pytest.approx(2.0)
    with pytest.raises(TableError, match="repetition 1: rows of 1 of 2 processes"):
        read(HEAD.format(size=1) + text.rpartition("1 MPI_Scan")[0], "r.dat")


def test_chatter_and_other_calls_than_mpi():
    text = runtimes().replace("MPI_Bcast", "GL_Bcast_as_Scatter").replace("\n", "\nnode 3 says 4 words\n")
    a, b = read(HEAD.format(size=1) + text + END, "r.dat")
    assert (a.collective, a.iterations, b.iterations) == ("gl_bcast_as_scatter", 3, 3)


HEADER_LINE = HEAD.count("\n") + 1


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (runtimes()[: runtimes().rindex("0.00000")], 15, "an incomplete row: MPI_Bcast 2 16 0"),
        (runtimes()[: runtimes().rindex("MPI_Bcast")], 13, "2 repetitions where the others have 3"),
        (runtimes(0), HEADER_LINE, "a table without rows"),
        (runtimes().replace("  1            8", "  2            8"), 11, "repetition 2 after 1"),
        (runtimes().replace("0.0000020000", "xyz", 1), 11, "an incomplete row"),
        (runtimes().replace("           8", "          -8"), 10, "an incomplete row"),
        (runtimes().replace("0.0000010000", "-0.000001000", 1), 10, "min_us=-1"),
        (runtimes().replace("0.0000010000", "nan", 1), 10, "is not a finite number"),
        ("test count total_nrep valid_nrep mean_sec\nMPI_Scan 8 9 9 fast\n", 10, "an incomplete row"),
        ("test count total_nrep valid_nrep max_sec\nMPI_Scan 8 9 9 0.1\n", 10, "without median and mean"),
    ],
)
def test_damaged_tables_say_where(text, line, words):
    with pytest.raises(TableError, match=words) as caught:
        read(HEAD.format(size=1) + text, "r.dat")
    assert caught.value.message.startswith(f"r.dat:{line}: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("size_bytes=1", "size_bytes=0"), "r.dat:9: sizes are counts of a data type of unknown"),
        (("datatype_size_bytes=1", "datatype_size_bytes=big"), "datatype_size_bytes=big above this table"),
        (("nprocs=2", "nprocs=two"), "nprocs=two above this table is not a whole number"),
    ],
)
def test_settings_that_are_no_numbers(change, words):
    with pytest.raises(TableError, match=words):
        read(HEAD.format(size=1).replace(*change) + runtimes() + END, "r.dat")
