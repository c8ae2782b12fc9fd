"""Register launchers with Hydra; the only module that imports private parts of Hydra's own launcher.

``Sequential`` is Hydra's launcher that runs the jobs of a multirun in this process, one after another.
"""

from collections.abc import Callable
from dataclasses import make_dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from hydra._internal.core_plugins.basic_launcher import BasicLauncher as Sequential
from hydra.core.config_store import ConfigStore

if TYPE_CHECKING:
    from autotune.campaign.bench import Bench
    from autotune.scenario import Scenario

__all__ = ["Sequential", "bench_of", "offered"]


def offered(name: str, keys: type = object) -> Callable[[type[Sequential]], type[Sequential]]:
    """Return a decorator that registers a launcher class as ``hydra/launcher=NAME``.

    The class must be in the module of that name; ``keys`` is a dataclass of its configuration keys.
    """

    def stored(launcher: type[Sequential]) -> type[Sequential]:
        target = ("_target_", str, f"hydra_plugins.autotune.{name}.{launcher.__name__}")
        node = make_dataclass(f"{name.title()}Conf", [target], bases=(keys,))
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="autotune")
        return launcher

    return stored


def bench_of(module: str, maker: str) -> "Callable[[Sequential, Scenario], Bench]":
    """Return a method ``connect`` for a launcher class: it calls the function ``maker`` of a module."""

    def connect(self: Sequential, scenario: "Scenario") -> "Bench":
        bench: Bench = getattr(import_module(f"hydra_plugins.autotune.{module}"), maker)(scenario)
        return bench

    return connect
