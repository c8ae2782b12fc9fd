"""Model whole curves of ln(time) over message sizes by Gaussian processes (used by ``curve``).

A launch of point x measures a curve of times t over slots s (collective, communicator size, message size).
The model is

    ln t(x, s) = reference(s) + e(x, s) + Σ_r φ_r(s) · c_r(x) + ρ_s(x) + noise,

where e is the expectation from the names of algorithms (``priors.expected_excess``), φ_r are the leading
eigenvectors of a smooth kernel over the slots (few suffice, because curves are smooth in ln m), and each
coefficient c_r is a Gaussian process of its own over the parameters:

    k_r(x, x') = λ_r · [l² + a_r · ((1 − w) Π_d κ_d + w · mean_d κ_d)] + b² e_r(x) e_r(x'),
    κ_d = exp(−θ_d · δ_d(x_d, x'_d)).

Its terms are an unknown level, the effects of the parameters (all jointly, and each one by itself), and a
correction of the expectation; δ_d is ``priors.dissimilarity``. A parameter that exists only with one
algorithm, say, has an effect only there, so its single effect is multiplied by those of the parameters on
which it depends. Deviations at single sizes, ρ_s, such as where a protocol ends, are a process with the same
correlations between points, but independent between slots. Hyperparameters are the maximum of the posterior
density, so that a handful of launches suffices to begin with. Standard errors of the launches are
heteroscedastic noise.

Notation: n launches, q points, m slots, R coefficients, D parameters with V values in total; times are on the
log scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from autotune.history.objectives import Slot
from autotune.measure.launch_spread import LAUNCH_SPREAD
from autotune.proposers.priors import Floats, coded, dissimilarity, expected_excess
from autotune.space import Parameter, Point, Space

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class CurvePriors:
    """The priors on curves before anything was measured; with wider priors the search explores longer."""

    signal: float = 0.7
    """Prior standard deviation of ln t due to the parameters, in addition to the expectation from names."""
    level: float = 0.5
    """Prior standard deviation of the common level of all points, relative to the reference."""
    trust: float = 0.8  # Prior mean of the factor by which the expectation from names is multiplied.
    doubt: float = 0.2  # Prior standard deviation of that factor.
    smooth_octaves: float = 4.0  # Correlation length of curves, in doublings of the message size.
    unlike: float = 2.0  # Prior median of θ · √D: how fast the correlation between different values decays.
    unlike_on_scale: float = 1.0  # The same for values on a scale, whose effects change gradually.
    additive: float = 0.5  # w: share of the single effects of parameters.
    rough: float = 0.1  # Standard deviation of ρ, the deviations at single sizes, as where protocols switch.
    fitted: int = 128
    """Largest number of launches to which hyperparameters are fitted; predictions use all launches."""
    variance_share: float = 0.99
    """Share of the prior variance over slots that the leading coefficients must contain."""
    farthest: float = 6.0
    """Largest distance of a hyperparameter from its prior median, in prior standard deviations."""


PRIORS = CurvePriors()  # The priors in use.


@dataclass(frozen=True)
class Curves:
    """The measured curves of n launches over m slots, as arrays."""

    points: Sequence[Point]  # Points of the launches, length n; the same point may occur several times.
    logs: Floats  # ln t, shape ``(n, m)``; NaN where a slot was not measured.
    sems: Floats  # Standard errors of ``logs``, shape ``(n, m)``; NaN where unknown.
    doubts: Floats = field(default_factory=lambda: np.zeros(0))
    """Standard deviation of an unknown shift of each whole curve, as of one from another campaign, shape
    ``(n,)``; empty: there are no shifts."""
    launch_sds: Floats = field(default_factory=lambda: np.zeros(0))
    """Standard deviation between whole launches of the same setting, shape ``(n,)`` or empty."""

    def __post_init__(self) -> None:
        for name in ("doubts", "launch_sds"):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.zeros(len(self.points)))


@dataclass(frozen=True)
class Prediction:
    """The predicted curves of q points, as normal distributions."""

    mean: Floats  # Mean of ln t, shape ``(q, m)``.
    coefficient_sd: Floats  # Standard deviation of each coefficient c_r, shape ``(q, R)``.
    basis: Floats  # The eigenvectors φ, shape ``(m, R)``.
    residual_sd: Floats  # Standard deviation of the rest of ln t beside the coefficients, shape ``(q, m)``.

    @property
    def sd(self) -> Floats:
        """Return the standard deviation of ln t, shape ``(q, m)``."""
        return np.asarray(np.sqrt(self.coefficient_sd**2 @ (self.basis**2).T + self.residual_sd**2))

    def draw(self, samples: int, seed: int) -> Floats:
        """Draw curves, shape ``(samples, q, m)``, with the same quasi-random numbers for every point."""
        from botorch.utils.sampling import draw_sobol_normal_samples

        m, r = self.basis.shape
        normals = draw_sobol_normal_samples(r + m, samples, seed=seed).double().numpy()
        smooth = (normals[:, None, :r] * self.coefficient_sd) @ self.basis.T
        return np.asarray(self.mean + smooth + normals[:, None, r:] * self.residual_sd)


class CurveModel:
    """A model that predicts the curves of points, given the curves of some launches."""

    def __init__(self, space: Space, slots: Sequence[Slot], measured: Curves, steps: int = 25) -> None:
        """Fit the hyperparameters to the curves of at least one launch.

        Args:
            space: The space of the points.
            slots: The slot of each column of the curves.
            measured: The curves of the launches.
            steps: Largest number of iterations of the optimiser.
        """
        import torch

        self._slots = slots
        self._free = [p for p in space.job if len(p.values) > 1 or p.when]
        self._by_value = expected_excess(self._free, slots)
        codes = coded(self._free, measured.points)
        excess = codes @ self._by_value
        self._reference = _reference(measured, excess)
        self._basis, self._weights, self._left_over = _slot_basis(slots)
        self._measured = measured
        kinds = {slot[0] for slot in slots}
        tables = [torch.as_tensor(dissimilarity(p, kinds)) for p in self._free]
        above = [_above(space, p) for p in self._free]
        owner = torch.repeat_interleave(torch.tensor([len(table) for table in tables], dtype=torch.long))
        self._at = torch.nonzero(owner[:, None] == owner, as_tuple=True)  # pairs of values of one parameter
        self._owner = owner[self._at[0]]
        self._unlike = torch.cat([table.flatten() for table in tables] or [torch.zeros(0)]).double()
        alone = [
            torch.full_like(t.flatten(), not ancestors) for t, ancestors in zip(tables, above, strict=True)
        ]
        self._single = torch.cat(alone or [torch.zeros(0)]).double()
        self._families = [
            torch.nonzero(torch.tensor([q is p or q.name in ancestors for q in self._free])[owner])[:, 0]
            for p, ancestors in zip(self._free, above, strict=True)
            if ancestors
        ]
        self._codes = torch.as_tensor(codes)
        self._expected, targets, noise = self._project(measured, excess)
        data = _Data(self._codes, *(torch.as_tensor(a.T) for a in (self._expected, targets, noise)))
        self._hyper = self._fit(data.some(PRIORS.fitted), steps)
        with torch.no_grad():
            shape = self._shape(data.codes, data.codes, self._hyper)
            k = self._covariance(shape, data.e, data.e, self._hyper)
            self._chol = _cholesky(k, data.noise + self._hyper.nugget[:, None])
            self._solved = torch.cholesky_solve(data.targets[..., None], self._chol)  # (R, n, 1)
            self._e = data.e
            self._rough, self._precision = self._single_sizes(measured)

    def predict(self, points: Sequence[Point]) -> Prediction:
        """Return the predicted curves of points."""
        return self.predicted(self.codes(points))

    def codes(self, points: Sequence[Point]) -> Floats:
        """Return points as one-hot codes, ``(q, V)``, which are the same for all models of one space."""
        return coded(self._free, points)

    def predicted(self, codes: Floats) -> Prediction:
        """Return the predicted curves of points, given as one-hot codes, ``(q, V)``."""
        import torch

        excess = codes @ self._by_value
        e = torch.as_tensor((excess @ self._basis).T)
        with torch.no_grad():
            shape = self._shape(torch.as_tensor(codes), self._codes, self._hyper)
            across = self._covariance(shape, e, self._e, self._hyper)
            mean = (across @ self._solved)[..., 0].numpy().T  # (q, R)
            rough, doubt = shape @ self._rough, 1 - ((shape @ self._precision) * shape).sum(-1)
            half = torch.linalg.solve_triangular(self._chol, across.transpose(-1, -2), upper=False)
            weights = torch.as_tensor(self._weights)[:, None]
            prior_variance = (
                weights * (PRIORS.level**2 + self._hyper.amplitude[:, None]) + PRIORS.doubt**2 * e**2
            )
            variance = (prior_variance - (half**2).sum(-2)).clamp_min(1e-10).numpy().T
        return Prediction(
            self._reference + PRIORS.trust * excess + mean @ self._basis.T + rough.numpy(),
            np.sqrt(variance),
            self._basis,
            np.sqrt((self._left_over + PRIORS.rough**2) * doubt.clamp_min(0).numpy()[:, None]),
        )

    def _single_sizes(self, measured: Curves) -> tuple[Tensor, Tensor]:
        """Return the weights that predict ρ from correlations with the launches, and the precision matrix.

        The shapes are ``(n, m)`` and ``(n, n)``. A slot that was not measured counts as one with a residual
        of zero.
        """
        import torch

        n = len(measured.points)
        self._rough, self._precision = torch.zeros(n, len(self._slots)).double(), torch.zeros(n, n).double()
        residuals = np.nan_to_num(measured.logs - self.predicted(self._codes.numpy()).mean)
        shape = self._shape(self._codes, self._codes, self._hyper)
        sems = np.nan_to_num(measured.sems)
        doubt = torch.as_tensor(
            (LAUNCH_SPREAD.largest_sd**2 + measured.doubts**2 + (sems**2).mean(axis=1)) / PRIORS.rough**2
        )
        precision = torch.cholesky_inverse(_cholesky(shape, doubt))
        return precision @ torch.as_tensor(residuals), precision

    def _project(self, measured: Curves, excess: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the coefficients' expectations, targets and noise variances for each launch, all (n, R)."""
        residual = measured.logs - self._reference - PRIORS.trust * excess
        noise = np.nan_to_num(measured.sems, nan=0.0) ** 2
        targets, variances = [], []
        for row, spread in zip(residual, noise, strict=True):
            finite = ~np.isnan(row)
            if finite.all():
                targets.append(row @ self._basis)
                variances.append(spread @ self._basis**2)
            else:  # for a curve with gaps: the posterior of the coefficients under the smooth prior
                phi = self._basis[finite]
                precision = np.diag(1 / (PRIORS.signal**2 * self._weights)) + phi.T @ phi / 1e-2
                covariance = np.linalg.inv(precision)
                targets.append(covariance @ (phi.T @ row[finite]) / 1e-2)
                variances.append(np.diag(covariance) + spread[finite] @ phi**2)
        curve_variance = (measured.doubts**2 + measured.launch_sds**2)[:, None] * self._weights
        return excess @ self._basis, np.array(targets), np.array(variances) + curve_variance

    def _shape(self, a: Tensor, b: Tensor, hyper: _Hyper) -> Tensor:
        """Return the correlations due to the effects of the parameters, shape ``(n_1, n_2)``.

        Sums over parameters are computed as products of one-hot codes with a single table of all values. So
        no array of shape ``(D, n_1, n_2)`` is needed, which would be large with many parameters and launches.
        """
        import torch

        if not self._free:
            return torch.ones(len(a), len(b), dtype=torch.float64)
        exponent = hyper.theta[self._owner] * self._unlike
        nowhere = torch.zeros(a.shape[1], a.shape[1], dtype=torch.float64)
        exponents = nowhere.index_put(self._at, exponent)  # (V, V), block by block
        singly = a @ (nowhere.index_put(self._at, torch.exp(-exponent) * self._single) @ b.T)
        for family in self._families:
            singly = singly + torch.exp(-a[:, family] @ (exponents[family][:, family] @ b[:, family].T))
        jointly = torch.exp(-a @ (exponents @ b.T))
        shape: Tensor = (1 - PRIORS.additive) * jointly + PRIORS.additive * singly / len(self._free)
        return shape

    def _covariance(self, shape: Tensor, e: Tensor, f: Tensor, hyper: _Hyper) -> Tensor:
        """Return, for each of the R coefficients of a curve, its covariance between points of two sets.

        The shape is ``(R, n_1, n_2)``, with n_1 points in the first set and n_2 in the second.

        ``shape`` contains the correlations of the parameters' effects, ``e`` and ``f`` the expected
        coefficients.
        """
        import torch

        weights = torch.as_tensor(self._weights)[:, None, None]
        covariance: Tensor = weights * (PRIORS.level**2 + hyper.amplitude[:, None, None] * shape)
        return covariance + PRIORS.doubt**2 * e[:, :, None] * f[:, None, :]

    def _fit(self, data: _Data, steps: int) -> _Hyper:
        """Return the hyperparameters at the mode of their posterior."""
        import torch

        r, d = len(self._weights), len(self._free)
        raw = torch.zeros(d + 2 * r, dtype=torch.float64, requires_grad=True)
        medians = [PRIORS.unlike_on_scale if p.positions() else PRIORS.unlike for p in self._free]
        scale = torch.as_tensor(np.log(medians) - 0.5 * math.log(max(d, 1)))

        def unpack(v: Tensor) -> _Hyper:
            """Return the hyperparameters for standard normal ``v``; their priors are log-normal.

            Elements are clamped, because a line search may try any value, and extreme ones would make
            covariances singular.
            """
            v = v.clamp(-PRIORS.farthest, PRIORS.farthest)
            return _Hyper(
                torch.exp(scale + 0.9 * v[:d]),
                PRIORS.signal**2 * torch.exp(0.8 * v[d : d + r]),
                LAUNCH_SPREAD.largest_sd**2 * torch.exp(v[d + r :]),
            )

        def closure() -> Tensor:
            optimiser.zero_grad()
            hyper = unpack(raw)
            shape = self._shape(data.codes, data.codes, hyper)
            k = self._covariance(shape, data.e, data.e, hyper)
            chol = _cholesky(k, data.noise + hyper.nugget[:, None])
            half: Tensor = torch.linalg.solve_triangular(chol, data.targets[..., None], upper=False)
            logdet = torch.diagonal(chol, dim1=-2, dim2=-1).log().sum()
            loss: Tensor = 0.5 * (half**2).sum() + logdet + 0.5 * (raw**2).sum()
            loss.backward()  # type: ignore[no-untyped-call] # torch leaves it untyped
            return loss

        optimiser = torch.optim.LBFGS(
            [raw], max_iter=steps, max_eval=int(1.25 * steps), line_search_fn="strong_wolfe"
        )
        optimiser.step(closure)  # type: ignore[no-untyped-call] # torch leaves it untyped
        with torch.no_grad():
            return unpack(raw if torch.isfinite(raw).all() else torch.zeros_like(raw))


@dataclass(frozen=True)
class _Hyper:
    theta: Tensor  # Inverse lengths θ, shape ``(D,)``.
    amplitude: Tensor  # Amplitudes a, shape ``(R,)``.
    nugget: Tensor
    """Variance of the coefficients between launches of one point, in addition to standard errors, shape
    ``(R,)``."""


@dataclass(frozen=True)
class _Data:
    codes: Tensor  # The points as one-hot codes, shape ``(n, V)``.
    e: Tensor  # Coefficients that are expected from names, shape ``(R, n)``.
    targets: Tensor
    """Coefficients of the measured curves' differences from the expectations, shape ``(R, n)``."""
    noise: Tensor  # Variances of the targets, shape ``(R, n)``.

    def some(self, limit: int) -> _Data:
        """Return the data of at most ``limit`` launches, evenly spaced in their order."""
        n = self.e.shape[1]
        if n <= limit:
            return self
        rows = np.linspace(0, n - 1, limit).round().astype(int)
        return _Data(self.codes[rows], self.e[:, rows], self.targets[:, rows], self.noise[:, rows])


def _above(space: Space, parameter: Parameter) -> set[str]:
    """Return the names of the parameters whose values decide whether a parameter is active."""
    parents = [q for q in space.job if q.name in parameter.when]
    return {q.name for q in parents}.union(*(_above(space, q) for q in parents))


def _cholesky(k: Tensor, noise: Tensor) -> Tensor:
    import torch

    lower: Tensor = torch.linalg.cholesky(k + torch.diag_embed(noise + 1e-6))
    return lower


def _reference(measured: Curves, excess: Floats) -> Floats:
    """Return ln t of the best family in each slot if the expectations from names were right, ``(m,)``."""
    guesses = measured.logs - PRIORS.trust * excess
    columns = [column[~np.isnan(column)] for column in guesses.T]
    return np.array([float(np.mean(c)) if len(c) else 0.0 for c in columns])


def _slot_basis(slots: Sequence[Slot]) -> tuple[Floats, Floats, Floats]:
    """Return the leading eigenvectors of the kernel over slots, their eigenvalues, and the variance left.

    The shapes are ``(m, R)``, ``(R,)`` and ``(m,)``.
    """
    kinds = sorted({slot[0] for slot in slots})
    x = np.array([[kinds.index(c), math.log2(max(p, 1)), math.log2(max(m, 1))] for c, p, m in slots])
    other_kind = (x[:, None, 0] != x[None, :, 0]) * 1.0
    ranks = np.abs(x[:, None, 1] - x[None, :, 1])
    sizes = np.abs(x[:, None, 2] - x[None, :, 2]) / PRIORS.smooth_octaves
    kernel = np.exp(-0.5 * sizes**2 - 0.15 * ranks - 0.7 * other_kind)
    values, vectors = np.linalg.eigh(kernel)
    values, vectors = values[::-1].clip(min=0), vectors[:, ::-1]
    rank = min(
        1 + int(np.searchsorted(np.cumsum(values) / values.sum(), PRIORS.variance_share)), 6, len(slots)
    )
    basis, weights = vectors[:, :rank], values[:rank]
    left_over = np.diag(kernel) - (basis**2) @ weights
    return basis, weights, PRIORS.signal**2 * left_over.clip(min=0)
