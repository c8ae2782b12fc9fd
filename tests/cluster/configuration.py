"""What Slurm is told about the proving ground: a :class:`Shape` to the text of its configuration files.

Pure functions to text; :mod:`tests.cluster.inside` writes them where the daemons look.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

STATE = PurePosixPath("/run/cluster")
"""The daemons' files: on the tmpfs that only the cluster sees."""

LOGIN = "login"
"""Host name of the node that runs ``slurmctld`` and on which a user's commands start."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the cluster is and what its network is like."""

    n_nodes: int = 8
    """Compute nodes, ``cn0`` … ."""
    cpus: int = 2
    """CPUs that Slurm believes each node has; the machine's real cores are shared by all."""
    rate: str = ""
    """Rate of each node's link as ``tc`` writes it (``200mbit``); empty: as fast as the kernel copies."""
    slurm_lines: tuple[str, ...] = ()
    """Further lines of slurm.conf, such as ``MaxJobCount=3``."""
    devices: int = 0
    """Devices of each node, ``--gres=card``, of which nothing is behind but Slurm's count."""

    def __post_init__(self) -> None:
        """Refuse what the address plan cannot hold.

        Raises:
            ValueError: for no node, no CPU or more than 200 nodes.
        """
        if not 1 <= self.n_nodes <= 200 or self.cpus < 1:
            raise ValueError(f"1 to 200 nodes of at least 1 CPU, not {self.n_nodes} of {self.cpus}")

    @property
    def nodes(self) -> tuple[str, ...]:
        """Host names of the compute nodes."""
        return tuple(f"cn{i}" for i in range(self.n_nodes))

    def address(self, node: str) -> str:
        """The IPv4 address of a compute node or of the login node."""
        return f"10.88.0.{254 if node == LOGIN else 1 + self.nodes.index(node)}"


def hosts_file(shape: Shape) -> str:
    """The ``/etc/hosts`` of every node."""
    names = (LOGIN, *shape.nodes)
    return "127.0.0.1 localhost\n" + "".join(f"{shape.address(name)} {name}\n" for name in names)


def slurm_conf(shape: Shape) -> str:
    """The ``slurm.conf`` of the cluster.

    Timeouts are short, so that a test sees a lost node in seconds; no accounting database, as on many small
    sites, so what happened to a job must be read from ``slurmctld`` itself.
    """
    last = shape.n_nodes - 1
    nodes, addresses = (
        ("cn0", "10.88.0.1") if last == 0 else (f"cn[0-{last}]", f"10.88.0.[1-{shape.n_nodes}]")
    )
    lines = [
        "ClusterName=ground",
        f"SlurmctldHost={LOGIN}({shape.address(LOGIN)})",
        "SlurmUser=root",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        # A job is started again only after its credential has expired, which takes two minutes by default.
        f"AuthInfo=socket={STATE}/munge.sock,cred_expire=15",
        "CredType=cred/munge",
        f"StateSaveLocation={STATE}/state",
        f"SlurmdSpoolDir={STATE}/spool/%n",
        f"SlurmctldPidFile={STATE}/slurmctld.pid",
        f"SlurmdPidFile={STATE}/slurmd-%n.pid",
        f"SlurmctldLogFile={STATE}/log/slurmctld.log",
        f"SlurmdLogFile={STATE}/log/slurmd-%n.log",
        "ProctrackType=proctrack/linuxproc",  # cgroups belong to the machine, not to a namespace
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "SwitchType=switch/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SlurmdParameters=config_overrides",  # eight nodes with the CPUs of one machine
        "MpiDefault=none",
        "AccountingStorageType=accounting_storage/none",
        "JobCompType=jobcomp/none",
        "ReturnToService=2",
        "PropagateResourceLimits=NONE",
        "SlurmctldTimeout=30",
        "SlurmdTimeout=10",
        "MessageTimeout=10",
        "TCPTimeout=4",
        "KillWait=2",
        # Above the 60 s for which the steps of a job wait for that of a node that has died.
        "UnkillableStepTimeout=90",
        "MinJobAge=3600",
        "InactiveLimit=0",
        "SchedulerType=sched/backfill",
        "SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0",
        f"NodeName={nodes} NodeAddr={addresses} CPUs={shape.cpus} RealMemory=2048 State=UNKNOWN"
        + (f" Gres=card:{shape.devices}" if shape.devices else ""),
        f"PartitionName=main Nodes={nodes} Default=YES MaxTime=INFINITE OverSubscribe=NO State=UP",
        *(("GresTypes=card",) if shape.devices else ()),
        *shape.slurm_lines,
    ]
    return "\n".join(lines) + "\n"


def side_files() -> dict[str, str]:
    """The small files that Slurm reads beside slurm.conf, by name."""
    return {
        # A fixed plugin: the search for the machine's cgroup file system fails inside a namespace.
        "cgroup.conf": "CgroupPlugin=cgroup/v1\n",
        "mpi.conf": "PMIxCliTmpDirBase=/var/tmp\n",
    }
