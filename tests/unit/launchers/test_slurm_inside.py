"""Launching inside an allocation: when to start another launch, when to hand over, how to explain a loss.

Time and Slurm's answers are given; the launches are real processes.
"""

import sys
from dataclasses import dataclass, field

import pytest

from autotune.errors import HandedOver, Interrupted, StackError
from autotune.stacks.ports import LaunchRequest, Placement
from hydra_plugins.autotune._health import LEAST_MIB, PLACES, Health, slow, unfit
from hydra_plugins.autotune._slurm_batch import Nodes
from hydra_plugins.autotune._slurm_inside import InAllocation
from hydra_plugins.autotune._slurm_words import Job

ENDS_S = 1000.0
MEASURE = """
import sys, pathlib
sys.path[:0] = {path!r}
from autotune.probe.protocol import ProbeResult
ProbeResult("ok", hosts=("cn0", "cn1")).write(pathlib.Path({directory!r}))
"""


@dataclass
class Answers:
    """What Slurm says."""

    states: list[str] = field(default_factory=lambda: ["RUNNING"])
    ends_s: float | None = ENDS_S
    answering: list[bool] = field(default_factory=lambda: [True])
    patience_s: float = 100.0
    now_s: float = 0.0
    swept: list[tuple[str, ...]] = field(default_factory=list)
    reports: list[tuple[Health, ...]] = field(default_factory=lambda: [()])
    said: list[str] = field(default_factory=list)

    def sweep(self, hosts, age_s):
        assert age_s > 0
        self.swept.append(hosts)

    def job(self, job_id):
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return Job(job_id, state, ends_s=self.ends_s)

    def starts_on(self, hosts):
        return self.answering.pop(0) if len(self.answering) > 1 else self.answering[0]

    def unusable(self, hosts):
        return ("cn1",)

    def health(self, hosts, folder):
        return self.reports.pop(0) if len(self.reports) > 1 else self.reports[0]

    def say(self, words):
        self.said.append(words)

    def clock(self):
        return self.now_s

    def sleep(self, duration_s):
        self.now_s += duration_s


@pytest.fixture
def inside(tmp_path):
    """Makes a launcher in an allocation that ends ``left_s`` from now, and a request."""

    def make(slurm, left_s=900.0, measures=True, successor=None):
        text = MEASURE.format(path=sys.path, directory=str(tmp_path)) if measures else "pass"

        def command(request, placement):
            return [sys.executable, "-c", text], {}

        hosts, nodes = ("cn0", "cn1", "cn2"), Nodes(tmp_path)
        launcher = InAllocation("7", hosts, command, slurm, nodes, 60.0, successor, lambda: ENDS_S - left_s)
        request = LaunchRequest(tmp_path, (), {}, Placement(2, 2), 120.0)
        return launcher, request

    return make


def test_a_launch_is_made_on_the_first_nodes_of_the_allocation(inside):
    slurm = Answers()
    launcher, request = inside(slurm)
    found = launcher.run(request)
    assert (found.status, found.hosts) == ("ok", ("cn0", "cn1"))
    assert not slurm.swept


def test_its_nodes_are_swept_where_it_ends_without_a_result(inside):
    slurm = Answers()
    launcher, request = inside(slurm, measures=False)
    assert launcher.run(request).status == "lost"
    assert slurm.swept == [("cn0", "cn1")]


def test_the_nodes_of_a_campaign_are_remembered_and_come_first(inside, tmp_path):
    launcher, request = inside(Answers())
    assert Nodes(tmp_path).first_of(("cn5", "cn1", "cn0")) == ("cn5", "cn1", "cn0")
    launcher.run(request)
    assert Nodes(tmp_path).read() == ("cn0", "cn1")
    assert Nodes(tmp_path).first_of(("cn5", "cn1", "cn0")) == ("cn0", "cn1", "cn5")
    assert Nodes(tmp_path).first_of(("cn5", "cn1")) == ("cn5", "cn1")


def test_an_allocation_without_a_limit_has_room(inside):
    launcher, request = inside(Answers(ends_s=None))
    assert launcher.run(request).status == "ok"


def test_the_first_launch_needs_room_at_all(inside):
    launcher, request = inside(Answers(), left_s=50)
    with pytest.raises(StackError, match="job 7 has 50 s left at its first launch"):
        launcher.run(request)


def test_a_later_launch_that_may_not_end_in_time_is_left_to_a_successor_or_to_the_user(inside):
    launcher, request = inside(Answers(), left_s=80, successor=lambda: "8")
    launcher.run(request)
    launcher._longest_s = 12.0  # twice that is more than the 20 s before the margin
    with pytest.raises(HandedOver, match="job 7 has 80 s left; job 8 goes on") as caught:
        launcher.run(request)
    assert caught.value.exit_code == 0
    launcher.successor = None
    with pytest.raises(Interrupted, match="a new allocation resumes"):
        launcher.run(request)


OVER = ["CANCELLED", "NODE_FAIL", "PREEMPTED", "REVOKED", "TIMEOUT", "DEADLINE", "BOOT_FAIL", "REQUEUED"]


@pytest.mark.parametrize("before", [[], ["RUNNING"]])
@pytest.mark.parametrize("state", [*OVER, "COMPLETING", "STAGE_OUT", "A_STATE_OF_THE_FUTURE"])
def test_a_launch_whose_allocation_ended_is_no_observation_and_left_to_whoever_resumes(inside, state, before):
    launcher, request = inside(Answers(states=[*before, state]), measures=False)
    with pytest.raises(Interrupted, match=f"job 7 is {state}") as ended:
        launcher.run(request)
    assert "the same command in a new allocation resumes" in str(ended.value)


@pytest.mark.parametrize("state", ["SUSPENDED", "RESIZING", "SIGNALING", "STOPPED"])
def test_an_allocation_that_goes_on_explains_nothing(inside, state):
    launcher, request = inside(Answers(states=["RUNNING", state]), measures=False)
    assert launcher.run(request).reason.startswith("the launcher returned 0")


@pytest.mark.parametrize("chain", [False, True], ids=["an allocation of the user's", "a job of a chain"])
def test_a_first_launch_that_its_job_cuts_short_counts_only_where_a_chain_must_advance(inside, chain):
    """At the end of an allocation it may have had seconds."""
    hang = "import time; time.sleep(60)"
    launcher, request = inside(Answers(), left_s=61, successor=(lambda: "8") if chain else None)
    launcher.command = lambda request, placement: ([sys.executable, "-c", hang], {})
    if chain:
        assert launcher.run(request).status == "timeout"
    else:
        with pytest.raises(Interrupted, match="job 7 ends before the launch does"):
            launcher.run(request)


def test_a_result_counts_whatever_became_of_the_allocation(inside):
    launcher, request = inside(Answers(states=["RUNNING", "NODE_FAIL"]))
    assert launcher.run(request).status == "ok"


def test_a_node_that_does_not_answer_is_named_and_waited_for(inside):
    slurm = Answers(answering=[False, False, False, True])
    launcher, request = inside(slurm, measures=False)
    found = launcher.run(request)
    assert (found.status, found.reason.split(";")[0]) == ("lost", "cn1 does not answer")
    launcher.run(request)
    assert slurm.now_s == pytest.approx(0.5 + 0.75)


def test_nodes_that_never_answer_again_end_the_work(inside):
    slurm = Answers(answering=[False])
    launcher, request = inside(slurm, measures=False, successor=lambda: "8")
    launcher.run(request)
    with pytest.raises(HandedOver, match="do not answer; job 8 goes on"):
        launcher.run(request)
    assert 50 < slurm.now_s <= 100


def test_a_launch_that_fails_by_itself_is_no_fault_of_the_nodes(inside):
    launcher, request = inside(Answers(), measures=False)
    assert launcher.run(request).reason == "the launcher returned 0 without a result: it printed nothing"


def test_the_announced_end_is_heeded_between_launches(inside):
    launcher, request = inside(Answers(), successor=lambda: "8")
    launcher._on_signal(0, None)
    with pytest.raises(HandedOver):
        launcher.run(request)


ROOM = dict.fromkeys(PLACES, 1000.0)
FULL = {**ROOM, PLACES[0]: LEAST_MIB / 2}
WELL = (Health("cn0", ROOM, 0.001), Health("cn1", ROOM, 0.001))


def test_a_node_without_room_is_named_before_the_first_launch(inside):
    launcher, request = inside(Answers(reports=[(WELL[0], Health("cn1", FULL, 0.001))]))
    with pytest.raises(StackError, match="cn1: no room in /var/tmp") as caught:
        launcher.run(request)
    assert "--exclude=cn1" in caught.value.hint


def test_a_node_that_was_filled_later_is_named_by_the_launch_that_failed(inside):
    slurm = Answers(reports=[WELL, (Health("cn0", FULL, 0.001), WELL[1])])
    launcher, request = inside(slurm, measures=False)
    assert launcher.run(request).reason.startswith("cn0: no room in /var/tmp; ")


def test_a_node_that_starts_no_process_is_unfit_but_not_where_nobody_could_be_asked():
    assert unfit(WELL[:1], ("cn0", "cn1")) == {"cn1": "starts no process"}
    assert not unfit((), ("cn0", "cn1"))


def test_the_slow_node_is_the_one_between_two_slow_links():
    hosts = tuple(f"cn{i}" for i in range(8))
    times = [0.001] * 8
    assert not slow([Health(h, ROOM, t) for h, t in zip(hosts, times, strict=True)], hosts)
    times[4] = times[5] = 0.05  # cn4 → cn5 → cn6
    reports = [Health(h, ROOM, t) for h, t in zip(hosts, times, strict=True)]
    assert slow(reports, hosts) == {"cn5": pytest.approx(50.0)}
    assert not slow([Health(h, ROOM, t) for h, t in zip(hosts[:2], times[4:], strict=False)], hosts[:2])


def test_launches_of_a_heat_overlap_and_each_fails_by_itself(inside, tmp_path):
    """One alone needs no overlap, and takes what Slurm gives to a step."""
    slurm = Answers()
    launcher, _ = inside(slurm)
    requests = []
    for number in range(2):
        (folder := tmp_path / str(number)).mkdir()
        requests.append(LaunchRequest(folder, (), {}, Placement(2, 2), 120.0, folder / "ended"))
    measure = MEASURE.format(path=sys.path, directory=str(tmp_path / "0"))
    told = "import os; print(os.environ.get('SLURM_OVERLAP'))\n"

    def command(request, placement):
        code = told + (measure if request is requests[0] else "raise SystemExit(9)")
        return [sys.executable, "-c", code], {}

    launcher.command = command
    well, failed = launcher.run_at_once([(launcher, request) for request in requests])
    assert (well.status, well.hosts) == ("ok", ("cn0", "cn1"))
    assert (failed.status, failed.reason) == ("crashed", "exit code 9: 1")
    assert slurm.swept == [("cn0", "cn1")]
    assert all(request.ended_file.exists() for request in requests)
    launcher.run(requests[0])
    assert (tmp_path / "0/stdout").read_text() == "None\n"


def test_a_heat_that_its_allocation_cuts_short_is_left_to_whoever_resumes(inside, tmp_path):
    launcher, request = inside(Answers(), left_s=61)
    launcher.command = lambda request, placement: ([sys.executable, "-c", "import time; time.sleep(60)"], {})
    (tmp_path / "other").mkdir()
    other = LaunchRequest(tmp_path / "other", (), {}, Placement(2, 2), 120.0)
    with pytest.raises(Interrupted, match="job 7 ends before the launch does"):
        launcher.run_at_once([(launcher, request), (launcher, other)])
