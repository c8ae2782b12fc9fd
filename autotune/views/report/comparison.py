"""A page that compares two campaigns: what each recommends, and both by size (step 12 of the flow)."""

import math
from collections.abc import Sequence
from typing import Any

from autotune.history.objectives import Z95, Slot, ratio_of
from autotune.recommend.recommendation import Gain
from autotune.views.report import axes
from autotune.views.report.axes import AMBER, BLUE, GREY, TEAL
from autotune.views.report.inputs import ReportInput
from autotune.views.report.page import rendered
from autotune.views.text import calls_text, ratio_text, setting_text, size_text

_US = 1e6
_ROWS = ("scenario", "state", "stack", "size", "last launch", "recommended", "verdict")


def comparison(first: ReportInput, second: ReportInput, names: tuple[str, str]) -> str:
    """The page as HTML that works offline; ``names`` are what the two are called."""
    both = (first, second)
    gains = [{g.slot: g for g in one.recommendation.gains} if one.recommendation else {} for one in both]
    shared = sorted(gains[0].keys() & gains[1].keys())
    tables = [
        {
            "title": calls_text(*group),
            "figure": _curves([s for s in shared if s[:2] == group], gains, names),
            "rows": [_row(s, gains) for s in shared if s[:2] == group],
        }
        for group in dict.fromkeys(slot[:2] for slot in shared)
    ]
    view: dict[str, Any] = {
        "names": names,
        "campaigns": list(zip(_ROWS, _about(first), _about(second), strict=True)),
        "changes": _changes(both),
        "tables": tables,
        "only": [len(its) - len(shared) for its in gains],
    }
    return rendered("comparison.html.j2", view)


def _about(one: ReportInput) -> list[str]:
    """State, stack, size, gain and verdict of a campaign, in the order of the page's rows."""
    chosen = one.recommendation
    if chosen is None:
        return [one.title, one.state, "—", "—", "—", "nothing yet", "—"]
    where = chosen.provenance
    return [
        one.title,
        f"{one.state} {one.stamp}".strip(),
        where.stack,
        f"{where.ranks} ranks, nodes: {where.nodes}",
        where.date,
        f"{ratio_text(chosen.speedup)} over {len(chosen.gains)} sizes: "
        + (setting_text(chosen, one.space.unset) or "the stack's own defaults"),
        where.verified,
    ]


def _changes(both: Sequence[ReportInput]) -> list[tuple[str, str, str]]:
    """(parameter, first, second) of the job-wide values in which the two recommendations differ."""
    points = [one.recommendation.point if one.recommendation else {} for one in both]
    names = dict.fromkeys(name for point in points for name in point)
    pairs = [
        [{**one.space.unset, **point}.get(name, "—") for point, one in zip(points, both, strict=True)]
        for name in names
    ]
    return [(name, str(a), str(b)) for name, (a, b) in zip(names, pairs, strict=True) if str(a) != str(b)]


def _row(slot: Slot, gains: Sequence[dict[Slot, Gain]]) -> dict[str, Any]:
    a, b = (its[slot] for its in gains)
    ratio = a.tuned_s / b.tuned_s
    spread = Z95 * math.hypot(a.tuned_sem_s / a.tuned_s, b.tuned_sem_s / b.tuned_s)
    low, high = ratio * ratio_of(-spread), ratio * ratio_of(spread)
    return {
        "size": size_text(slot[2]),
        "gains": (a, b),
        "ratio": ratio_text(ratio, (low, high)),
        "style": "faster" if low > 1 else "slower" if high < 1 else "even",
    }


def _curves(slots: Sequence[Slot], gains: Sequence[dict[Slot, Gain]], names: tuple[str, str]) -> str:
    figure = axes.empty(430)
    for its, name, colours in zip(gains, names, ((GREY, TEAL), (AMBER, BLUE)), strict=True):
        for what, colour, dash in (("default", colours[0], "dot"), ("tuned", colours[1], "solid")):
            times = [(its[s].default_s if what == "default" else its[s].tuned_s) * _US for s in slots]
            figure.add_scatter(
                x=[size_text(s[2]) for s in slots],
                y=[axes.rounded(t) for t in times],
                mode="lines+markers",
                name=f"{name}, {what}",
                line={"color": colour, "width": 2, "dash": dash},
            )
    every = [t * _US for its in gains for s in slots for t in (its[s].default_s, its[s].tuned_s)]
    figure.update_yaxes(title_text="time [µs]", **axes.log_axis(every))
    figure.update_xaxes(type="category", title_text="message size")
    return axes.as_json(figure, f"compared-{slots[0][0]}-{slots[0][1]}")
