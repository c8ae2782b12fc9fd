"""A request to Slurm: settings of the scenario → submitit's parameters → a submitted job.

submitit writes the script and calls ``sbatch``; the command that the job runs travels beside the script, as a
pickled list of words, so nothing of it is ever read by a shell. The content of the script is checked
here first: a line break in a value would start a line of its own.
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
SIGNAL = "USR1"  # What Slurm sends to a campaign's job shortly before its end.

OURS = r"autotune-[A-Za-z0-9_-]{,40}-[0-9a-f]{8}"  # What ``job_name`` gives.

_SBATCH_TIMEOUT_S = 180  # ``sbatch`` itself retries for two minutes when the queue is full.
_SETTINGS = "see cluster.* and hydra.launcher.* of the scenario"
_OVERRAN = (124, 137)  # Exit codes of ``timeout``.


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The scenario's settings for Slurm; empty: the site's default."""

    allocation: str = "auto"
    """``inside`` (the allocation we are in), ``campaign`` (one job for all launches), ``trial`` (a job each),
    or ``auto``: inside, where there is an allocation, else ``campaign``."""
    partition: str = ""  # Or several, with commas.
    account: str = ""  # Who pays.
    qos: str = ""  # Quality of service.
    time: str = ""  # Limit of a job in Slurm's notation (``30``, ``2:00:00``, ``1-12``).
    constraint: str = ""  # Node features.
    exclusive: bool = True
    """Whether nobody else may run on the nodes: tuning beside strangers measures the strangers."""
    sbatch: tuple[str, ...] = ()  # Further options of sbatch, each as on its command line (``--mem=0``).
    prelude: tuple[str, ...] = ()
    """Shell lines of the site at the start of each job: module loads, environment activation."""
    same_nodes: bool = True  # Whether later jobs of a campaign ask for the nodes of its first one.
    margin_s: int = 60  # How long before a job's end the last launch must be over.

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
    """One job, as it is asked for."""

    name: str  # Unique, so that a job whose submission ended unclearly can be found.
    nodes: int  # How many.
    ppn: int  # Ranks that will be started on each.
    time: str  # Limit, in Slurm's notation; empty: the site's default.
    hosts: tuple[str, ...] = ()  # The very nodes; empty: any.
    after: str = ""  # Job that must have ended.
    requeue: bool = False
    """Whether it survives the death of a node: started again by Slurm, on others, or with ``hosts`` going on
    until it has submitted its successor."""
    warn_s: int = 0  # How long before its end the job gets ``SIGNAL``; 0: it does not.


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a campaign, kept in its directory."""

    directory: Path  # Of the campaign.

    def read(self) -> tuple[str, ...]:
        """Their names; empty: none recorded yet, or nothing that we have written, such as a link."""
        try:
            names = json.loads(content(self.directory, "nodes.json"))
        except (JournalError, ValueError, RecursionError):
            return ()
        return tuple(names) if isinstance(names, list) and all(isinstance(n, str) for n in names) else ()

    def first_of(self, hosts: tuple[str, ...]) -> tuple[str, ...]:
        """These hosts, the campaign's own first where all of them are there."""
        own = self.read()
        return (*own, *(host for host in hosts if host not in own)) if set(own) <= set(hosts) else hosts

    def write(self, hosts: tuple[str, ...]) -> None:
        """Record them, where they are not yet."""
        if hosts and hosts != self.read():
            descriptor, partial = mkstemp(dir=self.directory)  # whose name nobody can have taken before
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(hosts, file)
            Path(partial).replace(self.directory / "nodes.json")


def job_name(directory: Path) -> str:
    """A name that all jobs of one campaign begin with, and those of no other."""
    place = str(directory.absolute())
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", directory.name)[:40]
    return f"autotune-{plain}-{hashlib.sha256(place.encode()).hexdigest()[:8]}"


def parameters(settings: BatchSettings, order: Order) -> dict[str, Any]:
    """Parameters of a job for submitit.

    Options that submitit does not know, and those whose defaults of its own would get in the way (its signal,
    limits in whole minutes), go through its ``additional_parameters``.
    """
    # A job that Slurm starts again after a node's death would wait for that node, were it asked for by name.
    extra: dict[str, Any] = {"requeue" if order.requeue and not order.hosts else "no-requeue": True}
    if order.requeue and order.hosts:
        extra["no-kill"] = True  # the campaign in it outlives another node, and submits its successor
    # submitit's own signal would reach, and kill, the daemons of mpirun; CONT changes nothing for anybody.
    extra["signal"] = f"B:{SIGNAL}@{order.warn_s}" if order.warn_s else "CONT@1"
    for line in settings.sbatch:
        key, equals, value = line.removeprefix("--").partition("=")
        extra[key] = value if equals else True
    known = {
        "partition": settings.partition,
        "account": settings.account,
        "qos": settings.qos,
        "constraint": settings.constraint,
        "exclusive": settings.exclusive,
        "nodelist": ",".join(order.hosts),
        "dependency": f"afterany:{order.after}" if order.after else "",
    }
    return {
        "job_name": order.name,
        "nodes": order.nodes,
        "ntasks_per_node": order.ppn,
        "wckey": None,  # submitit's own default is refused where keys are checked
        "time": order.time or None,  # its default of five minutes would take the place of the site's
        "stderr_to_stdout": True,
        # Ignored until the campaign handles it, which asks for its time itself: it would end a starting one.
        "setup": [*([f"trap '' {SIGNAL}"] if order.warn_s else []), *settings.prelude] or None,
        "use_srun": False,
        "additional_parameters": extra,
        **{key: value for key, value in known.items() if value},
    }


def submit(folder: Path, settings: BatchSettings, order: Order, words: Sequence[str], slurm: Slurm) -> str:
    """Submit a job that becomes the command ``words``; its number.

    A queue that is full and a controller that is away are waited for, with growing pauses.

    The folder is for scripts and logs, on a file system that the nodes see; no shell reads the words.

    Raises:
        StackError: Slurm refuses the job, or does not answer for ``slurm.patience_s``.
    """
    from submitit.core.utils import FailedJobError, FailedSubmissionError  # takes a moment

    _one_line("campaign.dir", str(folder))
    for host in order.hosts:
        _one_line("nodes.json", host)
    executor = _executor(folder, slurm, order.hosts)
    executor.update_parameters(**parameters(settings, order))
    began_s = slurm.clock()
    for pause_s in pauses():
        try:
            with redirect_stderr(StringIO()):  # submitit prints what it raises
                job = executor.submit(become, tuple(words))
                for path in (job.paths.submitted_pickle, job.paths.submission_file):
                    path.chmod(0o600)
                return str(job.job_id)
        except (FailedJobError, FailedSubmissionError) as exc:
            message = " ".join(str(exc).split())[-500:]
            overran = isinstance(exc.__cause__, CalledProcessError) and exc.__cause__.returncode in _OVERRAN
            if not overran and not is_transient(message):
                raise StackError(f"Slurm refuses the job: {message}", _SETTINGS) from exc
            slurm.cancel_named(order.name)  # it may have been accepted all the same
            slurm.bear(f"Slurm takes no job: {message}", began_s, pause_s)
    raise AssertionError("pauses never end")


def become(words: Sequence[str]) -> None:
    """In the job: end this process's program and go on as the command, which then gets Slurm's signals."""
    os.execvp(words[0], list(words))  # noqa: S606 - a list of words, no shell


def _executor(folder: Path, slurm: Slurm, hosts: Sequence[str]) -> "submitit.SlurmExecutor":
    import submitit

    class Bounded(submitit.SlurmExecutor):
        """submitit's executor, with a limit on the time that ``sbatch`` may take.

        Slurm queues many a job that can never start. Nodes asked for by name may be back later, and one job
        has shown that others can start, whatever a controller says that has just come back.
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
        make_own(folder)  # the job runs its content
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
