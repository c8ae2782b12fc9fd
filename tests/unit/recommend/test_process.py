"""The Gaussian process of the search and of the recommendation."""

import numpy as np
import pytest

from autotune.recommend.process import PRIORS, Kernel, Process, Results
from autotune.space import Parameter, Space

AUTO = ("auto", "1k", "4k", "16k", "64k", "256k")
SPACE = Space(
    "s",
    (
        Parameter("rndv", AUTO, "auto", ordered=True),
        Parameter("tls", ("all", "tcp", "sm"), "all"),
        Parameter("rails", (1, 2), 1, ordered=True, when={"tls": ("all",)}),
    ),
)
POINTS = list(SPACE.points())


@pytest.fixture
def results() -> Results:
    rng, n = np.random.default_rng(0), len(POINTS)
    codes, targets = Kernel(SPACE).codes(POINTS), rng.normal(size=(n, 2))
    return Results(codes, targets, np.full((n, 2), 0.01), np.arange(1.0, n + 1))


def test_the_gradient_is_that_of_the_density(results: Results) -> None:
    process = Process(Kernel(SPACE), np.array([1.0, 0.4]), results)
    v = np.random.default_rng(1).normal(size=3 + 4)
    _, gradient = process.loss(v, results)
    for i, step in enumerate(1e-5 * np.eye(len(v))):
        slope = (process.loss(v + step, results)[0] - process.loss(v - step, results)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize("theta", [0.1, 1.0, 10.0])
def test_correlations_are_positive_definite_beside_a_scale_and_under_a_condition(theta: float) -> None:
    space = Space("s", tuple(Parameter(f"p{i}", AUTO, "auto", ordered=True) for i in range(3)))
    for kernel, points in (
        (Kernel(SPACE), POINTS),
        (Kernel(space), space.draw(np.random.default_rng(0), 60)),
    ):
        codes = kernel.codes(points)
        shape = kernel.shape(codes, codes, np.full(3, theta))
        assert np.diag(shape) == pytest.approx(1.0)
        assert np.linalg.eigvalsh(shape)[0] > -1e-9


def test_a_fit_that_goes_to_the_ends_of_its_range_is_survived(results: Results) -> None:
    process = Process(Kernel(SPACE), np.array([1.0, 0.4]), results)
    for signs in np.vstack([np.ones(7), -np.ones(7), np.repeat([-1, 1, -1], (3, 2, 2))]):
        loss, gradient = process.loss(PRIORS.farthest * signs, results)
        assert np.isfinite(loss)
        assert np.isfinite(gradient).all()
