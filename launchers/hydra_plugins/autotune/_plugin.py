"""Private parts of Hydra's own launcher that our plugins need; they are imported here alone.

``Sequential`` runs the jobs of a multirun in this process, one after another.
"""

from collections.abc import Callable
from dataclasses import make_dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from hydra._internal.core_plugins.basic_launcher import BasicLauncher as Sequential
from hydra.core.config_store import ConfigStore

if TYPE_CHECKING:
    from autotune.campaign.site import Site
    from autotune.scenario import Scenario

__all__ = ["Sequential", "offered", "site_of"]


def offered(name: str, keys: type = object) -> Callable[[type[Sequential]], type[Sequential]]:
    """Offers the class of a module of that name as ``hydra/launcher=NAME``, with a dataclass of keys."""

    def stored(launcher: type[Sequential]) -> type[Sequential]:
        target = ("_target_", str, f"hydra_plugins.autotune.{name}.{launcher.__name__}")
        node = make_dataclass(f"{name.title()}Conf", [target], bases=(keys,))
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="autotune")
        return launcher

    return stored


def site_of(module: str, maker: str) -> "Callable[[Sequential, Scenario], Site]":
    """A method ``connect``: the site is made by a function of a module, which is imported only then."""

    def connect(self: Sequential, scenario: "Scenario") -> "Site":
        site: Site = getattr(import_module(f"hydra_plugins.autotune.{module}"), maker)(scenario)
        return site

    return connect
