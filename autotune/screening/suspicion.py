"""Interactions that would explain what main effects leave unexplained: reasons not to fix a factor.

A Plackett–Burman design cannot establish an interaction, since each is spread over main effects. But where
few factors matter, one interaction of a factor that matters may explain nearly all that is left, and then
neither of its two factors should be given up. This is the analysis of Hamada & Wu, used for doubt alone.

References:
    Hamada & Wu (1992), Analysis of designed experiments with complex aliasing, Journal of Quality Technology
    24, 130–137.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from autotune.screening.model import Fit, Matrix, fit
from autotune.screening.noise import MIN_RESIDUAL_DF

LEADING_RATIO = 1.28
"""A factor with an effect beyond this many standard errors may matter."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An interaction that may be there."""

    factors: tuple[str, str]
    """The two factors; one at least seems to matter by itself."""
    p_value: float
    """Of its not being there if nothing else interacts, times the number of interactions that were tried."""


def suspicions(
    names: Sequence[str], fitted: Fit, std_errs: Matrix, floor: float, alpha: float
) -> tuple[Suspicion, ...]:
    """Interactions that stand out beside the main effects that may matter, the most striking first.

    Standard errors are those of ``fitted.beta``, (n_factors,); ``floor`` is the smallest variance of a run
    that can be true, in whitened units, and ``alpha`` a level over all interactions that are tried.
    """
    from scipy import stats

    if not fitted.joint:
        return ()
    with np.errstate(invalid="ignore"):
        leading = np.flatnonzero(np.abs(fitted.beta) > LEADING_RATIO * std_errs).tolist()
    pairs = [pair for pair in combinations(range(len(names)), 2) if set(pair) & set(leading)]
    mains = np.hstack([fitted.nuisance, fitted.main[:, leading]])
    striking = []
    for i, j in pairs:
        product = fitted.main[:, i] * fitted.main[:, j] / fitted.nuisance[:, 0]
        refit = fit(mains, product[:, None], fitted.y)
        if not refit.estimable[0] or refit.residual_df < MIN_RESIDUAL_DF:
            continue
        variance = float(refit.residual @ refit.residual) / refit.residual_df
        error = math.sqrt(max(variance, floor) * float(refit.unit_variance[0]))
        p_value = len(pairs) * 2 * float(stats.t.sf(abs(float(refit.beta[0])) / error, refit.residual_df))
        if p_value < alpha:
            striking.append(Suspicion((names[i], names[j]), p_value))
    return tuple(sorted(striking, key=lambda suspicion: suspicion.p_value))
