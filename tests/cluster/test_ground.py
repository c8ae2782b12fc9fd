"""The proving ground itself: a cluster worth the name, and no trace of it afterwards."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from tests.program import ran

from .campaigns import wait_until
from .configuration import Shape, slurm_conf
from .ground import ROOT, Cluster, command_line, environment

pytestmark = pytest.mark.cluster

ALLREDUCE = """
import socket
from mpi4py import MPI
total = MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)
print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, socket.gethostname(), total)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A real MPI program: every rank says where it is and what the ranks add up to."""
    path = tmp_path / "allreduce.py"
    path.write_text(ALLREDUCE)
    return str(path)


def expected(shape: Shape) -> set[str]:
    n = shape.n_nodes
    return {f"{rank} {n} cn{rank} {n * (n - 1) // 2}" for rank in range(n)}


def test_each_node_has_its_own_name_address_and_processes(cluster):
    said = cluster.run(
        "srun",
        "-N8",
        "-n8",
        "sh",
        "-c",
        "hostname; ip -4 -o addr show eth0 | awk '{print $4}'; ls -d /proc/1",
    )
    assert said.returncode == 0, said.stderr
    words = said.stdout.split()
    assert set(words) == {*cluster.shape.nodes, *(f"10.88.0.{i}/24" for i in range(1, 9)), "/proc/1"}
    assert all(
        not cluster.run("cat", "/proc/1/cmdline", node=n).stdout.startswith("python") for n in ("cn0", "cn7")
    )


def test_nodes_reach_each_other_only_over_the_bridge(cluster):
    interfaces = cluster.run("ip", "-br", "link", node="cn2").stdout.split()
    assert {
        word.partition("@")[0]
        for word in interfaces
        if not word.startswith(("U", "D", "<")) and ":" not in word
    } == {"lo", "eth0"}


def test_mpirun_uses_ucx_over_tcp_between_eight_nodes(cluster, program):
    mpirun = ("mpirun", "--mca", "pml", "ucx", "-x", "UCX_LOG_LEVEL=info", "python", program)
    said = cluster.run("salloc", "-N8", "--ntasks-per-node=1", *mpirun)
    assert said.returncode == 0, said.stderr
    assert expected(cluster.shape) <= set(said.stdout.splitlines())
    assert "tcp/eth0" in said.stdout + said.stderr


def test_srun_starts_the_same_ranks_through_pmix(cluster, program):
    said = cluster.run("srun", "--mpi=pmix", "-N8", "-n8", "python", program)
    assert expected(cluster.shape) <= set(said.stdout.splitlines()), said.stderr


def test_a_killed_owner_leaves_no_process_interface_or_file(tmp_path):
    def machine():
        return ip_view(), Path("/etc/hosts").read_bytes(), Path("/run/cluster").exists()

    before, mark = machine(), f"MARK={tmp_path}"
    env = environment() | {"MARK": str(tmp_path)}
    command = command_line(Shape(), ["srun", "-N8", "sleep", "1000"])
    owner = subprocess.Popen(command, env=env, cwd=ROOT, start_new_session=True)
    try:
        wait_until(lambda: sum(words.endswith("sleep 1000") for words in marked(mark)) >= 8)
        assert sum(words.startswith("slurmd ") for words in marked(mark)) == 8
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait(timeout=30)
    wait_until(lambda: not marked(mark))
    assert machine() == before


def test_a_wrapped_command_passes_its_status_on():
    command = ["python", "-m", "tests.cluster", "run", "--nodes=1", "--", "sh", "-c", "srun hostname; exit 7"]
    said = ran(command, env=environment(), cwd=ROOT)
    assert (said.returncode, said.stdout) == (7, "cn0\n")


def test_a_cluster_that_cannot_come_up_says_why():
    with pytest.raises(RuntimeError, match="NoSuchKey"):
        Cluster.up(Shape(slurm_lines=("NoSuchKey=1",)))


def test_a_node_survives_its_slurmd_but_not_its_power(fresh_cluster):
    fresh_cluster.kill_slurmd("cn3")
    assert fresh_cluster.run("hostname", node="cn3").stdout == "cn3\n"
    fresh_cluster.start_slurmd("cn3")
    assert fresh_cluster.run("srun", "-w", "cn3", "hostname").stdout == "cn3\n"
    fresh_cluster.power_off("cn4")
    assert fresh_cluster.run("hostname", node="cn4", timeout_s=10).returncode != 0
    fresh_cluster.stop_slurmctld()
    assert fresh_cluster.run("squeue", timeout_s=3).returncode != 0
    fresh_cluster.start_slurmctld()
    wait_until(lambda: fresh_cluster.run("squeue", timeout_s=20).returncode == 0)


@pytest.mark.parametrize("n_nodes", [0, 201])
def test_a_shape_refuses_what_the_address_plan_cannot_hold(n_nodes):
    with pytest.raises(ValueError, match="1 to 200 nodes"):
        Shape(n_nodes=n_nodes)


def test_one_node_needs_no_range():
    assert "NodeName=cn0 NodeAddr=10.88.0.1 CPUs=2" in slurm_conf(Shape(n_nodes=1))


def ip_view() -> str:
    seen = [ran(["ip", *words]).stdout for words in (["-br", "link"], ["netns"])]
    return "".join(seen)


def marked(mark: str) -> list[str]:
    """Command lines of all processes of this machine with ``mark`` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip())
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return found
