"""Assumed differences between launches of one setting, before a machine has shown its own.

This is the only prior of that noise: everything that has to assume by how much launches differ reads it here.
Estimates from the launches of a campaign (``recommend.repeats``) take its place as soon as there are any.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchSpread:
    """Hold standard deviations of ln t, so that 0.03 means 3 %, of launches at different moments.

    Source: launches of one setting differ by 2 to 5 % in recorded campaigns, within one state of the machine.
    """

    usual_sd: float = 0.03
    """Between launches, in the middle of that range: a prior that counts as few launches, and ``plan``'s
    forecast. A larger one would ask for more launches before anything counts as different."""
    largest_sd: float = 0.05
    """Between launches, at the upper end of that range: the start of a fit, and an assumption that a claim or
    a choice may rest on alone. A smaller one would take the luck of single launches for gains."""
    cell_sd: float = 0.02
    """Between cells of one launch, beyond what all of them have in common, which is smaller."""


LAUNCH_SPREAD = LaunchSpread()
