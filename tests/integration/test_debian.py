"""The shipped spaces on Debian's own stacks, whose libraries are older than those that pip brings.

Debian 12: Open MPI 4.1.4 over UCX 1.13.1.
"""

import json
import shutil
from pathlib import Path

import pytest

from autotune.campaign.observing import measurement_of
from autotune.history.trial import Phase, Subject, Trial
from autotune.resources import space_text
from autotune.scenario import defaults, scenario_of
from autotune.space.loader import load_space
from hydra_plugins.autotune.mpirun import MpirunLauncher
from tests.covering import covering
from tests.program import autotune

SPACE = "openmpi_ucx_local"

pytestmark = [pytest.mark.apps, pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def launcher():
    """Debian's ``mpirun`` of Open MPI."""
    if (found := shutil.which("mpirun.openmpi")) is None:
        pytest.skip("no mpirun.openmpi here (apt-get install openmpi-bin)")
    return found


def test_each_value_of_the_shipped_space_is_applied(launcher, tmp_path):
    declared = load_space(space_text(SPACE), SPACE)
    scenario = scenario_of(
        {
            **defaults(),
            "collective": sorted(declared["algorithm"].collectives),
            "sizes": [64, 65536],
            "space": SPACE,
            "campaign": {"dir": "unused"},
            "cluster": {"ranks": 2},
            "mpi": {"mpirun": launcher},
            "probe": {"budget_s": 60.0, "precision": 0.9, "min_samples": 2, "max_samples": 2},
        },
        "debian",
    )
    site = MpirunLauncher().connect(scenario)
    assert "pml" in {p.name for p in site.space.job}, site.space.dropped
    observer = site.observer(measurement_of(scenario, 2), site.space, tmp_path)
    over = set()
    for number, point in enumerate(covering(site.space), start=1):
        seen = observer.observe(Trial(number, Phase.SEARCH, point, Subject.DEPLOYED))
        assert seen.ok, (point, seen.reason)
        over.add(point["pml"])
    assert over == {"default", "ucx"}


def test_a_campaign_out_of_the_box_searches_all_of_it(launcher, tmp_path):
    """Also from its own defaults over UCX: launches of a scenario that fixes it had no complete curve."""
    over = {"pml": "ucx", "opal_common_ucx_tls": "any", "opal_common_ucx_devices": "any"}
    for name, more in (("any", ()), ("ucx", [f"+mpi.mca.{key}={value}" for key, value in over.items()])):
        place = tmp_path / name
        done = autotune(
            "conf=allreduce_local",
            f"mpi.mpirun={launcher}",
            *more,
            *("sizes=[8,8192]", "proposer=random", "budget.launches=6", "verify.enabled=false"),
            *("probe.budget_s=0.3", "baseline.launches=1", f"campaign.dir={place}"),
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        lines = [json.loads(line) for line in Path(place, "journal.jsonl").read_text().splitlines()]
        seen = [event for event in lines if event["event"] == "observation"]
        assert {event["status"] for event in seen} == {"ok"}, [event["reason"] for event in seen]
        asked = [event["point"] for event in lines if event["event"] == "trial"]
        assert "ucx" in {point.get("pml") for point in asked}
