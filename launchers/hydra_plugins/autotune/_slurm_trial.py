"""A job for each launch: what is submitted, how it is watched, and what runs in it.

The campaign runs where it was started. For each launch it leaves ``launch.json`` in the launch's directory
and submits a job whose whole command is ``python -m hydra_plugins.autotune._slurm_trial DIRECTORY``; that
runs the launch in the job's allocation and leaves ``ended.json``.
"""

import contextlib
import json
import os
import sys
import time
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import ClassVar

from autotune.errors import StackError
from autotune.history.trial import Status
from autotune.stacks.ports import LaunchOutcome, LaunchRequest
from hydra_plugins.autotune import _processes
from hydra_plugins.autotune._mpirun import CommandLine, outcome
from hydra_plugins.autotune._slurm_batch import BatchSettings, Nodes, Order, job_name, submit
from hydra_plugins.autotune._slurm_jobs import SLACK_S, Slurm, pauses
from hydra_plugins.autotune._slurm_words import RUNNING, WAITING, Job

LAUNCH, ENDED = "launch.json", "ended.json"
"""In the directory of a launch: what its job has to run, and how that ended."""

_ANSWER = "nodes_answer"  # Key beside that: whether each node started a process when the launch had failed.

_STARTUP_S = 60  # Of a job, beside the launch itself.
_LATE_FILES = 6  # Times that a job's files are looked for after its end.


@dataclass(frozen=True, slots=True)
class TrialJobs:
    """Each launch in a job of its own."""

    directory: Path  # Of the campaign; which nodes it runs on is remembered there.
    settings: BatchSettings  # What the scenario says about Slurm.
    command: CommandLine  # Builds ``mpirun`` or ``srun``.
    slurm: Slurm  # Takes the jobs.
    queue_timeout_s: float = 3600.0  # How long a job may wait for its start.
    away: bool = True  # Jobs run elsewhere.

    at_once: ClassVar[bool] = False

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """How the run ended; see the port.

        A job that is cancelled, preempted or loses a node is lost, which whoever asked makes again; one that
        never starts is an outcome too; a Slurm that does not answer is waited for.

        Raises:
            StackError: Slurm refuses the job for what it asks, or does not answer for hours.
        """
        name = f"{job_name(self.directory)}-{request.directory.name}"
        self.slurm.cancel_named(name)  # of a campaign that was killed while it waited
        words, env = self.command(request, request.placement)
        document = {"argv": words, "env": env, "timeout_s": request.timeout_s}
        (request.directory / LAUNCH).write_text(json.dumps(document, indent=1), encoding="utf-8")
        hosts = Nodes(self.directory).read() if self.settings.same_nodes else ()
        job = self._run_job(request, name, hosts)
        if hosts and job.waits_in_vain:
            job = self._run_job(request, name, ())  # elsewhere: the observation records where
        return self._outcome(request, job)

    def _run_job(self, request: LaunchRequest, name: str, hosts: tuple[str, ...]) -> Job:
        """The job at its end, or, cancelled by us, as it was before."""
        place = request.placement
        order = Order(
            name,
            nodes=place.nodes,
            ppn=place.ppn or -(-place.ranks // place.nodes),
            time=self.settings.time or str(-(-int(request.timeout_s + _STARTUP_S) // 60)),
            hosts=hosts[: place.nodes],
        )
        here = (sys.executable, "-P", "-m", __name__, str(request.directory.absolute()))
        job_id = submit(self.directory.absolute() / "slurm", self.settings, order, here, self.slurm)
        try:
            return self._watch(job_id, request.timeout_s, bool(hosts))
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
        by_itself, answer = _ended(request.directory, self.slurm, job)
        ended = outcome(request.directory, by_itself)
        if ended.result is None and not answer:
            ended = replace(ended, status=Status.LOST, reason=f"a node does not answer; {ended.reason}")
        if ended.result is None and job.state not in ("COMPLETED", "FAILED") and job.verdict != RUNNING:
            ended = replace(ended, status=Status(job.verdict), reason=f"{job.in_words()}; {ended.reason}")
        elif ended.result is not None:
            Nodes(self.directory).write(hosts)
        return replace(ended, queue_s=job.queue_s, hosts=ended.hosts or hosts)


def main(directory: Path) -> int:
    """In the job: run what ``launch.json`` says, leave ``ended.json`` and no shared memory."""
    launch, began_s = json.loads((directory / LAUNCH).read_text(encoding="utf-8")), time.monotonic()
    ended = _processes.run(
        launch["argv"], launch["env"], directory / "stdout", directory / "stderr", launch["timeout_s"]
    )
    slurm, answer = Slurm(patience_s=0, call_timeout_s=_STARTUP_S / 2), True
    hosts: tuple[str, ...] = ()
    if ended.exit_code:
        with contextlib.suppress(StackError):
            hosts = slurm.hostnames(os.environ["SLURM_JOB_NODELIST"])
            answer = slurm.starts_on(hosts)
    partial = directory / f"{ENDED}.part"
    partial.write_text(json.dumps({**asdict(ended), _ANSWER: answer}), encoding="utf-8")
    partial.replace(directory / ENDED)
    if ended.exit_code != 0:
        with contextlib.suppress(StackError):
            hosts = hosts or slurm.hostnames(os.environ["SLURM_JOB_NODELIST"])
            slurm.sweep(hosts, time.monotonic() - began_s + SLACK_S)
    return 0


def _ended(directory: Path, slurm: Slurm, job: Job) -> tuple[_processes.Ended, bool]:
    """How the launch ended, and whether its nodes answered then, as far as its job has left that."""
    for pause_s in islice(pauses(), _LATE_FILES):
        with contextlib.suppress(FileNotFoundError):
            left = json.loads((directory / ENDED).read_text(encoding="utf-8"))
            answer = bool(left.pop(_ANSWER, True))
            return _processes.Ended(**left), answer
        if job.state != "COMPLETED":
            break
        slurm.sleep(pause_s)  # a shared file system shows it later than Slurm says so
    duration_s = (job.ends_s or 0.0) - job.started_s if job.started_s else 0.0
    ended = _processes.Ended(None if job.verdict in ("timeout", RUNNING) else 0, max(0.0, duration_s))
    return ended, True


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
