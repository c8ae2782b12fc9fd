"""Ask Slurm about its jobs and nodes, and wait for it if it does not answer.

One class calls Slurm's own commands. Each call has a time limit. If Slurm does not answer, which happens on
every cluster, calls are repeated with growing pauses. The accounting database is not needed; many small
clusters have none.
"""

import contextlib
import getpass
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.campaign import interruption
from autotune.errors import StackError
from autotune.history.folder import make_empty
from hydra_plugins.autotune import _guard, _health
from hydra_plugins.autotune._health import Health
from hydra_plugins.autotune._hosts import heard
from hydra_plugins.autotune._slurm_words import NEVER, NOT_NOW, STARTING, Job, is_transient, job_of

SLACK_S = 10.0
"""Seconds that are added to the age up to which nodes remove files, since the removal begins a bit later."""

OVERLAPPING = {"SLURM_OVERLAP": "1"}
"""Variables of a launch that runs at the same time as others. With them its steps in Slurm (``mpirun`` starts
its daemons as steps, too) share cores, memory and devices with other steps. Otherwise a step waits until
another one has ended (srun(1))."""

_NOTICE_S = 10.0  # Length of a wait in seconds after which the user is informed.


@dataclass(frozen=True, slots=True)
class Slurm:
    """Call Slurm's commands; a method raises a StackError if there is no answer for ``patience_s``."""

    patience_s: float = 3600.0  # Longest time to wait for an answer of Slurm, in seconds.
    call_timeout_s: float = 60.0  # Time limit of one command, in seconds.
    sleep: Callable[[float], None] = interruption.pause  # Function that waits for some seconds.
    clock: Callable[[], float] = time.monotonic  # Function that returns the present time in seconds.
    say: Callable[[str], object] = sys.stderr.write  # Function that shows a message to the user.

    def job(self, job_id: str) -> Job | None:
        """Return the present state of a job; None if Slurm no longer knows the job."""
        return job_of(self.ask(["scontrol", "show", "job", "-o", job_id]).stdout)

    def cancel(self, job_id: str) -> None:
        """Cancel a job; it is no error if the job has ended already."""
        self.ask(["scancel", job_id])

    def cancel_named(self, name: str) -> None:
        """Cancel this user's jobs named ``name``, which may exist after a submission that seemed to fail."""
        self.ask(["scancel", f"--user={getpass.getuser()}", f"--name={name}"])

    def hostnames(self, nodelist: str) -> tuple[str, ...]:
        """Return the host names of a list in Slurm's short form (``cn[0-3]``)."""
        return tuple(self.ask(["scontrol", "show", "hostnames", nodelist]).stdout.split())

    def unusable(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Return the nodes on which no job can start: down, draining, not responding or unknown."""
        names = tuple(dict.fromkeys(hosts))
        reply = self.ask(["sinfo", "-h", "-N", "-n", ",".join(names), "-o", "%N %t"])
        states = dict(line.split(None, 1) for line in reply.stdout.splitlines() if " " in line)
        return tuple(h for h in names if states.get(h, "unknown").strip() not in STARTING)

    def never_starts(self, submission: Sequence[str]) -> str:
        """Return why the job of an ``sbatch`` command line can never start; empty if it may be able to."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            reply = self._call([submission[0], "--test-only", *submission[1:]])
            _, separator, why = reply.stderr.partition(NEVER)
            may_start_later = is_transient(reply.stderr) or any(words in why for words in NOT_NOW)
            if reply.returncode and separator and not may_start_later:
                return " ".join(why.split("\n", 1)[0].split())
        return ""

    def queued(self, name: str) -> str:
        """Return the number of this user's waiting or running job named ``name``; empty if there is none."""
        words = ["squeue", "-h", f"--user={getpass.getuser()}", f"--name={name}", "-o", "%i"]
        return "".join(self.ask(words).stdout.split()[:1])

    def jobs(self, name: str) -> tuple[tuple[str, Job], ...]:
        """Return this user's jobs whose names begin with ``name``, each with the rest of its name."""
        reply = self.ask(["squeue", "-h", f"--user={getpass.getuser()}", "-o", "%i %j"])
        lines = [line.split(None, 1) for line in reply.stdout.splitlines()]
        ids = [(whole.removeprefix(name), job_id) for job_id, whole in lines if whole.startswith(name)]
        return tuple((suffix, job) for suffix, job_id in ids if (job := self.job(job_id)))

    def starts_on(self, hosts: Sequence[str]) -> bool:
        """Whether a process can be started on each of these nodes of the allocation."""
        return self._on_each(hosts, "--kill-on-bad-exit=1", "true")

    def sweep(self, hosts: Sequence[str], age_s: float) -> bool:
        """Remove what a launch that began ``age_s`` seconds ago left on nodes; return whether this worked."""
        words = (sys.executable, "-I", "-S", str(Path(_guard.__file__)), _guard.SWEEP, f"{age_s:.0f}")
        return self._on_each(hosts, *words)

    def health(self, hosts: Sequence[str], folder: Path) -> tuple[Health, ...]:
        """Return the health of those nodes that report it.

        The nodes exchange their addresses in the folder, which is emptied first.
        """
        words = (sys.executable, "-I", "-S", _health.__file__, str(make_empty(folder).absolute()), *hosts)
        reports = []
        for line in self._each(hosts, *words).stdout.splitlines():
            with contextlib.suppress(ValueError, TypeError):  # the site's prolog scripts may print any lines
                reports.append(Health(**json.loads(line)))
        return tuple(reports)

    def _on_each(self, hosts: Sequence[str], *words: str) -> bool:
        return self._each(hosts, *words).returncode == 0

    def _each(self, hosts: Sequence[str], *words: str) -> subprocess.CompletedProcess[str]:
        place = [f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", f"--nodelist={','.join(hosts)}"]
        srun = ["srun", "--overlap", "--mpi=none", "--input=none", *place, *words]
        try:
            return self._call(srun)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(srun, 1, "", "")

    def ask(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Return the result of a command of Slurm; repeat the command while Slurm does not answer."""
        began_s = self.clock()
        for pause_s in pauses():
            try:
                reply = self._call(argv)
                words = reply.stderr.strip()
                if reply.returncode == 0 or not is_transient(words):
                    return reply
            except subprocess.TimeoutExpired:
                words = f"no answer in {self.call_timeout_s:.0f} s"
            self.bear(f"Slurm does not answer: {argv[0]}: {words}", began_s, pause_s)
        raise AssertionError("pauses never end")

    def bear(self, complaint: str, began_s: float, pause_s: float) -> None:
        """Wait another ``pause_s`` seconds, because Slurm has not answered or was busy since ``began_s``.

        The complaint is shown to the user once, if the wait is long.
        """
        waited_s = self.clock() - began_s
        if waited_s + pause_s > self.patience_s:
            raise StackError(complaint, "the same command resumes later")
        if waited_s <= _NOTICE_S < waited_s + pause_s:
            self.say(f"autotune: waiting, for {self.patience_s:.0f} s at most: {complaint}\n")
        self.sleep(pause_s)

    def _call(self, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        try:
            return heard(argv, self.call_timeout_s)
        except FileNotFoundError as exc:
            raise StackError(f"{argv[0]} is not installed here", "run where Slurm's commands are") from exc


def pauses(first_s: float = 0.5, factor: float = 1.5, last_s: float = 30.0) -> Iterable[float]:
    """Yield the lengths of pauses between attempts in seconds, growing up to ``last_s``, without end."""
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(last_s, pause_s * factor)
