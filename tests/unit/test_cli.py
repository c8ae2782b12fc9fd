"""What a user sees who mistypes: one message with what is allowed, a documented exit code, no traceback."""

import subprocess
import sys

import pytest


def autotune(*words, cwd):
    done = subprocess.run(
        [sys.executable, "-m", "autotune", *words], cwd=cwd, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["budget.launches=3"], "allreduce_local"),
        (["conf=nothing"], "allreduce_local"),
        (["conf=allreduce_local", "budget.lanches=3"], "did you mean 'launches'"),
        (["conf=allreduce_local", "bugdet.launches=3"], "did you mean 'budget'"),
        (["conf=allreduce_local", "budget.launches=many"], "whole number"),
        (["conf=allreduce_local", "collective=allredcue"], "did you mean 'allreduce'"),
        (["conf=allreduce_local", "space=openmpi_ucx_locl"], "did you mean 'openmpi_ucx_local'"),
        (["conf=allreduce_local", "proposer=axe"], "random"),
        (["conf=allreduce_local", "proposer.name=axe"], "random"),
        (["conf=allreduce_local", "mpi.mpirun=/no/such/mpirun"], "/no/such/mpirun"),
        (["conf=allreduce_local", "mpi.from=apt"], "auto, site, wheel"),
        (["conf=allreduce_local", "hydra/launcher=slrum"], "mpirun"),
        (["conf=allreduce_local", "sizes=[a,b]"], "sizes holds 'a'"),
        (["conf=allreduce_local", "fix.UCX_TLS=ib"], "self,posix"),
        (["conf=allreduce_local", "budget.launches=["], "budget.launches=["),
        (["measure", "conf=allreduce_local", "--point", "UCX_TLS=ib"], "self,posix"),
        (["measure", "conf=allreduce_local", "--point", "UCX"], "NAME=VALUE"),
        (["measure", "conf=allreduce_local", "--point", "UCX_TLS=self,posix"], "--point pml=ucx"),
        (["measure", "conf=allreduce_local", "--point"], "'--point' requires an argument"),
        (["status", "nowhere"], "holds no campaign"),
        (["statsu", "nowhere"], "statsu"),
        (["history", "nowhere", "--format", "xml"], "csv, parquet"),
        (["export", "nowhere"], "holds no campaign"),
    ],
    ids=" ".join,
)
def test_a_mistake_gets_one_message_and_exit_code_2(words, expected, tmp_path):
    code, out, err = autotune(*words, cwd=tmp_path)
    assert code == 2, err
    assert expected in err, err
    assert "Traceback" not in err + out
    assert len(err.strip().splitlines()) <= 4, err
    assert not list(tmp_path.iterdir()), "nothing is left behind by a mistake"
