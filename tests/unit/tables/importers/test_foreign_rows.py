"""Numbers of another program never become rows; how a page prints a table changes nothing."""

import pandas as pd
import pytest

from autotune.cli import main
from autotune.errors import TableError
from autotune.tables.importers import read
from autotune.tables.importers.delimited import MEASURED

HEAD = "mpirun -np 4 ./osu_allreduce -m 4:8\n# OSU MPI Allreduce Latency Test v5.8\n"
TABLE = HEAD + "# Size       Avg Latency(us)\n4                      12.45\n8                      12.41\n"


def rows(text):
    return [(m.message_bytes, m.latency_us) for m in read(text, "log")]


MINE = [(4, 12.45), (8, 12.41)]


@pytest.mark.parametrize(
    "behind",
    [
        "\nreal\t0m7.902s\nuser\t0m0.1s\n\nNodes  Time(s)\n16                      5.93\n32     8.11\n",
        "\nranks efficiency\n16 0.93\n",
        "\nnodes, seconds\n16 5.93\n32 8.11\n",
        "\n| nodes | seconds |\n16 5.93\n",
    ],
)
def test_a_table_below_a_header_of_its_own_is_somebody_else_s(behind):
    assert rows(TABLE + behind) == MINE
    assert rows(TABLE + behind + TABLE) == MINE + MINE


@pytest.mark.parametrize(
    "behind",
    [
        "Nodes Time(s)\n16 5.93\n",
        "\nthe second program says this:\n16 5.93\n",
        "the second program says this:\n\n16 5.93\n",
        "bandwidth by size:\n16 5.93\n",
        "# Bandwidth test of mine\n16 5.93\n",
    ],
)
def test_a_row_that_could_be_either_s_is_refused(behind):
    with pytest.raises(TableError, match="of this table or of another one"):
        read(TABLE + behind, "log")


@pytest.mark.parametrize("row", [f"16        {text}" for text in ("[n1:123] hello", "********", "1.1e+06")])
@pytest.mark.parametrize("more", ["", "32                     13.00\n"])
def test_a_row_that_was_written_into_is_not_left_out(row, more):
    with pytest.raises(TableError, match="log:6: a row that holds something else than numbers"):
        read(f"{TABLE}{row}\n{more}", "log")
    spoilt = TABLE.replace("4      ", "4      x", 1)
    with pytest.raises(TableError, match="log:4: a row that holds"):
        read(spoilt, "log")


@pytest.mark.parametrize("line", ["16 processes are still waiting", "2  hosts", "[n1:1] 16  x", "20    more"])
def test_words_behind_a_number_are_no_row(line):
    assert rows(f"{TABLE}{line}\n") == MINE


@pytest.mark.parametrize("which", [slice(None), slice(3, 4), slice(4, 5)])
def test_colours_and_marks_of_a_terminal_hide_no_row(which):
    lines = TABLE.splitlines()
    lines[which] = [f"\x1b[1;32m{line}\x1b[0m" for line in lines[which]]
    lines[0] = f"\ufeff\x1b]0;title\x07{lines[0]}\x1b[?2004l"
    (one, _) = read("\r\n".join(lines) + "\r\n", "log")
    assert rows("\r\n".join(lines) + "\r\n") == MINE
    assert one.comm_size == 4


BOX = (
    "-" * 74
    + "\nWARNING: There was an error initializing an OpenFabrics device.\n\n  Local host: n1\n"
    + "-" * 74
)


@pytest.mark.parametrize("after", [3, 4])
def test_a_message_of_open_mpi_inside_of_a_table_is_no_end_of_it(after):
    lines = TABLE.splitlines()
    assert rows("\n".join([*lines[:after], BOX, *lines[after:]]) + "\n") == MINE


@pytest.mark.parametrize("mark", ["    ", "\t", "> ", ">    "])
def test_a_listing_on_a_page_is_read(mark):
    assert rows("".join(f"{mark}{line}\n" for line in TABLE.splitlines())) == MINE


IMB = """b/imb.log,6,IMB Reduce,,reduce,180,4,7.88,7.84,7.93,1000,
b/imb.log,12,IMB Bcast,2021.3,bcast,180,4,12.14,12.09,12.19,1000,17.5
a/imb.log,3,IMB Allreduce,,allreduce,,4,40.14,,,,
"""


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_import_wrote_is_imported_again_as_it_was(tmp_path, capsys, suffix):
    fields = "source,line,benchmark,version,collective,comm_size,message_bytes,latency_us,min_us,max_us"
    first = tmp_path / "first.csv"
    first.write_text(f"{fields},iterations,bandwidth_MBps\n{IMB}")
    table = tmp_path / f"again.{suffix}"
    assert main(["import", str(first), "--out", str(table)]) == 0
    capsys.readouterr()
    assert main(["import", str(table)]) == 0
    assert capsys.readouterr().out == first.read_text()


def test_labels_of_an_imported_table_come_back(tmp_path):
    log, table = tmp_path / "bcast_x.log", tmp_path / "table.csv"
    log.write_text(TABLE.replace("# Size", "# Datatype: MPI_INT.\n# Size") + TABLE)
    assert main(["import", str(log), "--out", str(table)]) == 0
    assert read(table.read_text(), "table.csv") == read(log.read_text(), str(log))


def test_guidelines_say_of_the_table_what_they_say_of_the_log(tmp_path, capsys):
    log, table = tmp_path / "a.log", tmp_path / "a.csv"
    log.write_text(
        "mpirun -np 8 x\n# OSU MPI Reduce Latency Test v7.4\n# Size  Avg Latency(us)\n4   7.88\n"
        "# OSU MPI Broadcast Latency Test v7.4\n# Size  Avg Latency(us)\n4   12.14\n"
        "# OSU MPI Allreduce Latency Test v7.4\n# Size  Avg Latency(us)\n4   40.14\n"
    )
    assert main(["compare", "--guidelines", str(log)]) == 1
    said = capsys.readouterr().out
    assert main(["import", str(log), "--out", str(table)]) == 0
    assert main(["compare", "--guidelines", str(table)]) == 1
    assert capsys.readouterr().out == said
    assert set(MEASURED) < set(pd.read_csv(table).columns)
