"""Offer the Hydra launcher ``command``: any program as instrument, ``conf=command`` or ``probe=command``."""

from hydra_plugins.autotune._plugin import Sequential, offered, site_of


@offered("command")
class CommandLauncher(Sequential):
    """Run jobs of a multirun one after another, and a program for each launch of a campaign."""

    connect = site_of("_command", "command_site")
