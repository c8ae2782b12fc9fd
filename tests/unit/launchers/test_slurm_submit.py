"""What is left beside a job that was submitted: for its user alone, whatever the mask of the process."""

import os
import stat

import pytest

from hydra_plugins.autotune._slurm_batch import BatchSettings, Order, submit
from hydra_plugins.autotune._slurm_jobs import Slurm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where scripts go, on a machine whose Slurm takes every job; it looks at its script as Slurm does."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", 'cat "$1" >/dev/null && echo "Submitted batch job 7"'), ("srun", ":")):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    before = os.umask(0o000)
    yield tmp_path / "campaign" / "slurm"
    os.umask(before)


@pytest.mark.parametrize("earlier", [False, True], ids=["new", "of an earlier version"])
def test_scripts_and_pickles_are_for_their_user_alone(folder, earlier):
    if earlier:
        folder.mkdir(parents=True, mode=0o755)
        folder.parent.chmod(0o700)
    assert submit(folder, BatchSettings(), Order("name", 1, 1, "1"), ("true",), Slurm(patience_s=0.0)) == "7"
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}
    left = sorted(folder.iterdir())
    assert any(path.suffix == ".pkl" for path in left)
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o600}
