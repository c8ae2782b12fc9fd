"""Offer the Hydra launcher ``simulated``: a modelled cluster from ``machine=``."""

from hydra_plugins.autotune._plugin import Sequential, offered, site_of


@offered("simulated")
class SimulatedLauncher(Sequential):
    """Run jobs of a multirun one after another; the launches of each campaign are computed."""

    connect = site_of("_simulated", "simulated_site")
