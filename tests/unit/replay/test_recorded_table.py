"""Tables become spaces and runs, or a message that names column and row."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from autotune.errors import TableError
from autotune.history.trial import Cell
from autotune.replay.recorded_table import read_recorded
from autotune.space import Level, Point

FULL = """algorithm,segment,message_bytes,latency_us,run,is_default
ring,0.0,8,9.0,a,0
ring,4096.0,8,8.0,a,0
default,,8,5.0,a,1
ring,0.0,1024,11.0,a,0
ring,4096.0,1024,10.0,a,0
default,,1024,20.0,a,1
default,,8,5.5,b,1
default,,1024,21.0,b,1
"""


def table(tmp_path: Path, text: str, name: str = "site_allreduce.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_the_space_is_read_off_the_table(tmp_path: Path) -> None:
    found = read_recorded(table(tmp_path, FULL))
    runs = found.runs[Point.of({"algorithm": "default"})]
    times = [run[Cell("allreduce", 0, 8)] for run in runs]
    assert times == [pytest.approx((5.0e-6,)), pytest.approx((5.5e-6,))]
    space = found.space
    assert found.collective == "allreduce"
    assert found.sizes_bytes == (8, 1024)
    assert space.default == Point.of({"algorithm": "default"})
    assert space.size == 3
    assert Point.of({"algorithm": "ring", "segment": 4096}) in space
    assert Point.of({"algorithm": "default", "segment": 0}) not in space
    assert space["segment"].ordered
    assert space["segment"].values == (0, 4096)
    assert space["segment"].when == {"algorithm": ("ring",)}
    assert space["algorithm"].default == "default"
    assert all(p.per_size and p.level is Level.LAUNCH for p in space.parameters)


def test_call_level_and_per_job(tmp_path: Path) -> None:
    found = read_recorded(table(tmp_path, FULL), call_level=["algorithm"], per_job=["segment"])
    assert [p.name for p in found.space.call] == ["algorithm"]
    assert not found.space["segment"].per_size
    assert found.space["algorithm"].level is Level.CALL


def test_parquet_reads_like_csv(tmp_path: Path) -> None:
    import pandas as pd

    csv = table(tmp_path, FULL)
    parquet = tmp_path / "site_allreduce.parquet"
    pd.read_csv(csv).to_parquet(parquet)
    assert read_recorded(parquet).runs == read_recorded(csv).runs


def test_each_size_a_job_of_its_own(tmp_path: Path) -> None:
    text = "algorithm,message_bytes,latency_us,run\nx,8,1,j1\nx,16,2,j2\nx,8,3,j3\nx,16,4,j4\n"
    [runs] = read_recorded(table(tmp_path, text)).runs.values()
    times_us = [[t * 1e6 for (t,) in run.values()] for run in runs]
    assert times_us == [pytest.approx([1.0, 2.0]), pytest.approx([3.0, 4.0])]


def test_rows_recorded_twice_are_two_samples_and_an_empty_latency_is_a_run_that_failed(tmp_path) -> None:
    text = "algorithm,message_bytes,latency_us\nx,8,1\nx,8,3\ny,8,\n"
    found = read_recorded(table(tmp_path, text)).runs
    [run] = found[Point.of({"algorithm": "x"})]
    assert list(run.values()) == [pytest.approx((1e-6, 3e-6))]
    assert found[Point.of({"algorithm": "y"})] == ()


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("algorithm,message_bytes,latency_us\n", ["no rows"]),
        ("algorithm,latency_us\nx,1\n", ["message_bytes", "algorithm"]),
        ("algorithm,message_bytes\nx,1\n", ["latency_us"]),
        ("a,message_bytes,latency_us\nx,8,1\ny,8,fast\n", ["row 3", "latency_us", "'fast'"]),
        ("a,message_bytes,latency_us\nx,8,1\ny,8,-2\n", ["row 3", "latency_us", "-2"]),
        ("a,message_bytes,latency_us\nx,8.5,1\n", ["row 2", "message_bytes", "8.5"]),
        ("a,message_bytes,latency_us,comm_size\nx,8,1,0\n", ["row 2", "comm_size"]),
        ("a,message_bytes,latency_us\nx,8,\ny,8,\n", ["latency_us", "every run failed"]),
        ("a,message_bytes,latency_us\nx,8,1,7\n", ["row 2", "fields"]),
        ("a,message_bytes,latency_us\nx,8\n", ["row 2", "fields"]),
        ("a,message_bytes,latency_us\na,8,1.5e-6\n", ["row 2, column latency_us: 1.5e-6 µs is less"]),
        ("comm_size,message_bytes,latency_us\n8,8,2\n,8,2\n", ["row 3: no comm_size, which other rows have"]),
        ("trial,phase,status,message_bytes,latency_us\n0,a,ok,8,2\n", ["is the history of a campaign"]),
        ("a,a,message_bytes,latency_us\nx,x,8,1\n", ["twice"]),
        ("a,message_bytes,latency_us,is_default\nx,8,1,1\ny,8,1,1\n", ["row 2", "row 3", "is_default"]),
        ("a,message_bytes,latency_us,is_default\nx,8,1,WAHR\n", ["is_default: 'WAHR' is neither yes nor no"]),
    ],
)
def test_bad_tables_are_named(tmp_path: Path, text: str, parts: Sequence[str]) -> None:
    with pytest.raises(TableError) as caught:
        read_recorded(table(tmp_path, text))
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"not parquet")
    (tmp_path / "latin.csv").write_bytes("a,message_bytes,latency_us\nµ,8,1\n".encode("latin-1"))
    for name in ("absent.csv", "broken.parquet", "latin.csv"):
        with pytest.raises(TableError, match="cannot be read"):
            read_recorded(tmp_path / name)


def test_wrong_parameter_names(tmp_path: Path) -> None:
    path = table(tmp_path, FULL)
    with pytest.raises(TableError, match="did you mean 'algorithm'"):
        read_recorded(path, call_level=["algorithms"])
    with pytest.raises(TableError, match="both"):
        read_recorded(path, call_level=["segment"], per_job=["segment"])


def test_one_size_and_one_configuration_are_a_table(tmp_path: Path) -> None:
    found = read_recorded(table(tmp_path, "message_bytes,latency_us\n8,1.5\n"))
    assert found.space.size == 1
    assert found.space.default == Point()


NAMELESS = "tls,message_bytes,latency_us\ntcp,8,100\nsm,8,2\n"


def test_what_does_not_say_its_collective_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"runs\.csv: nothing says what was measured") as error:
        read_recorded(table(tmp_path, NAMELESS, "runs.csv"))
    assert "replay.collective=NAME" in error.value.hint
    assert read_recorded(table(tmp_path, NAMELESS, "runs.csv"), collective="bcast").collective == "bcast"
    with pytest.raises(TableError, match="unknown collective 'brodcast'"):
        read_recorded(table(tmp_path, NAMELESS, "runs.csv"), collective="brodcast")


def test_a_column_of_collectives_says_it(tmp_path: Path) -> None:
    rows = [*zip(NAMELESS.splitlines(), ("collective", "gather", "gather"), strict=True)]
    text = "\n".join(f"{collective},{row}" for row, collective in rows) + "\n"
    found = read_recorded(table(tmp_path, text, "allreduce.csv"))
    assert found.collective == "gather"
    assert [p.name for p in found.space.parameters] == ["tls"]
    two = text + "scatter,tcp,8,9\n"
    with pytest.raises(TableError, match="holds gather, scatter"):
        read_recorded(table(tmp_path, two, "two.csv"))
    assert len(read_recorded(table(tmp_path, two, "two.csv"), collective="scatter").runs) == 1


def test_without_a_marked_default_every_value_is_a_change(tmp_path: Path) -> None:
    found = read_recorded(table(tmp_path, NAMELESS, "bcast.csv"))
    assert not found.knows_defaults
    assert not {p.unset for p in found.space.parameters} & {"tcp", "sm"}
    assert read_recorded(table(tmp_path, FULL)).knows_defaults


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("1.0", ""), ("TRUE", "False"), ("y", "n"), ("T", "F")])
def test_a_default_is_marked_in_anybodys_words(tmp_path, yes, no):
    table = tmp_path / "bcast.csv"
    table.write_text(f"algorithm,message_bytes,latency_us,is_default\na,8,2,{no}\nb,8,3,{yes}\n")
    found = read_recorded(table)
    assert found.default is not None
    assert dict(found.default[0]) == {"algorithm": "b"}


@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_an_index_and_figures_are_no_parameters(tmp_path, index):
    table = tmp_path / "bcast.csv"
    rows = "0,8,2,1.9,2.1,a\n1,64,3,2.9,3.1,a\n2,8,4,3.9,4.1,b\n3,64,5,4.9,5.1,b\n"
    table.write_text(f"{index},message_bytes,latency_us,min_us,max_us,algorithm\n{rows}")
    found = read_recorded(table)
    assert [parameter.name for parameter in found.space.parameters] == ["algorithm"]
    assert len(found.runs) == 2


def test_collectives_are_called_as_mpi_calls_them(tmp_path):
    table = tmp_path / "x.csv"
    table.write_text("collective,algorithm,message_bytes,latency_us\nMPI_Bcast,a,8,2\nbcast,b,8,2\n")
    assert read_recorded(table).collective == "bcast"
