"""Hydra launcher ``auto``: Slurm where it is, else mpirun where hosts are given, else a simulated cluster."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@offered("auto")
class AutoLauncher(Sequential):
    """Takes the launcher that this machine offers and says which."""

    def prepare(self, scenario: "Scenario") -> None:
        """Prepare as the chosen launcher does before a campaign.

        Raises:
            HandedOver: a batch job runs the campaign.
            StackError: Slurm refuses it, or does not answer.
        """
        plugin, _ = _taken(scenario)
        if hasattr(plugin, "prepare"):
            plugin.prepare(scenario)

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are made.

        Raises:
            StackError: Slurm or hosts are there, but no MPI.
        """
        plugin, why = _taken(scenario)
        site: Site = plugin.connect(scenario)
        return replace(site, chosen=why)


def _taken(scenario: "Scenario") -> tuple[Any, str]:
    """The launcher plugin that suits this machine and the scenario, and why."""
    from hydra_plugins.autotune._slurm import why_slurm

    if slurm := why_slurm():
        from hydra_plugins.autotune.slurm import SlurmLauncher

        return SlurmLauncher(), f"launcher slurm: {slurm}"
    if scenario.cluster.hostfile or scenario.cluster.hosts:
        from hydra_plugins.autotune.mpirun import MpirunLauncher

        return MpirunLauncher(), "launcher mpirun: hosts are given, and no Slurm is here"
    from hydra_plugins.autotune.simulated import SimulatedLauncher

    return SimulatedLauncher(), "launcher simulated: neither Slurm nor hosts are here"
