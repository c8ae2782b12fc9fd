"""What the verbs around parameter files do to a home directory, and how they end."""

from types import SimpleNamespace

import pytest

from autotune.cli import main
from autotune.commands import install, lint
from autotune.errors import StackError
from tests.golden.test_exports import OPENMPI


@pytest.fixture
def home(tmp_path, monkeypatch):
    def nothing(*_):
        raise StackError("no mpirun found")

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(install, "find", nothing)
    monkeypatch.setattr(lint, "find", nothing)
    monkeypatch.setattr(install, "read_campaign", lambda _: SimpleNamespace(recommended=lambda: OPENMPI))
    return tmp_path / ".openmpi"


def test_install_merges_backs_up_and_uninstall_gives_back(home, capsys):
    home.mkdir()
    conf = home / "mca-params.conf"
    conf.write_text("pml = ob1\nbtl = self\n")
    assert main(["install", "campaign"]) == 0
    text = conf.read_text()
    assert "btl = self\n" in text
    assert f"coll_tuned_dynamic_rules_filename = {home}/coll_tuned_rules.conf" in text
    assert "verified: 1.34×" in capsys.readouterr().out
    (copy,) = home.glob("mca-params.conf.2*")
    assert copy.read_text() == "pml = ob1\nbtl = self\n"
    assert main(["lint", str(conf), str(home / "coll_tuned_rules.conf"), str(home.parent / "ucx.conf")]) == 0
    assert main(["uninstall"]) == 0
    assert not (home.parent / "ucx.conf").exists()
    assert sorted(conf.read_text().splitlines()) == ["btl = self", "pml = ob1"]
    assert not (home / "coll_tuned_rules.conf").exists()


def test_a_file_that_was_only_ours_goes_away(home):
    assert main(["install", "campaign"]) == 0
    assert main(["uninstall"]) == 0
    assert not (home / "mca-params.conf").exists()


def test_there_must_be_something_to_take_out(home, capsys):
    assert main(["uninstall"]) == 2
    assert "holds nothing of autotune's" in capsys.readouterr().err


def test_lint_prints_file_line_and_remedy_and_ends_with_one(home, tmp_path, capsys):
    bad = tmp_path / "bad.conf"
    bad.write_text("pml = 'ucx'\n")
    assert main(["lint", str(bad)]) == 1
    out = capsys.readouterr().out
    assert f"{bad}:1: quotes become part of the value" in out
    assert "without quotes" in out
    assert "1 finding in 1 file(s) for openmpi5" in out


def test_lint_of_what_is_not_there_or_not_known_is_refused(home, tmp_path, capsys):
    assert main(["lint", str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    good = tmp_path / "good.conf"
    good.write_text("pml = ucx\n")
    assert main(["lint", str(good), "--mpi", "openmpi3"]) == 2
    assert "openmpi4, openmpi5, openmpi6" in capsys.readouterr().err
