"""Offer the Hydra launcher ``simulated``: a modelled cluster from ``machine=``."""

from hydra_plugins.autotune._plugin import Sequential, bench_of, offered


@offered("simulated")
class SimulatedLauncher(Sequential):
    """Run jobs of a multirun one after another; the launches of each campaign are computed."""

    connect = bench_of("_simulated", "simulated_bench")
