"""Convert settings of the scenario to parameters of the library submitit, and submit jobs.

submitit writes the batch script and calls ``sbatch``. The command that the job runs is stored next to the
script as a pickled list of words, so no shell reads it. Values that go into the script are checked first,
because a line break in a value would start a new line of the script.
"""

import hashlib
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from subprocess import CalledProcessError
from tempfile import mkstemp
from typing import TYPE_CHECKING, Any

from autotune.errors import JournalError, ScenarioError, StackError, allowed, ending
from autotune.history.folder import refuse_links
from autotune.history.journal import content
from autotune.probe.own_files import make_own
from hydra_plugins.autotune._slurm_jobs import Slurm, pauses
from hydra_plugins.autotune._slurm_words import TIME, is_transient

if TYPE_CHECKING:
    import submitit

ALLOCATIONS = ("auto", "inside", "campaign", "trial")
SIGNAL = "USR1"  # Signal that Slurm sends to a campaign's job shortly before its end.

OURS = r"autotune-[A-Za-z0-9_-]{,40}-[0-9a-f]{8}"  # Pattern of the names that ``job_name`` returns.

_SBATCH_TIMEOUT_S = 180  # Time limit of ``sbatch``: it retries for two minutes when the queue is full.
_SETTINGS = "see cluster.* and hydra.launcher.* of the scenario"
_OVERRAN = (124, 137)  # Exit codes of ``timeout`` for a command that ran too long.


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Hold and check the scenario's settings for Slurm, which ``slurm.SlurmConf`` describes."""

    allocation: str = "auto"
    partition: str = ""
    account: str = ""
    qos: str = ""
    time: str = ""
    constraint: str = ""
    exclusive: bool = True
    sbatch: tuple[str, ...] = ()
    prelude: tuple[str, ...] = ()
    same_nodes: bool = True
    margin_s: int = 60

    def __post_init__(self) -> None:
        if self.allocation not in ALLOCATIONS:
            hint = allowed(self.allocation, ALLOCATIONS)
            raise ScenarioError(f"hydra.launcher.allocation={self.allocation!r}", hint)
        for key in ("partition", "account", "qos", "time", "constraint"):
            _one_line(key, getattr(self, key))
        for line in self.sbatch:
            _one_line("sbatch", line)
            if not re.match(r"--[a-z][a-z-]*(=|$)", line):
                hint = "write long options: --name or --name=value"
                raise ScenarioError(f"hydra.launcher.sbatch holds {line!r}", hint)
        if self.time and not TIME.fullmatch(self.time):
            hint = "allowed: minutes, M:SS, H:MM:SS, D-H, D-H:MM, D-H:MM:SS"
            raise ScenarioError(f"hydra.launcher.time={self.time!r}", hint)
        if self.margin_s < 1:
            raise ScenarioError(f"hydra.launcher.margin_s={self.margin_s}", "expected 1 or more")


@dataclass(frozen=True, slots=True)
class Order:
    """Describe one job that is requested."""

    name: str  # Unique name, to find the job if it is not known whether it was submitted.
    nodes: int  # Number of nodes.
    ppn: int  # Number of ranks that will be started on each node.
    time: str  # Time limit in Slurm's notation; empty: the site's default.
    hosts: tuple[str, ...] = ()  # Names of the nodes; empty: any nodes.
    predecessor: str = ""  # Number of a job that must have ended before; empty: none.
    requeue: bool = False
    """Whether the job survives the death of a node: Slurm starts it again or, if ``hosts`` are named, lets it
    go on."""
    warn_s: int = 0  # Seconds before the job's end at which it gets ``SIGNAL``; 0: it gets no signal.


@dataclass(frozen=True, slots=True)
class Nodes:
    """Store the names of the nodes of a campaign in its directory."""

    directory: Path  # The campaign's directory.

    def read(self) -> tuple[str, ...]:
        """Return the names of the nodes; empty if there is no file, or no file that ``write`` made."""
        try:
            names = json.loads(content(self.directory, "nodes.json"))
        except (JournalError, ValueError, RecursionError):
            return ()
        return tuple(names) if isinstance(names, list) and all(isinstance(n, str) for n in names) else ()

    def first_of(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the hosts; the campaign's nodes come first if all of them are among the hosts."""
        recorded = self.read()
        if not set(recorded) <= set(hosts):
            return hosts
        return *recorded, *(host for host in hosts if host not in recorded)

    def write(self, hosts: tuple[str, ...]) -> None:
        """Write the names of the nodes to the file, unless they are in it already."""
        if hosts and hosts != self.read():
            descriptor, partial = mkstemp(dir=self.directory)  # a name that nobody can predict
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(hosts, file)
            Path(partial).replace(self.directory / "nodes.json")


def job_name(directory: Path) -> str:
    """Return the text, different for each campaign, with which the names of all jobs of a campaign begin."""
    place = str(directory.absolute())
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", directory.name)[:40]
    return f"autotune-{plain}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def parameters(settings: BatchSettings, order: Order) -> dict[str, Any]:
    """Return the parameters of a job for submitit.

    Options that submitit does not know, and those whose defaults in submitit are unsuitable (its signal,
    limits in whole minutes), are passed as ``additional_parameters``.
    """
    # If nodes are named, Slurm must not start the job again after a node's death: it would wait for the node.
    extra: dict[str, Any] = {"requeue" if order.requeue and not order.hosts else "no-requeue": True}
    if order.requeue and order.hosts:
        extra["no-kill"] = True  # the campaign survives the loss of a node, and submits the next job
    # The signal that submitit requests by default would kill the daemons of mpirun; CONT has no effect.
    extra["signal"] = f"B:{SIGNAL}@{order.warn_s}" if order.warn_s else "CONT@1"
    for line in settings.sbatch:
        key, equals, value = line.removeprefix("--").partition("=")
        extra[key] = value if equals else True
    names = ("partition", "account", "qos", "constraint", "exclusive")
    options = {name: getattr(settings, name) for name in names}
    options["nodelist"] = ",".join(order.hosts)
    options["dependency"] = f"afterany:{order.predecessor}" if order.predecessor else ""
    return {
        "job_name": order.name,
        "nodes": order.nodes,
        "ntasks_per_node": order.ppn,
        "wckey": None,  # sites that check such keys refuse submitit's default
        "time": order.time or None,  # submitit's default of five minutes would replace the site's
        "stderr_to_stdout": True,
        # The shell ignores the signal until the campaign handles it: the signal would end a campaign that is
        # just starting, and the campaign asks Slurm for its remaining time in any case.
        "setup": [*([f"trap '' {SIGNAL}"] if order.warn_s else []), *settings.prelude] or None,
        "use_srun": False,
        "additional_parameters": extra,
        **{key: value for key, value in options.items() if value},
    }


def submit(folder: Path, settings: BatchSettings, order: Order, words: Sequence[str], slurm: Slurm) -> str:
    """Submit a job that runs the command ``words``, which no shell reads, and return the job's number.

    Scripts and logs are in the folder, on a file system that the nodes share. If the queue is full or Slurm
    does not answer, the submission is repeated with growing pauses.

    Raises:
        StackError: Slurm refuses the job, or does not answer for ``slurm.patience_s``.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError  # slow to import

    _one_line("campaign.dir", str(folder))
    for host in order.hosts:
        _one_line("nodes.json", host)
    executor = _executor(folder, slurm, order.hosts)
    executor.update_parameters(**parameters(settings, order))
    began_s = slurm.clock()
    for pause_s in pauses():
        try:
            with redirect_stderr(StringIO()):  # submitit also prints the errors that it raises
                job = executor.submit(become, tuple(words))
                for path in (job.paths.submitted_pickle, job.paths.submission_file):
                    path.chmod(0o600)
                return str(job.job_id)
        except (FailedJobError, FailedSubmissionError) as exc:
            message = ending(str(exc), 500)
            overran = isinstance(exc.__cause__, CalledProcessError) and exc.__cause__.returncode in _OVERRAN
            if not overran and not is_transient(message):
                raise StackError(f"Slurm refuses the job: {message}", _SETTINGS) from exc
            slurm.cancel_named(order.name)  # Slurm may have accepted the job in spite of the error
            slurm.bear(f"Slurm takes no job: {message}", began_s, pause_s)
    raise AssertionError("pauses never end")


def become(words: Sequence[str]) -> None:
    """Replace this process inside a job by a command, so that the command gets Slurm's signals."""
    os.execvp(words[0], list(words))  # noqa: S606 - a list of words, no shell


def _executor(folder: Path, slurm: Slurm, hosts: Sequence[str]) -> "submitit.SlurmExecutor":
    import submitit

    class Bounded(submitit.SlurmExecutor):
        """Limit the time of ``sbatch``, and refuse a job that can never start.

        Slurm accepts many jobs that can never start, so ``sbatch --test-only`` checks the job first. The
        check is skipped if nodes are requested by name, since these may be back later. It is also skipped if
        a job of the campaign has run before: that proves that such jobs can start, whatever Slurm reports
        just after its restart.
        """

        def _make_submission_command(self, submission_file_path: Path) -> list[str]:
            words = super()._make_submission_command(submission_file_path)
            ran = any(folder.glob("*_log.out"))
            if not hosts and not ran and (why := slurm.never_starts(words)):
                raise StackError(f"Slurm could never start the job: {why}", _SETTINGS)
            return ["timeout", "--kill-after=5", str(_SBATCH_TIMEOUT_S), *words]

    refuse_links(folder)
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        make_own(folder)  # the job executes files in this folder, so no other user may write to it
        # exec: Slurm signals the batch shell alone, so the campaign must replace the shell.
        return Bounded(folder, python=f"exec {shlex.quote(sys.executable)} -P")
    except RuntimeError as exc:
        raise StackError("no srun here", "hydra/launcher=slurm needs Slurm's commands on the PATH") from exc
    except OSError as exc:
        raise StackError(f"{folder} cannot be used: {exc.strerror}", "choose another campaign.dir") from exc


def _one_line(key: str, value: str) -> None:
    if any(not character.isprintable() for character in value):
        raise ScenarioError(f"{key}={value!r} holds a control character", "write it in one printable line")
