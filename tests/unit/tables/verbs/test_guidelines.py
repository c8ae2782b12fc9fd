"""``guidelines``: of a campaign, of tables, and what a user sees who mistypes."""

import shutil

import pytest

from autotune.cli import main
from tests.golden.test_campaigns import GOLDEN
from tests.schemas import answer

HEAD = "collective,processes,size,latency,run\n"
SOUND = [("allgather", 64, 20), ("gather", 64, 10), ("bcast", 256, 12), ("bcast", 64, 10)]


def table(rows, launches=3):
    lines = [f"{c},4,{size},{time * (1 + k / 100)},{k}\n" for k in range(launches) for c, size, time in rows]
    return HEAD + "".join(lines)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table_that_holds_ends_well_and_one_that_does_not_with_1(here, capsys):
    for name, rows in (("a.csv", SOUND[:1]), ("b.csv", SOUND[1:])):
        (here / name).write_text(table(rows))
    assert main(["compare", "--guidelines", "a.csv", "b.csv"]) == 0
    assert "none of 4 guidelines violated" in capsys.readouterr().out
    (here / "odd.csv").write_text(table([("allgather", 64, 200), *SOUND[1:]]))
    assert main(["compare", "--guidelines", "odd.csv"]) == 1
    shown = capsys.readouterr().out
    assert "allgather of 64 B on 4 ranks is slower than gather of 64 B + bcast of 256 B: 9.09×" in shown
    assert "1 of 4 guidelines violated" in shown
    assert main(["compare", "--guidelines", "odd.csv", "--json"]) == 1
    document = answer(capsys.readouterr().out)
    assert [v["slower"] for v in document["violations"]] == [["allgather", 4, 64]]
    assert document["violations"][0]["launches"] == 3


def test_a_campaign_with_a_fallback_says_so_in_its_status_and_on_its_page(here, capsys):
    shutil.copytree(GOLDEN / "local", here / "sound")
    assert main(["compare", "--guidelines", "sound"]) == 0
    assert main(["status", "sound"]) == 0
    assert "guidelines" not in capsys.readouterr().out.partition("violated beyond")[2]
    assert main(["report", "sound"]) == 0
    assert "<h2>Guidelines" not in (here / "sound" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nowhere"], "nowhere cannot be read"),
        (["."], "holds no campaign"),
        ([".", "."], "a campaign stands for itself"),
        (["t.csv", "--rate", "2"], "'--rate'"),
        ([], "Missing argument"),
    ],
)
def test_mistakes(here, capsys, words, expected):
    assert main(["compare", "--guidelines", *words]) == 2
    assert expected in capsys.readouterr().err


def test_one_size_of_one_collective_is_nothing_to_test(here, capsys):
    (here / "t.csv").write_text(table(SOUND[:1]))
    assert main(["compare", "--guidelines", "t.csv"]) == 0
    assert "no guideline can be tested" in capsys.readouterr().out
