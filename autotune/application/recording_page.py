"""Make the HTML page of a recorded run: its time in MPI over the run, by kind of call and by late rank."""

from collections.abc import Iterable, Sequence

from autotune.application.diagnosis import diagnose
from autotune.application.diagnosis_text import floor_text, loss_rows, sentence, share_text
from autotune.application.floor import Floor
from autotune.application.recorded_time import Histogram, OtherCalls
from autotune.application.recording import RecordedCalls, Recording
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, BROWN, GREEN, GREY, TEAL, VIOLET
from autotune.views.report.page import rendered
from autotune.views.text import size_text

_DRAWN = 6  # Number of kinds of calls, those with most time, whose durations are drawn.
_LISTED = 25  # Number of kinds of calls, those with most time, that a table lists.
_COLOURS = (TEAL, BLUE, AMBER, VIOLET, GREEN, BROWN, GREY)


def recording_page(recorded: Recording, floor: Floor | None, name: str) -> str:
    """Return the page of a recording, and of the best times measured for its calls, as offline HTML."""
    diagnosis = diagnose(recorded, floor)
    losses, notes = loss_rows(diagnosis)
    command = " ".join(recorded.command)
    about = f"{recorded.ranks} ranks on {recorded.nodes} node(s), {recorded.run_s:.3g} s; {recorded.library}"
    return rendered(
        "recording.html.j2",
        {
            "title": name,
            "about": " · ".join(filter(None, (about, command, recorded.date))),
            "sentence": sentence(diagnosis, name),
            "losses": losses,
            "notes": notes,
            "timeline": _timeline(recorded),
            "late": [row for row in recorded.calls if row.lateness and row.lateness.ranks],
            "histograms": [_histogram(*durations) for durations in _durations(recorded)],
            "calls": _calls(recorded),
            "floor": floor,
            "floor_text": floor_text,
            "share_text": share_text,
            "named": _label,
        },
    )


def _timeline(recorded: Recording) -> str:
    """Return as JSON a figure of the share of time in each family of calls over the run; empty: not known."""
    line = recorded.timeline
    if line is None or not line.seconds:
        return ""
    figure = axes.empty(320)
    for (family, seconds), colour in zip(line.seconds.items(), _COLOURS, strict=False):
        if any(seconds):
            figure.add_bar(
                x=[axes.rounded((i + 0.5) * line.slice_s) for i in range(len(seconds))],
                y=[axes.rounded(100 * slice_s / line.slice_s) for slice_s in seconds],
                name=family,
                marker={"color": colour},
                hovertemplate="%{y:.3g} %<extra>" + family + "</extra>",
            )
    figure.update_layout(barmode="stack", bargap=0)
    figure.update_xaxes(title_text="seconds since MPI_Init")
    figure.update_yaxes(title_text="share of time in MPI [%]", rangemode="tozero")
    return axes.as_json(figure, "timeline")


def _label(calls: RecordedCalls) -> str:
    kind = "" if calls.kind == "blocking" else f", {calls.kind}"
    return f"{calls.collective} on {calls.comm_size} ranks{kind}"


def _durations(recorded: Recording) -> Iterable[tuple[str, float, Histogram]]:
    """Return name, mean message size in bytes and histogram of those kinds of calls that take most time."""
    rows = [(c.seconds, _label(c), c.message_bytes, c.histogram) for c in recorded.calls]
    names = (f"{o.operation} {o.distance}".strip() for o in recorded.other)
    rows += [(o.own_s, n, o.message_bytes, o.histogram) for o, n in zip(recorded.other, names, strict=True)]
    ordered = sorted(rows, key=lambda row: -row[0])
    return [(name, size, histogram) for _, name, size, histogram in ordered if histogram][:_DRAWN]


def _histogram(name: str, message_bytes: float, histogram: Histogram) -> str:
    figure = axes.empty(240)
    label = f"{name}, {size_text(round(message_bytes))}"
    # Each bar is drawn at the middle of its bin, whose ends differ by a factor of √2.
    us = [axes.rounded(2**0.25 * 1e6 * lower) for lower in histogram.lower_s]
    figure.add_bar(x=us, y=[axes.rounded(n) for n in histogram.calls], name=label, marker={"color": TEAL})
    figure.update_xaxes(title_text=f"{label}: duration [µs]", **axes.log_axis(us))
    figure.update_yaxes(title_text="calls", **axes.log_axis([n for n in histogram.calls if n > 0]))
    return axes.as_json(figure, f"durations-{name.replace(' ', '-')}-{message_bytes:.0f}")


def _calls(recorded: Recording) -> list[Sequence[str]]:
    """Return (name, size, calls per rank, seconds, waiting) of those kinds of calls that take most time."""
    rows: list[tuple[RecordedCalls | OtherCalls, str, str]] = []
    rows += [(c, _label(c), f"{c.waiting_s:.3g}") for c in recorded.calls]
    rows += [(o, f"{o.operation} {o.distance}", "") for o in recorded.other]
    return [
        (name, size_text(round(c.message_bytes)), f"{c.calls_per_rank:.5g}", f"{c.seconds:.3g}", waiting_s)
        for c, name, waiting_s in sorted(rows, key=lambda row: -row[0].seconds)[:_LISTED]
    ]
