"""What is left beside a job that was submitted: for its user alone, whatever the mask of the process."""

import os
import stat
from dataclasses import replace

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import answer_of
from autotune.errors import HandedOver, StackError
from autotune.history.folder import WISHES
from hydra_plugins.autotune._slurm import prepare
from hydra_plugins.autotune._slurm_batch import BatchSettings, Order, job_name, submit
from hydra_plugins.autotune._slurm_jobs import Slurm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where scripts go, on a machine whose Slurm takes every job; it looks at its script as Slurm does."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (
        ("sbatch", 'cat "$1" >/dev/null && echo "Submitted batch job 7"'),
        ("srun", ":"),
        ("squeue", ":"),
        ("sinfo", ":"),
    ):
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


SMALL = (
    *(
        "conf=allreduce_8node",
        "hydra/launcher=simulated",
        "sizes=[8,1k]",
        "budget.launches=3",
        "baseline.launches=1",
    ),
    *("screening.enabled=false", "verify.enabled=false", "proposer=random"),
)


def scenario_of(directory):
    return answer_of(lambda scenario, _: scenario, [*SMALL, f"campaign.dir={directory}"])


def test_a_complete_campaign_takes_no_nodes_to_say_so(tmp_path, monkeypatch, capsys):
    assert main([*SMALL, f"campaign.dir={tmp_path / 'made'}", "--quiet"]) == 0
    monkeypatch.setenv("PATH", str(tmp_path))  # where no Slurm is to be asked
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    made = scenario_of(tmp_path / "made")
    prepare(made, BatchSettings())
    for asked in (
        replace(made, budget=replace(made.budget, launches=5)),
        replace(made, campaign=replace(made.campaign, fresh=True)),
    ):
        with pytest.raises(StackError, match="squeue is not installed"):
            prepare(asked, BatchSettings())


@pytest.mark.parametrize(("own", "handed"), [("2x1", False), ("1x2", True)])
def test_each_job_of_a_site_gets_nodes_of_its_own(folder, monkeypatch, own, handed):
    jobs = folder.parent / "jobs"
    folder.parent.mkdir()
    (folder.parent / WISHES).write_text("{}")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", job_name(jobs / own))
    scenario = scenario_of(jobs / "2x1")
    prepare(scenario, BatchSettings())  # of the first job there is no other
    for name in ("1x2", "2x1"):
        (jobs / name).mkdir(parents=True)
    if not handed:
        prepare(scenario, BatchSettings())
        return
    with pytest.raises(HandedOver, match="job 7 runs this campaign"):
        prepare(scenario, BatchSettings())
