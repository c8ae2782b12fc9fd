"""``python -m autotune doctor --knobs`` where nothing, or the wrong thing, is installed."""

import pytest

from autotune.cli import main


def mpirun(folder, says):
    (folder / "bin").mkdir()
    (folder / "lib").mkdir()
    (folder / "lib" / "libmpi.so.1").write_bytes(b"\x7fELF")
    script = folder / "bin" / "mpirun"
    script.write_text(f"#!/bin/sh\necho '{says}'\n")
    script.chmod(0o755)
    return str(script)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--mpirun", "/nowhere/mpirun"], "is not an executable"),
        (["--json", "--csv"], "give one of them"),
        (["--sizes", "8,much"], "'much' is not a message size"),
    ],
)
def test_mistakes_are_named(words, message, capsys):
    assert main(["doctor", "--knobs", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_layer_is_named_with_the_known_ones(tmp_path, capsys):
    assert (
        main(
            ["doctor", "--knobs", "--mpirun", mpirun(tmp_path, "mpirun (Open MPI) 5.0.11"), "--stack", "uxc"]
        )
        == 2
    )
    assert "did you mean 'ucx'?" in capsys.readouterr().err


def test_a_layer_that_is_asked_for_and_not_there_is_an_error(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    asked = ["doctor", "--knobs", "--mpirun", mpirun(tmp_path, "mpirun (Open MPI) 5.0.11"), "--stack", "ucc"]
    assert main(asked) == 2
    assert "no ucc belongs to" in capsys.readouterr().err


def test_a_tool_that_is_missing_is_an_error_not_a_traceback(tmp_path, capsys):
    assert main(["doctor", "--knobs", "--mpirun", mpirun(tmp_path, "mpirun (Open MPI) 5.0.11")]) == 2
    assert "does not answer" in capsys.readouterr().err
