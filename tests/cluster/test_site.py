"""A whole site on the proving ground: job sizes in one campaign, a kill, and files that every size reads."""

import json
import os
import signal
from pathlib import Path

import pytest

from .campaigns import Tuning, wait_until
from .ground import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = (
    *("hydra/launcher=slurm", "site.nodes=[1,2,4]", "site.ppn=[2]", "mpi.mca.pml=ucx", "sizes=[8,65536]"),
    *("site.collectives=[allreduce,alltoall,bcast]", "budget.launches=2", "verify.enabled=false"),
    *("probe.budget_s=0.5", "probe.min_samples=5", "probe.max_samples=10", "mpi.mca.coll_han_priority=0"),
)


def test_a_site_survives_a_kill_and_its_files_are_read_at_every_size(
    cluster: Cluster, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    words = ("python", "-m", "autotune", "conf=site", f"campaign.dir={site}", *SETTINGS)
    inside = ("salloc", "-N4", "--ntasks-per-node=2", *words)
    second = Tuning(cluster, site / "jobs/2x2")
    begun = cluster.start(*inside)
    wait_until(lambda: bool(second.observations), say=second)
    for pid, command in cluster.processes(f"campaign.dir={site}"):
        if not command.startswith("salloc"):
            os.kill(pid, signal.SIGKILL)
    begun.wait(60)
    kept = second.observations
    said = cluster.run(*inside, timeout_s=300)
    assert said.returncode == 0, said.stdout + said.stderr
    assert second.observations[: len(kept)] == kept
    for nodes in (1, 2, 4):
        job = Tuning(cluster, site / f"jobs/{nodes}x2")
        assert job.statuses == ["ok"] * 2
        assert all(len(set(one["hosts"])) == nodes for one in job.observations)
        assert f"{2 * nodes} ranks: proved on fresh launches" in said.stdout
    proved = json.loads((site / "export/read_back.json").read_text())["said"]
    assert set(proved) == {"2", "4", "8"}
    before = len(Tuning(cluster, site).jobs())
    again = cluster.run(*words)  # outside of an allocation: complete, so that no job is asked for
    assert again.returncode == 0, again.stderr
    assert "4 × 2 ranks: complete, 2 launches" in again.stdout
    assert len(Tuning(cluster, site).jobs()) == before
