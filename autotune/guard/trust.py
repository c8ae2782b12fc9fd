"""Ask the user before starting the programs that a reference names, if another user may have written it.

The reference is the state of a machine that ``guard keep`` saved.
"""

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
    """Ask for consent, unless ``unasked`` is set or this user or an administrator wrote the reference.

    For root, ownership of the file proves nothing, because every file that root unpacks, clones or copies
    belongs to root.

    Raises:
        UserError: somebody else wrote the reference, and the user did not agree.
    """
    if unasked or is_signed(settings.meant, settings.seal):
        return
    if os.geteuid() != 0 and (folder / KEPT).stat().st_uid == 0:
        return
    programs = (
        f"  mpirun: {settings.facts.mpirun}\n{starts_text(restored(settings.scenario), settings.launcher)}"
    )
    request = f"this user has not kept {folder / KEPT}, which asks to start:\n{programs}"
    if not agreed_to(f"{request}start it?", sys.stderr):
        problem = f"nothing was started: {request}".rstrip()
        raise UserError(problem, "look at it; --yes starts it all the same")
