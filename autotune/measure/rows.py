"""Keeps the samples of one cell (one call that is timed) in order of time and of size, for the stopping rule.

The probe (step 6 of the data flow) uses this module on every rank. Only the standard library is imported,
since numpy takes long to load. ``location`` computes the same statistics for whole arrays and defines them.
"""

import math
from array import array
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

EXACT_UP_TO = 1000
"""Largest number of samples for which ``median_ranks`` computes the exact rank.

For more samples ``median_ranks`` uses the normal approximation, whose rank differs from the exact one by two
at most."""
BATCHES = 12
"""Number of batches into which a row of samples is cut; the batches' means show how much neighbours are
correlated."""
LEAST_BATCH = 4  # Least number of samples in a batch; samples of shorter rows are assumed to be independent.


@lru_cache(maxsize=16384)
def median_ranks(n: int, alpha: float) -> tuple[int, float]:
    """Return k for the median's interval [x₍ₖ₎, x₍ₙ₊₁₋ₖ₎] of n ≥ 1 samples, and the interval's coverage.

    Here x₍ₖ₎ is the k-th smallest sample, and alpha the accepted probability that the interval does not
    contain the median. k is between 1 and ⌈n/2⌉. With too few samples for alpha, k is 1 and the coverage is
    below 1 − alpha.
    """
    if n > EXACT_UP_TO:
        from statistics import NormalDist  # imported here, since it is slow to load and seldom needed

        normal = NormalDist()
        z = -normal.inv_cdf(alpha / 2)
        k = max(1, math.floor((n + 1 - z * math.sqrt(n)) / 2))
        return k, 1 - 2 * normal.cdf((2 * k - 1 - n) / math.sqrt(n))
    # Find the largest k with 2 · tail / 2ⁿ ≤ alpha, in integers: alpha is numerator / denominator.
    numerator, denominator = float(alpha).as_integer_ratio()
    limit = (numerator << n) // (2 * denominator)
    k, tail, term = 1, 1, 1  # invariants: tail = Σ_{i<k} C(n, i) and term = C(n, k − 1)
    while 2 * (k + 1) <= n + 1:
        term = term * (n - k + 1) // k
        if tail + term > limit:
            break
        tail += term
        k += 1
    return k, ((1 << n) - 2 * tail) / (1 << n)


class Row:
    """A growing row of times in seconds, with its median and the median's interval."""

    __slots__ = ("_effective", "_ordered", "times_s")

    def __init__(self, times_s: Iterable[float] = ()) -> None:
        """Create a row with these times, in the order in which they were taken."""
        self.times_s = array("d")
        """All times in seconds, in the order in which they were taken."""
        self._ordered: list[float] = []
        self._effective = 0
        self.extend(times_s)

    def __len__(self) -> int:
        """Return the number of times."""
        return len(self.times_s)

    def extend(self, times_s: Iterable[float]) -> None:
        """Append times that were taken later."""
        old_length = len(self.times_s)
        self.times_s.extend(times_s)
        if len(self.times_s) > old_length:
            self._ordered += self.times_s[old_length:]
            self._ordered.sort()  # sorting takes linear time here, as all but the end is in order already
            self._effective = -1

    @property
    def median_s(self) -> float:
        """Return the median in seconds; not a number for an empty row."""
        return median_of_sorted(self._ordered)

    @property
    def effective(self) -> int:
        """Return the effective number of independent samples: the row's length / its design effect."""
        if self._effective < 0:
            self._effective = math.floor(len(self) / self._design_effect())
        return self._effective

    def interval_s(self, effective: int, alpha: float) -> tuple[float, float]:
        """Return the ends of the median's interval at two-sided level alpha, in seconds.

        The interval is as wide as that of ``effective`` independent samples. If these are too few for the
        level, the ends are 0 and infinity.
        """
        rank, coverage = median_ranks(effective, alpha) if effective else (0, 0.0)
        if not rank or coverage < 1 - alpha:
            return 0.0, math.inf
        k = rank * len(self) // effective
        return self._ordered[k - 1], self._ordered[-k]

    def _design_effect(self) -> float:
        """Return the design effect (see `location`) of the indicators of samples above the median."""
        n = len(self)
        if n < BATCHES * LEAST_BATCH:
            return 1.0
        middle = self.median_s
        below, above = middle.__gt__, middle.__lt__
        edges = [n * batch // BATCHES for batch in range(BATCHES + 1)]
        n_above, n_below = (
            [sum(map(side, self.times_s[begin:end])) for begin, end in pairwise(edges)]
            for side in (above, below)
        )
        # The indicator of a sample is 1 above, 1/2 at and 0 below the median.
        lengths = [end - begin for begin, end in pairwise(edges)]
        sums = [(length + up - down) / 2 for length, up, down in zip(lengths, n_above, n_below, strict=True)]
        mean = sum(sums) / n
        squares = (sum(n_above) + (n - sum(n_above) - sum(n_below)) / 4) / n
        variance = max(squares - mean**2, 0.0)
        if variance <= 1e-12 * mean**2:
            return 1.0
        between = sum(n_b * (s / n_b - mean) ** 2 for s, n_b in zip(sums, lengths, strict=True))
        return max(1.0, between / (BATCHES - 1) / variance)


def mean(values: Sequence[float]) -> float:
    """Return the mean; not a number if there are no values."""
    return math.fsum(values) / len(values) if values else math.nan


def median(values: Iterable[float]) -> float:
    """Return the median; not a number if there are no values."""
    return median_of_sorted(sorted(values))


def median_of_sorted(values: Sequence[float]) -> float:
    """Return the median of values in ascending order; not a number if there are no values."""
    n = len(values)
    return (values[(n - 1) // 2] + values[n // 2]) / 2 if n else math.nan
