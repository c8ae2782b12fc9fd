"""Offer the Hydra launcher ``command``: any program as instrument, ``conf=command`` or ``probe=command``."""

from hydra_plugins.autotune._plugin import Sequential, bench_of, offered


@offered("command")
class CommandLauncher(Sequential):
    """Run jobs of a multirun one after another, and a program for each launch of a campaign."""

    connect = bench_of("_command", "command_bench")
