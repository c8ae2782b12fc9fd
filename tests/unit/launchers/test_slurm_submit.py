"""What is left beside a job that was submitted: for its user alone, whatever the mask of the process."""

import os
import stat
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from autotune.cli import main
from autotune.commands.hydra_bridge import answer_of, run_task
from autotune.errors import HandedOver, ScenarioError, StackError
from autotune.history.folder import FILE
from autotune.stacks.installation import Installation
from hydra_plugins.autotune._slurm import launcher, prepare
from hydra_plugins.autotune._slurm_batch import BatchSettings, Order, job_name, submit
from hydra_plugins.autotune._slurm_jobs import Slurm


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where scripts go, on a machine whose Slurm takes every job; it looks at its script as Slurm does."""
    programs = tmp_path / "bin"
    programs.mkdir()
    sbatch = 'cat "$1" >/dev/null && echo "Submitted batch job 7"'
    for name, text in {"sbatch": sbatch, "srun": ":", "squeue": ":", "sinfo": ":"}.items():
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
    *("conf=allreduce_8node", "hydra/launcher=simulated", "sizes=[8,1k]", "budget.launches=3"),
    *("baseline.launches=1", "screening.enabled=false", "verify.enabled=false", "proposer=random"),
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


def test_a_multirun_is_passed_to_jobs_one_after_another_and_says_so_once(tmp_path, capsys):
    """Hydra would go on to the next campaign, and write a line about an error."""
    seen = []

    def handing_over(scenario, site):
        seen.append(scenario.directory)
        raise HandedOver("job 7 runs this campaign")

    with pytest.raises(HandedOver, match="job 7"):
        run_task(handing_over, ["-m", *SMALL, f"campaign.dir={tmp_path}/${{seed}}", "seed=1,2"])
    assert len(seen) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("user", ["autotune-night", ""])
def test_a_job_that_a_user_named_is_an_allocation(folder, monkeypatch, user):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", user)
    prepare(scenario_of(folder), BatchSettings())


def test_a_job_of_another_campaign_hands_back_none_that_was_begun(folder, monkeypatch):
    """Its time may be up: jobs would submit each other without end."""
    scenario = scenario_of(folder)
    folder.mkdir(parents=True)
    (folder / FILE).write_text("")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", job_name(folder.parent / "next"))
    prepare(scenario, BatchSettings())


@pytest.mark.parametrize(("own", "handed"), [("2x1", False), ("1x2", True)])
def test_each_job_of_a_site_or_a_multirun_gets_nodes_of_its_own(folder, monkeypatch, own, handed):
    jobs = folder.parent / "jobs"
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", job_name(jobs / own))
    told = pytest.raises(HandedOver, match="job 7 runs this campaign") if handed else nullcontext()
    with told:
        prepare(scenario_of(jobs / "2x1"), BatchSettings())


def test_jobs_beside_each_other_need_an_allocation_or_one_for_each_launch(folder, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    scenario = scenario_of(folder)
    scenario = replace(scenario, launch=replace(scenario.launch, first_node=2))
    with pytest.raises(ScenarioError, match=r"site\.at_once"):
        prepare(scenario, BatchSettings())
    prepare(scenario, BatchSettings(allocation="trial"))
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    prepare(scenario, BatchSettings())


def test_in_an_allocation_each_of_them_has_its_own_nodes(folder, monkeypatch):
    scenario = scenario_of(folder)
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "cn[0-7]")
    monkeypatch.setattr(Slurm, "hostnames", lambda *_: tuple(f"cn{i}" for i in range(8)))
    found, mpi = {}, Installation("openmpi", "5.0", Path("mpirun"), Path("library"), "site")
    for first in (None, 1, 4, 8):
        launch, cluster = replace(scenario.launch, first_node=first), replace(scenario.cluster, nodes=2)
        asked = replace(scenario, launch=launch, cluster=cluster)
        if first == 8:
            with pytest.raises(StackError, match="has 1 node"):
                launcher(asked, BatchSettings(), mpi, ())
        else:
            found[first] = launcher(asked, BatchSettings(), mpi, ()).hosts
    assert found == {None: tuple(f"cn{i}" for i in range(8)), 1: ("cn0", "cn1"), 4: ("cn3", "cn4")}
