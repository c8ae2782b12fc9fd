"""Define the Hydra launcher ``command``: any program measures (``conf=command`` or ``probe=command``)."""

from hydra_plugins.autotune._plugin import Sequential, bench_of, offered


@offered("command")
class CommandLauncher(Sequential):
    """Run jobs of a multirun one after another; each launch of a campaign runs a user's program."""

    connect = bench_of("_command", "command_bench")
