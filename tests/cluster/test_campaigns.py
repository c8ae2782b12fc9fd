"""Each way to launch on a cluster runs a real campaign to its files, and the files are honoured."""

import json
from pathlib import Path

import pytest

from autotune.exporters import exporter
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point

from .campaigns import SITE, Tuning, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NODES = [f"cn{i}" for i in range(8)]
SALLOC = ("salloc", "-N8", "--ntasks-per-node=2")
SLURM = "hydra/launcher=slurm"
AGENT = ("hydra/launcher=mpirun", f"hydra.launcher.agent=[{SITE / 'agent'}]")

READ_BACK = """
import json, socket, sys
import numpy as np
from mpi4py import MPI
from autotune.probe.mpit import ToolInterface
from autotune.probe.ucx import unread
comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
tool = ToolInterface(MPI)
said = {"host": socket.gethostname(), "calls": []}
for name, value in (word.split("=", 1) for word in sys.argv[1:]):
    said[name] = unread({name: value}) or value if name.startswith("UCX_") else tool.read(name)
for size in (8, 65536):
    send = np.ones(size // 8)
    try:
        comm.Allreduce(send, np.empty_like(send))
        said["calls"].append("SUCCESS")
    except MPI.Exception as error:
        said["calls"].append("ERR_ARG" if error.Get_error_class() == MPI.ERR_ARG else str(error))
print(json.dumps(said), flush=True)
"""


def check_finished(tuning: Tuning) -> None:
    """The campaign is complete, every launch was measured on all nodes, the files are there."""
    assert tuning.statuses == ["ok"] * 3
    assert tuning.state == "complete"
    assert all(sorted(set(one["hosts"])) == NODES for one in tuning.observations)
    files = {path.name for path in (tuning.directory / "export").iterdir()}
    assert files >= {"openmpi-mca-params.conf", "autotune-env.sh"}
    wait_until(lambda: not tuning.orphans(), 30, tuning)


@pytest.mark.parametrize("tool", ["mpirun", "srun"])
def test_inside_an_allocation(cluster, tmp_path, tool):
    tuning = Tuning(cluster, tmp_path / "campaign", (SLURM, f"launch.with={tool}"))
    said = tuning.run(*SALLOC)
    assert said.returncode == 0, said.stderr
    check_finished(tuning)
    assert tool in (tuning.directory / "launches/0001/command").read_text().splitlines()[0]


CHECK = """
import sys
from pathlib import Path
from autotune.campaign.observing import measurement_of
from autotune.commands.hydra_bridge import run_task
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point

def check(scenario, site):
    rule = Rule("allreduce", 16, 0, Point.of({"algorithm": "recursive_doubling"}))
    fixed = tuple(site.stack.fixed.items())
    made = Recommendation(Point(), (rule,), provenance=Provenance("c", env=fixed, ranks=16))
    measurement, folder = measurement_of(scenario, site.placement.ranks), Path(sys.argv[1])
    export_files(made, ("openmpi_mca",), folder)
    print(check_export(("openmpi_mca",), made, folder, site.observer, measurement, site.space))
    return 0

run_task(check, sys.argv[2:])
"""


def test_rules_that_han_keeps_calls_from_are_found_out(cluster, tmp_path):
    """HAN of 5.0.11 dies of the refusals while it sets itself up: it is asked again with large calls only."""
    (tmp_path / "check.py").write_text(CHECK)
    words = Tuning(cluster, tmp_path, (SLURM, "cluster.ppn=2")).words
    script = ("python", str(tmp_path / "check.py"), str(tmp_path / "export"))
    done = cluster.run(*SALLOC, *script, *words[3:], timeout_s=120)
    said = "NOT PROVED: none of 1 measured sizes with a rule reaches it"
    assert said in done.stdout, done.stdout + done.stderr


EARLY = "hydra.launcher.prelude=['kill -USR1 $$']"
"""Slurm's warning, before the program has a handler for it."""


def test_a_job_for_the_whole_campaign(cluster, tmp_path):
    tuning = Tuning(cluster, tmp_path / "campaign", (SLURM, "hydra.launcher.time=10", EARLY))
    status = ("python", "-m", "autotune", "status", str(tuning.directory))
    blocker = cluster.run("sbatch", "--parsable", "-N8", "-o", "/dev/null", "--wrap=sleep 600").stdout.strip()
    wait_until(lambda: tuning.jobs().get(blocker) == "RUNNING")
    said = tuning.run()
    assert (said.returncode, said.stdout) == (0, "")
    assert "runs this campaign" in said.stderr
    waiting = cluster.run(*status).stdout
    assert "waiting, nothing is launched yet" in waiting
    assert "is PENDING (" in waiting
    cluster.run("scancel", blocker).check_returncode()
    wait_until(lambda: tuning.launching(1), say=tuning)
    running = cluster.run(*status).stdout
    assert "running, phase " in running
    assert "now        launch " in running
    assert "is RUNNING for " in running
    assert "runs this campaign already" in tuning.run().stderr
    wait_until(tuning.queue_is_empty)
    check_finished(tuning)


def test_a_job_for_each_launch(cluster, tmp_path):
    before = len(Tuning(cluster, tmp_path).jobs())
    tuning = Tuning(cluster, tmp_path / "campaign", (SLURM, "hydra.launcher.allocation=trial"))
    said = tuning.run()
    assert said.returncode == 0, said.stderr
    check_finished(tuning)
    assert len(tuning.jobs()) >= before + 3  # the files are proved by launches of their own
    assert all((tuning.directory / f"launches/{n:04d}/ended.json").exists() for n in range(1, 4))
    assert json.loads((tuning.directory / "nodes.json").read_text()) == NODES


def test_hosts_of_a_file_through_a_launch_agent(cluster, tmp_path):
    (tmp_path / "hosts").write_text("".join(f"{node} slots=2\n" for node in NODES))
    settings = (*AGENT, f"cluster.hostfile={tmp_path / 'hosts'}")
    tuning = Tuning(cluster, tmp_path / "campaign", settings)
    said = tuning.run()
    assert said.returncode == 0, said.stderr
    check_finished(tuning)


def test_a_host_that_is_unfit_is_named_before_anything_is_launched(fresh_cluster, tmp_path):
    fresh_cluster.power_off("cn5")
    hosts = f"cluster.hosts=[{','.join(NODES)}]"
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*AGENT, hosts))
    said = tuning.run()
    assert said.returncode == 2
    assert "cn5: " in said.stderr
    assert "cn4" not in said.stderr
    assert not tuning.directory.exists()


SET = {
    "OMPI_MCA_pml": "ucx",
    "OMPI_MCA_coll_han_priority": "0",
    "UCX_RNDV_THRESH": "intra:16k,inter:64k",
    "UCX_ZCOPY_THRESH": "16k",
}
"""Some of every kind: MCA parameters, UCX variables, one of them with a comma in it."""


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a recommendation that sets something of every kind, on the shared file system."""
    folder = tmp_path_factory.mktemp("export")
    rules = [
        Rule("allreduce", 8, 0, Point.of({"algorithm": "recursive_doubling"})),
        Rule("allreduce", 8, 4096, Point.of({"algorithm": "ring"})),
    ]
    made = Recommendation(Point(), tuple(rules), provenance=Provenance("small", env=tuple(SET.items())))
    for name in ("openmpi_mca", "env_sh"):
        for file, text in exporter(name).export(made, folder).items():
            (folder / file).write_text(text)
    (folder / "use").write_text(exporter("openmpi_mca").use(made, folder).partition(" ./your_program")[0])
    return folder


@pytest.mark.parametrize("tool", ["srun", "mpirun"])
def test_exported_files_are_honoured_on_every_node(cluster, export, tmp_path, tool):
    told = {name.removeprefix("OMPI_MCA_"): value for name, value in SET.items()}
    told["coll_tuned_dynamic_rules_filename"] = str(export / "coll_tuned_rules.conf")
    (tmp_path / "read_back.py").write_text(READ_BACK)
    program = (
        f"python {tmp_path / 'read_back.py'} {' '.join(f'{name}={value}' for name, value in told.items())}"
    )
    command = {
        "srun": f". {export}/autotune-env.sh; srun --mpi=pmix -N8 -n8 {program}",
        "mpirun": f"{(export / 'use').read_text()} {program}",
    }[tool]

    def ranks() -> list[dict[str, object]]:
        allocation = ("salloc", "-N8", "--ntasks-per-node=1") if tool == "mpirun" else ()
        done = cluster.run(*allocation, "sh", "-c", command)
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        assert sorted(str(one["host"]) for one in found) == NODES, done.stderr
        return found

    for one in ranks():
        assert {name: one[name] for name in told} == told, one["host"]
        assert one["calls"] == ["SUCCESS"] * 2

    # An algorithm that does not exist is refused where its row is reached: on each node.
    rules = export / "coll_tuned_rules.conf"
    kept = rules.read_text()
    try:
        rules.write_text(poisoned(kept))
        assert [one["calls"] for one in ranks()] == [["ERR_ARG"] * 2] * 8
    finally:
        rules.write_text(kept)


def poisoned(rules: str) -> str:
    """The rules with algorithm 99 in every row."""
    lines = []
    for line in rules.splitlines():
        words, hash_, comment = line.partition("#")
        fields = words.split()
        if len(fields) >= 4:
            fields[1] = "99"
        lines.append(" ".join(fields) + (f" {hash_}{comment}" if hash_ else ""))
    return "\n".join(lines) + "\n"


def test_a_job_that_tunes_itself_over_two_nodes(cluster, tmp_path):
    """Without a common clock calls to or from a root are not switched."""
    program = Path(__file__).parents[1] / "integration/switched_calls.py"
    out = tmp_path / "run.json"
    run = ("python", "-m", "autotune", "run", "--reductions", "--budget", "50%", "--out", str(out), "--")
    ranks = ("mpirun", "-n", "2", "--map-by", "ppr:1:node", "python", str(program))
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    for mode, words in (("random", ()), ("tuned", ()), ("tuned", ("fast", "3000"))):
        said = cluster.run(
            *("salloc", "-N2", "--ntasks-per-node=1", *run, *ranks, *words),
            timeout_s=200.0,
            env=environment | {"AUTOTUNE_RUN_MODE": mode},
        )
        assert said.returncode == 0, said.stdout + said.stderr
        assert words or "all calls were right" in said.stdout, said.stderr
        document = json.loads(out.read_text())
        cells = document["cells"]
        assert document["state"] == "on"
        assert {one["one_node"] for one in cells} == {False}
        if mode == "tuned" and not words:
            assert document["spent_s"] > 0
            assert {one["collective"] for one in cells if one["default_s"] > 0} >= {"allreduce", "allgather"}
    assert [(one["collective"], one["algorithm"], one["settled_at"] is None) for one in cells] == [
        ("bcast", "default", False)
    ]


def test_a_plan_launches_nothing(cluster, tmp_path):
    tuning = Tuning(cluster, tmp_path / "campaign", (SLURM,))
    words = list(tuning.words)
    words.insert(words.index("autotune") + 1, "plan")
    jobs = len(tuning.jobs())
    said = cluster.run(*words)
    assert said.returncode == 0, said.stderr
    assert "node-hours" in said.stdout
    assert len(tuning.jobs()) == jobs
    assert not tuning.directory.exists()
