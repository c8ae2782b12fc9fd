"""Plain tables in the shapes people save them."""

import pytest

from autotune.errors import TableError
from autotune.tables.importers import read


def figures(text, name="t.csv"):
    return [(m.comm_size, m.message_bytes, m.latency_us) for m in read(text, name)]


@pytest.mark.parametrize(
    "text",
    [
        "Processes,Size,Latency\n4,1024,2.5\n",
        '"processes", "SIZE" ,"latency"\n"4", "1024" , "2.5"\n',
        "np;message_size;latency_us\n4;1024;2.5\n",
        "# exported by hand\n# Ranks\tMsg Size (bytes)\tAvg Latency [us]\n4\t1024\t2.5\n",
        "\ufeffProcs|Size (KiB)|time (ms)\n4|1|0.0025\n",
        "comm_size,bytes,runtime_s\n4,1k,2.5e-6\n",
        "Number of Processes,Message Size [KB],Latency (µs)\n\n4,1,2.5\n\n",
    ],
)
def test_one_row_in_many_dresses(text):
    ((processes, size, latency),) = figures(text)
    assert (processes, size, latency) == (4, 1024, pytest.approx(2.5))


def test_further_columns_are_kept_as_labels():
    titles = "collective,size,latency,algorithm,min,max,reps,Bandwidth (Gb/s)"
    (m,) = read(f"{titles}\nMPI_Bcast,8,2,ring,1,3,50,8\n", "t.csv")
    figures = (m.collective, m.min_us, m.max_us, m.iterations, m.bandwidth_MBps)
    assert figures == ("bcast", 1.0, 3.0, 50, 1000.0)
    assert m.labels == (("algorithm", "ring"),)


@pytest.mark.parametrize(
    ("name", "collective"),
    [
        ("reduce_scatter-8n.csv", "reduce_scatter"),
        ("my allreduce.csv", "allreduce"),
        ("putative.csv", ""),
        ("t.csv", ""),
    ],
)
def test_the_operation_may_stand_in_the_name(name, collective):
    assert read("size,latency\n8,1\n", name)[0].collective == collective


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "t.csv: no table of measurements in 0 lines"),
        ("Processes,Size,Latency\n8,4,1.5e-06\n", "t.csv:2: Latency is 1.5e-06 µs, less than any call takes"),
        ("Processes,Size,Latency\n0,4,1.5\n", "t.csv:2: comm_size=0: at least one rank"),
        ("name,price\napple,3\n", "t.csv: no table of measurements"),
        ("Processes,Size,Latency\n", "t.csv:1: a table without rows"),
        ("size,latency\n8,1\n16\n", "t.csv:3: a row of 1 values in a table of 2 columns"),
        ("size,latency\n8,fast\n", "t.csv:2: latency is 'fast'"),
        ("size,latency\n8,\n", "t.csv:2: neither latency nor bandwidth"),
        ("size,latency\n,1\n", "t.csv:2: a row without a message size"),
        ("size,latency\n8,nan\n", "t.csv:2: latency is 'nan'"),
        ("size,latency\n-8,1\n", "t.csv:2: size is '-8'"),
        ("size,latency\n8.5,1\n", "t.csv:2: size is '8.5'"),
        ("size,bytes,latency\n8,8,1\n", "t.csv:1: columns 'size' and 'bytes' mean the same"),
        ("size,time\n8,1\n", "t.csv:1: 'time' does not say its unit"),
    ],
)
def test_what_cannot_be_read_says_where(text, words):
    with pytest.raises(TableError, match=words):
        read(text, "t.csv")


ROWS = "Size,Latency (us)\n8,1.25\n16,1.50\n32,2.75"


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_table_that_is_cut_off_in_its_last_number_is_noticed_by_its_decimals(cut):
    assert len(figures(ROWS)) == 3
    with pytest.raises(TableError, match="cut off in its last number"):
        figures(ROWS[:-cut])


@pytest.mark.parametrize(
    "text", [ROWS[:-1] + "\n", ROWS.replace("1.50", "1.5")[:-1], "Size,Time (us)\n8,12\n16,1"]
)
def test_a_number_with_fewer_decimals_can_be_whole(text):
    figures(text)
