"""Hydra launcher ``replay``: ``hydra/launcher=replay``, or ``conf=replay replay.table=FILE``."""

from typing import TYPE_CHECKING

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@offered("replay")
class ReplayLauncher(Sequential):
    """Runs jobs of a multirun one after another, and answers the launches of each campaign from a table."""

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are made up.

        Raises:
            ScenarioError: the scenario does not say what to replay.
            TableError: the table cannot be used.
            UserError: the directory holds no campaign.
        """
        from hydra_plugins.autotune._replay import replay_site

        return replay_site(scenario)
