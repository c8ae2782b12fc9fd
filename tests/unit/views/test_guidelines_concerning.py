"""A violated guideline is the export's where the default does not have it as much."""

import pytest

from autotune.recommend.guideline_test import Findings, Guideline, GuidelineKind, Timed, Violation
from autotune.recommend.guidelines import DEFAULT, EXPORTED
from autotune.recommend.recommendation import Recommendation
from autotune.space import Parameter, Point, Space
from autotune.views.guidelines import concerning

SPACE = Space("test", (Parameter("UCX_TLS", ("all", "self,posix"), "all"),))
CHOSEN = Recommendation(Point.of({"UCX_TLS": "self,posix"}), ())


def violation(setting, ratio):
    """Allreduce of 8 B slower than that of 16 B in one setting."""
    left, right = (Timed(setting, ("allreduce", 2, size), {}) for size in (8, 16))
    return Violation(Guideline(GuidelineKind.SIZE, left, ((1, right),)), ratio * 1e-6, 1e-6, 1.1, 0.001, 12)


@pytest.mark.parametrize(("default", "blamed"), [(None, True), (1.5, True), (3.0, False)])
def test_the_export_is_blamed_for_what_it_makes_worse_alone(default, blamed):
    exported = violation(EXPORTED, 2.0)
    every = (exported, *([violation(DEFAULT, default)] if default else []))
    assert concerning(Findings(2, 0.05, every), SPACE, CHOSEN) == ((exported,) if blamed else ())
