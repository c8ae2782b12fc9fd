"""What is read has a bound and a message: no file fills the memory, and none is waited for."""

import io
import os
import socket
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from autotune.application.verbs.run import learned_in
from autotune.cli import main
from autotune.commands.report import _untried
from autotune.errors import ScenarioError, SpaceError, TableError, UserError
from autotune.exporters.export_check import PROOF_FILE, refuted
from autotune.exporters.origin import nodes_of, verified_in
from autotune.exporters.settings import values_in
from autotune.exporters.user_files import content
from autotune.history.journal import FILE
from autotune.lint.kinds import _LAUNCH
from autotune.lint.unread import unread
from autotune.probe.protocol import RESULT, SAMPLES, CellSamples, ProbeResult
from autotune.probe.ucx import read_report
from autotune.resources import MOST_CELLS, MOST_COLUMNS, MOST_LINES, MOST_YAML, space_text, user_text
from autotune.scenario import sizes_of
from autotune.screening import Factor, plackett_burman
from autotune.screening.analysis import analyse
from autotune.screening.design import _MOST_FACTORS, _MOST_RUNS
from autotune.space import Parameter, Point, size_in_bytes
from autotune.space.loader import load_space
from autotune.tables.importers import osu, read
from autotune.tables.importers.runlog import Log
from autotune.tables.verbs.import_ import import_files
from autotune.text_table import read_rows
from hydra_plugins.autotune._processes import last_words
from hydra_plugins.autotune._replay import RECORD, _launched
from hydra_plugins.autotune._slurm_batch import Nodes

RNG = np.random.default_rng(0)
OSU = "# OSU MPI Allreduce Latency Test v7.3\n# Size       Avg Latency(us)\n"


def factors(n):
    return [Factor(f"f{i}", 0, 1) for i in range(n)]


@pytest.mark.parametrize(
    ("n", "keys"),
    [
        (_MOST_FACTORS + 1, {}),
        (10**6, {}),
        (4, {"min_runs": 10**12}),
        (4, {"blocks": 10**12}),
        (4, {"centre_points": 10**12}),
    ],
)
def test_a_design_that_has_no_room_is_refused_before_it_is_made(n, keys):
    with pytest.raises(UserError, match=rf"at most {_MOST_FACTORS}|at most {_MOST_RUNS}"):
        plackett_burman(factors(n), RNG, **keys)


def test_the_largest_design_is_made_and_few_factors_of_many_runs_are_analysed():
    design = plackett_burman(factors(_MOST_FACTORS), RNG)
    assert (design.coded.T @ design.coded == design.n_runs * np.eye(_MOST_FACTORS)).all()
    wide = plackett_burman(factors(20), RNG)
    assert analyse(wide, np.exp(wide.coded[:, 3])).effects[3].effect == pytest.approx(2)


@pytest.mark.parametrize(
    "declared",
    [
        *("8.." + "9" * 400, "9" * 400 + "..8", "8..1M*" + "9" * 5000, "8..4096T", "9" * 400),
        *([value] for value in (10**400, "9" * 400, 1e300, float("nan"), float("inf"), 1 << 51)),
    ],
    ids=range(11),
)
def test_sizes_have_a_bound(declared):
    with pytest.raises(ScenarioError, match="sizes"):
        sizes_of(declared)


def test_a_value_that_no_double_holds_stands_beside_the_scale():
    assert size_in_bytes("9" * 400) is None
    assert size_in_bytes(10**400) is None
    assert Parameter("a", (1, "9" * 400), 1, ordered=True).scale == (1,)


def packed(path, table, **keys):
    parquet.write_table(table, path, compression="zstd", **keys)
    return path


@pytest.mark.parametrize(
    "table",
    [
        lambda: pa.table({"a": pa.array(np.zeros(MOST_CELLS + 1, np.int8))}),
        lambda: pa.table({"a": pa.array(["x" * (1 << 20)] * 500)}),
        lambda: pa.table({"a": pa.array([[0] * (MOST_CELLS + 1)], pa.list_(pa.int8()))}),
        lambda: pa.table({f"c{i}": [1] for i in range(MOST_COLUMNS + 1)}),
    ],
    ids=["rows", "one long value again and again", "one row of a long list", "columns"],
)
def test_a_parquet_file_is_not_unpacked_beyond_its_bound(tmp_path, table):
    path = packed(tmp_path / "t.parquet", table())
    assert path.stat().st_size < 1 << 20
    with pytest.raises(TableError, match=r"t.parquet cannot be read: it (has|unpacks)"):
        read_rows(path, "")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_a_damaged_parquet_file(tmp_path, content):
    (path := tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(TableError, match="cannot be read"):
        read_rows(path, "")


def test_a_parquet_file_is_read_as_the_same_csv(tmp_path):
    table = pa.table({"a": [1.5, None, float("nan")], "b": ["x", "", None], "c": [True, False, None]})
    columns, rows = read_rows(packed(tmp_path / "t.parquet", table), "")
    assert list(columns) == ["a", "b", "c"]
    assert [[*row.values()] for row in rows] == [["1.5", "x", "True"], ["", "", "False"], ["", "", ""]]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (",".join("abc" for _ in range(300_000)) + "\n" + "1," * 300_000, "columns"),
        ("x" * 200_000 + ",b\n1,2\n", "field limit"),
        ("a\n" * (MOST_LINES + 2), "lines"),
        ("a\n" + "1" * 5000 + "\n", "digits"),
    ],
    ids=["columns", "a long header", "lines", "digits"],
)
def test_a_csv_has_bounds(tmp_path, text, why):
    (path := tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError, match=rf"cannot be read: .*{why}"):
        read_rows(path, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("size,latency," + "x," * 300_000 + "\n" + "1," * 300_002, "columns"),
        ("size," + "latency" * 30_000 + "\n8,1.5\n", "no table"),
        ("size,latency\n8," + "1" * 200_000 + ".5\n", "a row of 0 values"),
        ("[" + "1" * 300_000 + "\n", "Exceeds the limit"),
        ("mpirun/" * 50_000 + "\n", "no table"),
        ("PMIX " * 50_000 + "\n", "no table"),
    ],
    ids=range(6),
)
def test_a_log_is_refused_in_words_and_in_linear_time(text, why):
    with pytest.raises(TableError, match=why):
        read(text, "log")


def test_tables_without_a_command_are_read_in_linear_time():
    one = OSU + "8      1.00\n16     2.00\n"
    n = 20_000  # a look back from each table would be 8e8 lines
    assert len(osu.read(Log.of(one * n, "log"))) == 2 * n


def test_ranks_are_those_of_the_last_command_before_a_table():
    table = OSU + "8      1.00\n"
    text = f"{table}mpirun -n 2 ./osu\n{table}srun -N 2 --ntasks-per-node=4 ./osu\n{table}{table}"
    assert [row.comm_size for row in read(text, "log")] == [None, 2, 8, 8]


def test_standard_input_has_a_bound(monkeypatch):
    with open("/dev/zero", "rb") as endless:  # noqa: PTH123
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(endless))
        with pytest.raises(TableError, match="no table"):
            import_files([Path("-")], None)


BOMB = "parameters:\n  a: {values: &a [x, x, x, x, x, x, x, x, x, x]}\n" + "".join(
    f"  {b}: {{values: &{b} [{', '.join([f'*{a}'] * 10)}]}}\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOMB, "aliases"),
        ("a: &a [*a]", "aliases"),
        ("[" * 100_000, "nested too deeply"),
        ("a: " + "1" * 5000, "limit"),
        ("? {a: b}\n: c", "unhashable"),
        ("a: 2024-13-45", "month"),
    ],
    ids=range(6),
)
def test_a_space_is_plain_and_shallow(text, why):
    with pytest.raises(SpaceError, match=rf"is no YAML: [\s\S]*{why}"):
        load_space(text, "mine")


@pytest.mark.parametrize(
    ("text", "why"),
    [(BOMB, "stand for too much"), ("#" * (MOST_YAML + 1), "more than 1 MiB")],
    ids=["bomb", "long"],
)
def test_a_scenario_of_somebody_s_is_short_and_its_aliases_stand_for_little(tmp_path, capsys, text, why):
    (folder := tmp_path / "conf").mkdir()
    (folder / "theirs.yaml").write_text(f"# @package _global_\n{text}\n")
    assert main(["plan", "--config-dir", str(tmp_path), "conf=theirs"]) == 2
    assert why in capsys.readouterr().err


def test_a_scenario_with_aliases_is_composed(tmp_path, capsys):
    (folder := tmp_path / "conf").mkdir()
    text = "# @package _global_\nsizes: &sizes [8, 1k]\nrequire: []\nresponses: {a: min}\nexport: *sizes\n"
    (folder / "mine.yaml").write_text(text)
    assert main(["--config-dir", str(tmp_path), "--cfg", "job", "conf=mine"]) == 0
    assert "export:\n- 8\n- 1k\n" in capsys.readouterr().out


def test_a_journal_has_a_bound(tmp_path, capsys):
    (path := tmp_path / FILE).write_text('{"event": "journal", "version": 1}\n')
    os.truncate(path, (1 << 30) + 1)  # without room on any disk
    tmp_path.chmod(0o700)
    for verb in ("status", "history", "repair"):
        assert main([verb, str(tmp_path)]) == 3
        assert "more than 1024 MiB" in capsys.readouterr().err


def test_a_file_that_has_nothing_to_say_now_is_empty(monkeypatch, tmp_path):
    """As /proc/kmsg, which says that it is a regular file."""

    class Silent(io.BytesIO):
        def read(self, most=-1):
            return None

        def fileno(self):
            return os.open(path, os.O_RDONLY)

    (path := tmp_path / "it").write_bytes(b"")
    monkeypatch.setattr("builtins.open", lambda *_, **__: Silent())
    assert user_text(path) == ""


def test_a_space_is_short(tmp_path):
    (path := tmp_path / "s.yaml").write_text("#" * (MOST_YAML + 1))
    with pytest.raises(SpaceError, match="more than 1 MiB"):
        space_text(str(path))


@pytest.fixture(params=["link to a pipe", "device", "socket", "folder"])
def no_file(request, tmp_path):
    place = tmp_path / "it"
    match request.param:
        case "link to a pipe":
            os.mkfifo(tmp_path / "other")
            place.symlink_to(tmp_path / "other")
        case "device":
            place = Path("/dev/zero")
        case "socket":
            with socket.socket(socket.AF_UNIX) as its:
                its.bind(str(place))
        case "folder":
            place.mkdir()
    return place


def test_what_is_no_file_is_not_waited_for(no_file):
    with pytest.raises(TableError, match="cannot be read"):
        user_text(no_file)
    with pytest.raises(TableError, match="cannot be read"):
        read_rows(no_file, "")


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        (PROOF_FILE, lambda file: refuted(file.parent)),
        (RESULT, lambda file: ProbeResult.read(file.parent)),
        ("mca-params.conf", content),
        ("autotune-env.sh", values_in),
        ("learned.json", lambda file: learned_in(file, "Open MPI 5")),
        (RECORD, lambda file: _launched(file.parents[1] / "0002", Point())),
    ],
)
def test_no_reader_waits_for_what_is_no_file(no_file, tmp_path, name, reader):
    (place := tmp_path / "0001" / name).parent.mkdir()
    place.symlink_to(no_file)
    with pytest.raises(UserError, match=r"regular file|Is a directory|No such device") as refused:
        reader(place)
    assert refused.value.message.count(str(place)) == 1


def test_nodes_that_are_no_file_or_damaged_are_none_and_not_waited_for(no_file, tmp_path):
    (place := tmp_path / "nodes.json").symlink_to(no_file)
    assert Nodes(tmp_path).read() == ()
    place.unlink()
    place.write_text("[" * 100_000)
    assert Nodes(tmp_path).read() == ()


def test_samples_that_are_no_file_are_a_damaged_result(no_file, tmp_path):
    ProbeResult("ok", cells=(CellSamples("barrier", 2, 0, {}, np.ones(3)),)).write(tmp_path)
    (tmp_path / SAMPLES).unlink()
    (tmp_path / SAMPLES).symlink_to(no_file)
    with pytest.raises(UserError, match="damaged result"):
        ProbeResult.read(tmp_path)


def test_samples_that_would_unpack_to_more_than_fits_are_not_unpacked(tmp_path):
    ProbeResult("ok", cells=(CellSamples("barrier", 2, 0, {}, np.ones(3)),)).write(tmp_path)
    with (
        zipfile.ZipFile(tmp_path / SAMPLES, "w", zipfile.ZIP_DEFLATED) as packed,
        packed.open("c0.npy", "w", force_zip64=True) as its,
    ):
        for _ in range(1025):
            its.write(bytes(1 << 20))
    with pytest.raises(UserError, match="its samples have more than 1024 MiB"):
        ProbeResult.read(tmp_path)


def test_outputs_and_exports_that_are_no_files_are_passed_over(no_file, tmp_path):
    (said := tmp_path / "stderr").write_text("no memory\n")
    assert last_words(no_file, said) == "no memory"
    assert last_words(no_file) == "it printed nothing"
    said.write_bytes(b"\0" * 400 + b"\x1b[31mno memory\x1b[0m\0\n")
    assert last_words(said) == "no memory"
    said.write_text("word " * 100 + "the end\n")
    assert last_words(said, limit=20) == "…word word the end"
    assert not _untried(no_file)


@pytest.mark.parametrize("said", ["", 100_000 * "[", "[]", "5", "null", '{"hold": true}', "\xff"])
def test_a_proof_that_is_none_is_one_message(tmp_path, said):
    (tmp_path / PROOF_FILE).write_text(said, encoding="latin-1")
    with pytest.raises(UserError) as refused:
        refuted(tmp_path)
    assert str(tmp_path / PROOF_FILE) in refused.value.message


def test_without_a_proof_nothing_is_refuted(tmp_path):
    assert not refuted(tmp_path)
    (tmp_path / PROOF_FILE).write_text('{"holds": false}')
    assert refuted(tmp_path)
    (tmp_path / PROOF_FILE).write_text('{"holds": false, "unseen": true}')
    assert not refuted(tmp_path)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        (verified_in, MOST_LINES * "\n"),
        (nodes_of, MOST_LINES * "#\n"),
        (lambda text: _LAUNCH.search(text), MOST_LINES * " \n"),
        (lambda text: list(unread(text, ())), 20_000 * "sed "),
        (lambda text: list(unread(text, ())), 20_000 * "echo " + "> a"),
        (lambda text: read_report(f"UCX  INFO  ep_cfg[0]: tag({text}"), 2_000_000 * "a"),
    ],
)
def test_patterns_of_ours_look_at_each_line_once(reader, text):
    assert not getattr(found := reader(text), "protocols", found)
