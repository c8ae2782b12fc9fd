"""Aliases (effects that an estimate contains besides its own effect), and the efficiency of a design.

Place in the flow of ``autotune/__init__.py``: step 3, screening.

Notation: the fitted model is X₁ = [nuisance | main effects]. The columns of X₂, the products of two factors,
were not fitted. Then E[β̂₁] = β₁ + A β₂ with the alias matrix A = (X₁ᵀX₁)⁻¹ X₁ᵀ X₂.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from autotune.screening.design import Matrix
from autotune.screening.model import RULE


@dataclass(frozen=True, slots=True)
class Alias:
    """An alias: an effect outside the fitted model that the estimate of a main effect also contains."""

    factor: str  # Name of the factor whose estimated main effect contains the other effect.
    interaction: tuple[str, ...]
    """The two factors whose interaction the estimate contains, or a single factor, if the estimate contains
    the main effect of that factor because the two could not be separated."""
    coefficient: float
    """Coefficient of the other effect in the estimate: the estimate is the factor's own main effect plus this
    coefficient times the other effect."""

    @property
    def label(self) -> str:
        """Return the factors of ``interaction`` in the form that reports show: ``a×b``."""
        return "×".join(self.interaction)


@dataclass(frozen=True, slots=True)
class Efficiency:
    """Efficiency of a design in per cent of an orthogonal design with as many runs.

    The runs of the orthogonal design are at ±1. The efficiency is 0 if the coefficients cannot be estimated.
    """

    d: float  # D-efficiency: by the volume of the joint confidence region of the coefficients.
    a: float  # A-efficiency: by the average variance of the coefficients.
    g: float  # G-efficiency: by the largest variance of a prediction over all corners.


def aliases(
    names: Sequence[str], nuisance: Matrix, main: Matrix, estimable: NDArray[np.bool_], joint: bool = True
) -> tuple[Alias, ...]:
    """Return the effects that estimated main effects also contain, by factor, the largest first.

    These are interactions of two factors and, if main effects were not estimated jointly, also the main
    effects of other factors. The first column of ``nuisance`` is that of the mean and contains the weights of
    the runs.
    """
    unfitted: dict[tuple[str, ...], Matrix] = {
        (names[i], names[j]): main[:, i] * main[:, j] / nuisance[:, 0]
        for i, j in combinations(range(len(names)), 2)
    }
    columns: list[int] = np.flatnonzero(estimable).tolist()
    leaking: list[Alias] = []
    for fitted in [columns] if joint else [[column] for column in columns]:
        unseparated = [i for i in range(len(names)) if not joint and i not in fitted]
        leaks: dict[tuple[str, ...], Matrix] = {(names[i],): main[:, i] for i in unseparated}
        leaks |= unfitted
        if fitted and leaks:
            matrix = np.hstack([nuisance, main[:, fitted]])
            rows = (np.linalg.pinv(matrix) @ np.column_stack(list(leaks.values())))[nuisance.shape[1] :]
            for column, row in zip(fitted, rows, strict=True):
                leaking += _listed(names[column], list(leaks), row)
    return tuple(leaking)


def efficiency(main: Matrix) -> Efficiency:
    """Return the efficiencies of a design for a model of the mean and the main effects.

    ``main``, (n_runs, n_factors), contains the codes of the factors. The corner at which a prediction has the
    largest variance is found by a local search: it starts at the corner nearest to each run and flips one
    factor at a time as long as the variance grows.
    """
    n_runs, n_factors = main.shape
    matrix = np.column_stack([np.ones(n_runs), main])
    p = n_factors + 1
    information = matrix.T @ matrix / n_runs
    if np.linalg.matrix_rank(matrix) < p:
        return Efficiency(0.0, 0.0, 0.0)
    dispersion = np.linalg.inv(information)
    corners = np.unique(np.where(main < 0, -1.0, 1.0), axis=0)
    worst = max(_largest_variance(dispersion, corner) for corner in corners)
    sign, logarithm = np.linalg.slogdet(information)
    d = 100 * float(sign * np.exp(logarithm / p))
    return Efficiency(d, a=100 * p / float(np.trace(dispersion)), g=100 * p / worst)


def _largest_variance(dispersion: Matrix, corner: Matrix) -> float:
    """Return the largest variance that the local search described in ``efficiency`` finds from a corner."""
    point = np.append(1.0, corner)
    while True:
        # Flipping coordinate i of the corner a changes the variance a'Da by −4·aᵢ·(Da)ᵢ + 4·Dᵢᵢ.
        gain = 4 * (np.diag(dispersion) - point * (dispersion @ point))
        gain[0] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= 1e-9:
            return float(point @ dispersion @ point)
        point[best] = -point[best]


def _listed(factor: str, labels: Sequence[tuple[str, ...]], row: Matrix) -> list[Alias]:
    """Return the aliases of a factor with a coefficient of at least ``RULE.listed``, the largest first."""
    large = np.flatnonzero(np.abs(row) >= RULE.listed).tolist()
    listed = [Alias(factor, labels[i], float(row[i])) for i in large]
    return sorted(listed, key=lambda alias: -round(abs(alias.coefficient), 9))
