"""A page that compares two campaigns: their recommendations, and their times by size (step 12)."""

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
    """Return the page as HTML that works offline; ``names`` are the names of the two campaigns on it."""
    campaigns = (first, second)
    gains = [{g.slot: g for g in c.recommendation.gains} if c.recommendation else {} for c in campaigns]
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
        "changes": _changes(campaigns),
        "tables": tables,
        "only": [len(by_slot) - len(shared) for by_slot in gains],
    }
    return rendered("comparison.html.j2", view)


def _about(campaign: ReportInput) -> list[str]:
    """Return state, stack, size, gain and verdict of a campaign, in the order of the page's rows."""
    recommendation = campaign.recommendation
    if recommendation is None:
        return [campaign.title, campaign.state, "—", "—", "—", "nothing yet", "—"]
    origin = recommendation.provenance
    return [
        campaign.title,
        f"{campaign.state} {campaign.stamp}".strip(),
        origin.stack,
        f"{origin.ranks} ranks, nodes: {origin.nodes}",
        origin.date,
        f"{ratio_text(recommendation.speedup)} over {len(recommendation.gains)} sizes: "
        + (setting_text(recommendation, campaign.space.unset) or "the stack's own defaults"),
        origin.verified,
    ]


def _changes(campaigns: Sequence[ReportInput]) -> list[tuple[str, str, str]]:
    """Return (parameter, first, second) of the job-wide values in which the two recommendations differ."""
    points = [c.recommendation.point if c.recommendation else {} for c in campaigns]
    names = dict.fromkeys(name for point in points for name in point)
    pairs = [
        [{**c.space.unset, **point}.get(name, "—") for point, c in zip(points, campaigns, strict=True)]
        for name in names
    ]
    return [(name, str(a), str(b)) for name, (a, b) in zip(names, pairs, strict=True) if str(a) != str(b)]


def _row(slot: Slot, gains: Sequence[dict[Slot, Gain]]) -> dict[str, Any]:
    """Return the row of a slot that both campaigns measured, with the ratio of their tuned times."""
    a, b = (by_slot[slot] for by_slot in gains)
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
    """Return the default and the tuned times of both campaigns over the message size."""
    figure = axes.empty(430)
    for by_slot, name, colours in zip(gains, names, ((GREY, TEAL), (AMBER, BLUE)), strict=True):
        for side, colour, dash in (("default", colours[0], "dot"), ("tuned", colours[1], "solid")):
            times = [(by_slot[s].default_s if side == "default" else by_slot[s].tuned_s) * _US for s in slots]
            figure.add_scatter(
                x=[size_text(s[2]) for s in slots],
                y=[axes.rounded(t) for t in times],
                mode="lines+markers",
                name=f"{name}, {side}",
                line={"color": colour, "width": 2, "dash": dash},
            )
    all_us = [t * _US for by in gains for s in slots for t in (by[s].default_s, by[s].tuned_s)]
    figure.update_yaxes(title_text="time [µs]", **axes.log_axis(all_us))
    figure.update_xaxes(type="category", title_text="message size")
    return axes.as_json(figure, f"compared-{slots[0][0]}-{slots[0][1]}")
