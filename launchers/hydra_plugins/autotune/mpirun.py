"""Define the Hydra launcher ``mpirun``: ``hydra/launcher=mpirun``.

Hydra executes plugin modules without an entry in ``sys.modules``. A dataclass could not resolve postponed
annotations then, so annotations here are evaluated or quoted.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.bench import Bench
    from autotune.scenario import Scenario


@dataclass
class MpirunConf:
    """Define the keys of ``hydra.launcher`` for ``mpirun``."""

    extra: list[str] = field(default_factory=list)  # Further options for mpirun's command line.
    agent: list[str] = field(default_factory=lambda: ["ssh"])  # Starts a command on another host.
    check_hosts: bool = True  # Whether to check first that all hosts have the same MPI, Python and project.


@offered("mpirun", MpirunConf)
class MpirunLauncher(Sequential):
    """Run jobs of a multirun one after another; the launches of each campaign are made with ``mpirun``."""

    def __init__(self, extra: Any = (), agent: Any = (), check_hosts: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.extra, self.agent, self.check_hosts = tuple(extra), tuple(agent or ["ssh"]), check_hosts

    def prepare(self, scenario: "Scenario") -> None:
        """Check the hosts of the scenario; see ``_mpirun.check_hosts`` and ``on_hosts``."""
        from hydra_plugins.autotune._mpirun import check_hosts, on_hosts

        if self.check_hosts:
            check_hosts(on_hosts(scenario), self.agent)

    def connect(self, scenario: "Scenario") -> "Bench":
        """Return the bench (observer, search space and description) for the launches of a campaign."""
        from autotune.campaign.bench import check_cores, mpi_bench
        from hydra_plugins.autotune._mpirun import Mpirun, on_hosts

        placed = on_hosts(scenario)
        check_cores(placed)
        agent = self.agent if placed.cluster.hosts else ()
        return mpi_bench(placed, lambda installation: Mpirun(installation, self.extra, agent))
