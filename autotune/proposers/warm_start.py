"""Finished campaigns as knowledge for a new one: warm starts (behind ``curve``).

What carries over from another collective, node count or site is how settings compare, not how long they take:
each earlier launch is brought along as its curve relative to the default of its own campaign, set on top of
the new campaign's default, and is believed only as far as ``DOUBT`` says.

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
    """A finished campaign."""

    space: Space  # Of its points.
    history: History  # Its launches.

    def carried(self, space: Space) -> list[tuple[Point, Observation]]:
        """The launches of another space, each with its point there.

        They do if every value exists there, and what one of the two spaces lacks stood at the stack's own: a
        value that one campaign fixed is neither taken for a default nor for what was measured in the other.
        None do without a launch of that space's default, which all are compared with.
        """
        launches = [
            (_translated(o.trial.point, self.space, space), o) for o in self.history.of_points(self.space)
        ]
        found = [(point, launch) for point, launch in launches if point is not None and launch.ok]
        return found if any(point == space.default for point, _ in found) else []


def with_finished(
    seen: Curves, earlier: Sequence[FinishedCampaign], space: Space, slots: Sequence[Slot]
) -> Curves:
    """This campaign's launches and, once it has measured its default, earlier ones that carry over."""
    defaults = [row for point, row in zip(seen.points, seen.logs, strict=True) if point == space.default]
    if not defaults:
        return seen
    reference = np.mean(defaults, axis=0)
    points, logs = list(seen.points), list(seen.logs)
    for campaign in earlier:
        carried = campaign.carried(space)
        own = envelope(campaign.space, [launch for point, launch in carried if point == space.default])
        for point, launch in carried:
            points.append(point)
            logs.append(reference + _compared(envelope(campaign.space, [launch]), own, slots))
    n = len(points) - len(seen.points)
    sems = np.vstack([seen.sems, np.full((n, len(slots)), np.nan)])
    return Curves(points, np.array(logs), sems, np.r_[seen.doubts, np.full(n, DOUBT)])


def _translated(point: Point, old: Space, new: Space) -> Point | None:
    """The point in the words of the new space; None where a value does not exist there."""
    here = {p.name for p in new.job}
    if any(p.name not in here and point.get(p.name, p.unset) != p.unset for p in old.job):
        return None
    values = {p.name: point.get(p.name, p.unset) for p in new.job}
    return new.complete(values) if all(values[p.name] in p.values for p in new.job) else None


def _compared(curve: Envelope, own: Envelope, slots: Sequence[Slot]) -> NDArray[np.float64]:
    """Ln(time / time of its default) at the new slots, shape ``(m,)``.

    Linear in ln(size), flat beyond the ends; the slots of the same collective where there are any, and of
    these the nearest communicator.
    """
    both = [slot for slot in curve if slot in own]
    ratio = np.full(len(slots), np.nan)
    for j, (collective, comm_size, message_bytes) in enumerate(slots):
        kin = [s for s in both if s[0] == collective] or both
        if not kin:
            continue
        nearest = min(kin, key=lambda s: abs(math.log(max(s[1], 1) / max(comm_size, 1))))
        row = sorted(s for s in kin if s[:2] == nearest[:2])
        sizes = [math.log(max(s[2], 1)) for s in row]
        ratios = [math.log(curve[s].median_s / own[s].median_s) for s in row]
        ratio[j] = np.interp(math.log(max(message_bytes, 1)), sizes, ratios)
    return ratio
