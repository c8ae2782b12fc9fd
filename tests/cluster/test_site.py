"""A whole site on the proving ground: job sizes in one campaign, a kill, and files that every size reads."""

import json
import os
import signal
from collections import Counter
from dataclasses import replace

import pytest

from autotune.exporters.openmpi import OpenMpiMca
from autotune.exporters.writing import write_files
from autotune.history.journal import is_locked
from autotune.recommend.recommendation import Gain, Provenance, Recommendation
from autotune.site.rules import exact, handing_over
from autotune.space import Point

from .campaigns import SITE, Tuning, wait_until
from .ground import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = (
    *("hydra/launcher=slurm", "site.nodes=[1,2,4,8]", "site.ppn=[2]", "mpi.mca.pml=ucx", "sizes=[8,65536]"),
    *("site.collectives=[allreduce,alltoall,bcast]", "budget.launches=2", "verify.enabled=false"),
    *("probe.budget_s=0.2", "probe.min_samples=3", "probe.max_samples=50", "fix.component=tuned"),
)


def _hosts(job: Tuning) -> set[str]:
    return {host for one in job.observations for host in one["hosts"]}


def test_a_site_survives_a_kill_and_its_files_are_read_at_every_size(cluster, tmp_path):
    site = tmp_path / "site"
    words = ("python", "-m", "autotune", "conf=site", f"campaign.dir={site}", *SETTINGS)
    inside = ("salloc", "-N8", "--ntasks-per-node=2", *words, "site.at_once=3")
    first, second = (Tuning(cluster, site / f"jobs/{nodes}x2") for nodes in (1, 2))
    begun = cluster.start(*inside)
    wait_until(lambda: bool(first.observations and second.observations), say=second)
    for pid, command in cluster.processes(f"campaign.dir={site}"):
        if not command.startswith("salloc"):
            os.kill(pid, signal.SIGKILL)
    begun.wait(60)
    wait_until(lambda: not any(is_locked(job.directory) for job in (first, second)), say=second)
    kept = first.observations, second.observations
    said = cluster.run(*inside, timeout_s=400)
    assert said.returncode == 0, said.stdout + said.stderr
    for job, before in zip((first, second), kept, strict=True):
        assert job.observations[: len(before)] == before
        numbers = [one["trial"] for one in job.observations]
        assert numbers == sorted(set(numbers))  # each launch once
    assert not _hosts(first) & _hosts(second)
    assert "2 × 2 ranks, beside others: continued" in said.stdout
    for nodes in (1, 2, 4, 8):
        job = Tuning(cluster, site / f"jobs/{nodes}x2")
        assert set(job.statuses) == {"ok"}
        assert all(len(set(one["hosts"])) == nodes for one in job.observations)
        result = json.loads((job.directory / "launches/0001/result.json").read_text())
        assert set(Counter(result["hosts"]).values()) == {2}  # ranks on each node
    # Where launches lie far apart a job may get files of its own, which are read back at its ranks.
    proofs = {
        path.parent: json.loads(path.read_text())["said"] for path in site.glob("export/**/read_back.json")
    }
    assert sorted(ranks for said in proofs.values() for ranks in said) == sorted(["2", "4", "8", "16"]), (
        said.stdout
    )
    for folder, found in proofs.items():
        sets = (folder / "openmpi-mca-params.conf").read_text().splitlines()
        setting = any(line and not line.startswith("#") for line in sets)
        expected = "files in effect on fresh launches" if setting else "nothing is set"
        assert all(text.startswith(expected) for text in found.values()), found
    before = len(Tuning(cluster, site).jobs())
    again = cluster.run(*words)  # outside of an allocation: complete, so that no job is asked for
    assert again.returncode == 0, again.stderr
    assert "8 × 2 ranks: complete" in again.stdout
    assert len(Tuning(cluster, site).jobs()) == before


def test_jobs_beside_each_other_with_a_slurm_job_for_each_launch(cluster, tmp_path):
    site, few = tmp_path / "site", ("site.nodes=[1,2,3]", "site.collectives=[bcast]", "sizes=[64k]")
    words = ("python", "-m", "autotune", "conf=site", f"campaign.dir={site}", *SETTINGS, *few)
    words = (*words, "site.at_once=2")
    before = len(Tuning(cluster, site).jobs())
    refused = cluster.run(*words, "hydra.launcher.allocation=campaign")
    assert refused.returncode == 2, refused.stdout + refused.stderr
    assert "hydra.launcher.allocation=trial" in refused.stderr
    assert len(Tuning(cluster, site).jobs()) == before
    said = cluster.run(*words, "hydra.launcher.allocation=trial", timeout_s=400)
    assert said.returncode == 0, said.stdout + said.stderr
    assert said.stdout.count("beside others: small jobs come first") == 2
    for nodes in (1, 2):  # of six ranks, no power of two, nothing is expected
        job = Tuning(cluster, site / f"jobs/{nodes}x2")
        assert job.statuses == ["ok"] * 4  # the default beside each
        assert all(len(set(one["hosts"])) == nodes for one in job.observations)
    proofs = [json.loads(path.read_text())["said"] for path in site.glob("export/**/read_back.json")]
    assert sorted(ranks for said in proofs for ranks in said) == ["2", "4"]
    assert len(Tuning(cluster, site).jobs()) >= before + 4  # of the heats


SLOW = "tbf rate 4mbit burst 8kb latency 4s"
LOAD = (
    f"tc -n cn0 qdisc add dev eth0 root {SLOW} || exit; "
    "trap 'tc -n cn0 qdisc del dev eth0 root; exit' TERM; while :; do sleep 1; done"
)


def test_a_setting_that_is_best_alone_and_worst_beside_other_traffic_is_not_taken(fresh_cluster, tmp_path):
    """The root sends once, or to each rank; others' links are slow, and under load it is the root's too.

    So a chain waits for slow links alone, and what is linear for the root's, however busy the machine is.
    """
    for node in range(1, 8):
        shape = f"tc -n cn{node} qdisc add dev eth0 root {SLOW}"
        assert fresh_cluster.run(*shape.split()).returncode == 0
    site = tmp_path / "site"
    chain = {"coll_han_priority": 0, "coll_tuned_use_dynamic_rules": 1, "coll_tuned_bcast_algorithm": 3}
    chain |= {"coll_tuned_bcast_algorithm_segmentsize": 1024, "pml": "ucx"}
    words = (
        *("conf=site", f"campaign.dir={site}", f"space={SITE / 'way.yaml'}", "site.collectives=[bcast]"),
        *("hydra/launcher=slurm", "site.nodes=[8]", "site.ppn=[1]", "sizes=[32k]", "budget.launches=3"),
        *(f"mpi.mca.{name}={value}" for name, value in chain.items()),
        *("probe.budget_s=0.5", "probe.min_samples=6", "probe.max_samples=12"),
        *("verify.enabled=false", "verify.launches=3", "verify.other_loop=ignored", "site.within=false"),
        f'site.under_load="{LOAD}"',
    )
    said = fresh_cluster.run("salloc", "-N8", "python", "-m", "autotune", *words, timeout_s=400)
    assert said.returncode == 0, said.stdout + said.stderr
    (found,) = json.loads((site / "jobs/8x1/under_load.json").read_text())["found"]
    (slot,) = found["slots"]
    assert found["setting"] == "way=linear", said.stdout
    assert slot["alone"] > 1
    assert slot["gain"] < 0
    assert "way=linear is not taken" in said.stdout
    exported = (site / "export/openmpi-mca-params.conf").read_text()
    assert "coll_tuned_bcast_algorithm = 1" not in exported
    assert "tbf" not in fresh_cluster.run("tc", "-n", "cn0", "qdisc", "show", "dev", "eth0").stdout


def test_a_sites_files_take_from_han_what_was_measured_and_nothing_else(cluster, tmp_path):
    """Under rules with an algorithm that does not exist a call that reaches one is refused."""
    aside = Provenance("site", family="openmpi", env=(("OMPI_MCA_coll_han_priority", "0"),))
    gains = tuple(Gain(("allreduce", 8, size), 1e-6, 1e-8, 2e-6, 1e-8) for size in (8192, 65536))
    made = handing_over(Recommendation(Point(), (), gains, aside), ())
    made = replace(made, rules=exact(made.rules))
    refusing = tmp_path / "refusing"
    recipe = OpenMpiMca().recipe(made, tmp_path / "export", refusing)
    write_files({refusing / name: text for name, text in recipe.invalid(0).items()}, parents=True)
    parameters = f"OMPI_MCA_mca_base_param_files={refusing / 'openmpi-mca-params.conf'}"
    names = ("allreduce", "bcast", "reduce", "allgather")
    calls = [f"{name}:{size}" for name in names for size in (8192, 65536)]
    for nodes, reached in ((4, {"allreduce:8192", "allreduce:65536"}), (3, set()), (8, set())):
        launch = ["mpirun", "-np", str(2 * nodes), "--map-by", "ppr:2:node", "--mca", "pml", "ucx"]
        program = ["python", str(ROOT / "tests/integration/calls.py"), *calls]
        alone = ["salloc", f"-N{nodes}", "--ntasks-per-node=2"]
        done = cluster.run("env", parameters, *alone, *launch, *program)
        ended = dict(line.split() for line in done.stdout.splitlines() if line.count(":") == 1)
        assert {call for call, how in ended.items() if how != "SUCCESS"} == reached, done.stdout + done.stderr
        assert ended.keys() == set(calls), done.stdout + done.stderr
