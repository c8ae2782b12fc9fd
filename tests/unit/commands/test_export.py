"""What ``export`` does where something lies already, and to a tree for a site."""

import io
import os
import shlex
import stat
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands import export
from autotune.commands.install import mention
from autotune.errors import AutotuneError
from autotune.exporters.files import export_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Checked
from autotune.space import Point
from autotune.verification.choices import Choice, ChoiceKind
from tests.unit.commands.test_install import DOUBTFUL, GOOD
from tests.unit.exporters.test_writing import tree

UNVERIFIED = DOUBTFUL["not verified on fresh launches: UNVERIFIED"]
WITHOUT_RULES = replace(
    UNVERIFIED, rules=(), provenance=replace(UNVERIFIED.provenance, env=(("OMPI_MCA_pml", "ob1"),))
)


@pytest.fixture
def recommends(monkeypatch):
    """Has every campaign recommend something."""

    def every(recommendation):
        for read in ("recommended", "for_everybody"):
            monkeypatch.setattr(export, read, lambda *_: recommendation)

    every(GOOD)
    return every


@pytest.fixture
def prefix(tmp_path):
    return tmp_path / "opt, it's" / "tuned"


def written(prefix, *words):
    return main(["export", "campaign", "--prefix", str(prefix), *words])


@pytest.mark.parametrize("mask", [0o077, 0o777, 0])
def test_a_tree_is_for_everybody_to_read_whatever_the_mask(recommends, prefix, mask):
    before = os.umask(mask)
    try:
        assert written(prefix) == 0
        recommends(WITHOUT_RULES)
        assert written(prefix, "--yes") == 0
    finally:
        os.umask(before)
    paths = [prefix, *prefix.rglob("*")]
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_dir()} == ({0o755} if mask else {0o777})
    assert {stat.S_IMODE(p.stat().st_mode) for p in paths if p.is_file()} == {0o644}


def test_what_is_verified_is_replaced_after_a_question_and_comes_back(recommends, prefix, capsys):
    assert written(prefix) == 0
    (prefix / "openmpi-5.0.11" / "NOTES").write_text("the administrator's")
    (prefix / "modulefiles" / "autotune" / "openmpi-4.1.8").write_text("another version")
    before, rules = tree(prefix), prefix / "openmpi-5.0.11" / "coll_tuned_rules.conf"
    capsys.readouterr()
    recommends(WITHOUT_RULES)
    assert written(prefix) == 1
    said = capsys.readouterr()
    assert "they replace others, verified: 1.34×" in said.err
    assert f"{rules}: goes\n" in said.out
    assert "  -export OMPI_MCA_pml=ucx\n" in said.out
    assert "  +export OMPI_MCA_pml=ob1\n" in said.out
    assert tree(prefix) == before
    assert written(prefix, "--yes") == 0
    assert not rules.exists()
    assert len([*(prefix / "modulefiles" / "autotune").iterdir()]) == 3  # copies would be modules
    line = capsys.readouterr().out.splitlines()[-1]
    (prefix / "openmpi-5.0.11" / "NOTES").unlink()
    subprocess.run(["sh", "-c", line], check=True)
    after = {name: found for name, found in tree(prefix).items() if not name.startswith("replaced")}
    assert after == {name: found for name, found in before.items() if not name.endswith("NOTES")}


def test_the_same_again_changes_nothing_and_asks_nothing(recommends, prefix):
    assert written(prefix) == 0
    before = tree(prefix)
    assert written(prefix) == 0
    assert tree(prefix) == before


def test_another_version_beside_it_replaces_nothing(recommends, prefix):
    assert written(prefix) == 0
    recommends(replace(GOOD, provenance=replace(GOOD.provenance, stack="Open MPI 4.1.8")))
    assert written(prefix) == 0
    assert not (prefix / "replaced").exists()


def test_rules_that_an_earlier_export_left_go_and_somebody_elses_file_stays(tmp_path):
    export_files(GOOD, ("openmpi_mca",), tmp_path)
    rules, ucx = tmp_path / "coll_tuned_rules.conf", tmp_path / "ucx.conf"
    assert rules.exists()
    ucx.write_text("UCX_TLS=mine\n")
    export_files(WITHOUT_RULES, ("json",), tmp_path)
    assert rules.exists()
    export_files(WITHOUT_RULES, ("openmpi_mca",), tmp_path)
    assert not rules.exists()
    assert ucx.read_text() == "UCX_TLS=mine\n"


def test_formats_that_no_mpi_reads_print_no_line(recommends, tmp_path, capsys):
    assert main(["export", "campaign", "--format", "summary", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "use " not in said
    assert "no MPI reads these files" in said


@pytest.mark.parametrize("answer", ["y", "n", "--yes", ""])
def test_what_is_not_verified_is_exported_after_a_question_at_a_terminal(
    recommends, tmp_path, monkeypatch, capsys, answer
):
    recommends(UNVERIFIED)
    monkeypatch.setattr("sys.stdin", terminal := io.StringIO(f"{answer}\n"))
    terminal.isatty = lambda: bool(answer)  # an empty answer: nobody is there to be asked
    words = ["--yes"] if answer == "--yes" else []
    code = main(["export", "campaign", "--out", str(tmp_path / "files"), *words])
    said = capsys.readouterr().err
    assert "not verified on fresh launches: UNVERIFIED" in said
    assert ("export it all the same?" in said) is (answer in ("y", "n"))
    assert (code, (tmp_path / "files").exists()) == ((1, False) if answer == "n" else (0, True))


def test_what_is_verified_is_exported_without_a_word(recommends, tmp_path, capsys):
    assert main(["export", "campaign", "--out", str(tmp_path / "files")]) == 0
    assert capsys.readouterr().err == ""


def test_what_is_kept_for_the_nights_is_asked_about_likewise(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", terminal := io.StringIO("n\n"))
    terminal.isatty = lambda: True
    with pytest.raises(AutotuneError, match="nothing was written: they were not verified"):
        mention(UNVERIFIED, (tmp_path,), "keep", False)
    assert "keep it all the same? [y/N]" in capsys.readouterr().err
    mention(GOOD, (tmp_path,), "keep", False)
    assert capsys.readouterr().err == ""


def test_the_line_of_a_tree_names_files_that_exist(recommends, prefix, capsys):
    recommends(replace(GOOD, provenance=replace(GOOD.provenance, checked=Checked.HOLDS)))
    assert written(prefix) == 0
    out = capsys.readouterr().out
    script = next(line for line in out.splitlines() if line.startswith("  or: ."))
    assert Path(shlex.split(script.replace(";", " ;"))[2]).exists()


@pytest.mark.parametrize(
    ("choice", "said"),
    [({}, False), ({"algorithm": "default", "segsize": 0}, False), ({"algorithm": "ring"}, True)],
)
def test_what_is_said_to_be_a_rule_stands_in_the_file(tmp_path, choice, said):
    rules = (Rule("allreduce", 8, 0, Point.of(choice)),)
    found = replace(WITHOUT_RULES, rules=rules)
    text = Choice(ChoiceKind.OVERALL, found, Point(), Checked.NOT, ()).text
    assert ("1 rule by message size" in text) is said
    export_files(found, ("coll_tuned", "openmpi_mca"), tmp_path)
    rows = (tmp_path / "coll_tuned_rules.conf").read_text()
    assert ("ring" in rows) is said
    assert ("dynamic_rules" in (tmp_path / "openmpi-mca-params.conf").read_text()) is said
