"""The Gaussian process over settings that the search and the choice of recommendations use.

Place in the flow of ``autotune/__init__.py``: steps 9 and 10, propose and recommend.

The process has R outputs, such as the coefficients of a curve or a single score. Each output is a process
over the points of a space, with the covariance

    k_r(x, x') = λ_r · [l² + a_r · ((1 − w) Π_d κ_d + w · mean_d κ_d)],  κ_d = exp(−θ_d · δ_d(x_d, x'_d)).

The first term, l², is an unknown level. The others are the effects of the parameters: w is the share of
single effects, the rest are joint effects. δ_d is ``priors.dissimilarity``. A parameter that exists only with
certain values of other parameters, such as one algorithm, has an effect only there, so its single effect is
multiplied by the effects of the parameters on which it depends. The lengths θ are common to all outputs. A
launch is a random effect, since the nodes and the job change all times of a launch together. The
hyperparameters θ, a and the noise of a launch are set to the mode of their posterior density, so that a
handful of launches is enough to begin with.

Notation: n launches, q points, R outputs, D parameters with V values in total. v contains the logarithms of
the hyperparameters, scaled so that their prior is standard normal.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.history.memory import remembered
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.recommend.priors import Floats, coded, dissimilarity
from autotune.space import Parameter, Point, Space


@dataclass(frozen=True, slots=True)
class ProcessPriors:
    """Priors before anything was measured, on the log scale; with wider priors a search explores longer."""

    signal: float = 0.7  # Prior standard deviation of the effects of the parameters on an output.
    level: float = 0.5  # Prior standard deviation of the level that all points have in common.
    unlike: float = 2.0
    """Prior median of θ · √D, which says how fast the correlation decays between different values."""
    unlike_on_scale: float = 1.0
    """Prior median of θ · √D for values on a scale, whose effects change gradually."""
    additive: float = 0.5  # w: share of the parameters' single effects.
    spreads: tuple[float, ...] = (0.9, 0.8, 1.0)  # Prior standard deviations of ln θ, ln a and ln noise².
    farthest: float = 6.0  # Largest absolute value of v that the fit tries, in prior standard deviations.
    fitted: int = 128
    """Largest number of launches to which hyperparameters are fitted, because the time of the fit grows with
    the cube of this number; predictions use all launches."""
    steps: int = 25  # Largest number of iterations of the fit.


PRIORS = ProcessPriors()


class Kernel:
    """Correlations between the points of a space, which follow from the effects of its parameters."""

    def __init__(self, space: Space, collectives: frozenset[str] = frozenset()) -> None:
        self.parameters = [p for p in space.job if len(p.values) > 1 or p.when]
        tables = [dissimilarity(p, collectives) for p in self.parameters]
        owner = np.repeat(np.arange(len(tables)), [len(table) for table in tables])
        above = [_above(space, p) for p in self.parameters]
        # One table has a block for each parameter, so that no array needs the shape (D, n, n).
        self._owner = np.where(owner[:, None] == owner, owner[:, None], -1)
        self._unlike = np.zeros(self._owner.shape)
        self._unlike[self._owner >= 0] = np.concatenate([t.ravel() for t in tables] or [np.zeros(0)])
        self._single = (self._owner >= 0) & np.array([not above[d] for d in owner], dtype=bool)[:, None]
        self._families = [
            np.flatnonzero(np.array([q is p or q.name in names for q in self.parameters])[owner])
            for p, names in zip(self.parameters, above, strict=True)
            if names
        ]
        usual = [PRIORS.unlike_on_scale if p.positions() else PRIORS.unlike for p in self.parameters]
        self.theta = np.array(usual) / math.sqrt(max(len(usual), 1))  # Prior medians of θ, (D,).

    def codes(self, points: Sequence[Point]) -> Floats:
        """Return points as one-hot codes, ``(q, V)``."""
        return coded(self.parameters, points)

    def shape(self, a: Floats, b: Floats, theta: Floats) -> Floats:
        """Return the correlations between two sets of coded points, ``(n_1, n_2)``."""
        if not self.parameters:
            return np.ones((len(a), len(b)))
        exponents = self._exponents(theta)
        jointly = np.exp(-a @ exponents @ b.T)
        singly = a @ (np.exp(-exponents) * self._single) @ b.T
        for family in self._families:
            singly += np.exp(-a[:, family] @ exponents[np.ix_(family, family)] @ b[:, family].T)
        return np.asarray((1 - PRIORS.additive) * jointly + PRIORS.additive * singly / len(self.parameters))

    def gradient(self, codes: Floats, theta: Floats, weight: Floats) -> Floats:
        """Return the derivatives, ``(D,)``, of Σ weight ∘ shape with respect to θ, at coded points."""
        if not self.parameters:
            return np.zeros(0)
        exponents, share = self._exponents(theta), PRIORS.additive / len(self.parameters)
        jointly = weight * np.exp(-codes @ exponents @ codes.T)
        by_pair = (1 - PRIORS.additive) * codes.T @ jointly @ codes
        by_pair += share * (codes.T @ weight @ codes) * np.exp(-exponents) * self._single
        for family in self._families:
            part, block = codes[:, family], np.ix_(family, family)
            by_pair[block] += share * part.T @ (weight * np.exp(-part @ exponents[block] @ part.T)) @ part
        inside = self._owner >= 0
        by_value = (by_pair * self._unlike)[inside]
        return -np.bincount(self._owner[inside], by_value, minlength=len(theta)).astype(float)

    def _exponents(self, theta: Floats) -> Floats:
        return np.where(self._owner >= 0, theta[self._owner] * self._unlike, 0.0)


def _above(space: Space, parameter: Parameter) -> set[str]:
    """Return the names of the parameters that decide, directly or not, whether a parameter is active."""
    parents = [q for q in space.job if q.name in parameter.when]
    return {q.name for q in parents}.union(*(_above(space, q) for q in parents))


@remembered
def kernel_of(space: Space, collectives: frozenset[str] = frozenset()) -> Kernel:
    """Return the kernel of a space; names of algorithms are interpreted as those of ``collectives``."""
    return Kernel(space, collectives)


@dataclass(frozen=True)
class Results:
    """Results of n launches, or of n settings with several launches each."""

    codes: Floats  # The points as one-hot codes, ``(n, V)``.
    targets: Floats  # Measured outputs minus their expectation, ``(n, R)``.
    noise: Floats  # Known variances of the targets, in addition to the noise between launches, ``(n, R)``.
    launches: Floats = field(default_factory=lambda: np.ones(1))
    """Number of launches of each result, ``(n,)``, or a single number for all."""

    def some(self, limit: int) -> "Results":
        """Return at most ``limit`` of the results, evenly spaced in their order."""
        n = len(self.targets)
        rows = np.linspace(0, n - 1, min(n, limit)).round().astype(int)
        launches = np.broadcast_to(self.launches, n)[rows]
        return Results(self.codes[rows], self.targets[rows], self.noise[rows], launches)


class Process:
    """The Gaussian process, given the results of launches."""

    def __init__(self, kernel: Kernel, weights: Floats, results: Results) -> None:
        """Fit the hyperparameters to at least one result; ``weights`` are λ, ``(R,)``."""
        from scipy.optimize import minimize

        self.kernel, self.weights, self.results = kernel, weights, results
        fit = minimize(
            self.loss,
            np.zeros(len(kernel.theta) + 2 * len(weights)),
            args=(results.some(PRIORS.fitted),),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-PRIORS.farthest, PRIORS.farthest)] * (len(kernel.theta) + 2 * len(weights)),
            options={"maxiter": PRIORS.steps},
        )
        self.theta, self.amplitude, self.nugget = self._unpacked(fit.x)
        shape = kernel.shape(results.codes, results.codes, self.theta)
        self._half, _ = inverse_root(self._noisy(shape, results, self.amplitude, self.nugget))
        self._solved = self._half.mT @ (self._half @ results.targets.T[..., None])  # (R, n, 1)

    def loss(self, v: Floats, results: Results) -> tuple[float, Floats]:
        """Return the negative logarithm of the posterior density of v, and its gradient."""
        theta, amplitude, nugget = self._unpacked(v)
        shape = self.kernel.shape(results.codes, results.codes, theta)
        half, logdet = inverse_root(self._noisy(shape, results, amplitude, nugget))
        white = half @ results.targets.T[..., None]
        solved = half.mT @ white
        slope = 0.5 * (half.mT @ half - solved @ solved.mT)  # (R, n, n): derivatives by the covariances
        by_shape = np.einsum("r,rij->ij", self.weights * amplitude, slope)
        by_amplitude = self.weights * amplitude * np.einsum("rij,ij->r", slope, shape)
        by_nugget = nugget * (np.diagonal(slope, axis1=1, axis2=2) / results.launches).sum(axis=1)
        gradient = [theta * self.kernel.gradient(results.codes, theta, by_shape), by_amplitude, by_nugget]
        scaled = [spread * part for spread, part in zip(PRIORS.spreads, gradient, strict=True)]
        value = 0.5 * (float((white**2).sum()) + logdet + float(v @ v))
        return value, np.concatenate(scaled) + v

    def predict(self, codes: Floats) -> tuple[Floats, Floats]:
        """Return means and standard deviations of the targets at coded points, each ``(q, R)``."""
        shape = self.kernel.shape(codes, self.results.codes, self.theta)
        across = self._covariance(shape, self.amplitude)
        prior = self.weights * (PRIORS.level**2 + self.amplitude)
        variance = prior[:, None] - ((self._half @ across.mT) ** 2).sum(axis=1)
        return (across @ self._solved)[..., 0].T, np.sqrt(variance.clip(min=1e-10)).T

    def _noisy(self, shape: Floats, results: Results, amplitude: Floats, nugget: Floats) -> Floats:
        """Return the covariances of the measured targets, ``(R, n, n)``."""
        noise = results.noise.T + nugget[:, None] / results.launches
        return self._covariance(shape, amplitude) + (noise + 1e-6)[..., None] * np.eye(len(shape))

    def _covariance(self, shape: Floats, amplitude: Floats) -> Floats:
        """Return the prior covariances, ``(R, n_1, n_2)``, from correlations, ``(n_1, n_2)``."""
        scale = self.weights[:, None, None]
        return np.asarray(scale * (PRIORS.level**2 + amplitude[:, None, None] * shape))

    def _unpacked(self, v: Floats) -> tuple[Floats, Floats, Floats]:
        """Return θ, ``(D,)``, a and the variance of a launch, each ``(R,)``, from v.

        Their priors are log-normal.
        """
        d, r = len(self.kernel.theta), len(self.weights)
        of_theta, of_signal, of_noise = PRIORS.spreads
        return (
            self.kernel.theta * np.exp(of_theta * v[:d]),
            PRIORS.signal**2 * np.exp(of_signal * v[d : d + r]),
            LAUNCH_SPREAD.largest_sd**2 * np.exp(of_noise * v[d + r :]),
        )


def inverse_root(covariances: Floats) -> tuple[Floats, float]:
    """Return L⁻¹ of covariances = L Lᵀ, and the sum of the logarithms of their determinants.

    ``covariances`` are one matrix or several.
    """
    lower = np.linalg.cholesky(covariances)
    logdet = 2 * float(np.log(np.diagonal(lower, axis1=-2, axis2=-1)).sum())
    return np.asarray(np.linalg.solve(lower, np.eye(lower.shape[-1]))), logdet
