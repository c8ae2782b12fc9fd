"""Hydra launcher ``replay``: ``hydra/launcher=replay``, or ``conf=replay replay.table=FILE``.

Hydra executes plugin modules outside of ``sys.modules``, so annotations here are evaluated or quoted, never
postponed: a dataclass could not resolve them.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore

from hydra_plugins.autotune._plugin import Sequential

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario


@dataclass
class ReplayConf:
    """Keys of ``hydra.launcher`` for ``replay``; what is replayed stands in the scenario's ``replay``."""

    _target_: str = "hydra_plugins.autotune.replay.ReplayLauncher"


class ReplayLauncher(Sequential):
    """Runs jobs of a multirun one after another, and answers the launches of each campaign from a table."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def connect(self, scenario: "Scenario") -> "Site":
        """Where the launches of a campaign are made up.

        Raises:
            ScenarioError: the scenario does not say what to replay.
            TableError: the table cannot be used.
            UserError: the directory holds no campaign.
        """
        from hydra_plugins.autotune._replay import replay_site

        return replay_site(scenario)


ConfigStore.instance().store(group="hydra/launcher", name="replay", node=ReplayConf, provider="autotune")
