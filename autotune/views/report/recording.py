"""The page of a recorded run: what it loses in MPI, when, how long calls take, and to whom (step 12)."""

from collections.abc import Iterable, Sequence

from autotune.importers.recorded_time import Histogram
from autotune.importers.recording import RecordedCalls, Recording
from autotune.recommend.diagnosis import diagnose
from autotune.recommend.floor import Floor
from autotune.views.diagnosis import floor_text, loss_rows, sentence, share_text
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, BROWN, GREEN, GREY, TEAL, VIOLET
from autotune.views.report.page import rendered
from autotune.views.text import size_text

_DRAWN = 6  # Kinds of calls whose durations are drawn: those with most of the time.
_LISTED = 25  # Kinds of calls that a table lists.
_COLOURS = (TEAL, BLUE, AMBER, VIOLET, GREEN, BROWN, GREY)


def recording_page(recorded: Recording, floor: Floor | None, name: str) -> str:
    """The page as HTML that works offline."""
    found = diagnose(recorded, floor)
    losses, notes = loss_rows(found)
    command = " ".join(recorded.command)
    about = f"{recorded.ranks} ranks on {recorded.nodes} node(s), {recorded.run_s:.3g} s; {recorded.library}"
    return rendered(
        "recording.html.j2",
        {
            "title": name,
            "about": " · ".join(filter(None, (about, command, recorded.date))),
            "sentence": sentence(found, name),
            "losses": losses,
            "notes": notes,
            "timeline": _timeline(recorded),
            "late": [one for one in recorded.calls if one.lateness and one.lateness.ranks],
            "histograms": [_histogram(*one) for one in _durations(recorded)],
            "calls": _calls(recorded),
            "floor": floor,
            "floor_text": floor_text,
            "share_text": share_text,
            "named": _named,
        },
    )


def _timeline(recorded: Recording) -> str:
    line = recorded.timeline
    if line is None or not line.seconds:
        return ""
    figure = axes.empty(320)
    for (family, seconds), colour in zip(line.seconds.items(), _COLOURS, strict=False):
        if any(seconds):
            figure.add_bar(
                x=[axes.rounded((i + 0.5) * line.slice_s) for i in range(len(seconds))],
                y=[axes.rounded(100 * one / line.slice_s) for one in seconds],
                name=family,
                marker={"color": colour},
                hovertemplate="%{y:.3g} %<extra>" + family + "</extra>",
            )
    figure.update_layout(barmode="stack", bargap=0)
    figure.update_xaxes(title_text="seconds since MPI_Init")
    figure.update_yaxes(title_text="share of time in MPI [%]", rangemode="tozero")
    return axes.as_json(figure, "timeline")


def _named(one: RecordedCalls) -> str:
    kind = "" if one.kind == "blocking" else f", {one.kind}"
    return f"{one.collective} on {one.comm_size} ranks{kind}"


def _durations(recorded: Recording) -> Iterable[tuple[str, float, Histogram]]:
    """Name, message size and histogram of the kinds of calls with most of the time."""
    every = [(one.seconds, _named(one), one.message_bytes, one.histogram) for one in recorded.calls]
    every += [
        (one.own_s, " ".join(filter(None, (one.operation, one.distance))), one.message_bytes, one.histogram)
        for one in recorded.other
    ]
    largest = [(name, size, its) for _, name, size, its in sorted(every, key=lambda row: -row[0]) if its]
    return largest[:_DRAWN]


def _histogram(name: str, message_bytes: float, its: Histogram) -> str:
    figure = axes.empty(240)
    label = f"{name}, {size_text(round(message_bytes))}"
    us = [axes.rounded(2**0.25 * 1e6 * lower) for lower in its.lower_s]
    figure.add_bar(x=us, y=[axes.rounded(n) for n in its.calls], name=label, marker={"color": TEAL})
    figure.update_xaxes(title_text=f"{label}: duration [µs]", **axes.log_axis(us))
    figure.update_yaxes(title_text="calls", **axes.log_axis([n for n in its.calls if n > 0]))
    return axes.as_json(figure, f"durations-{name.replace(' ', '-')}-{message_bytes:.0f}")


def _calls(recorded: Recording) -> list[Sequence[str]]:
    rows = [
        (one.seconds, _named(one), one.message_bytes, one.calls_per_rank, f"{one.waiting_s:.3g}")
        for one in recorded.calls
    ]
    rows += [
        (one.seconds, f"{one.operation} {one.distance}", one.message_bytes, one.calls_per_rank, "")
        for one in recorded.other
    ]
    return [
        (name, size_text(round(size)), f"{calls:.5g}", f"{seconds:.3g}", waiting)
        for seconds, name, size, calls, waiting in sorted(rows, key=lambda row: -row[0])[:_LISTED]
    ]
