"""Nothing that a journal names is started before this user is known to have meant it."""

import sys
from pathlib import Path

from autotune.campaign.description import Description
from autotune.campaign.sealing import is_sealed
from autotune.commands.terminal import agreed_to
from autotune.errors import JournalError
from autotune.history.folder import check_ours
from autotune.history.journal import read_events

_MODELS = tuple(f"hydra_plugins.autotune.{name}Launcher" for name in ("simulated.Simulated", "replay.Replay"))
"""Launchers that start nothing."""


def check_trusted(directory: Path, about: Description, unasked: bool) -> None:
    """Name what a journal asks to start, and go on if this user has run it, or is asked and wants to.

    Raises:
        JournalError: others could have written it, or this user has not run it and nobody said yes.
    """
    check_ours(directory)
    if about.site.launcher.get("_target_") in _MODELS and not about.scenario.campaign.notify:
        return
    request = f"the journal of {directory} asks to start:\n{_words(about)}"
    if is_sealed(read_events(directory)) or unasked:
        sys.stderr.write(request)
        return
    request = f"this user has not run the campaign; {request}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        raise JournalError(
            f"nothing was started: {request}".rstrip(), "look at it; --yes (yes=True) starts it all the same"
        )


def _words(about: Description) -> str:
    scenario = about.scenario
    launcher = {k: v for k, v in about.site.launcher.items() if k != "_target_" and v}
    asked = {
        "launcher": str(about.site.launcher.get("_target_", "mpirun")).rpartition(".")[2],
        "mpi.mpirun": scenario.mpi.mpirun,
        "mpi.env": dict(scenario.mpi.env),
        "mpi.mca": dict(scenario.mpi.mca),
        "probe.options": dict(scenario.probe.options),
        "cluster.hosts": list(scenario.cluster.hosts),
        "cluster.hostfile": scenario.cluster.hostfile,
        "campaign.notify": scenario.campaign.notify,
        "hydra.launcher": launcher,
    }
    return "".join(f"  {key}: {value}\n" for key, value in asked.items() if value)
