"""What Slurm says, as text that Slurm 22.05 wrote, and how patiently it is asked."""

import os
import re
from pathlib import Path

import pytest

from autotune.errors import StackError
from hydra_plugins.autotune._slurm_jobs import Slurm
from hydra_plugins.autotune._slurm_words import RUNNING, VERDICTS, WAITING, is_transient, job_of

RAN = (
    "JobId=1 JobName=autotune-x UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 "
    "Account=(null) QOS=(null) JobState=COMPLETED Reason=None Dependency=(null) Requeue=0 Restarts=0 "
    "ExitCode=0:0 RunTime=00:00:01 TimeLimit=00:02:00 SubmitTime=2026-11-20T09:35:03 "
    "EligibleTime=2026-11-20T09:35:03 StartTime=2026-11-20T09:35:04 EndTime=2026-11-20T09:35:05 "
    "Deadline=N/A Partition=main ReqNodeList=cn[1-4] ExcNodeList=(null) NodeList=cn[1-4] BatchHost=cn1\n"
)
WAITS = (
    "JobId=7 JobName=autotune-x JobState=PENDING Reason=Resources Dependency=(null) "
    "SubmitTime=2026-11-20T09:35:03 StartTime=Unknown EndTime=Unknown NodeList=(null)\n"
)
BUSY = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"


def test_a_job_that_ran():
    job = job_of(RAN)
    assert (job.id, job.state, job.reason, job.nodelist) == ("1", "COMPLETED", "", "cn[1-4]")
    assert (job.verdict, job.queue_s, job.ends_s - job.started_s) == ("ok", 1.0, 1.0)


def test_a_job_that_waits():
    job = job_of(WAITS)
    assert (job.verdict, job.started_s, job.ends_s, job.nodelist) == (WAITING, None, None, "")
    assert job.queue_s == 0.0
    assert job.in_words() == "job 7 is PENDING (Resources)"


@pytest.mark.parametrize("text", ["", "slurm_load_jobs error: Invalid job id specified", "JobId=3"])
def test_no_job(text):
    assert job_of(text) is None


def test_a_hostile_comment_does_not_change_the_state():
    job = job_of("JobId=1 JobName=x JobState=FAILED Reason=NonZeroExitCode Comment=a JobState=COMPLETED\n")
    assert job.verdict == "crashed"


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ("PENDING CONFIGURING", WAITING),
        ("RUNNING COMPLETING SUSPENDED", RUNNING),
        ("FAILED OUT_OF_MEMORY", "crashed"),
        ("TIMEOUT", "timeout"),
        ("CANCELLED PREEMPTED NODE_FAIL A_STATE_OF_THE_FUTURE", "lost"),
    ],
)
def test_what_a_state_means(states, verdict):
    assert {job_of(f"JobId=1 JobState={state}").verdict for state in states.split()} == {verdict}


ALL_STATES = """BOOT_FAIL CANCELLED COMPLETED CONFIGURING COMPLETING DEADLINE FAILED LAUNCH_FAILED NODE_FAIL
OUT_OF_MEMORY PENDING PREEMPTED RUNNING RESV_DEL_HOLD REQUEUE_FED REQUEUE_HOLD REQUEUED RESIZING REVOKED
SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT"""  # squeue(1), "JOB STATE CODES", of Slurm 22.05
HOW_LAUNCHES_END = {"COMPLETED", "FAILED", "OUT_OF_MEMORY", "TIMEOUT"}
"""By themselves, as far as the launch is all that its job does."""


@pytest.mark.parametrize("state", ALL_STATES.split())
def test_every_state_of_slurm_is_known_and_only_these_are_no_end_from_outside(state):
    assert state in VERDICTS
    job = job_of(f"JobId=1 JobState={state}")
    ended_by_itself = job.verdict in (WAITING, RUNNING) or state in HOW_LAUNCHES_END
    assert (job.verdict == "lost") != ended_by_itself
    assert job.is_over == (state not in ("RUNNING", "RESIZING", "SIGNALING", "STOPPED", "SUSPENDED"))


def test_every_status_is_one_that_journals_know():
    from autotune.history.trial import Status

    assert set(VERDICTS.values()) - {WAITING, RUNNING} <= {str(s) for s in Status}


@pytest.mark.parametrize(
    ("message", "later"),
    [
        (BUSY, True),
        ("sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", True),
        ("squeue: error: slurm_receive_msg: Zero Bytes were transmitted or received", True),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("sbatch: error: invalid partition specified: nope", False),
        ("Invalid job id specified", False),
    ],
)
def test_messages_that_mean_later_and_that_mean_no(message, later):
    assert is_transient(message) == later


class Hours:
    """A clock that only sleeping moves."""

    def __init__(self):
        self.now_s = 0.0

    def sleep(self, duration_s):
        self.now_s += duration_s

    def clock(self):
        return self.now_s


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Writes a scontrol that runs the given shell text."""

    def write(text: str) -> None:
        (tmp_path / "scontrol").write_text(f"#!/bin/sh\ncd {tmp_path}\n{text}\n")
        (tmp_path / "scontrol").chmod(0o755)

    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return write


def test_a_controller_that_is_away_is_waited_for(scontrol):
    busy = f"echo x >> calls; [ $(wc -l < calls) -lt 4 ] && {{ echo '{BUSY}' >&2; exit 1; }}"
    scontrol(f"{busy}\necho '{RAN.strip()}'")
    hours = Hours()
    assert Slurm(sleep=hours.sleep, clock=hours.clock).job("1").state == "COMPLETED"
    assert hours.now_s == pytest.approx(0.5 + 0.75 + 1.125)


def test_patience_ends_and_the_user_is_told_once_what_is_waited_for(scontrol):
    scontrol(f"echo '{BUSY}' >&2; exit 1")
    hours, said = Hours(), []
    with pytest.raises(StackError, match=re.escape("Slurm does not answer: scontrol")):
        Slurm(patience_s=120, sleep=hours.sleep, clock=hours.clock, say=said.append).job("1")
    assert 60 < hours.now_s <= 120
    assert said == [f"autotune: waiting, for 120 s at most: Slurm does not answer: scontrol: {BUSY}\n"]


def test_a_command_that_hangs_is_ended_and_asked_again(scontrol):
    scontrol(f"[ -e once ] || {{ touch once; exec sleep 60; }}; echo '{RAN.strip()}'")
    hours = Hours()
    assert Slurm(call_timeout_s=1.0, sleep=hours.sleep, clock=hours.clock).job("1") is not None
    assert hours.now_s >= 0.5  # a busy machine can be late with the second answer too


def test_a_job_that_slurm_has_forgotten(scontrol):
    scontrol("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1")
    assert Slurm().job("77") is None


def test_no_slurm_at_all(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="scontrol is not installed here"):
        Slurm().job("1")
