"""Discovery: a screening of hundreds of factors, few of which have an effect.

Each run changes a few random factors. Levels that make launches fail are excluded from further runs. A
sparse, robust fit of all runs then finds the changes that have an effect.
"""

from autotune.screening.discovery.design import DiscoveryDesign, Stage, cycle
from autotune.screening.discovery.found import ChangeEffect, DiscoveryResult, found
from autotune.screening.discovery.runs import RULE, Arm, Change, Run

__all__ = ["RULE", "Arm", "Change", "ChangeEffect", "DiscoveryDesign", "DiscoveryResult", "Run", "Stage",
           "cycle", "found"]  # fmt: skip
