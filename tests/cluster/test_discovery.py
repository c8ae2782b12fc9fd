"""Discovery inside an allocation of several nodes: what is kept there, and whether its levels survive."""

import json
import sys
from pathlib import Path

import pytest

from .ground import ROOT, Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SEEN = """
import json, sys
from pathlib import Path
from autotune.commands.hydra_bridge import answer_of
site = answer_of(lambda scenario, site: site, sys.argv[1:])
print(json.dumps({p.name: [str(v) for v in p.values] for p in site.knobs.parameters}))
"""
SERVED = ("allgather", "allreduce", "barrier", "bcast", "gather", "reduce", "scatter")
CALLS = [f"{name}:{size}" for name in SERVED for size in (8, 8192, 131072)]


def discovered(cluster: Cluster, directory: Path, *words: str) -> dict[str, list[str]]:
    """The knobs of a discovery on four nodes, with their levels, the default first."""
    place = ("cluster.nodes=4", "cluster.ppn=2", "cluster.ranks=8", "conf=small", f"campaign.dir={directory}")
    asked = ("--config-dir", str(ROOT / "tests/cluster/site"), *place, "space=discover", *words)
    said = cluster.run("salloc", "-N4", "--ntasks-per-node=2", sys.executable, "-c", SEEN, *asked)
    assert said.returncode == 0, said.stdout + said.stderr
    found: dict[str, list[str]] = json.loads(said.stdout.splitlines()[-1])
    return found


def kept(found: dict[str, list[str]]) -> None:
    """Knobs of hierarchical collectives and of the network are among them."""
    assert {"coll_han_priority", "coll_han_allreduce_segsize", "coll_han_use_bcast_algorithm"} <= found.keys()
    assert sum(name.startswith("UCX_TCP_") for name in found) >= 10, sorted(found)


def test_a_discovery_by_srun_keeps_them_and_begins_no_campaign(cluster, tmp_path):
    words = ("hydra/launcher=slurm", "launch.with=srun", "collective=[allreduce,bcast,reduce]")
    kept(discovered(cluster, tmp_path / "campaign", *words))
    assert not (tmp_path / "campaign").exists()


def test_every_level_of_the_hierarchical_component_survives(cluster, tmp_path):
    """Libraries list values of enumerations that end in a crash or in wrong results."""
    words = ("hydra/launcher=slurm", f"collective=[{','.join(SERVED)}]")
    found = discovered(cluster, tmp_path / "campaign", *words)
    kept(found)
    levels = [(n, level) for n, values in found.items() if n.startswith("coll_han_") for level in values]
    modules = {name for name, _ in levels if name.endswith("_module")}
    assert len(modules) == 12
    assert {level for name, level in levels if name in modules} == {"self", "1"}
    program = [sys.executable, str(ROOT / "tests/integration/calls.py"), "--strict", *CALLS]
    once = ["mpirun", "-np", "8", "--map-by", "ppr:2:node"]
    # Of a collective one module at a time, of all collectives at once.
    lines = [
        " ".join([*once, *(f"--mca {name} {level}" for name in sorted(modules) if layer in name), *program])
        for layer in ("_low_module", "_up_module")
        for level in ("self", "1")
    ]
    script = tmp_path / "levels.sh"
    script.write_text("".join(f"{line} >{tmp_path}/said 2>&1 || echo {line}\n" for line in lines))
    done = cluster.run("salloc", "-N4", "--ntasks-per-node=2", "sh", str(script), timeout_s=400)
    failed = [line for line in done.stdout.splitlines() if line.startswith("mpirun")]
    assert done.returncode == 0, done.stderr
    assert not failed
