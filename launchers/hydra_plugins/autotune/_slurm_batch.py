"""Convert settings of the scenario to submitit's parameters, and submit jobs.

submitit writes the script and calls ``sbatch``; the command that the job runs is stored beside the script, as
a pickled list of words, so nothing of it is ever read by a shell. The content of the script is checked here
first: a line break in a value would start a line of its own.
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

from autotune.errors import JournalError, ScenarioError, StackError, allowed
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

_SBATCH_TIMEOUT_S = 180
"""Time limit of ``sbatch`` in seconds: it retries for two minutes when the queue is full."""
_SETTINGS = "see cluster.* and hydra.launcher.* of the scenario"
_OVERRAN = (124, 137)  # Exit codes of ``timeout`` for a command that ran too long.


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Hold the scenario's settings for Slurm; an empty value means the site's default."""

    allocation: str = "auto"
    """``inside`` (the present allocation), ``campaign`` (one job for all launches), ``trial`` (a job each),
    or ``auto``: inside if there is an allocation, else ``campaign``."""
    partition: str = ""  # Partition, or several separated by commas.
    account: str = ""  # Account that pays for the jobs.
    qos: str = ""  # Quality of service.
    time: str = ""  # Time limit of a job in Slurm's notation (``30``, ``2:00:00``, ``1-12``).
    constraint: str = ""  # Node features.
    exclusive: bool = True
    """Whether nobody else may run on the nodes: their work would disturb the measurements."""
    sbatch: tuple[str, ...] = ()  # Further options of sbatch, each as on its command line (``--mem=0``).
    prelude: tuple[str, ...] = ()
    """The site's shell lines at the start of each job: module loads, activation of an environment."""
    same_nodes: bool = True  # Whether later jobs of a campaign ask for the nodes of its first one.
    margin_s: int = 60  # Time between the end of a job's last launch and its own, in seconds.

    def __post_init__(self) -> None:
        """Check the values that go into a script.

        Raises:
            ScenarioError: an unknown way, no time, no option, or a value with a control character.
        """
        if self.allocation not in ALLOCATIONS:
            raise ScenarioError(
                f"hydra.launcher.allocation={self.allocation!r}", allowed(self.allocation, ALLOCATIONS)
            )
        for key in ("partition", "account", "qos", "time", "constraint"):
            _one_line(key, getattr(self, key))
        for line in self.sbatch:
            _one_line("sbatch", line)
            if not re.match(r"--[a-z][a-z-]*(=|$)", line):
                raise ScenarioError(
                    f"hydra.launcher.sbatch holds {line!r}", "write long options: --name or --name=value"
                )
        if self.time and not TIME.fullmatch(self.time):
            raise ScenarioError(
                f"hydra.launcher.time={self.time!r}",
                "allowed: minutes, M:SS, H:MM:SS, D-H, D-H:MM, D-H:MM:SS",
            )
        if self.margin_s < 1:
            raise ScenarioError(f"hydra.launcher.margin_s={self.margin_s}", "expected 1 or more")


@dataclass(frozen=True, slots=True)
class Order:
    """Describe one job that is requested."""

    name: str  # Unique name, by which a job can be found if it is unclear whether it was submitted.
    nodes: int  # Number of nodes.
    ppn: int  # Number of ranks that will be started on each node.
    time: str  # Time limit in Slurm's notation; empty: the site's default.
    hosts: tuple[str, ...] = ()  # Names of the nodes; empty: any nodes.
    predecessor: str = ""  # Number of the job that must have ended; empty: none.
    requeue: bool = False
    """Whether the job survives the death of a node: Slurm starts it again on other nodes, or with ``hosts``
    it goes on until it has submitted its successor."""
    warn_s: int = 0  # Time before its end, in seconds, at which the job gets ``SIGNAL``; 0: it does not.


@dataclass(frozen=True, slots=True)
class Nodes:
    """Store the nodes of a campaign in its directory."""

    directory: Path  # The campaign's directory.

    def read(self) -> tuple[str, ...]:
        """Return their names; empty if none were recorded yet, or the file is not one that ``write`` made."""
        try:
            names = json.loads(content(self.directory, "nodes.json"))
        except (JournalError, ValueError, RecursionError):
            return ()
        return tuple(names) if isinstance(names, list) and all(isinstance(n, str) for n in names) else ()

    def first_of(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """Return these hosts, the campaign's own first if all of them are among these."""
        recorded = self.read()
        return (
            (*recorded, *(host for host in hosts if host not in recorded))
            if set(recorded) <= set(hosts)
            else hosts
        )

    def write(self, hosts: tuple[str, ...]) -> None:
        """Record the nodes, unless they are recorded already."""
        if hosts and hosts != self.read():
            descriptor, partial = mkstemp(dir=self.directory)  # a name that nobody can have used before
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(hosts, file)
            Path(partial).replace(self.directory / "nodes.json")


def job_name(directory: Path) -> str:
    """Return the name with which all jobs of one campaign begin, and those of no other."""
    place = str(directory.absolute())
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", directory.name)[:40]
    return f"autotune-{plain}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def parameters(settings: BatchSettings, order: Order) -> dict[str, Any]:
    """Return the parameters of a job for submitit.

    Options that submitit does not know, and those for which its own defaults are unsuitable (its signal,
    limits in whole minutes), go through its ``additional_parameters``.
    """
    # If nodes are named, a job that Slurm starts again after a node's death would wait for that node.
    extra: dict[str, Any] = {"requeue" if order.requeue and not order.hosts else "no-requeue": True}
    if order.requeue and order.hosts:
        extra["no-kill"] = True  # the campaign in it survives the loss of a node, and submits its successor
    # submitit's own signal would reach, and kill, the daemons of mpirun; CONT has no effect.
    extra["signal"] = f"B:{SIGNAL}@{order.warn_s}" if order.warn_s else "CONT@1"
    for line in settings.sbatch:
        key, equals, value = line.removeprefix("--").partition("=")
        extra[key] = value if equals else True
    options = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "exclusive": settings.exclusive,
        "nodelist": ",".join(order.hosts),
        "dependency": f"afterany:{order.predecessor}" if order.predecessor else "",
    }
    return {
        "job_name": order.name,
        "nodes": order.nodes,
        "ntasks_per_node": order.ppn,
        "wckey": None,  # submitit's own default is refused where keys are checked
        "time": order.time or None,  # submitit's default of five minutes would replace the site's
        "stderr_to_stdout": True,
        # Ignored until the campaign handles it, as it would end one that is starting; the campaign asks Slurm
        # for its remaining time itself.
        "setup": [*([f"trap '' {SIGNAL}"] if order.warn_s else []), *settings.prelude] or None,
        "use_srun": False,
        "additional_parameters": extra,
        **{key: value for key, value in options.items() if value},
    }


def submit(folder: Path, settings: BatchSettings, order: Order, words: Sequence[str], slurm: Slurm) -> str:
    """Submit a job that becomes the command ``words``, and return the job's number.

    A queue that is full and a controller that does not answer are waited for, with growing pauses.

    Args:
        folder: For scripts and logs, on a file system that the nodes share.
        settings: The scenario's settings for Slurm.
        order: The job.
        words: The command, which no shell reads.
        slurm: Takes the job.

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
            message = " ".join(str(exc).split())[-500:]
            overran = isinstance(exc.__cause__, CalledProcessError) and exc.__cause__.returncode in _OVERRAN
            if not overran and not is_transient(message):
                raise StackError(f"Slurm refuses the job: {message}", _SETTINGS) from exc
            slurm.cancel_named(order.name)  # the job may have been accepted nevertheless
            slurm.bear(f"Slurm takes no job: {message}", began_s, pause_s)
    raise AssertionError("pauses never end")


def become(words: Sequence[str]) -> None:
    """Replace this process, inside the job, by the command, which then gets Slurm's signals."""
    os.execvp(words[0], list(words))  # noqa: S606 - a list of words, no shell


def _executor(folder: Path, slurm: Slurm, hosts: Sequence[str]) -> "submitit.SlurmExecutor":
    import submitit

    class Bounded(submitit.SlurmExecutor):
        """Limit the time that ``sbatch`` may take.

        Slurm queues many jobs that can never start, so that is checked first. The check is skipped if nodes
        are asked for by name, which may be back later, or if a job has run already: that shows that others
        can start, whatever a controller says that has just come back.
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
        make_own(folder)  # the job executes files in it, so nobody else may write there
        # exec: Slurm signals the batch shell alone, so the shell must give way to the campaign.
        return Bounded(folder, python=f"exec {shlex.quote(sys.executable)} -P")
    except RuntimeError as exc:
        raise StackError("no srun here", "hydra/launcher=slurm needs Slurm's commands on the PATH") from exc
    except OSError as exc:
        raise StackError(f"{folder} cannot be used: {exc.strerror}", "choose another campaign.dir") from exc


def _one_line(key: str, value: str) -> None:
    """Refuse a value that would not stay in its line of the script."""
    if any(not character.isprintable() for character in value):
        raise ScenarioError(f"{key}={value!r} holds a control character", "write it in one printable line")
