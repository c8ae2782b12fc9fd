"""``import --from-name``: what names of files say."""

import io

import pandas as pd
import pytest

from autotune.cli import main
from autotune.errors import UserError
from autotune.tables.importers import NamePattern
from benchmarks import arena
from tests.schemas import answer

OSU = """mpirun -np {ranks} osu_bcast

# OSU MPI Broadcast Latency Test v7.4
# Size       Avg Latency(us)
{rows}"""


def osu(ranks, sizes=range(10)):
    return OSU.format(ranks=ranks, rows="".join(f"{1 << k:<10}{k + 1.25:>18.2f}\n" for k in sizes))


def wrote(capsys, *words):
    code = main(["import", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_folder_of_logs_with_what_their_names_say(tmp_path, capsys):
    for algorithm in ("ring", "scatter_allgather"):
        for ranks in (2, 16):
            path = tmp_path / "night" / f"bcast_{algorithm}_{ranks}.out"
            path.parent.mkdir(exist_ok=True)
            path.write_text(osu(ranks).partition("\n")[2])  # no launcher's command
    (tmp_path / "night" / "notes.txt").write_text("not a log")
    words = [tmp_path / "night", "--from-name", "bcast_{algorithm}_{ranks}.out"]
    code, out, err = wrote(capsys, *words)
    frame = pd.read_csv(io.StringIO(out))
    assert code == 0
    assert len(frame) == 40
    found = set(zip(frame["algorithm"], frame["comm_size"], strict=True))
    assert found == {(name, ranks) for name in ("ring", "scatter_allgather") for ranks in (2, 16)}
    assert err == f"left out: 1 files of {words[0]} that do not fit {words[2]}\n"


def test_imported_tables_go_into_screen_model_and_benchmark(tmp_path, capsys):
    for algorithm, factor in (("ring", 2), ("chain", 3)):
        for ranks in (2, 4, 8, 16):
            text = osu(ranks, range(1, 8)).partition("\n")[2]
            for k in range(1, 8):
                text = text.replace(f"{k + 1.25:.2f}\n", f"{factor * ranks + k * 1.5:.2f}\n")
            (tmp_path / f"bcast_{algorithm}_{ranks}.out").write_text(text)
    table = tmp_path / "t.csv"
    words = [tmp_path, "--from-name", "{collective}_{algorithm}_{ranks}.out", "--out", table]
    assert wrote(capsys, *words)[0] == 0
    model = ["--response", "latency_us", "--terms", "comm_size,message_bytes", "--json"]
    assert main(["model", str(table), *model]) == 0
    document = answer(capsys.readouterr().out)
    assert document["n"] == 56
    assert document["loggp"] is not None
    screen = ["--factors", "algorithm,comm_size", "--responses", "latency_us:min"]
    assert main(["screen", str(table), *screen]) == 0
    assert "algorithm  chain → ring" in capsys.readouterr().out
    arena.compete(table, ["random"], "2", seeds=2, out=None, call_level=(), per_job=(), jobs=1)
    assert "| 2 | random | 2 | 1.000 |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("bcast.out", "does not say what the names hold"),
        ("{a}_{a}.out", "does not say"),
        ("{a_{b}.out", "does not say"),
        ("{1a}.out", "begins with a digit"),
    ],
)
def test_templates_that_say_nothing(template, message):
    with pytest.raises(UserError, match=message):
        NamePattern.of(template)


def test_names_that_contradict_or_do_not_fit(tmp_path, capsys):
    log = tmp_path / "bcast_ring_4.out"
    log.write_text(osu(2))
    for path, template, message in (
        (log, "bcast_{algorithm}_{ranks}.out", "ranks is 2 in the file and 4 in its name"),
        (log, "reduce_{algorithm}_{ranks}.out", "does not fit --from-name"),
        (tmp_path, "reduce_{algorithm}.out", "no file in"),
    ):
        code, _, err = wrote(capsys, path, "--from-name", template)
        assert code == 2
        assert message in err
    assert NamePattern.of("{mapping}/{collective}_{size}.out").fields("a/b/core/bcast_64k.out") == {
        "mapping": "core", "collective": "bcast", "size": "64k"}  # fmt: skip
