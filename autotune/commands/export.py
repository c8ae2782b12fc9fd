"""``export DIR…``: a recommendation, or several as one, as parameter files."""

import sys
from pathlib import Path

from autotune.campaign.directory import read_record
from autotune.errors import UserError
from autotune.exporters import listing
from autotune.exporters.files import default_formats, export_files, how_to_use
from autotune.exporters.merging import merged


def formats() -> None:
    """Print every format with its summary."""
    for name, summary in listing():
        sys.stdout.write(f"{name:18} {summary}\n")


def export(directories: tuple[Path, ...], wanted: tuple[str, ...], out: Path | None) -> None:
    """Write the files of one recommendation, or of several as one."""
    records = [read_record(directory) for directory in directories]
    found = []
    for record in records:
        if record.recommendation is None:
            raise UserError(
                f"{record.directory} has nothing to export yet: no setting was measured completely",
                f"python -m autotune status {record.directory}",
            )
        found.append(record.recommendation)
    record = records[0]
    target = out or record.directory / "export"
    if len(records) > 1 and out is None:
        raise UserError("several campaigns in one file", "say where to write it: --out DIR")
    for path in export_files(merged(found), wanted or default_formats(record), target):
        sys.stdout.write(f"{path}\n")
    sys.stdout.write(f"use them with:\n  {how_to_use(record, target)}\n")
