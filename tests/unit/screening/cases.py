"""A published screening that the tests compare with."""

import numpy as np

from autotune.screening import Factor, ScreeningDesign

CAST_FATIGUE_FACTORS = ("A", "B", "C", "D", "E", "F", "G")

# Hunter, Hodi & Eagar (1982), High cycle fatigue of weld repaired cast Ti-6Al-4V, Metallurgical Transactions
# 13A, 1589–1594: seven factors in a 12-run Plackett–Burman design; response: logarithm of the fatigue life.
# Also example 2 of Box & Meyer (1993), J. Quality Technology 25, 94–105.
CAST_FATIGUE_CODES = np.array(
    [
        [1, 1, -1, 1, 1, 1, -1],
        [1, -1, 1, 1, 1, -1, -1],
        [-1, 1, 1, 1, -1, -1, -1],
        [1, 1, 1, -1, -1, -1, 1],
        [1, 1, -1, -1, -1, 1, -1],
        [1, -1, -1, -1, 1, -1, 1],
        [-1, -1, -1, 1, -1, 1, 1],
        [-1, -1, 1, -1, 1, 1, -1],
        [-1, 1, -1, 1, 1, -1, 1],
        [1, -1, 1, 1, -1, 1, 1],
        [-1, 1, 1, -1, 1, 1, 1],
        [-1, -1, -1, -1, -1, -1, -1],
    ],
    dtype=float,
)
CAST_FATIGUE_LIFE = np.array(
    [6.058, 4.733, 4.625, 5.899, 7.000, 5.752, 5.682, 6.607, 5.818, 5.917, 5.863, 4.809]
)


def coded(codes, blocks=None, factors=None, centre=None, whole_plots=None):
    """A design out of bare codes."""
    codes = np.asarray(codes, dtype=float)
    n = len(codes)
    return ScreeningDesign(
        tuple(factors or (Factor(f"x{i}", -1, 1) for i in range(codes.shape[1]))),
        codes,
        tuple(range(n)),
        tuple(blocks) if blocks is not None else (0,) * n,
        tuple(whole_plots) if whole_plots is not None else (0,) * n,
        tuple(centre) if centre is not None else (False,) * n,
    )


def n_reboots(design):
    """Reboots between the first run and the last."""
    return len(set(design.whole_plots)) - 1
