"""Define the Hydra launcher ``replay``: ``hydra/launcher=replay``, or ``conf=replay replay.table=FILE``."""

from hydra_plugins.autotune._plugin import Sequential, bench_of, offered


@offered("replay")
class ReplayLauncher(Sequential):
    """Run jobs of a multirun one after another; launches of each campaign get results from a table."""

    connect = bench_of("_replay", "replay_bench")
