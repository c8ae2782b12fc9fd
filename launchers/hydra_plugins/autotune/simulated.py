"""Hydra launcher ``simulated``: ``hydra/launcher=simulated``, a modelled cluster from ``machine=``."""

from typing import TYPE_CHECKING

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@offered("simulated")
class SimulatedLauncher(Sequential):
    """Runs jobs of a multirun one after another; the launches of each campaign are computed."""

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are computed.

        Raises:
            ScenarioError: no machine, or one that is wrong.
        """
        from hydra_plugins.autotune._simulated import simulated_site

        return simulated_site(scenario)
