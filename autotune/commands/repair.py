"""``repair DIR``: a damaged journal without what cannot be read; the damaged one is kept beside it."""

import os
import shutil
import sys
from pathlib import Path

from autotune.errors import UserError
from autotune.history.folder import FILE
from autotune.history.journal import Journal, content, locked, not_stored
from autotune.history.repair import salvaged


def repair(directory: Path) -> None:
    """Write the journal anew with everything that can be read, and say what was lost.

    Raises:
        UserError: there is no journal.
        LockedError: the campaign is running.
        JournalError: what the campaign is cannot be read.
    """
    if not content(directory):
        raise UserError(f"{directory} holds no campaign", f"expected a directory with a {FILE}")
    lock = locked(directory)
    try:
        damaged = content(directory)
        salvage = salvaged(damaged)
        if not salvage.lost:
            sys.stdout.write(f"{directory / FILE}: nothing is damaged\n")
            return
        fresh = directory / ".repair"
        try:
            shutil.rmtree(fresh, ignore_errors=True)
            with Journal(fresh) as journal:
                for event in salvage.events:
                    journal.append(event)
            aside = _kept(directory, damaged)
            (fresh / FILE).replace(directory / FILE)
            fresh.rmdir()
        except OSError as exc:
            raise not_stored(directory, exc) from exc
    finally:
        os.close(lock)
    kept = (
        f"{directory / FILE}: {len(salvage.events)} events kept; the damaged journal is {aside.name}; lost:"
    )
    sys.stdout.write("\n".join([kept, *(f"  {words}" for words in salvage.lost)]) + "\n")


def _kept(directory: Path, damaged: bytes) -> Path:
    """The damaged journal, written beside under the first name that is free."""
    number = 1
    while (aside := directory / f"{FILE}.damaged.{number}").exists():
        number += 1
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(damaged)
        file.flush()
        os.fsync(descriptor)
    return aside
