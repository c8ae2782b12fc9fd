"""Screening of hundreds of factors of which few matter.

Runs make random sets of changes; levels that make launches fail are set aside; a sparse robust fit finds the
changes that have an effect.
"""

from autotune.screening.discovery.design import DiscoveryDesign, Stage, cycle
from autotune.screening.discovery.found import ChangeEffect, DiscoveryResult, found
from autotune.screening.discovery.runs import RULE, Arm, Change, Run

__all__ = ["RULE", "Arm", "Change", "ChangeEffect", "DiscoveryDesign", "DiscoveryResult", "Run", "Stage",
           "cycle", "found"]  # fmt: skip
