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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--stack", "uxc"), "did you mean 'ucx'?"),
        (("--stack", "ucc"), "no ucc belongs to"),
        ((), "does not answer"),
    ],
)
def test_what_an_mpi_does_not_have_is_an_error_not_a_traceback(words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    program = mpirun(tmp_path, "mpirun (Open MPI) 5.0.11")
    assert main(["doctor", "--knobs", "--mpirun", program, *words]) == 2
    assert message in capsys.readouterr().err
