"""``export`` and ``report``: what a campaign hands over."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.campaign.directory import Record, read_record
from autotune.errors import UserError
from autotune.exporters import listing
from autotune.exporters.files import default_formats, export_files, how_to_use
from autotune.exporters.merging import merged

if TYPE_CHECKING:
    from autotune.views.report import ReportInput


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


def report(directory: Path, out: Path | None) -> None:
    """Write the page.

    Raises:
        UserError: there is no campaign, or the file cannot be written.
    """
    from autotune.views.report import page

    target = out or directory / "report.html"
    text = page(report_input(read_record(directory)))
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise UserError(f"cannot write {target}: {exc.strerror}", "choose another file with --out") from exc
    sys.stdout.write(f"{target}\n")


def report_input(record: Record) -> "ReportInput":
    """Everything that the campaign knows so far, and the files that were exported."""
    from autotune.views.report import ReportInput

    effects, screening = record.screening or ((), None)
    folder = record.directory / "export"
    exports = [str(path) for path in sorted(folder.glob("*")) if path.is_file()]
    state = f"{record.state} ({record.reason})" if record.reason else record.state
    return ReportInput(
        title=record.name,
        space=record.space,
        objectives=record.objectives,
        history=record.history,
        recommendation=record.recommendation,
        baseline=record.baseline,
        effects=effects,
        screening=screening,
        rounds=record.verdict.rounds if record.verdict else (),
        findings=[(str(what), str(found)) for what, found in record.site.get("findings", ())],
        exports=exports,
        use=how_to_use(record, folder) if exports else "",
        stamp=str(record.site.get("stamp", "")),
        state=state,
    )
