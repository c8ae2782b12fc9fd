"""Hydra launcher ``simulated``: ``hydra/launcher=simulated``, a modelled cluster from ``machine=``."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hydra.core.config_store import ConfigStore

from hydra_plugins.autotune._plugin import Sequential

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@dataclass
class SimulatedConf:
    """Keys of ``hydra.launcher`` for ``simulated``."""

    _target_: str = "hydra_plugins.autotune.simulated.SimulatedLauncher"


class SimulatedLauncher(Sequential):
    """Runs jobs of a multirun one after another; the launches of each campaign are computed."""

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are computed.

        Raises:
            ScenarioError: no machine, or one that is wrong.
        """
        from hydra_plugins.autotune._simulated import simulated_site

        return simulated_site(scenario)


ConfigStore.instance().store(
    group="hydra/launcher", name="simulated", node=SimulatedConf, provider="autotune"
)
