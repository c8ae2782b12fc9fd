"""``report DIR``: write an HTML page that shows the results of a campaign and the reasons for them."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.discovery import slots_of
from autotune.campaign.guidelines import campaign_findings
from autotune.campaign.noise import remarks
from autotune.campaign.same_moment import at_one_moment
from autotune.commands.companions import recordings, worth_text
from autotune.commands.keys import quoted
from autotune.errors import TableError, UserError, needing, printable
from autotune.exporters.export_check import refuted
from autotune.exporters.files import how_to_use, notes_on, sets_nothing
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
from autotune.verification.choices import ChoiceKind
from autotune.views.discovery import discovery_section
from autotune.views.ending import ending
from autotune.views.guidelines import guidelines_section
from autotune.views.health import health

if TYPE_CHECKING:
    from autotune.views.report import ReportInput

_EVERY_S = 30.0  # Seconds after which the page of a running campaign is written again; an open page reloads.
_LOG_BYTES = 1 << 20  # Number of bytes that are read from the beginning of UCX's log, which has its tables.
_DEMONSTRATION = (
    "conf=allreduce_8node",
    "hydra/launcher=simulated",
    "budget.launches=16",
    "sizes=[8,4k,1M]",
)
"""Words of the campaign that ``--demo`` runs: the one of the quick start."""
_SHARE = 10  # Drawing takes at most 1/_SHARE of the time, because it disturbs the launches being measured.


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """Describes a job that will use the recommendation; by default it is like the campaign's launches."""

    ranks: int | None = None
    nodes: int | None = None
    sizes: str = ""  # Message sizes as in a scenario: ``8..64k`` or ``8,4k``.
    calls: Path | None = None  # A recording of the job's calls, given instead of ranks, nodes and sizes.
    ran: Path | None = None  # The file ``run.json`` of a job that tuned itself.


def demonstrate(directory: Path) -> None:
    """Run a small campaign on a simulated cluster in a directory; the same campaign there stays as it is.

    Raises:
        AutotuneError: for the same reasons as in ``run_task``, such as another campaign in the directory.
    """
    from autotune.commands.hydra_bridge import run_task
    from autotune.commands.tune import tune

    place = f"campaign.dir={quoted(str(directory))}"
    run_task(partial(tune, quiet=True), (*_DEMONSTRATION, place), launches=True)


def report(
    directory: Path,
    out: Path | None,
    figures: Path | None = None,
    follow: bool = False,
    collective: str | None = None,
    job: PlannedJob | None = None,
) -> None:
    """Write the HTML page on a campaign, on a recording of calls, or on a table of measurements.

    ``directory`` may also be the path of a recording or a table. ``out`` is by default ``report.html`` in the
    campaign's directory, or the file's own name with the ending ``.html``. The figures are also written to
    the directory ``figures``, as PNG and SVG. With ``follow`` the page is written again and again until the
    campaign ends or the user presses Ctrl-C. ``collective`` chooses one collective of a table. If a ``job``
    is given, the page shows whether the measurements cover each of the job's calls.

    Raises:
        UserError: there is no campaign, an option does not apply to this kind of page, a file cannot be
            written, or matplotlib is not installed.
        TableError: the file cannot be read.
    """
    if job is not None and (directory.is_file() or follow):
        raise UserError(
            "--ranks, --nodes, --sizes, --calls, --run", "they go with a campaign, without --follow"
        )
    if directory.is_file() and _is_recording(directory):
        if figures is not None or follow:
            raise UserError(f"{directory} is a recording", "its page has no --figures and no --follow")
        target = out or directory.with_suffix(".html")
        _write(target, recordings().page(directory), links=out is not None)
        sys.stdout.write(f"{target}\n")
        return
    if directory.is_file():
        inputs, target = table_input(directory, collective), out or directory.with_suffix(".html")
        _write(target, _page_of(inputs), links=out is not None)
        written = write_figures(inputs, figures) if figures else ()
        sys.stdout.writelines(f"{path}\n" for path in (target, *written))
        return
    if collective:
        raise UserError(f"{directory} is no table", "--collective is for a table of several")
    target = out or directory / "report.html"
    campaign = read_campaign(directory)
    if job is None:
        write_page(campaign, target)
    else:
        has_calls = job.ranks or job.nodes or job.sizes or job.calls
        covered = _coverage_of(campaign, job) if has_calls else ()
        self_tuned = recordings().tuned_run(job.ran) if job.ran else None
        _write(target, _page_of(replace(report_input(campaign), asked=covered, ran=self_tuned)))
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
        sys.stdout.writelines(f"{path}\n" for path in write_figures(report_input(campaign), figures))


def _coverage_of(campaign: CampaignDirectory, job: PlannedJob) -> tuple[Covered, ...]:
    """Return whether measurements cover each call of a job; recorded calls are sorted by falling time."""
    about = campaign.about
    measured = set(campaign.conclude().baseline)
    if job.calls is not None:
        return coverage(measured, about.bench.nodes, recordings().timed_slots(job.calls))
    sizes = sizes_of_words(job.sizes.split(",") if "," in job.sizes else job.sizes) if job.sizes else None
    slots_of_job = sorted({
        (collective, job.ranks or ranks, size)
        for collective, ranks, measured_size in measured
        for size in sizes or [measured_size]
    })  # fmt: skip
    nodes = job.nodes or about.bench.nodes
    return coverage(measured, about.bench.nodes, [(slot, nodes, None) for slot in slots_of_job])


def _protocols(
    campaign: CampaignDirectory, point: Point, subject: Subject | None = None
) -> list[tuple[str, str]]:
    """Return (message sizes, protocol) of each protocol that UCX used; empty if no log of UCX shows any.

    The log is from the last good launch of ``subject`` or, if that is None, of ``point``.
    """
    for observation in reversed(campaign.history.observations):
        trial = observation.trial
        if not observation.ok or (trial.subject is not subject if subject else trial.point != point):
            continue
        folder = campaign.path / "launches" / f"{trial.number:04}"
        for path in sorted(folder.glob("ucx.*.log"))[:1]:
            with path.open("rb") as file:
                report = read_report(file.read(_LOG_BYTES).decode(errors="replace"))
            lanes = next((c for c in ("inter-node", "intra-node") if c in report.lanes), "")
            on_lanes = [p for p in report.protocols if p.configuration == lanes]  # empty: UCX_PROTO_ENABLE=n
            first = [p for p in on_lanes if p.operation == on_lanes[0].operation]
            ends = [*(str(p.first_bytes - 1) for p in first[1:]), "∞"][: len(first)]
            return [(f"{p.first_bytes} … {end}", p.name) for p, end in zip(first, ends, strict=True)]
    return []


def _is_recording(path: Path) -> bool:
    with path.open("rb") as file:
        return b'"format": "autotune calls' in file.read(200)


def write_page(campaign: CampaignDirectory, target: Path) -> None:
    """Write the HTML page on a campaign.

    Raises:
        UserError: the page cannot be written.
    """
    _write(target, _page_of(report_input(campaign)))


def _page_of(inputs: "ReportInput") -> str:
    from autotune.views.report import page

    return page(inputs)


def _write(target: Path, text: str, links: bool = True) -> None:
    """Write a page without control characters, which a journal may contain and a browser would obey."""
    write_files({target: printable(text)}, links=links)


def table_input(table: Path, collective: str | None = None) -> "ReportInput":
    """Return a recorded or imported table as a report's input, as if a campaign had launched its runs.

    Raises:
        TableError: the file cannot be read, or is not a recorded or imported table.
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


def write_figures(inputs: "ReportInput", folder: Path) -> tuple[Path, ...]:
    """Write every figure of the page as PNG and SVG, and return the paths of the files.

    Raises:
        UserError: a file cannot be written, or matplotlib is not installed.
    """
    from autotune.views.report import drawings, figures

    with needing("figures", "--figures"):
        images = drawings(figures(inputs))
    files = {folder / name: image for name, image in images.items()}
    write_files(files, parents=True, below=folder)
    return tuple(files)


def _untried(path: Path) -> bool:
    with suppress(TableError):
        return untried(user_text(path, lenient=True))
    return False


def report_input(campaign: CampaignDirectory) -> "ReportInput":
    """Return the report's input: all results of the campaign so far, and the paths of the exported files."""
    from autotune.views.report import ReportInput

    about, concluded = campaign.about, campaign.conclude()
    folder, requested_formats = campaign.path / "export", about.scenario.export
    formats = requested_formats or dialect(about.space.stack).formats
    exports = [str(path) for path in sorted(folder.glob("*")) if path.is_file()]
    usable = concluded.recommendation if exports and not refuted(folder) else None
    use = how_to_use(usable, formats, folder) if usable else ""
    violations = campaign_findings(about, campaign.history, concluded.recommendation)
    state = f"{campaign.state} ({campaign.reason})" if campaign.reason else campaign.state.value
    recommendation = concluded.recommendation
    protocols = _protocols(campaign, recommendation.point) if recommendation else []
    return ReportInput(
        title=about.scenario.title,
        protocols=protocols,
        before=_protocols(campaign, Point(), Subject.UNTOUCHED) if protocols else (),
        space=about.space,
        whole=about.whole,
        objectives=about.objectives,
        history=at_one_moment(campaign.history),
        remarks=remarks(about, campaign.history),
        recommendation=concluded.recommendation,
        baseline=concluded.baseline,
        effects=concluded.effects,
        screening=concluded.screening,
        rounds=concluded.verdict.rounds if concluded.verdict else (),
        findings=about.bench.findings,
        exports=exports,
        untried=[path for path in exports if _untried(Path(path))],
        use=use,
        use_notes=notes_on(usable, use) if usable else (),
        health=health(about, campaign.history, concluded, campaign.state is State.COMPLETE),
        ending=ending(about, campaign.history, concluded, campaign.path, campaign.state).lines,
        harmless=next(
            (choice.text for choice in concluded.choices if choice.kind is ChoiceKind.HARMLESS), ""
        ),
        nodes=about.bench.nodes,
        idle=usable is not None and sets_nothing(usable),
        stamp=str(about.bench.stamp),
        state=state,
        running=campaign.state is State.RUNNING,
        discovery=discovery_section(about, slots_of(campaign.history)),
        worth=worth_text(about, concluded.recommendation, concluded.harmless),
        guidelines=guidelines_section(violations, about.space, concluded.recommendation),
    )
