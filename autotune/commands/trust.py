"""Nothing that a journal names is started before this user is known to have meant it."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotune.campaign.description import Description
from autotune.campaign.sealing import is_sealed, is_signed
from autotune.commands.terminal import agreed_to
from autotune.errors import JournalError, UserError
from autotune.guard.kept import KEPT, Kept
from autotune.history.folder import check_ours
from autotune.history.journal import read_events
from autotune.scenario import Scenario, restored

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
    asked = _words(about.scenario, about.site.launcher)
    request = f"the journal of {directory} asks to start:\n{asked}"
    if is_sealed(read_events(directory)) or unasked:
        sys.stderr.write(request)
        return
    request = f"this user has not run the campaign; {request}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        raise JournalError(
            f"nothing was started: {request}".rstrip(), "look at it; --yes (yes=True) starts it all the same"
        )


def check_kept(folder: Path, kept: Kept, unasked: bool) -> None:
    """The same for what ``guard keep`` wrote into a folder: it can be unpacked, and copied, as a journal.

    Raises:
        UserError: neither this user nor an administrator has kept it, and nobody said yes.
    """
    if unasked or is_signed(kept.meant, kept.seal) or _is_an_administrators(folder / KEPT):
        return
    asked = f"  mpirun: {kept.facts.mpirun}\n{_words(restored(kept.scenario), kept.launcher)}"
    request = f"this user has not kept {folder / KEPT}, which asks to start:\n{asked}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        raise UserError(
            f"nothing was started: {request}".rstrip(), "look at it; --yes starts it all the same"
        )


def _is_an_administrators(path: Path) -> bool:
    """Whether a file is trusted because root owns it, by another user.

    To root itself its own ownership says nothing: whatever root unpacks, clones or copies becomes root's.
    """
    return os.geteuid() != 0 and path.stat().st_uid == 0


def _words(scenario: Scenario, node: Mapping[str, Any]) -> str:
    launcher = {k: v for k, v in node.items() if k != "_target_" and v}
    asked = {
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
    return "".join(f"  {key}: {value}\n" for key, value in asked.items() if value)
