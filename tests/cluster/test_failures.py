"""What clusters do to campaigns: each breaks something in mid-campaign, and the campaign goes on.

Every test has a cluster of its own. After each the journal has the right status, and nothing that a launch
started is left running.
"""

import json
import os
import signal
from contextlib import ExitStack, suppress
from itertools import repeat
from pathlib import Path

import pytest

from hydra_plugins.autotune._guard import SEGMENTS

from .campaigns import Tuning, wait_until
from .ground import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]  # dead nodes are waited for, by Slurm too

TRIAL = ("hydra/launcher=slurm", "hydra.launcher.allocation=trial")
CAMPAIGN = ("hydra/launcher=slurm", "hydra.launcher.allocation=campaign")
LONG = ("probe.budget_s=4", "probe.max_samples=100000", "probe.precision=0.0001")
"""A launch that takes long enough to be caught in the middle."""


def check_complete(tuning: Tuning, statuses: list[str]) -> None:
    reasons = "; ".join(one["reason"] for one in tuning.observations)
    assert tuning.statuses == statuses, f"{reasons}\n{tuning.account}"
    assert tuning.state == "complete", tuning.events[-1]
    assert (tuning.directory / "export" / "openmpi-mca-params.conf").exists()
    wait_until(lambda: not tuning.orphans(), 60, tuning)


def job_of_launch(tuning: Tuning) -> str:
    (job,) = running(tuning)
    return job


def test_a_node_that_dies_in_mid_launch_is_replaced(nine_nodes, tmp_path):
    tuning = Tuning(nine_nodes, tmp_path / "campaign", (*TRIAL, *LONG))
    with tuning.started():
        wait_until(lambda: tuning.launching(2), say=tuning)
        nine_nodes.power_off("cn3")
    check_complete(tuning, ["ok"] * 3)
    again = tuning.observations[1]
    assert "cn3" in tuning.observations[0]["hosts"]
    assert set(again["hosts"]) == {f"cn{i}" for i in range(9)} - {"cn3"}
    assert any(note.startswith("made again: ") for note in again["notes"])


def test_a_slurmd_killed_in_mid_launch_costs_no_result(nine_nodes, tmp_path):
    """The ranks outlive the daemon and finish; what Slurm then says about the job does not matter."""
    tuning = Tuning(nine_nodes, tmp_path / "campaign", (*TRIAL, *LONG))
    with tuning.started():
        wait_until(lambda: tuning.launching(2), say=tuning)
        nine_nodes.kill_slurmd("cn3")
    assert set(tuning.statuses) <= {"ok", "lost"}
    assert tuning.statuses.count("ok") >= 2
    assert tuning.state == "complete"
    wait_until(lambda: not [w for w in tuning.orphans() if "slurmstepd" not in w], 60)


def test_a_launch_whose_job_is_cancelled_is_made_again_and_each_time_is_lost(fresh_cluster, tmp_path):
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*TRIAL, *LONG))
    cancelled: set[str] = set()
    with tuning.started():
        for launch in (1, 2, 2, 2):

            def runs(launch: int = launch) -> bool:
                return tuning.launching(launch) and bool(running(tuning) - cancelled)

            wait_until(runs, say=tuning)
            (job,) = running(tuning) - cancelled
            fresh_cluster.run("scancel", job).check_returncode()
            cancelled.add(job)
    assert tuning.statuses[:3] == ["ok", "lost", "ok"], tuning.account
    assert tuning.state == "complete"
    (made_again,) = (note for note in tuning.observations[0]["notes"] if note.startswith("made again: job "))
    assert "CANCELLED" in made_again
    assert tuning.observations[1]["reason"].startswith("lost 3 times in a row: job ")


def running(tuning: Tuning) -> set[str]:
    return {job for job, state in tuning.jobs().items() if state == "RUNNING"}


def test_an_allocation_that_is_cancelled_ends_the_work_and_takes_no_launch_with_it(fresh_cluster, tmp_path):
    """The driver is beside the allocation, where most sites' ``salloc`` leaves it, and outlives it."""
    inside = ("salloc", "-N8", "--ntasks-per-node=1", "sh", "-c", 'trap "" HUP TERM; "$@"', "sh")
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", ("hydra/launcher=slurm", *LONG))
    with tuning.started(*inside):
        wait_until(lambda: tuning.launching(2), say=tuning)
        fresh_cluster.run("scancel", job_of_launch(tuning)).check_returncode()
    assert tuning.statuses == ["ok"], tuning.account
    wait_until(tuning.queue_is_empty)
    wait_until(lambda: not tuning.orphans(), 60, tuning)
    again = tuning.run("salloc", "-N8", "--ntasks-per-node=1")
    assert again.returncode == 0, again.stderr
    check_complete(tuning, ["ok"] * 3)


def test_a_campaign_held_to_its_nodes_goes_on_elsewhere_when_one_dies(nine_nodes, tmp_path):
    settings = (*CAMPAIGN, *LONG, "hydra.launcher.time=10", "launch.queue_timeout_s=20")
    tuning = Tuning(nine_nodes, tmp_path / "campaign", settings)
    tuning.directory.mkdir()
    (tuning.directory / "nodes.json").write_text(json.dumps([f"cn{i}" for i in range(8)]))
    tuning.run().check_returncode()
    wait_until(lambda: tuning.launching(2), say=tuning)
    nine_nodes.power_off("cn3")
    wait_until(lambda: tuning.state == "complete", 500, tuning)
    wait_until(tuning.queue_is_empty)
    check_complete(tuning, ["ok"] * 3)
    assert "cn3" in tuning.observations[0]["hosts"]
    assert "cn3" not in tuning.observations[-1]["hosts"]


def test_a_launch_that_outlives_its_job_has_timed_out(fresh_cluster, tmp_path):
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*TRIAL, *LONG, "hydra.launcher.time=1"))
    with tuning.started():
        wait_until(lambda: tuning.launching(2), say=tuning)
        # Ranks that hang, as those of a bad setting do.
        for pid, words in fresh_cluster.processes("autotune.probe"):
            if "launches/0002" in words and "mpirun" not in words:
                fresh_cluster.freeze(pid)
    check_complete(tuning, ["ok", "timeout", "ok"])
    assert "TIMEOUT" in tuning.observations[1]["reason"]


@pytest.mark.parametrize(
    ("before", "settings"),
    [(("salloc", "-N8", "--ntasks-per-node=2"), ("hydra/launcher=slurm",)), ((), TRIAL)],
    ids=["inside an allocation", "a job for each launch"],
)
def test_shared_memory_of_ranks_that_were_killed_is_removed_on_every_node(
    fresh_cluster, tmp_path, before, settings
):
    """And nothing that somebody else has open there, whatever its name."""
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*settings, *LONG, "cluster.ppn=2"))
    open_there = "exec 3> /dev/shm/sm_segment.another; exec sleep 600"
    with ExitStack() as running:
        with tuning.started(*before):
            wait_until(lambda: tuning.launching(2), say=tuning)
            another = running.enter_context(fresh_cluster.start("sh", "-c", open_there, node="cn3"))
            running.callback(another.kill)
            wait_until(lambda: bool(fresh_cluster.processes("sleep 600")))
            wait_until(lambda: all(map(segments, repeat(fresh_cluster), ("cn1", "cn2"))), say=tuning)
            for pid, words in fresh_cluster.processes("autotune.probe"):
                if Path(words.split()[0]).name.startswith("python"):
                    with suppress(ProcessLookupError):  # mpirun ends the others once one is gone
                        os.kill(pid, signal.SIGKILL)
        check_complete(tuning, ["ok", "ok", "ok"])  # with its ranks the launcher was killed: it is made again
        for node in fresh_cluster.shape.nodes:
            assert segments(fresh_cluster, node) == ({"sm_segment.another"} if node == "cn3" else set())


def segments(ground: Cluster, node: str) -> set[str]:
    """Names of what ranks share on a node."""
    names = ground.run("ls", "/dev/shm", node=node).stdout.split()
    return {name for name in names if name.startswith(SEGMENTS)}


def test_a_job_that_never_starts_is_given_up(fresh_cluster, tmp_path):
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*TRIAL, "launch.queue_timeout_s=10"))
    with tuning.started():
        wait_until(lambda: len(tuning.observations) == 1, say=tuning)
        blocker = fresh_cluster.run(
            "sbatch", "--parsable", "-N8", "-o", "/dev/null", "--wrap=sleep 600"
        ).stdout.strip()
        wait_until(lambda: tuning.jobs().get(blocker) == "RUNNING")
        wait_until(lambda: "lost" in tuning.statuses, say=tuning)
        fresh_cluster.run("scancel", blocker).check_returncode()
    lost = next(one for one in tuning.observations if one["status"] == "lost")
    assert "never started" in lost["reason"]
    assert lost["queue_s"] >= 10
    assert tuning.statuses[-1] == "ok"
    assert tuning.state == "complete"
    assert tuning.queue_is_empty()


def test_a_queue_that_is_full_is_waited_for(raised, tmp_path):
    """Slurm here forgets jobs two seconds after their end, too: what counts is what the probe wrote."""
    ground = raised(slurm_lines=("MaxJobCount=3", "MinJobAge=2"))
    hold = ("timeout", "5", "sbatch", "--parsable", "-H", "-o", "/dev/null", "--wrap=true")
    held = [ground.run(*hold).stdout.strip() for _ in range(3)]
    tuning = Tuning(ground, tmp_path / "campaign", TRIAL)
    with tuning.started():
        wait_until(lambda: bool(ground.processes("sbatch")), say=tuning)
        assert not tuning.observations
        ground.run("scancel", *filter(None, held)).check_returncode()
    check_complete(tuning, ["ok"] * 3)


def test_a_controller_that_is_away_is_waited_for(fresh_cluster, tmp_path):
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*TRIAL, *LONG))
    with tuning.started():
        wait_until(lambda: tuning.launching(2), say=tuning)
        fresh_cluster.stop_slurmctld()
        wait_until(lambda: not tuning.launching(2))
        fresh_cluster.start_slurmctld()
    check_complete(tuning, ["ok"] * 3)


def test_a_campaign_whose_job_is_cancelled_resumes_where_it_was(fresh_cluster, tmp_path):
    tuning = Tuning(fresh_cluster, tmp_path / "campaign", (*CAMPAIGN, *LONG, "hydra.launcher.time=10"))
    tuning.run().check_returncode()
    wait_until(lambda: tuning.launching(2))
    fresh_cluster.run("scancel", job_of_launch(tuning)).check_returncode()
    wait_until(tuning.queue_is_empty)
    assert tuning.statuses == ["ok"]
    wait_until(lambda: not tuning.orphans(), 60, tuning)
    tuning.run().check_returncode()
    wait_until(lambda: tuning.state == "complete", 500)
    wait_until(tuning.queue_is_empty)
    check_complete(tuning, ["ok"] * 3)


def test_a_campaign_whose_node_dies_is_started_again_by_slurm(nine_nodes, tmp_path):
    tuning = Tuning(nine_nodes, tmp_path / "campaign", (*CAMPAIGN, *LONG, "hydra.launcher.time=10"))
    tuning.run().check_returncode()
    wait_until(lambda: tuning.launching(2))
    nine_nodes.power_off("cn3")
    wait_until(lambda: tuning.state == "complete", 500)
    wait_until(tuning.queue_is_empty)
    assert set(tuning.statuses) <= {"ok", "lost"}
    assert tuning.statuses[0] == tuning.statuses[-1] == "ok"
    assert "cn3" not in tuning.observations[-1]["hosts"]
    wait_until(lambda: not tuning.orphans(), 60, tuning)


def test_a_job_that_waits_for_a_dead_node_is_replaced_on_request(nine_nodes, tmp_path):
    tuning = Tuning(nine_nodes, tmp_path / "campaign", (*CAMPAIGN, "hydra.launcher.time=10"))
    tuning.directory.mkdir()
    (tuning.directory / "nodes.json").write_text(json.dumps([f"cn{i}" for i in range(8)]))
    blocker = nine_nodes.run(
        "sbatch", "--parsable", "-N9", "-o", "/dev/null", "--wrap=sleep 600"
    ).stdout.strip()
    wait_until(lambda: tuning.jobs().get(blocker) == "RUNNING")
    tuning.run().check_returncode()
    nine_nodes.power_off("cn3")
    nine_nodes.run("scancel", blocker).check_returncode()
    wait_until(lambda: "ReqNodeNotAvail" in nine_nodes.run("squeue", "-h", "-o", "%r").stdout, 300)
    assert "runs this campaign already" not in tuning.run().stderr
    wait_until(lambda: tuning.state == "complete", 500, tuning)
    wait_until(tuning.queue_is_empty)
    check_complete(tuning, ["ok"] * 3)
    assert all("cn3" not in one["hosts"] for one in tuning.observations)


def test_short_jobs_hand_a_long_campaign_on(nine_nodes, tmp_path):
    """Slurm warns 60 s before the end, or earlier: four launches take longer than what is before that."""
    short = ("hydra.launcher.time=2", "hydra.launcher.margin_s=30", "budget.launches=4", "probe.budget_s=16")
    tuning = Tuning(nine_nodes, tmp_path / "campaign", (*CAMPAIGN, *LONG[1:], *short))
    tuning.run().check_returncode()
    wait_until(lambda: tuning.state == "complete", 500, tuning)
    wait_until(tuning.queue_is_empty)
    check_complete(tuning, ["ok"] * 4)
    jobs = tuning.jobs()
    assert len(jobs) >= 2
    assert set(jobs.values()) == {"COMPLETED"}  # none was ended by its limit
    trials = [event["number"] for event in tuning.events if event["event"] == "trial"]
    assert trials == sorted(set(trials))  # nothing was made twice
    hosts = {tuple(sorted(set(one["hosts"]))) for one in tuning.observations}
    assert len(hosts) == 1


def test_nodes_that_are_full_or_slow_are_named(fresh_cluster, tmp_path):
    inside = ("salloc", "-N8", "--ntasks-per-node=2")
    limit = "tc qdisc add dev eth0 root tbf rate 20mbit burst 20kb latency 1s"
    fresh_cluster.run(*limit.split(), node="cn5").check_returncode()
    tuning = Tuning(
        fresh_cluster,
        tmp_path / "campaign",
        ("hydra/launcher=slurm", "sizes=[8]", "fix.algorithm=default"),
    )
    said = tuning.run(*inside)
    assert said.returncode == 0, said.stderr
    assert "autotune: cn5 exchanges messages" in said.stderr
    fill = ("mount", "-t", "tmpfs", "-o", "size=64k", "none", "/var/tmp")
    fresh_cluster.run(*fill, node="cn3").check_returncode()
    said = Tuning(fresh_cluster, tmp_path / "another", tuning.settings).run(*inside)
    assert said.returncode == 2, said.stdout
    assert "cn3: no room in /var/tmp" in said.stderr
    assert "cn2" not in said.stderr
