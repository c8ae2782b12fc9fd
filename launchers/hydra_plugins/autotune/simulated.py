"""Define the Hydra launcher ``simulated``: a model of the cluster that ``machine=`` names."""

from hydra_plugins.autotune._plugin import Sequential, bench_of, offered


@offered("simulated")
class SimulatedLauncher(Sequential):
    """Run jobs of a multirun one after another; a model computes the results of each campaign's launches."""

    connect = bench_of("_simulated", "simulated_bench")
