"""A whole site: measurements of few jobs extrapolated to other sizes, and abstention where they are too few.

Place in the flow: measured times of shapes → decisions for all shapes. No I/O, no clock.
"""

from autotune.site.abstention import (
    LOSS,
    Decision,
    Outcome,
    bounds,
    calibrated,
    decide,
    loss_removed,
    of_sample,
    outcomes,
)
from autotune.site.common import Offered, apart, common
from autotune.site.durations import call_s, duration_s, timed
from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted

__all__ = [
    "DEFAULT",
    "LOSS",
    "Decision",
    "Measured",
    "Offered",
    "Outcome",
    "Shape",
    "Transfer",
    "apart",
    "bounds",
    "calibrated",
    "call_s",
    "common",
    "decide",
    "duration_s",
    "fitted",
    "loss_removed",
    "of_sample",
    "outcomes",
    "timed",
]
