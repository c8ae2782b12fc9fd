"""Nothing that stored settings name is started before this user is known to have meant it."""

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
    """Check the settings that ``guard keep`` has stored in a folder, as journals are checked.

    Anybody may have written them.

    Args:
        folder: The folder.
        settings: The stored settings.
        unasked: Whether to start without a question the programs that they name.

    Raises:
        UserError: neither this user nor an administrator has stored them, and the user did not agree.
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
    """Return whether a file is trusted because root owns it, which holds for other users alone.

    To root this says nothing, because every file that root unpacks, clones or copies becomes root's.
    """
    return os.geteuid() != 0 and path.stat().st_uid == 0
