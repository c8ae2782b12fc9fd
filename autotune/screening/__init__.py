"""Which of many parameters matter, from few launches (step 3 of the flow).

::

    Space → factors_of → Factor … → plackett_burman → Design → points_of → launches
    launches → responses → analyse → Effects → screened → Screening: what stays, what is fixed and why

``foldover`` adds runs that separate main effects from two-factor interactions.
"""

from autotune.screening.analysis import analyse
from autotune.screening.decision import Screening, screened
from autotune.screening.design import Design, Factor, foldover, plackett_burman
from autotune.screening.effects import Effect, Effects
from autotune.screening.levels import as_run, factors_of, points_of, two_levels

__all__ = [
    "Design",
    "Effect",
    "Effects",
    "Factor",
    "Screening",
    "analyse",
    "as_run",
    "factors_of",
    "foldover",
    "plackett_burman",
    "points_of",
    "screened",
    "two_levels",
]
