"""A whole site: measurements of few jobs carried over to other sizes, and abstention where they are too few.

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
from autotune.site.transfer import DEFAULT, Measured, Shape, Transfer, fitted

__all__ = [
    "DEFAULT",
    "LOSS",
    "Decision",
    "Measured",
    "Outcome",
    "Shape",
    "Transfer",
    "bounds",
    "calibrated",
    "decide",
    "fitted",
    "loss_removed",
    "of_sample",
    "outcomes",
]
