"""Screening: find out from few launches which of many parameters have an effect on the measured times.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

::

    Space → factors_of → Factor … → plackett_burman → ScreeningDesign → points_of → points → launches →
    responses → analyse → Effects → screened → ScreeningResult: which parameters stay, which are fixed

``foldover`` adds runs that separate main effects from two-factor interactions.
"""

from autotune.screening.analysis import analyse
from autotune.screening.decision import ScreeningResult, screened
from autotune.screening.design import Factor, ScreeningDesign, foldover, plackett_burman
from autotune.screening.effects import Effect, Effects
from autotune.screening.levels import as_run, factors_of, points_of, two_levels

__all__ = ["Effect", "Effects", "Factor", "ScreeningDesign", "ScreeningResult", "analyse", "as_run",
           "factors_of", "foldover", "plackett_burman", "points_of", "screened", "two_levels"]  # fmt: skip
