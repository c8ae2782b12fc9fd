"""Warm starts: use launches of finished campaigns in a new campaign (used by the proposer ``curve``).

A campaign for another collective, number of nodes or site shows how settings compare with each other, but not
how long calls take in the new campaign. So the curve of each earlier launch is taken relative to the default
of its own campaign, and then added to the default of the new campaign. ``DOUBT`` says how uncertain the
result is.

Notation: m slots (collective, communicator size, message size) of the new campaign; times are on the log
scale.
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
"""Standard deviation, on the log scale, by which a setting's time relative to the default changes from
campaign to campaign."""


@dataclass(frozen=True)
class FinishedCampaign:
    """A finished campaign whose launches are used in a new campaign."""

    space: Space
    history: History

    def carried(self, space: Space) -> list[tuple[Point, Observation]]:
        """Return the launches that can be used in another space, each with its point in that space.

        A launch can be used if all its values exist in the other space, and if parameters that only one of
        the two spaces has were at the MPI stack's own value: a value that one campaign fixed cannot be
        assumed to be a default of the other campaign, or to have been measured there. All launches are
        compared with the other space's default, so the result is empty if no usable launch has this default.
        """
        launches = [
            (self.space.translated(o.trial.point, space), o) for o in self.history.of_points(self.space)
        ]
        carried = [(point, launch) for point, launch in launches if point is not None and launch.ok]
        return carried if any(point == space.default for point, _ in carried) else []


def with_finished(
    measured: Curves, earlier: Sequence[FinishedCampaign], space: Space, slots: Sequence[Slot]
) -> Curves:
    """Return the new campaign's curves and, if it has measured its default, usable earlier curves."""
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
    doubts = np.broadcast_to(measured.doubts, len(measured.points))
    return Curves(points, np.array(logs), sems, np.r_[doubts, np.full(n, DOUBT)])


def _compared(curve: Envelope, default_envelope: Envelope, slots: Sequence[Slot]) -> NDArray[np.float64]:
    """Return ln(time / time of the default) of a curve in the new campaign's slots, shape ``(m,)``.

    The ratio is interpolated linearly in ln(size) and constant beyond the measured sizes. If the curve has
    slots of the same collective, only these are used. Among them, only the slots with the nearest
    communicator size are used.
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
