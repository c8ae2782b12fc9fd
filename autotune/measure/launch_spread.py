"""Assumed differences between launches of one setting, before any were measured on a machine.

Every module that must assume by how much launches differ uses the values of this module. Estimates from the
launches of a campaign (``recommend.repeats``) replace them as soon as there are any.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchSpread:
    """Standard deviations of ln t, where t is the time of one call in several launches; 0.03 means 3 %.

    Source: launches of one setting differ by 2 to 5 % in recorded campaigns, within one state of the machine.
    """

    usual_sd: float = 0.03
    """Standard deviation between launches, in the middle of the recorded range.

    ``recommend.repeats`` combines this value, weighted as if a few launches had shown it, with the measured
    deviation; forecasts rest on it before any launch was repeated. With a larger value more launches would be
    needed before any difference counts as significant."""
    largest_sd: float = 0.05
    """Standard deviation between launches, at the upper end of the recorded range.

    Fits of the deviation start from this value, and decisions without another estimate assume it. With a
    smaller value the luck of single launches would look like a gain."""
    cell_sd: float = 0.02
    """Standard deviation between cells (calls that are timed) of one launch.

    This deviation is smaller than the ones above, since it excludes the deviation that all cells of a launch
    have in common."""


LAUNCH_SPREAD = LaunchSpread()
