"""Define the Hydra launcher ``slurm``: ``hydra/launcher=slurm``.

Hydra executes plugin modules without an entry in ``sys.modules``. A dataclass could not resolve postponed
annotations then, so annotations here are evaluated or quoted.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.bench import Bench
    from autotune.scenario import Scenario
    from hydra_plugins.autotune._slurm_batch import BatchSettings


@dataclass
class SlurmConf:
    """Define the keys of ``hydra.launcher`` for ``slurm``; an empty value means the site's default."""

    allocation: str = "auto"
    """Where launches run: ``inside`` (the present allocation), ``campaign`` (one job for all launches),
    ``trial`` (a job for each launch), or ``auto``: ``inside`` if there is an allocation, else
    ``campaign``."""
    partition: str = ""  # Partition, or several separated by commas.
    account: str = ""  # Account that pays for the jobs.
    qos: str = ""  # Quality of service.
    time: str = ""  # Time limit of one job: ``30`` (minutes), ``2:00:00``, ``1-12``.
    constraint: str = ""  # Features that the nodes must have.
    exclusive: bool = True  # Whether no other jobs may run on the nodes.
    sbatch: list[str] = field(default_factory=list)  # Further options: ``[--mem=0, --reservation=tuning]``.
    prelude: list[str] = field(default_factory=list)  # Shell lines of each job: ``[module load openmpi]``.
    same_nodes: bool = True  # Whether later jobs of a campaign request the nodes of its first job.
    margin_s: int = 60  # Time between the end of a job's last launch and the job's end, in seconds.
    extra: list[str] = field(default_factory=list)  # Further options for mpirun or srun.


@offered("slurm", SlurmConf)
class SlurmLauncher(Sequential):
    """Run jobs of a multirun one after another; the launches of each campaign are made under Slurm."""

    def __init__(self, extra: Any = (), **settings: Any) -> None:
        super().__init__()
        self.extra, self.settings = tuple(extra), settings

    def prepare(self, scenario: "Scenario") -> None:
        """Submit a job that runs the campaign, if this is a login node; see ``_slurm.prepare``."""
        from hydra_plugins.autotune._slurm import prepare

        prepare(scenario, self._settings())

    def connect(self, scenario: "Scenario") -> "Bench":
        """Return the bench (observer, search space and description) for the launches of a campaign."""
        from autotune.campaign.bench import mpi_bench
        from hydra_plugins.autotune._slurm import launcher

        settings, extra = self._settings(), self.extra
        return mpi_bench(scenario, lambda installation: launcher(scenario, settings, installation, extra))

    def _settings(self) -> "BatchSettings":
        from hydra_plugins.autotune._slurm_batch import BatchSettings

        lists = {key: tuple(value) for key, value in self.settings.items() if key in ("sbatch", "prelude")}
        return BatchSettings(**{**self.settings, **lists})
