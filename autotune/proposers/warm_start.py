"""Use finished campaigns as knowledge for a new one: warm starts (used by ``curve``).

From another collective, node count or site one can learn how settings compare, not how long they take. So
each earlier launch is used as its curve relative to the default of its own campaign, added to the new
campaign's default, and is believed only as far as ``DOUBT`` says.

Notation: m slots of the new campaign; times on the log scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autotune.history.objectives import Envelope, Slot, envelope
from autotune.history.trial import History, Observation
from autotune.proposers.curve_model import Curves
from autotune.space import Point, Space

DOUBT = 0.3
"""Standard deviation, on the log scale, of how differently a setting compares in another campaign."""


@dataclass(frozen=True)
class FinishedCampaign:
    """Hold a finished campaign."""

    space: Space  # The space of its points.
    history: History  # Its observations.

    def carried(self, space: Space) -> list[tuple[Point, Observation]]:
        """Return the launches that carry over to another space, each with its point there.

        A launch carries over if every value exists there, and parameters that only one of the spaces has were
        at the stack's own value: a value that one campaign fixed is neither taken for a default nor for a
        value measured in the other. No launch does without one of that space's default, with which all are
        compared.
        """
        launches = [
            (_translated(o.trial.point, self.space, space), o) for o in self.history.of_points(self.space)
        ]
        carried = [(point, launch) for point, launch in launches if point is not None and launch.ok]
        return carried if any(point == space.default for point, _ in carried) else []


def with_finished(
    measured: Curves, earlier: Sequence[FinishedCampaign], space: Space, slots: Sequence[Slot]
) -> Curves:
    """Return this campaign's curves and, once it has measured its default, earlier ones that carry over."""
    defaults = [
        row for point, row in zip(measured.points, measured.logs, strict=True) if point == space.default
    ]
    if not defaults:
        return measured
    reference = np.mean(defaults, axis=0)
    points, logs = list(measured.points), list(measured.logs)
    for campaign in earlier:
        carried = campaign.carried(space)
        default_envelope = envelope(
            campaign.space, [launch for point, launch in carried if point == space.default]
        )
        for point, launch in carried:
            points.append(point)
            logs.append(reference + _compared(envelope(campaign.space, [launch]), default_envelope, slots))
    n = len(points) - len(measured.points)
    sems = np.vstack([measured.sems, np.full((n, len(slots)), np.nan)])
    doubts, launch_sds = np.r_[measured.doubts, np.full(n, DOUBT)], np.r_[measured.launch_sds, np.zeros(n)]
    return Curves(points, np.array(logs), sems, doubts, launch_sds)


def _translated(point: Point, old: Space, new: Space) -> Point | None:
    """Return the point in the new space; None if a value does not exist there."""
    new_names = {p.name for p in new.job}
    if any(p.name not in new_names and point.get(p.name, p.unset) != p.unset for p in old.job):
        return None
    values = {p.name: point.get(p.name, p.unset) for p in new.job}
    return new.complete(values) if all(values[p.name] in p.values for p in new.job) else None


def _compared(curve: Envelope, default_envelope: Envelope, slots: Sequence[Slot]) -> NDArray[np.float64]:
    """Return ln(time / time of its default) at the new slots, shape ``(m,)``.

    It is linear in ln(size) and flat beyond the ends. Slots of the same collective are used if there are any,
    and of these those with the nearest communicator size.
    """
    common_slots = [slot for slot in curve if slot in default_envelope]
    ratio = np.full(len(slots), np.nan)
    for j, (collective, comm_size, message_bytes) in enumerate(slots):
        kin = [s for s in common_slots if s[0] == collective] or common_slots
        if not kin:
            continue
        nearest = min(kin, key=lambda s: abs(math.log(max(s[1], 1) / max(comm_size, 1))))
        row = sorted(s for s in kin if s[:2] == nearest[:2])
        sizes = [math.log(max(s[2], 1)) for s in row]
        ratios = [math.log(curve[s].median_s / default_envelope[s].median_s) for s in row]
        ratio[j] = np.interp(math.log(max(message_bytes, 1)), sizes, ratios)
    return ratio
