"""Check that this user has run a campaign, or agrees, before programs that its journal names are started."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune.campaign.sealing import is_sealed
from autotune.campaign.spec import CampaignSpec
from autotune.commands.terminal import agreed_to
from autotune.errors import JournalError
from autotune.history.folder import check_ours
from autotune.history.journal import read_events
from autotune.scenario import Scenario

_MODELS = tuple(f"hydra_plugins.autotune.{name}Launcher" for name in ("simulated.Simulated", "replay.Replay"))
"""Launchers that start no program."""


def check_trusted(directory: Path, about: CampaignSpec, unasked: bool) -> None:
    """Print which programs a journal asks to start, and raise an error unless this user agrees.

    A user who has run the campaign before is assumed to agree. Any other user is asked; if ``unasked`` is
    true, the question is skipped and the user is assumed to agree too.

    Raises:
        JournalError: other users could have written the journal, or this user has not run the campaign and
            did not agree.
    """
    check_ours(directory)
    if about.bench.launcher.get("_target_") in _MODELS and not about.scenario.campaign.notify:
        return
    programs = starts_text(about.scenario, about.bench.launcher)
    request = f"the journal of {directory} asks to start:\n{programs}"
    if is_sealed(read_events(directory)) or unasked:
        sys.stderr.write(request)
        return
    request = f"this user has not run the campaign; {request}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        raise JournalError(
            f"nothing was started: {request}".rstrip(), "look at it; --yes (yes=True) starts it all the same"
        )


def starts_text(scenario: Scenario, node: Mapping[str, Any]) -> str:
    """Return a line for each value of a scenario and its launcher that names a program or its options."""
    launcher = {key: value for key, value in node.items() if key != "_target_" and value}
    values = {
        "launcher": str(node.get("_target_", "mpirun")).rpartition(".")[2],
        "mpi.mpirun": scenario.mpi.mpirun,
        "mpi.env": dict(scenario.mpi.env),
        "mpi.mca": dict(scenario.mpi.mca),
        "probe.options": dict(scenario.probe.options),
        "cluster.hosts": list(scenario.cluster.hosts),
        "cluster.hostfile": scenario.cluster.hostfile,
        "campaign.notify": scenario.campaign.notify,
        "hydra.launcher": launcher,
    }
    return "".join(f"  {key}: {value}\n" for key, value in values.items() if value)
