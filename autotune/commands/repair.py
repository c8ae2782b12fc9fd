"""``status DIR --repair``: rewrite a damaged journal without its unreadable lines, and keep the old file."""

import os
import shutil
import sys
from pathlib import Path

from autotune.errors import UserError
from autotune.history.folder import FILE
from autotune.history.journal import Journal, content, locked, not_stored
from autotune.history.repair import salvaged


def repair(directory: Path) -> None:
    """Write a new journal with every readable event of the damaged journal, and print what was lost.

    Raises:
        UserError: there is no journal.
        LockedError: the campaign is running.
        JournalError: the campaign's description cannot be read.
        StorageError: the new journal cannot be written.
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
        new_folder = directory / ".repair"
        try:
            shutil.rmtree(new_folder, ignore_errors=True)
            with Journal(new_folder) as journal:
                for event in salvage.events:
                    journal.append(event)
            backup = _written_aside(directory, damaged)
            (new_folder / FILE).replace(directory / FILE)
            new_folder.rmdir()
        except OSError as exc:
            raise not_stored(directory, exc) from exc
    finally:
        os.close(lock)
    summary = (
        f"{directory / FILE}: {len(salvage.events)} events kept; the damaged journal is {backup.name}; lost:"
    )
    sys.stdout.write("\n".join([summary, *(f"  {line}" for line in salvage.lost)]) + "\n")


def _written_aside(directory: Path, damaged: bytes) -> Path:
    number = 1
    while (path := directory / f"{FILE}.damaged.{number}").exists():
        number += 1
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(damaged)
        file.flush()
        os.fsync(descriptor)
    return path
