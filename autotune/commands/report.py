"""``report DIR``: the page that shows what was found and why."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.discovery import slots_of
from autotune.campaign.drift import corrected
from autotune.campaign.noise import remarks
from autotune.commands.application import read_calls, worth_text
from autotune.commands.floors import kept_floor
from autotune.commands.guidelines import campaign_findings
from autotune.commands.run_documents import run_in
from autotune.errors import TableError, UserError, needing, printable
from autotune.exporters.export_check import refuted
from autotune.exporters.files import how_to_use, sets_nothing
from autotune.exporters.origin import untried
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.objectives import Objective, envelope
from autotune.history.trial import Subject
from autotune.probe.ucx import read_report
from autotune.recommend.coverage import Covered, coverage
from autotune.recommend.front import recommend
from autotune.replay.observed import history_of
from autotune.replay.recorded_table import read_recorded
from autotune.resources import user_text
from autotune.scenario import sizes_of as sizes_of_words
from autotune.space import Point
from autotune.stacks import dialect
from autotune.views.discovery import discovery_section
from autotune.views.guidelines import guidelines_section

if TYPE_CHECKING:
    from autotune.views.report import ReportInput

_EVERY_S = 30.0  # A page that is open loads itself again as often.
_LISTED = 25  # Kinds of calls of a recording whose cover is listed.
_LOG_BYTES = 1 << 20  # Read of a log of UCX's: its tables come first.
_SHARE = 10  # Drawing takes at most one part in so many of the time: the machine is measuring.


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job to be run with the recommendation; fields left out are as measured."""

    ranks: int | None = None
    nodes: int | None = None
    sizes: str = ""  # As in a scenario: ``8..64k`` or ``8,4k``.
    calls: Path | None = None  # A recording, in place of the others.
    ran: Path | None = None  # ``run.json`` of a job that tuned itself.


def report(
    directory: Path,
    out: Path | None,
    figures: Path | None = None,
    follow: bool = False,
    collective: str | None = None,
    job: PlannedJob | None = None,
) -> None:
    """Write the page, and its figures as files where a directory for them is named.

    ``collective``: which one, of a table that holds several.

    ``job``: whose calls the page says whether they are covered.

    ``follow``: again whenever the campaign has gone on, until it ends or Ctrl-C, which does nothing to it.

    Raises:
        UserError: there is no campaign, or one where a collective is named; a file cannot be written, or
            matplotlib is not here.
    """
    if job is not None and (directory.is_file() or follow):
        raise UserError(
            "--ranks, --nodes, --sizes, --calls, --run", "they go with a campaign, without --follow"
        )
    if directory.is_file() and _is_recording(directory):
        if figures is not None or follow:
            raise UserError(f"{directory} is a recording", "its page has no --figures and no --follow")
        target = out or directory.with_suffix(".html")
        _write_recording(directory, target, links=out is not None)
        sys.stdout.write(f"{target}\n")
        return
    if directory.is_file():
        inputs, target = table_input(directory, collective), out or directory.with_suffix(".html")
        _write_page(inputs, target, links=out is not None)
        sys.stdout.writelines(f"{path}\n" for path in (target, *(_drawn(inputs, figures) if figures else ())))
        return
    if collective:
        raise UserError(f"{directory} is no table", "--collective is for a table of several")
    target = out or directory / "report.html"
    campaign = read_campaign(directory)
    if job is None:
        write_page(campaign, target)
    else:
        known = job.ranks or job.nodes or job.sizes or job.calls
        asked = _covered(campaign, job) if known else ()
        ran = run_in(job.ran) if job.ran else None
        _write_page(replace(report_input(campaign), asked=asked, ran=ran), target)
    sys.stdout.write(f"{target}\n")
    try:
        while follow and campaign.state is State.RUNNING:
            began_s = time.monotonic()
            campaign = read_campaign(directory)
            write_page(campaign, target)
            if campaign.state is State.RUNNING:
                time.sleep(max(_EVERY_S, _SHARE * (time.monotonic() - began_s)))
    except KeyboardInterrupt:
        return
    if figures is not None:
        for path in write_figures(campaign, figures):
            sys.stdout.write(f"{path}\n")


def _covered(campaign: CampaignDirectory, job: PlannedJob) -> tuple[Covered, ...]:
    """Whether what the campaign measured covers the calls of a job, those with the most time first."""
    about = campaign.about
    measured = set(campaign.conclude().baseline)
    if job.calls is not None:
        recorded = read_calls(job.calls)
        calls = sorted((c for c in recorded.calls if c.tunable), key=lambda c: -c.busy_s)[:_LISTED]
        slots = [(c.collective, c.comm_size, round(c.message_bytes)) for c in calls]
        asked = [(slot, recorded.nodes, c.busy_s) for slot, c in zip(slots, calls, strict=True)]
        return coverage(measured, about.site.nodes, asked)
    sizes = sizes_of_words(job.sizes.split(",") if "," in job.sizes else job.sizes) if job.sizes else None
    wanted = sorted({
        (collective, job.ranks or ranks, size)
        for collective, ranks, measured_size in measured
        for size in sizes or [measured_size]
    })  # fmt: skip
    return coverage(measured, about.site.nodes, [(s, job.nodes or about.site.nodes, None) for s in wanted])


def _protocols(one: CampaignDirectory, point: Point, subject: Subject | None = None) -> list[tuple[str, str]]:
    """UCX's protocols in the last launch with these values that left a log: (message bytes, protocol)."""
    for o in reversed(one.history.observations):
        trial = o.trial
        if not o.ok or (trial.subject is not subject if subject else trial.point != point):
            continue
        folder = one.path / "launches" / f"{trial.number:04}"
        for path in sorted(folder.glob("ucx.*.log"))[:1]:
            with path.open("rb") as file:
                report = read_report(file.read(_LOG_BYTES).decode(errors="replace"))
            where = next((c for c in ("inter-node", "intra-node") if c in report.lanes), "")
            mine = [p for p in report.protocols if p.configuration == where]
            first = [p for p in mine if p.operation == mine[0].operation]  # none with UCX_PROTO_ENABLE=n
            ends = [*(str(p.first_bytes - 1) for p in first[1:]), "∞"][: len(first)]
            return [(f"{p.first_bytes} … {end}", p.name) for p, end in zip(first, ends, strict=True)]
    return []


def report_two(first: Path, second: Path, out: Path | None) -> None:
    """Write a page that compares two campaigns (default: beside the second's own page).

    Raises:
        UserError: one of them is no campaign.
    """
    from autotune.views.report import comparison

    target = out or second / f"report-{first.resolve().name}.html"
    inputs = [report_input(read_campaign(one)) for one in (first, second)]
    names = (str(first), str(second))
    _write(target, comparison(inputs[0], inputs[1], names), links=out is not None)
    sys.stdout.write(f"{target}\n")


def _is_recording(path: Path) -> bool:
    with path.open("rb") as file:
        return b'"format": "autotune calls' in file.read(200)


def _write_recording(path: Path, target: Path, links: bool) -> None:
    from autotune.views.report import recording_page

    _write(target, recording_page(read_calls(path), kept_floor(path), str(path)), links)


def write_page(campaign: CampaignDirectory, target: Path) -> None:
    """Write the page of a campaign; raises as ``report``."""
    _write_page(report_input(campaign), target)


def _write_page(inputs: "ReportInput", target: Path, links: bool = True) -> None:
    from autotune.views.report import page

    _write(target, page(inputs), links)


def _write(target: Path, text: str, links: bool) -> None:
    """Write a page, in which no journal has a terminal or a browser obey it."""
    write_files({target: printable(text)}, links=links)


def table_input(table: Path, collective: str | None = None) -> "ReportInput":
    """A recorded or imported table as a report's input, as if a campaign had launched its runs.

    Raises:
        TableError: a file that cannot be read, or that is no such table.
    """
    from autotune.views.report import ReportInput

    recorded = read_recorded(table, collective=collective)
    history, objectives = history_of(recorded), (Objective("latency"),)
    ranks = ", ".join(str(n) for n in recorded.comm_sizes if n)
    return ReportInput(
        title=table.name,
        space=recorded.space,
        objectives=objectives,
        history=history,
        recommendation=recommend(objectives, recorded.space, history),
        baseline=envelope(recorded.space, history.untouched),
        findings=[("table", str(table)), ("collective", recorded.collective), ("ranks", ranks or "not said")],
    )


def write_figures(campaign: CampaignDirectory, folder: Path) -> tuple[Path, ...]:
    """Write every figure of the page as PNG and SVG; raises as ``report``."""
    return _drawn(report_input(campaign), folder)


def _drawn(inputs: "ReportInput", folder: Path) -> tuple[Path, ...]:
    from autotune.views.report import drawings, figures

    with needing("figures", "--figures"):
        drawn = drawings(figures(inputs))
    files = {folder / name: image for name, image in drawn.items()}
    write_files(files, parents=True, below=folder)
    return tuple(files)


def _untried(path: Path) -> bool:
    """Whether an exported file says that its format was never run; what cannot be read is none of ours."""
    with suppress(TableError):
        return untried(user_text(path, lenient=True))
    return False


def report_input(campaign: CampaignDirectory) -> "ReportInput":
    """Everything that the campaign knows so far, and the files that were exported."""
    from autotune.views.report import ReportInput

    about, concluded = campaign.about, campaign.conclude()
    folder, wanted = campaign.path / "export", about.scenario.export
    formats = wanted or dialect(about.space.stack).formats
    exports = [str(path) for path in sorted(folder.glob("*")) if path.is_file()]
    usable = concluded.recommendation if exports and not refuted(folder) else None
    use = how_to_use(usable, formats, folder) if usable else ""
    found = campaign_findings(about, campaign.history, concluded.recommendation)
    state = f"{campaign.state} ({campaign.reason})" if campaign.reason else campaign.state.value
    chosen = concluded.recommendation
    protocols = _protocols(campaign, chosen.point) if chosen else []
    return ReportInput(
        title=about.scenario.title,
        protocols=protocols,
        before=_protocols(campaign, Point(), Subject.UNTOUCHED) if protocols else (),
        space=about.space,
        whole=about.whole,
        objectives=about.objectives,
        history=corrected(campaign.history),
        remarks=remarks(about, campaign.history),
        recommendation=concluded.recommendation,
        baseline=concluded.baseline,
        effects=concluded.effects,
        screening=concluded.screening,
        rounds=concluded.verdict.rounds if concluded.verdict else (),
        findings=about.site.findings,
        exports=exports,
        untried=[path for path in exports if _untried(Path(path))],
        use=use,
        idle=usable is not None and sets_nothing(usable),
        stamp=str(about.site.stamp),
        state=state,
        running=campaign.state is State.RUNNING,
        discovery=discovery_section(about, slots_of(campaign.history)),
        worth=worth_text(about, concluded.recommendation),
        guidelines=guidelines_section(found, about.space, concluded.recommendation),
    )
