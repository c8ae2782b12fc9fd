"""Cost of a collective in the terms of the LogGP model: a cost for each message and a cost for each byte.

The model of a collective's time is ``a + b·messages + c·bytes``. Only messages and bytes "in a row" are
counted, which means those that have to wait for each other. Their numbers for P ranks and m bytes follow from
the algorithm; ``b`` is the latency and overhead of a message, ``c`` the gap of a byte.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

FORMS: Mapping[str, Callable[[Vector, Vector], tuple[Vector, Vector]]] = {
    "one root to all": lambda p, m: (p - 1, (p - 1) * m),
    "tree": lambda p, m: (np.ceil(np.log2(p)), np.ceil(np.log2(p)) * m),
    "pipeline": lambda p, m: (p - 1, m),
    "scatter and allgather": lambda p, m: (np.ceil(np.log2(p)) + p - 1, 2 * m * (p - 1) / p),
    "each with each": lambda p, m: (np.log2(p), m * (p - 1) / p),
}
"""Forms of communication. Each maps (ranks, bytes) to the number of messages in a row and of bytes in a
row."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """One form of communication, fitted to a table; no coefficient is negative."""

    form: str  # Name of the form, a key of ``FORMS``.
    start: float  # Cost of every call (``a`` in the module's formula), in units of the response.
    message: float  # Cost of each message in a row (``b``), in units of the response.
    byte: float  # Cost of each byte in a row (``c``), in units of the response.
    aic: float
    """Akaike's information criterion of the fit to the response (to its logarithm if errors are relative),
    which can be compared with that of a least-squares model of the same quantity."""
    fitted: Vector  # Fitted values of the response, (n,); their logarithms to base 2 if errors are relative.


def cheapest(p: Vector, m: Vector, y: Vector, *, log: bool) -> CostModel | None:
    """Fit each form to a table, and return the fit with the smallest AIC.

    ``p`` contains the ranks, ``m`` the bytes and ``y`` the response, each (n,). ``log`` says whether the
    errors of the response are relative. The result is None if the table has fewer than four rows, ranks below
    1, sizes below 0, or a response that is not above 0.
    """
    if len(y) < 4 or p.min() < 1 or m.min() < 0 or y.min() <= 0:
        return None
    models = [_fitted(form, p, m, y, log) for form in FORMS]
    return min(models, key=lambda model: model.aic)


def _fitted(form: str, p: Vector, m: Vector, y: Vector, log: bool) -> CostModel:
    design = np.column_stack([np.ones(len(p)), *FORMS[form](p, m)])
    beta = _relative(design, y) if log else _linear(design, y)
    fitted = design @ beta
    scaled, measured = (np.log2(fitted), np.log2(y)) if log else (fitted, y)
    rss = max(float(np.sum((measured - scaled) ** 2)), np.finfo(float).tiny)
    n = len(y)
    # This is the AIC of the normal likelihood as in statsmodels, where the variance does not count as a
    # parameter.
    aic = n * (math.log(2 * math.pi * rss / n) + 1) + 2 * design.shape[1]
    start, message, byte = beta.tolist()
    return CostModel(form, start, message, byte, aic, scaled)


def _linear(design: Vector, y: Vector) -> Vector:
    from scipy.optimize import nnls

    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1
    return np.asarray(nnls(design / lengths, y)[0] / lengths)


def _relative(design: Vector, y: Vector) -> Vector:
    from scipy.optimize import least_squares

    start = _linear(design / y[:, None], np.ones(len(y)))
    # Each unknown is scaled by the largest value of its column, so that all unknowns have a similar size. No
    # unknown starts at its lower bound of zero, because the solver would not move it away from there.
    scale = y.max() / np.where(design.max(axis=0) > 0, design.max(axis=0), 1)
    floor = np.maximum(start / scale, 1e-9)

    def misfit(x: Vector) -> Vector:
        return np.asarray(np.log2(np.maximum(design @ (x * scale), 1e-300)) - np.log2(y))

    fit = least_squares(misfit, floor, bounds=(0, np.inf), x_scale=floor)
    # The solver approaches zero but never reaches it: a coefficient that adds less than a billionth counts as
    # zero.
    return np.asarray(np.where(fit.x > 1e-9, fit.x, 0.0) * scale)
