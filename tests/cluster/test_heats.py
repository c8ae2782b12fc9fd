"""Heats over several nodes: in an allocation, by a job for each, by an agent; what ends early in them."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.mpirun import SHARED, compiled

from .campaigns import SITE, Tuning, wait_until
from .configuration import Shape
from .ground import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

INSIDE = ("salloc", "-Q", "-N4", "--ntasks-per-node=2")
SLURM = "hydra/launcher=slurm"
TRIAL = (SLURM, "hydra.launcher.allocation=trial")
OB1 = ("mpi.mca.pml=ob1",)  # What is preloaded loads UCX before it can be asked to report.
FOUR = ("cluster.nodes=4", "probe.budget_s=1")
LONG = ("probe.budget_s=20",)
NODES = [f"cn{i}" for i in range(4)]

FATES = """
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
/* FATE=dies: a rank dies in its turn; FATE=alone: only one job at a time may have the device of a node. */
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const char *fate = getenv("FATE");
    int code = PMPI_Init_thread(argc, argv, required, provided);
    int alone = fate && !strcmp(fate, "alone");
    if (alone && flock(open("/dev/shm/device", O_RDWR | O_CREAT, 0600), LOCK_EX | LOCK_NB)) {
        fprintf(stderr, "device: busy\\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return code;
}
int MPI_Allreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (getenv("FATE") && !strcmp(getenv("FATE"), "dies") && rank == 2 && ++calls > 40)
        raise(SIGSEGV);
    return PMPI_Allreduce(send, recv, count, type, op, comm);
}
"""

SPACE = """
stack: openmpi
description: what becomes of a job's ranks
parameters:
  fate:
    description: what becomes of them
    values: [nothing, dies]
    default: nothing
    apply: {dies: {env: {FATE: dies}}}
"""

WAYS = """
stack: openmpi
description: how ranks reduce
parameters:
  way:
    description: everything over the root's link, or recursive doubling
    values: [linear, doubling] # linear as the campaign's mpi.mca asks for
    default: linear
    apply: {doubling: {mca: {coll_tuned_allreduce_algorithm: "3"}}}
    requires: ["coll:tuned"]
"""
LINEAR = {"coll_han_priority": 0, "coll_tuned_use_dynamic_rules": 1, "coll_tuned_allreduce_algorithm": 1}


@pytest.fixture(scope="module")
def four_nodes() -> Iterator[Cluster]:
    """Shared by tests that leave it as they found it."""
    ground = Cluster.up(Shape(n_nodes=4))
    yield ground
    ground.down()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library for ranks to preload."""
    folder = tmp_path_factory.mktemp("fates")
    (folder / "space.yaml").write_text(SPACE)
    return compiled(FATES, folder / "fates.so", *SHARED)


@dataclass(frozen=True)
class Heats:
    """Heats on a cluster, started on its login node."""

    cluster: Cluster
    folder: Path
    words: tuple[str, ...]
    space: Path | None = None  # The proving ground's own.

    def command(self, heats: list[list[dict[str, Any]]]) -> tuple[str, ...]:
        """The words that make some heats."""
        program = ("python", str(Path(__file__).parent / "heat.py"), str(self.folder), json.dumps(heats))
        scenario = ("--config-dir", str(SITE), "conf=small", f"space={self.space or SITE / 'space.yaml'}")
        return (*program, *scenario, f"campaign.dir={self.folder}", *FOUR, *self.words)

    def run(self, heats: list[list[dict[str, Any]]], *before: str) -> list[dict[str, Any]]:
        """The observations of some heats; nothing of them is left on any node."""
        done = self.cluster.run(*before, *self.command(heats), timeout_s=300)
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: not self.tuning.orphans(), 60, self.tuning)
        assert not self.left()
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def left(self) -> list[str]:
        """Files of heats on the nodes."""
        nodes = ("login", *self.cluster.shape.nodes)
        listed = [(node, self.cluster.run("ls", "/dev/shm", node=node).stdout) for node in nodes]
        return [node for node, names in listed if "autotune-heat-" in names]

    @property
    def tuning(self) -> Tuning:
        """Questions to the cluster about it."""
        return Tuning(self.cluster, self.folder)


def whole(observations: list[dict[str, Any]], hosts: list[str] = NODES) -> None:
    """All launches were made at once, on all nodes."""
    assert [o["status"] for o in observations] == ["ok"] * len(observations), observations
    assert all(o["hosts"] == hosts and not o["notes"][1:] for o in observations), observations
    assert all(o["times"] for o in observations)


def taken_out(folder: Path, number: int) -> dict[str, str]:
    """The launches that another one of its heat did without."""
    words: dict[str, str] = json.loads((folder / f"launches/{number:04d}/result.json").read_text())[
        "taken_out"
    ]
    return words


@pytest.mark.parametrize("tool", ["mpirun", "srun"])
def test_in_an_allocation(four_nodes, tmp_path, tool):
    """Three jobs in an allocation of two cores a node: without overlap the third would wait."""
    heats = Heats(four_nodes, tmp_path, (SLURM, f"launch.with={tool}"))
    setting = {"UCX_RNDV_THRESH": "4k"}
    whole(heats.run([[{}, setting, {}], [setting, {}]], *INSIDE))
    assert not any(taken_out(tmp_path, number) for number in range(1, 6))


def test_steps_share_memory_and_devices_that_slurm_counts(raised, tmp_path):
    """An allocation has one device a node, and its first step takes that and all of its memory."""
    ground = raised(n_nodes=4, devices=1, slurm_lines=("SelectTypeParameters=CR_Core_Memory",))
    heats = Heats(ground, tmp_path, (SLURM, "launch.with=srun"))
    whole(heats.run([[{}, {}]], *INSIDE, "--gres=card:1", "--mem=1000"))
    assert not any(taken_out(tmp_path, number) for number in (1, 2))


def test_by_a_job_for_each(four_nodes, tmp_path):
    heats = Heats(four_nodes, tmp_path, TRIAL)
    before = set(heats.tuning.jobs())
    whole(heats.run([[{}, {"UCX_RNDV_THRESH": "4k"}, {}], [{}, {}]]))
    assert len(set(heats.tuning.jobs()) - before) == 2
    assert all((tmp_path / f"launches/{n:04d}/ended.json").exists() for n in range(1, 6))
    assert not any(taken_out(tmp_path, number) for number in range(1, 6))


def test_on_named_hosts_through_an_agent(four_nodes, tmp_path):
    agent = ("hydra/launcher=mpirun", f"hydra.launcher.agent=[{SITE / 'agent'}]")
    heats = Heats(four_nodes, tmp_path, (*agent, f"cluster.hosts=[{','.join(NODES)}]"))
    whole(heats.run([[{}, {"UCX_RNDV_THRESH": "4k"}]]))
    assert not any(taken_out(tmp_path, number) for number in (1, 2))


def test_a_job_with_ranks_on_some_of_the_nodes(four_nodes, tmp_path):
    """Where it has none nobody waits for it."""
    heats = Heats(four_nodes, tmp_path, (SLURM,))
    observations = heats.run([[{}, {"nodes": 2}, {}]], *INSIDE)
    assert [o["status"] for o in observations] == ["ok"] * 3, observations
    assert [len(o["hosts"]) for o in observations] == [4, 2, 4]
    assert not any(taken_out(tmp_path, number) for number in (1, 2, 3))


@pytest.mark.parametrize("way", ["inside", "trial"])
def test_a_launch_that_crashes_leaves_the_others_going(four_nodes, tmp_path, library, way):
    words = (*(TRIAL if way == "trial" else (SLURM,)), f"++mpi.env.LD_PRELOAD={library}", *OB1)
    heats = Heats(four_nodes, tmp_path, words, library.parent / "space.yaml")
    first, crash, third = heats.run([[{}, {"fate": "dies"}, {}]], *(INSIDE if way == "inside" else ()))
    assert crash["status"] == "crashed"
    whole([first, third])


def test_a_device_that_one_job_has_alone_leaves_launches_apart(four_nodes, tmp_path, library):
    """After two heats in which launches failed that end well apart no third one is tried."""
    held = (f"++mpi.env.LD_PRELOAD={library}", "++mpi.env.FATE=alone", *OB1)
    heats = Heats(four_nodes, tmp_path, (SLURM, *held))
    observations = heats.run([[{}, {}]] * 3, *INSIDE)
    assert [o["status"] for o in observations] == ["ok"] * 6, observations
    assert all(o["notes"][-1].startswith("launched apart: ") for o in observations), observations
    assert len(list((tmp_path / "heats").iterdir())) == 2


def test_a_node_without_room_for_the_turns_leaves_launches_apart(fresh_cluster, tmp_path):
    """Where nobody asks nodes for their room before: on named hosts."""
    small = ("mount", "-t", "tmpfs", "-o", "size=16k", "none", "/dev/shm")
    fresh_cluster.run(*small, node="cn2").check_returncode()
    agent = ("hydra/launcher=mpirun", f"hydra.launcher.agent=[{SITE / 'agent'}]", "mpi.mca.pml=ob1")
    heats = Heats(fresh_cluster, tmp_path, (*agent, f"cluster.hosts=[{','.join(NODES)}]"))
    observations = heats.run([[{}, {}]] * 2)
    assert [o["status"] for o in observations] == ["ok"] * 4, observations
    why = "no heat is possible here: cn2: /dev/shm/autotune-heat-"
    assert all(why in o["notes"][-1] and "No space left" in o["notes"][-1] for o in observations)
    assert len(list((tmp_path / "heats").iterdir())) == 1


def test_a_heat_whose_job_is_cancelled_is_made_again(four_nodes, tmp_path):
    heats = Heats(four_nodes, tmp_path, (*TRIAL, *LONG))
    with (tmp_path / "said").open("wb") as said:
        process = four_nodes.start(*heats.command([[{}, {}]]), out=said)
        wait_until(lambda: ranks(four_nodes, tmp_path) >= 8, say=heats.tuning)
        (job,) = [job for job, state in heats.tuning.jobs().items() if state == "RUNNING"]
        four_nodes.run("scancel", job).check_returncode()
        assert process.wait(300) == 0
    lines = [json.loads(s) for s in (tmp_path / "said").read_text().splitlines() if s.startswith("{")]
    assert [o["status"] for o in lines] == ["ok", "ok"]
    assert all(o["notes"][-1].startswith(f"made again: job {job} is CANCELLED") for o in lines), lines
    wait_until(lambda: not heats.tuning.orphans(), 60, heats.tuning)
    assert not heats.left()


def ranks(cluster: Cluster, folder: Path) -> int:
    """Ranks of probes that run."""
    words = [w for _, w in cluster.processes(f"autotune.probe {folder}/launches")]
    return sum(Path(w.split()[0]).name.startswith("python") for w in words)


def test_a_driver_that_is_killed_leaves_no_sleeper_on_any_node(four_nodes, tmp_path):
    heats = Heats(four_nodes, tmp_path, (SLURM, *LONG))
    process = four_nodes.start(*INSIDE, *heats.command([[{}, {}, {}]]))
    try:
        wait_until(lambda: ranks(four_nodes, tmp_path) >= 12, say=heats.tuning)
        for pid, words in four_nodes.processes("tests/cluster/heat.py"):
            if Path(words.split()[0]).name.startswith("python"):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not ranks(four_nodes, tmp_path), 60, heats.tuning)
    finally:
        process.kill()
        process.wait()
    wait_until(heats.tuning.queue_is_empty, 60, heats.tuning)
    wait_until(lambda: not heats.tuning.orphans(), 60, heats.tuning)
    assert not heats.left()


def test_the_file_of_a_heat_that_was_killed_before_all_had_come_goes_with_the_next(four_nodes, tmp_path):
    """On each node; one that is young may be somebody's who is about to begin."""
    for node, age in (("cn1", "1 hour ago"), ("cn3", "1 hour ago"), ("cn2", "now")):
        touch = ("touch", "-d", age, f"/dev/shm/autotune-heat-{node}")
        four_nodes.run(*touch, node=node).check_returncode()
    heats = Heats(four_nodes, tmp_path, (SLURM,))
    done = four_nodes.run(*INSIDE, *heats.command([[{}, {}]]), timeout_s=200)
    assert done.returncode == 0, done.stderr
    assert heats.left() == ["cn2"]
    four_nodes.run("rm", "/dev/shm/autotune-heat-cn2", node="cn2").check_returncode()


def test_a_campaign_verifies_by_heats_and_its_files_are_compared_by_heats(raised, tmp_path):
    """Eight nodes with slow links, in an allocation; two launches of each side are alive at once."""
    (tmp_path / "ways.yaml").write_text(WAYS)
    ground = raised(rate="200mbit")
    assert "tbf" in ground.run("tc", "qdisc", "show", "dev", "eth0", node="cn1").stdout
    words = (
        *(SLURM, "verify.enabled=true", "launch.heats=true", "verify.launches=2"),
        *("verify.max_failures=1", "sizes=[65536]", "budget.launches=2"),
        *(f"++mpi.mca.{name}={value}" for name, value in LINEAR.items()),
        "probe.budget_s=1.5",
    )
    tuning = Tuning(ground, tmp_path / "campaign", words, tmp_path / "ways.yaml")
    allocation = ("salloc", "-Q", "-N8", "--ntasks-per-node=2")
    done = tuning.run(*allocation)
    assert done.returncode == 0, done.stderr
    assert [e["number"] for e in tuning.events if e["event"] == "trial" and e.get("heat")], done.stdout
    assert set(tuning.statuses) == {"ok"}
    assert not any("launched apart" in note for o in tuning.observations for note in o["notes"])
    before = len(list((tuning.directory / "heats").iterdir()))
    verify = ("python", "-m", "autotune", "verify", str(tuning.directory), "--launches", "4")
    said = ground.run(*allocation, *verify, timeout_s=300)
    assert said.returncode in (0, 1), said.stdout + said.stderr
    assert "launch 4 of at most" in said.stderr
    assert before
    wait_until(lambda: not tuning.orphans(), 60, tuning)
