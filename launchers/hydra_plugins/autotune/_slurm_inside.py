"""Launches in the allocation that we are in: when to make another one, how to explain one that was lost.

The job's remaining time is asked for before each launch, since an administrator can change it; a signal of
Slurm shortly before the end covers what that misses. Between launches nothing is lost by stopping: the trial
that is announced in the journal is made by whoever goes on.
"""

import contextlib
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import ClassVar

from autotune.errors import HandedOver, Interrupted, StackError
from autotune.history.trial import Status
from autotune.stacks.ports import LaunchOutcome, LaunchRequest, Placement
from hydra_plugins.autotune._health import Health, slow, unfit
from hydra_plugins.autotune._mpirun import CommandLine, heard_here, run_here
from hydra_plugins.autotune._slurm_batch import SIGNAL, Nodes
from hydra_plugins.autotune._slurm_jobs import SLACK_S, Slurm, pauses
from hydra_plugins.autotune._slurm_words import Job


def _named(found: Mapping[str, str]) -> str:
    return "; ".join(f"{host}: {why}" for host, why in found.items())


class Ending(Exception):  # noqa: N818 - not an error: Slurm says that this job's time is nearly over
    """Raised out of a running launch by Slurm's signal."""


@dataclass
class InAllocation:
    """Launches in the allocation that we are in, until its end comes near."""

    job_id: str  # Of the allocation.
    hosts: tuple[str, ...]  # Its nodes, those of the campaign first; a launch uses as many as it needs.
    command: CommandLine  # Builds ``mpirun`` or ``srun``.
    slurm: Slurm  # Asked about the allocation.
    nodes: Nodes  # Where the campaign remembers its nodes.
    margin_s: float = 60.0  # How long before the end of the allocation the last launch must be over.
    successor: Callable[[], str] | None = None  # Submits the job that goes on; None: the user will.
    now: Callable[[], float] = time.time  # Seconds since the epoch.
    _longest_s: float = 0.0
    _in_launch: bool = False
    _warned: bool = False
    _suspect: bool = False
    _looked: bool = False

    at_once: ClassVar[bool] = False

    @property
    def away(self) -> bool:
        """Whether this machine is none of the nodes: ``salloc`` may leave its user on the log-in node."""
        return os.environ.get("SLURMD_NODENAME", platform.node().partition(".")[0]) not in self.hosts

    def heed_signal(self) -> None:
        """Pass on when Slurm announces the end of the job."""
        signal.signal(getattr(signal, f"SIG{SIGNAL}"), self._on_signal)

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """How the run ended; see the port.

        The first launch in an allocation is always made, and in a job of a chain it counts even if it was cut
        short, so that the chain advances even where a launch takes longer than a job.

        Raises:
            Interrupted: the allocation is over, or nearly so; ``HandedOver`` where a successor goes on.
            StackError: Slurm does not answer, a node is unfit, or the launcher cannot be started.
        """
        if self._suspect:
            self._wait_for_nodes()
        room_s = self._room_s()
        left = f"job {self.job_id} has {max(0.0, room_s + self.margin_s):.0f} s left"
        if not self._longest_s and room_s <= 0:
            raise StackError(
                f"{left} at its first launch",
                f"ask for more time than hydra.launcher.margin_s={self.margin_s:.0f} and one launch take",
            )
        if self._warned or (self._longest_s and room_s < min(request.timeout_s, 2 * self._longest_s)):
            self._leave(left)
        placement = replace(request.placement, hosts=self.hosts[: request.placement.nodes])
        if not self._looked:
            self._look(placement.hosts)
        limit_s = min(request.timeout_s, room_s)
        began_s = self.slurm.clock()
        try:
            with self._launching():
                seen = run_here(request, *self.command(request, placement), limit_s)
        except Ending:
            self._leave(f"Slurm announced the end of job {self.job_id}")
        cut = seen.status is Status.TIMEOUT and limit_s < request.timeout_s
        if cut and (self._longest_s or self.successor is None):
            self._leave(f"job {self.job_id} ends before the launch does")  # it will be made again
        self._longest_s = max(self._longest_s, seen.duration_s)
        if seen.result is None:
            seen = self._explained(seen, placement, began_s)
        else:
            self.nodes.write(placement.hosts)
        return replace(seen, hosts=seen.hosts or placement.hosts)

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Outputs of a program on the nodes of the next launch; see the port ``Hearing``."""
        there = replace(placement, hosts=self.hosts[: placement.nodes])
        return heard_here(self.command, program, there, env)

    def _room_s(self) -> float:
        job = self._allocation()
        return float("inf") if job.ends_s is None else job.ends_s - self.now() - self.margin_s

    def _allocation(self) -> Job:
        job = self.slurm.job(self.job_id)
        if job is None or job.is_over:
            raise Interrupted(
                job.in_words() if job else f"Slurm knows no job {self.job_id}",
                "the same command in a new allocation resumes",
            )
        return job

    def _explained(self, ended: LaunchOutcome, placement: Placement, began_s: float) -> LaunchOutcome:
        """A launch without a result, with what Slurm knows of why; what it left on its nodes is removed.

        Raises:
            Interrupted: the allocation is over, which is no fault of the launch: it is made again.
        """
        self._allocation()
        if not self.slurm.starts_on(placement.hosts):
            self._suspect = True
            down = ", ".join(self.slurm.unusable(placement.hosts)) or "a node"
            return replace(ended, status=Status.LOST, reason=f"{down} does not answer; {ended.reason}")
        self.slurm.sweep(placement.hosts, self.slurm.clock() - began_s + SLACK_S)
        if found := unfit(self._health(placement.hosts), placement.hosts):
            return replace(ended, reason=f"{_named(found)}; {ended.reason}")
        return ended

    def _look(self, hosts: tuple[str, ...]) -> None:
        """Before the first launch: refuse nodes on which launches would fail, and name slow ones."""
        self._looked, reports = True, self._health(hosts)
        if found := unfit(reports, hosts):
            raise StackError(_named(found), f"leave it out: --exclude={','.join(found)} for sbatch or salloc")
        for host, times in slow(reports, hosts).items():
            self.slurm.say(f"autotune: {host} exchanges messages {times:.0f} times slower than its peers\n")

    def _health(self, hosts: tuple[str, ...]) -> tuple[Health, ...]:
        return self.slurm.health(hosts, self.nodes.directory / "health") if len(hosts) > 1 else ()

    def _wait_for_nodes(self) -> None:
        """Wait until every node answers, or Slurm has decided that the job is over."""
        deadline = self.slurm.clock() + self.slurm.patience_s
        for pause_s in pauses():
            self._allocation()
            if self.slurm.starts_on(self.hosts):
                self._suspect = False
                return
            if self.slurm.clock() + pause_s > deadline:
                self._leave(f"nodes of job {self.job_id} do not answer")
            self.slurm.sleep(pause_s)

    def _leave(self, why: str) -> None:
        if self.successor is None:
            raise Interrupted(why, "the same command in a new allocation resumes")
        raise HandedOver(f"{why}; job {self.successor()} goes on")

    @contextlib.contextmanager
    def _launching(self) -> Iterator[None]:
        self._in_launch = True
        try:
            yield
        finally:
            self._in_launch = False

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._warned = True
        if self._in_launch:
            raise Ending
