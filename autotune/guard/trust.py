"""Ask the user before programs are started that a reference names, if somebody else may have written it."""

import os
import sys
from pathlib import Path

from autotune.campaign.sealing import is_signed
from autotune.commands.terminal import agreed_to
from autotune.commands.trust import starts_text
from autotune.errors import UserError
from autotune.guard.kept import KEPT, Kept
from autotune.scenario import restored


def check_kept(folder: Path, settings: Kept, unasked: bool) -> None:
    """Ask the user for consent, unless this user or an administrator wrote the reference in a folder.

    Anybody may have written the reference, which names programs to start.

    Args:
        folder: The folder of ``kept.json``.
        settings: The reference, as read from that file.
        unasked: Whether to start the programs without asking.

    Raises:
        UserError: somebody else wrote the reference, and the user did not agree.
    """
    if unasked or is_signed(settings.meant, settings.seal) or _is_an_administrators(folder / KEPT):
        return
    programs = (
        f"  mpirun: {settings.facts.mpirun}\n{starts_text(restored(settings.scenario), settings.launcher)}"
    )
    request = f"this user has not kept {folder / KEPT}, which asks to start:\n{programs}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        raise UserError(
            f"nothing was started: {request}".rstrip(), "look at it; --yes starts it all the same"
        )


def _is_an_administrators(path: Path) -> bool:
    """Return whether a file is trusted because root owns it; False if the current user is root.

    For root the owner proves nothing, because root owns every file that root unpacks, clones or copies.
    """
    return os.geteuid() != 0 and path.stat().st_uid == 0
