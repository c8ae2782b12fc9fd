"""Define the Hydra launcher ``auto``: Slurm if present, else mpirun if hosts are given, else a simulation."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.bench import Bench
    from autotune.scenario import Scenario


@offered("auto")
class AutoLauncher(Sequential):
    """Use the launcher that suits this machine and the scenario, and report which one it is."""

    def prepare(self, scenario: "Scenario") -> None:
        """Let the selected launcher prepare a campaign."""
        plugin, _ = _selected(scenario)
        if hasattr(plugin, "prepare"):
            plugin.prepare(scenario)

    def connect(self, scenario: "Scenario") -> "Bench":
        """Return the bench (observer, search space and description) for the launches of a campaign."""
        plugin, why = _selected(scenario)
        bench: Bench = plugin.connect(scenario)
        return replace(bench, chosen=why)


def _selected(scenario: "Scenario") -> tuple[Any, str]:
    from hydra_plugins.autotune._slurm import why_slurm

    if slurm := why_slurm():
        from hydra_plugins.autotune.slurm import SlurmLauncher

        return SlurmLauncher(), f"launcher slurm: {slurm}"
    if scenario.cluster.hostfile or scenario.cluster.hosts:
        from hydra_plugins.autotune.mpirun import MpirunLauncher

        return MpirunLauncher(), "launcher mpirun: hosts are given, and no Slurm is here"
    from hydra_plugins.autotune.simulated import SimulatedLauncher

    return SimulatedLauncher(), "launcher simulated: neither Slurm nor hosts are here"
