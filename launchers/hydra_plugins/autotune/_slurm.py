"""Make launches under Slurm: in the present allocation, or with a job for each launch.

The setting ``allocation`` has three values::

    allocation   the campaign runs            a launch is              nodes
    inside       in a job of the user's       mpirun or srun in it     the allocation's first ones
    campaign     in a job of its own, which   the same                 the same, requested by name
                 submits the next one
                 before its end
    trial        where it was started         a job                    those of the first job, by name

``InAllocation`` makes the launches in the first two ways, ``TrialJobs`` in the third; this module selects one
of them, and submits the job that starts or continues a campaign. Neither of the two relies on an exit code,
since ``mpirun`` returns 0 when its allocation or a node is lost. How a launch ended follows from the probe's
result file or, if there is none, from the state of the job in Slurm.
"""

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from autotune.campaign.directory import read_campaign, start_over
from autotune.errors import HandedOver, ScenarioError, StackError
from autotune.history.events import State
from autotune.history.folder import FILE
from autotune.scenario import CHANGEABLE, Scenario
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Launcher, LaunchRequest, Placement
from hydra_plugins.autotune import _commands
from hydra_plugins.autotune._mpirun import CommandLine, Mpirun, own_hosts
from hydra_plugins.autotune._slurm_batch import OURS, BatchSettings, Nodes, Order, job_name, submit
from hydra_plugins.autotune._slurm_inside import InAllocation
from hydra_plugins.autotune._slurm_jobs import Slurm
from hydra_plugins.autotune._slurm_trial import TrialJobs
from hydra_plugins.autotune._slurm_words import WAITING, Job

JOB_ID = "SLURM_JOB_ID"  # Variable that Slurm sets in every allocation.


def prepare(scenario: Scenario, settings: BatchSettings) -> None:
    """Submit a job that runs the campaign, if this is a login node and the settings ask for such a job.

    The function is called before the first launch.

    Raises:
        HandedOver: a job runs the campaign, or will run it; this process has nothing left to do.
        StackError: Slurm refuses the job, or does not answer.
        ScenarioError: there is no allocation, but ``allocation=inside`` or several jobs at once need one.
    """
    inside = JOB_ID in os.environ and not _is_of_another(scenario)
    hint = "start it with salloc or in a batch script, or use"
    if settings.allocation == "inside" and not inside:
        why = "hydra.launcher.allocation=inside, but this is not an allocation"
        raise ScenarioError(why, f"{hint} allocation=campaign or trial")
    if scenario.launch.first_node and not inside and settings.allocation != "trial":
        why = "site.at_once is above 1, but this is not an allocation"
        raise ScenarioError(why, f"{hint} hydra.launcher.allocation=trial")
    # In the job of another campaign, no further job is submitted for a campaign that was begun. Otherwise two
    # jobs would submit each other without end when their time is up.
    has_begun = JOB_ID in os.environ and (scenario.directory / FILE).is_file()
    if inside or has_begun or settings.allocation == "trial" or _is_complete(scenario):
        return
    slurm, name = Slurm(scenario.launch.queue_timeout_s), job_name(scenario.directory)
    if job_id := slurm.queued(name):
        job = slurm.job(job_id)
        if job is None or not job.waits_in_vain:
            raise HandedOver(f"job {job_id} runs this campaign already", f"scancel {job_id} ends it")
        slurm.cancel(job_id)  # a node of the campaign has died: the next job uses other nodes
    start_over(scenario)  # not in the job, because Slurm may start the job more than once
    job_id = hand_over(scenario, settings, slurm)
    log = f"{scenario.directory / 'slurm'}/{job_id}_0_log.out"
    hint = f"autotune status {scenario.directory}"
    raise HandedOver(f"job {job_id} runs this campaign; its output: {log}", hint)


def _is_of_another(scenario: Scenario) -> bool:
    """Whether the allocation is a job for another campaign of the same site or multirun."""
    name = os.environ.get("SLURM_JOB_NAME", "")
    return bool(re.fullmatch(OURS, name)) and name != job_name(scenario.directory)


def _is_complete(scenario: Scenario) -> bool:
    """Whether the campaign is complete with the same settings, so that its result needs no nodes."""
    if scenario.campaign.fresh or not (scenario.directory / FILE).is_file():
        return False
    campaign = read_campaign(scenario.directory)
    keys = [key for key in CHANGEABLE if key != "campaign"]
    is_same = all(getattr(campaign.about.scenario, key) == getattr(scenario, key) for key in keys)
    return campaign.state is State.COMPLETE and is_same


def launcher(
    scenario: Scenario, settings: BatchSettings, installation: Installation, extra: tuple[str, ...]
) -> Launcher:
    """Return the launcher for the scenario's way of using Slurm (``allocation``).

    Raises:
        StackError: Slurm does not answer, has no plugin for this MPI, or the allocation has too few nodes.
    """
    slurm = Slurm(scenario.launch.queue_timeout_s)
    command = _command(scenario.launch.tool, installation, extra, slurm)
    if settings.allocation == "trial" or JOB_ID not in os.environ or _is_of_another(scenario):
        return TrialJobs(scenario.directory, settings, command, slurm, scenario.launch.queue_timeout_s)
    job_id = os.environ[JOB_ID]
    hosts = own_hosts(slurm.hostnames(os.environ["SLURM_JOB_NODELIST"]), scenario)
    if len(hosts) < scenario.cluster.nodes:
        why = f"job {job_id} has {len(hosts)} node(s), cluster.nodes={scenario.cluster.nodes}"
        raise StackError(why, "ask for more, or set cluster.nodes")
    nodes = Nodes(scenario.directory)
    inside = InAllocation(job_id, nodes.first_of(hosts), command, slurm, nodes, settings.margin_s)
    if os.environ.get("SLURM_JOB_NAME") == job_name(scenario.directory):
        inside.successor = lambda: hand_over(scenario, settings, slurm, predecessor=job_id)
        inside.heed_signal()
    return inside


def hand_over(scenario: Scenario, settings: BatchSettings, slurm: Slurm, predecessor: str = "") -> str:
    """Submit a job that runs the command line of this process again; return the number of the job.

    The job starts the campaign or continues it after the end of the job ``predecessor``, if there is one.

    Raises:
        StackError: Slurm refuses the job, or does not answer.
    """
    nodes = Nodes(scenario.directory).read() if settings.same_nodes else ()
    place = scenario.cluster
    order = Order(
        job_name(scenario.directory),
        nodes=place.nodes,
        ppn=place.ppn or -(-(scenario.ranks or place.nodes) // place.nodes),
        time=settings.time,
        hosts=() if slurm.unusable(nodes) else nodes,
        predecessor=predecessor,
        requeue=True,
        warn_s=settings.margin_s + 30,
    )
    return submit(scenario.directory.absolute() / "slurm", settings, order, _this_command(), slurm)


def queue(directory: Path, span: Callable[[float], str]) -> tuple[str, ...]:
    """Return the jobs of a campaign in words; empty if there is no Slurm here.

    ``span`` converts a time in seconds to text.
    """
    try:
        jobs = Slurm(patience_s=0.0, call_timeout_s=10.0).jobs(job_name(directory))
    except StackError as exc:
        return (exc.message,) if why_slurm() else ()

    def in_words(suffix: str, job: Job) -> str:
        began_s = job.submitted_s if job.verdict == WAITING else job.started_s
        what = f"launch {int(suffix[1:])}" if suffix else "the campaign"
        return f"{job.in_words()} for {span(time.time() - (began_s or time.time()))}: {what}"

    return tuple(in_words(*job) for job in jobs)


def _this_command() -> list[str]:
    """Return the command line of this process, without the word that would start the campaign over again."""
    words = [word for word in sys.orig_argv[1:] if not word.startswith("campaign.fresh=")]
    return [sys.executable, *words]


def _command(tool: str, installation: Installation, extra: tuple[str, ...], slurm: Slurm) -> CommandLine:
    if tool != "srun":
        return Mpirun(installation, extra).command
    reply = slurm.ask(["srun", "--mpi=list"])
    mpi = _commands.mpi_plugin(reply.stdout + reply.stderr, installation.flavour)
    if not mpi:
        raise StackError(f"this Slurm has no plugin that starts {installation.flavour}", "launch.with=mpirun")

    def command(request: LaunchRequest, placement: Placement) -> tuple[list[str], dict[str, str]]:
        env = {**request.env, "MPI4PY_LIBMPI": str(installation.library)}
        return _commands.srun_argv(mpi, placement, request.program, extra), env

    return command


def why_slurm() -> str:
    """Return why this machine is assumed to belong to a Slurm cluster; empty if it is not.

    Installed commands of Slurm are no proof by themselves.
    """
    if os.environ.get(JOB_ID):
        return f"in allocation {os.environ[JOB_ID]}"
    if shutil.which("sbatch") is None:
        return ""
    configured = os.environ.get("SLURM_CONF")
    usual = ("/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf")
    for path in (configured,) if configured else usual:
        if Path(path).exists():
            return f"sbatch is here, configured by {path}"
    return ""
