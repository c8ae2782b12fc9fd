"""Make each launch in a Slurm job of its own, or the launches of a heat (which take turns) in one job.

The campaign runs where it was started. It writes ``launch.json`` in a launch's directory and submits a job
with the command ``python -m hydra_plugins.autotune._slurm_trial DIRECTORY …``. In the job's allocation, this
program makes the launches in the directories at the same time, and writes ``ended.json`` for each.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

from autotune.errors import StackError
from autotune.history.trial import Status
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest
from hydra_plugins.autotune import _processes
from hydra_plugins.autotune._mpirun import CommandLine, outcome
from hydra_plugins.autotune._slurm_batch import BatchSettings, Nodes, Order, job_name, submit
from hydra_plugins.autotune._slurm_jobs import OVERLAPPING, SLACK_S, Slurm, pauses
from hydra_plugins.autotune._slurm_words import RUNNING, WAITING, Job

LAUNCH, ENDED = "launch.json", "ended.json"
"""Files in the directory of a launch: the command that its job runs, and how the command ended."""

_ANSWER = "nodes_answer"  # Key of ``ended.json``: whether all nodes could start a process after a failure.

_STARTUP_S = 60  # Time in seconds that a job may take in addition to the launch itself.
_LATE_FILES = 6  # Number of attempts to read a job's files after its end.


@dataclass(frozen=True, slots=True)
class TrialJobs:
    """Make each launch in a job of its own, or the launches of a heat in one job."""

    directory: Path  # The campaign's directory, which also contains the names of its nodes.
    settings: BatchSettings  # The scenario's settings for Slurm.
    command: CommandLine  # Builds the command line of ``mpirun`` or ``srun``.
    slurm: Slurm  # The connection to Slurm.
    queue_timeout_s: float = 3600.0  # Longest time that a job may wait for its start, in seconds.
    away: bool = True  # Whether jobs run on other machines than this one.

    at_once: ClassVar[bool] = True

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """Make a launch and return how it ended; see ``run_at_once``."""
        return self.run_at_once([(self, request)])[0]

    def run_at_once(self, runs: Sequence[tuple[Launcher, LaunchRequest]]) -> list[LaunchOutcome]:
        """Make launches at the same time in one job, and return how they ended; see ``Launcher``.

        If a job is cancelled, preempted or loses a node, its unfinished launches get the status ``lost``, and
        the caller repeats them. Launches are also lost if the job never starts. If Slurm does not answer,
        this method waits.

        Raises:
            StackError: Slurm refuses the job for its options, or does not answer for hours.
        """
        requests = [request for _, request in runs]
        name = f"{job_name(self.directory)}-{requests[0].directory.name}"
        self.slurm.cancel_named(name)  # a job that the campaign left in the queue when it was killed
        for by, request in runs:
            words, env = by.command(request, request.placement)
            document = {
                "argv": words,
                "env": {**env, **(OVERLAPPING if len(runs) > 1 else {})},
                "timeout_s": request.timeout_s,
                "note": str(request.ended_file) if request.ended_file is not None else "",
            }
            (request.directory / LAUNCH).write_text(json.dumps(document, indent=1), encoding="utf-8")
        hosts = Nodes(self.directory).read() if self.settings.same_nodes else ()
        job = self._run_job(requests, name, hosts)
        if hosts and job.waits_in_vain:
            job = self._run_job(requests, name, ())  # on other nodes, which the observation records
        return [self._outcome(request, job) for request in requests]

    def _run_job(self, requests: Sequence[LaunchRequest], name: str, hosts: tuple[str, ...]) -> Job:
        """Submit a job and return its state at its end, or its last state before this method cancelled it."""
        places, timeout_s = [r.placement for r in requests], max(r.timeout_s for r in requests)
        nodes = max(place.nodes for place in places)
        order = Order(
            name,
            nodes=nodes,
            ppn=max(place.ppn or -(-place.ranks // place.nodes) for place in places),
            time=self.settings.time or str(-(-int(timeout_s + _STARTUP_S) // 60)),
            hosts=hosts[:nodes],
        )
        folders = [str(request.directory.absolute()) for request in requests]
        command = (sys.executable, "-P", "-m", __name__, *folders)
        job_id = submit(self.directory.absolute() / "slurm", self.settings, order, command, self.slurm)
        try:
            return self._watch(job_id, timeout_s, bool(hosts))
        except BaseException:
            with contextlib.suppress(StackError):
                self.slurm.cancel(job_id)
            raise

    def _watch(self, job_id: str, timeout_s: float, pinned: bool) -> Job:
        submitted_s = self.slurm.clock()
        started_s: float | None = None
        for pause_s in pauses(first_s=0.2, last_s=15.0):
            job = self.slurm.job(job_id)
            now_s = self.slurm.clock()
            if job is None:
                return Job(job_id, "UNKNOWN", "Slurm has forgotten it")
            if job.verdict == RUNNING and started_s is None:
                started_s = now_s
            too_long = job.verdict == WAITING and now_s - submitted_s > self.queue_timeout_s
            given_up = too_long or (pinned and job.waits_in_vain)
            overran = started_s is not None and now_s - started_s > timeout_s + _STARTUP_S
            if given_up or overran:
                self.slurm.cancel(job_id)
            if given_up or overran or job.verdict not in (WAITING, RUNNING):
                return job
            self.slurm.sleep(pause_s)
        raise AssertionError("pauses never end")

    def _outcome(self, request: LaunchRequest, job: Job) -> LaunchOutcome:
        if job.verdict == WAITING:
            why = f"never started: {job.in_words()} after {self.queue_timeout_s:.0f} s"
            return LaunchOutcome(Status.LOST, why, queue_s=self.queue_timeout_s, given_up=True)
        hosts = self.slurm.hostnames(job.nodelist) if job.nodelist else ()
        end, answer = _ended(request.directory, self.slurm, job)
        launch_outcome = outcome(request.directory, end)
        status, reason = launch_outcome.status, launch_outcome.reason
        if launch_outcome.result is not None:
            Nodes(self.directory).write(hosts)
        else:
            if not answer:
                status, reason = Status.LOST, f"a node does not answer; {reason}"
            if job.state not in ("COMPLETED", "FAILED") and job.verdict != RUNNING:
                status, reason = Status(job.verdict), f"{job.in_words()}; {reason}"
        hosts = launch_outcome.hosts or hosts
        return replace(launch_outcome, status=status, reason=reason, queue_s=job.queue_s, hosts=hosts)


def main(directories: Sequence[Path]) -> int:
    """Run the command in each ``launch.json``, write ``ended.json``, and remove shared memory that is left.

    This function runs inside the job.
    """
    began_s = time.monotonic()
    ends = _processes.run_at_once([_command(directory) for directory in directories])
    slurm, answer = Slurm(patience_s=0, call_timeout_s=_STARTUP_S / 2), True
    hosts: tuple[str, ...] = ()
    if any(end.exit_code != 0 for end in ends):
        with contextlib.suppress(StackError):
            hosts = slurm.hostnames(os.environ["SLURM_JOB_NODELIST"])
    if hosts and any(end.exit_code for end in ends):
        answer = slurm.starts_on(hosts)
    for directory, end in zip(directories, ends, strict=True):
        partial = directory / f"{ENDED}.part"
        partial.write_text(json.dumps({**asdict(end), _ANSWER: answer}), encoding="utf-8")
        partial.replace(directory / ENDED)
    if hosts:
        slurm.sweep(hosts, time.monotonic() - began_s + SLACK_S)
    return 0


def _command(directory: Path) -> _processes.Command:
    launch = json.loads((directory / LAUNCH).read_text(encoding="utf-8"))

    def noted(end: _processes.Ended) -> bool:
        if launch["note"]:
            Path(launch["note"]).touch()
        return False

    files = directory / "stdout", directory / "stderr"
    return _processes.Command(launch["argv"], launch["env"], *files, launch["timeout_s"], noted)


def _ended(directory: Path, slurm: Slurm, job: Job) -> tuple[_processes.Ended, bool]:
    """Return how a launch ended, and whether its nodes answered then.

    Both are read from ``ended.json``; without this file they are concluded from the state of the job.
    """
    for pause_s in islice(pauses(), _LATE_FILES):
        with contextlib.suppress(FileNotFoundError):
            record = json.loads((directory / ENDED).read_text(encoding="utf-8"))
            return _processes.Ended(record["exit_code"], record["duration_s"]), bool(record[_ANSWER])
        if job.state != "COMPLETED":
            break
        slurm.sleep(pause_s)  # on a shared file system, the file may appear after Slurm reports the end
    duration_s = (job.ends_s or 0.0) - job.started_s if job.started_s else 0.0
    return _processes.Ended(None if job.verdict in ("timeout", RUNNING) else 0, max(0.0, duration_s)), True


if __name__ == "__main__":
    sys.exit(main([Path(word) for word in sys.argv[1:]]))
