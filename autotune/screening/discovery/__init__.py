"""A hundred factors of which few matter: random balance, levels that fail set aside, a sparse robust fit."""

from autotune.screening.discovery.design import DiscoveryDesign, Stage, cycle
from autotune.screening.discovery.found import ChangeEffect, DiscoveryResult, found
from autotune.screening.discovery.runs import RULE, Arm, Change, Run

__all__ = ["RULE", "Arm", "Change", "ChangeEffect", "DiscoveryDesign", "DiscoveryResult", "Run", "Stage",
           "cycle", "found"]  # fmt: skip
