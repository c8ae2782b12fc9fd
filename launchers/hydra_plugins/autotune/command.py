"""Hydra launcher ``command``: any program as the instrument, ``conf=command`` or ``probe=command``."""

from typing import TYPE_CHECKING

from hydra_plugins.autotune._plugin import Sequential, offered

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@offered("command")
class CommandLauncher(Sequential):
    """Runs jobs of a multirun one after another, and a program for each launch of a campaign."""

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the program is run.

        Raises:
            ScenarioError: no program, or options that are wrong.
        """
        from hydra_plugins.autotune._command import command_site

        return command_site(scenario)
