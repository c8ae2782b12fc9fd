"""``report DIR``: the page that shows what was found and why."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.campaign.directory import Record, read_record
from autotune.errors import UserError
from autotune.exporters.files import how_to_use

if TYPE_CHECKING:
    from autotune.views.report import ReportInput


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
