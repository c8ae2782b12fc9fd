"""Hydra launcher ``slurm``: ``hydra/launcher=slurm``.

Hydra executes plugin modules outside of ``sys.modules``, so annotations here are evaluated or quoted, never
postponed: a dataclass could not resolve them.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario
    from hydra_plugins.autotune._slurm_batch import BatchSettings


@dataclass
class SlurmConf:
    """Keys of ``hydra.launcher`` for ``slurm``; empty: the site's default."""

    allocation: str = "auto"  # inside, campaign, trial; auto: inside an allocation, else campaign
    partition: str = ""  # or several, with commas
    account: str = ""
    qos: str = ""
    time: str = ""  # of one job: 30 (minutes), 2:00:00, 1-12
    constraint: str = ""  # node features
    exclusive: bool = True  # nobody else on the nodes
    sbatch: list[str] = field(default_factory=list)  # further options: [--mem=0, --reservation=tuning]
    prelude: list[str] = field(default_factory=list)  # shell lines of each job: [module load openmpi]
    same_nodes: bool = True  # later jobs ask for the nodes of the first
    margin_s: int = 60  # the last launch of a job is over so long before its end
    extra: list[str] = field(default_factory=list)  # further words for mpirun or srun


@offered("slurm", SlurmConf)
class SlurmLauncher(Sequential):
    """Runs jobs of a multirun one after another, and the launches of each campaign under Slurm."""

    def __init__(self, extra: list[str] | None = None, **settings: Any) -> None:
        super().__init__()
        self.extra = tuple(extra or ())
        self.settings = settings

    def prepare(self, scenario: "Scenario") -> None:
        """On a login node: let a job run the campaign.

        Raises:
            HandedOver: a job does.
            StackError: Slurm refuses it, or does not answer.
        """
        from hydra_plugins.autotune._slurm import prepare

        prepare(scenario, self._settings())

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are made.

        Raises:
            StackError: there is no MPI, or no Slurm.
        """
        from autotune.campaign.site import mpi_site
        from hydra_plugins.autotune._slurm import launcher

        settings = self._settings()
        return mpi_site(scenario, lambda installation: launcher(scenario, settings, installation, self.extra))

    def _settings(self) -> "BatchSettings":
        from hydra_plugins.autotune._slurm_batch import BatchSettings

        values: dict[str, Any] = {
            key: tuple(value) if key in ("sbatch", "prelude") else value
            for key, value in self.settings.items()
        }
        return BatchSettings(**values)
