"""Which effects stand out when nothing but the effects themselves shows how large the noise is.

Notation: ``contrasts`` are m estimates of equal standard error, most of them assumed to be inert.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Lenth:
    """Lenth's yardstick for a set of contrasts."""

    pse: float  # Pseudo standard error of one contrast; nan where there is none.
    df: float  # Its degrees of freedom, m / 3.
    margin: float  # Margin of error: a single contrast beyond it is significant at the level asked for.
    simultaneous_margin: float  # The same for the largest of all m contrasts.


def lenth(contrasts: NDArray[np.float64], alpha: float = 0.05) -> Lenth:
    """Lenth's pseudo standard error and margins of error (1989, eqs. 1–4).

    PSE = 1.5 · median of those |c| that are below 2.5 · s₀, with s₀ = 1.5 · median |c|.

    Args:
        contrasts: (m,) estimates of equal standard error.
        alpha: significance level of the margins.
    """
    from scipy import stats

    m = len(contrasts)
    if m == 0:
        return Lenth(math.nan, 0.0, math.nan, math.nan)
    pse, df = float(pseudo_error(contrasts)), m / 3
    simultaneous = (1 + (1 - alpha) ** (1 / m)) / 2
    margin, widest = (float(stats.t.ppf(level, df)) * pse for level in (1 - alpha / 2, simultaneous))
    return Lenth(pse, df, margin, widest)


def pseudo_error(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lenth's pseudo standard error (...) of sets (..., m) of contrasts, m ≥ 1."""
    sizes = np.abs(contrasts)
    first = 1.5 * np.median(sizes, axis=-1, keepdims=True)
    inert = sizes < np.maximum(2.5 * first, np.finfo(float).tiny)
    return np.asarray(1.5 * np.nanmedian(np.where(inert, sizes, math.nan), axis=-1))


def half_normal_scores(contrasts: NDArray[np.float64]) -> NDArray[np.float64]:
    """(m,): where each |contrast| is expected if all are noise, in standard errors.

    The i-th smallest of m has the score Φ⁻¹(½ + ½ (i − ½) / m); a contrast far above the line through the
    small ones is active. Contrasts that are nan have the score nan.
    """
    from scipy import stats

    scores = np.full(len(contrasts), math.nan)
    known = np.flatnonzero(np.isfinite(contrasts))
    ranks = stats.rankdata(np.abs(contrasts[known]))
    scores[known] = stats.norm.ppf(0.5 + 0.5 * (ranks - 0.5) / max(len(known), 1))
    return scores
