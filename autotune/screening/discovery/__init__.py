"""A hundred factors of which few matter: random balance, levels that fail set aside, a sparse robust fit."""

from autotune.screening.discovery.course import Course, Stage, cycle
from autotune.screening.discovery.found import Effect, Found, found
from autotune.screening.discovery.runs import RULE, Arm, Change, Run

__all__ = ["RULE", "Arm", "Change", "Course", "Effect", "Found", "Run", "Stage", "cycle", "found"]
