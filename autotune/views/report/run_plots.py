"""A job that tuned itself (``run.json``), on the page of a campaign (step 12 of the flow)."""

import math
from collections.abc import Mapping
from typing import Any

from autotune.views.report import axes
from autotune.views.text import interval_text, ratio_text, size_text

_DRAWN = 12  # Kinds of calls: those with most of the time come first in the file.


def run_section(ran: Mapping[str, Any]) -> dict[str, Any]:
    """Default / decided algorithm of a job's calls, with 95 % intervals, and what it saved and spent.

    ``ran``: the document that ``commands/run.py`` writes.
    """
    settled = [cell for cell in ran["cells"] if cell["settled_at"] is not None][:_DRAWN]
    names = [
        f"{one['collective']} {size_text(one['lowest_bytes'])}, {one['ranks']} ranks: {one['algorithm']}"
        for one in settled
    ]
    ratios = [one["speedup"] for one in settled]
    ends = [_ends(one) for one in settled]
    figure = axes.empty(120 + 28 * len(settled))
    figure.add_scatter(
        x=ratios,
        y=names,
        mode="markers",
        marker={
            "size": 10,
            "color": [axes.GREY if one["algorithm"] == "default" else axes.TEAL for one in settled],
        },
        error_x=axes.bars(
            [axes.bar(high - at) for at, (_, high) in zip(ratios, ends, strict=True)],
            axes.GREY,
            [axes.bar(at - low) for at, (low, _) in zip(ratios, ends, strict=True)],
        ),
    )
    figure.add_vline(x=1, line={"color": axes.GREY, "width": 1, "dash": "dot"})
    figure.update_xaxes(title_text="default / decided algorithm, time of a call ↑")
    figure.update_yaxes(autorange="reversed")
    return {
        "sentence": f"{' '.join(ran['command'])}: saved {ran['saved_s']:.2g} s of {ran['run_s']:.3g} s, "
        f"spent {ran['spent_s']:.2g} s trying; {len(ran['cells']) - len(settled)} other kinds of calls.",
        "figure": axes.as_json(figure, "run") if settled else "",
        "rows": [
            (name, ratio_text(at), interval_text(end) if at != 1 else "", f"{one['saved_s']:.2g}")
            for name, at, end, one in zip(names, ratios, ends, settled, strict=True)
        ],
    }


def _ends(cell: Mapping[str, Any]) -> tuple[float, float]:
    """The interval of a cell; of one that stays with the default the ratio alone."""
    low, high = cell["speedup_95"]
    if low is None and high is None:
        return 1.0, 1.0
    return low or 0.0, math.inf if high is None else high
