"""Make launches in the present allocation; before it ends, submit a job that continues the campaign.

Slurm is asked for the remaining time of the job before each launch, since an administrator can change this
time. If the time is changed during a launch, a signal of Slurm gives a warning shortly before the end. No
results are lost if the campaign stops between launches: the next job makes the trial that the journal
announces.
"""

import os
import platform
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import ClassVar

from autotune.errors import HandedOver, Interrupted, StackError
from autotune.history.trial import Status
from autotune.stacks.ports import Launcher, LaunchOutcome, LaunchRequest, Placement
from hydra_plugins.autotune._health import Health, slow, unfit
from hydra_plugins.autotune._mpirun import CommandLine, heard_here, run_here
from hydra_plugins.autotune._slurm_batch import SIGNAL, Nodes
from hydra_plugins.autotune._slurm_jobs import OVERLAPPING, SLACK_S, Slurm, pauses
from hydra_plugins.autotune._slurm_words import Job


def _named(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{host}: {why}" for host, why in reasons.items())


class Ending(Exception):  # noqa: N818 - not an error: Slurm says that this job's time is nearly over
    """Interrupts a launch, because Slurm signals that the job ends soon."""


@dataclass
class InAllocation:
    """Make launches in the present allocation (the Slurm job of this process), until its end is near."""

    job_id: str  # Number of the allocation's job.
    hosts: tuple[str, ...]  # Nodes of the allocation in order of use; the campaign's earlier ones come first.
    command: CommandLine  # Builds the command line of ``mpirun`` or ``srun``.
    slurm: Slurm  # The connection to Slurm.
    nodes: Nodes  # Stores the names of the campaign's nodes.
    margin_s: float = 60.0  # Seconds from the end of the last launch to the end of the allocation.
    successor: Callable[[], str] | None = None  # Submits the continuing job; None: the user continues.
    wall_clock: Callable[[], float] = time.time  # Function that returns the seconds since the epoch.
    _longest_s: float = 0.0
    _in_launch: bool = False
    _warned: bool = False
    _suspect: bool = False
    _looked: bool = False

    at_once: ClassVar[bool] = True

    @property
    def away(self) -> bool:
        """Whether this machine is not one of the nodes; after ``salloc`` it can be the login node."""
        return os.environ.get("SLURMD_NODENAME", platform.node().partition(".")[0]) not in self.hosts

    def heed_signal(self) -> None:
        """Let the next job continue the campaign when Slurm's signal announces the end of this one."""
        signal.signal(getattr(signal, f"SIG{SIGNAL}"), self._on_signal)

    def run(self, request: LaunchRequest) -> LaunchOutcome:
        """Make a launch and return how it ended; see ``run_at_once``."""
        return self.run_at_once([(self, request)])[0]

    def run_at_once(self, runs: Sequence[tuple[Launcher, LaunchRequest]]) -> list[LaunchOutcome]:
        """Make launches at the same time on the same nodes and cores, and return how they ended.

        See the protocol ``Launcher``. The first launch in an allocation is always made. If another job is to
        continue the campaign, a first launch that the allocation's end cuts short counts as timed out, so
        that the campaign advances even if a launch takes longer than a job.

        Raises:
            Interrupted: the allocation has ended or ends soon; ``HandedOver`` if another job continues.
            StackError: Slurm does not answer, a node is unfit, or the launcher cannot be started.
        """
        if self._suspect:
            self._wait_for_nodes()
        room_s, timeout_s = self._room_s(), max(request.timeout_s for _, request in runs)
        time_text = f"job {self.job_id} has {max(0.0, room_s + self.margin_s):.0f} s left"
        if not self._longest_s and room_s <= 0:
            hint = f"ask for more time than hydra.launcher.margin_s={self.margin_s:.0f} and one launch take"
            raise StackError(f"{time_text} at its first launch", hint)
        if self._warned or (self._longest_s and room_s < min(timeout_s, 2 * self._longest_s)):
            self._leave(time_text)
        hosts = self.hosts[: max(request.placement.nodes for _, request in runs)]
        if not self._looked:
            self._look(hosts)
        began_s = self.slurm.clock()
        self._in_launch = True
        try:
            outcomes = run_here([self._started(*run, len(runs) > 1) for run in runs], room_s)
        except Ending:
            self._in_launch = False
            self._leave(f"Slurm announced the end of job {self.job_id}")
        finally:
            self._in_launch = False
        cut = room_s < timeout_s and any(outcome.status is Status.TIMEOUT for outcome in outcomes)
        if cut and (self._longest_s or self.successor is None):
            self._leave(f"job {self.job_id} ends before the launch does")  # the launch will be repeated
        self._longest_s = max(self._longest_s, *(outcome.duration_s for outcome in outcomes))
        if any(outcome.result is not None for outcome in outcomes):
            self.nodes.write(hosts)
        if any(outcome.result is None for outcome in outcomes):
            outcomes = self._explained(outcomes, hosts, began_s)
        return [replace(outcome, hosts=outcome.hosts or hosts) for outcome in outcomes]

    def _started(
        self, maker: Launcher, request: LaunchRequest, in_heat: bool
    ) -> tuple[LaunchRequest, list[str], dict[str, str]]:
        placement = replace(request.placement, hosts=self.hosts[: request.placement.nodes])
        argv, env = maker.command(request, placement)
        return request, argv, {**env, **(OVERLAPPING if in_heat else {})}

    def heard(self, program: Sequence[str], placement: Placement, env: Mapping[str, str]) -> str:
        """Return the outputs of a program on the nodes of the next launch; see the protocol ``Hearing``."""
        on_nodes = replace(placement, hosts=self.hosts[: placement.nodes])
        return heard_here(self.command, program, on_nodes, env)

    def _room_s(self) -> float:
        job = self._allocation()
        return float("inf") if job.ends_s is None else job.ends_s - self.wall_clock() - self.margin_s

    def _allocation(self) -> Job:
        job = self.slurm.job(self.job_id)
        if job is None or job.is_over:
            why = job.in_words() if job else f"Slurm knows no job {self.job_id}"
            raise Interrupted(why, "the same command in a new allocation resumes")
        return job

    def _explained(
        self, outcomes: Sequence[LaunchOutcome], hosts: tuple[str, ...], began_s: float
    ) -> list[LaunchOutcome]:
        """Add the reason that Slurm and the nodes report to failed launches, and remove their leftovers."""
        self._allocation()  # if the allocation has ended, the launch will be repeated
        if not self.slurm.starts_on(hosts):
            self._suspect = True
            down = ", ".join(self.slurm.unusable(hosts)) or "a node"
            is_lost, why = True, f"{down} does not answer"
        else:
            self.slurm.sweep(hosts, self.slurm.clock() - began_s + SLACK_S)
            is_lost, why = False, _named(unfit(self._health(hosts), hosts))

        def explained(o: LaunchOutcome) -> LaunchOutcome:
            return replace(o, reason=f"{why}; {o.reason}", status=Status.LOST if is_lost else o.status)

        return [explained(o) if why and o.result is None else o for o in outcomes]

    def _look(self, hosts: tuple[str, ...]) -> None:
        """Raise an error if there are nodes on which launches would fail, and report slow nodes."""
        self._looked, reports = True, self._health(hosts)
        if reasons := unfit(reports, hosts):
            hint = f"leave it out: --exclude={','.join(reasons)} for sbatch or salloc"
            raise StackError(_named(reasons), hint)
        for host, times in slow(reports, hosts).items():
            self.slurm.say(f"autotune: {host} exchanges messages {times:.0f} times slower than its peers\n")

    def _health(self, hosts: tuple[str, ...]) -> tuple[Health, ...]:
        return self.slurm.health(hosts, self.nodes.directory / "health") if len(hosts) > 1 else ()

    def _wait_for_nodes(self) -> None:
        """Wait until every node answers; raise an error if Slurm ends the job or the wait takes too long."""
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

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._warned = True
        if self._in_launch:
            raise Ending
