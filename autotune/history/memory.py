"""Cache results that are computed from launches, so that they are not computed again after each launch.

Observations, histories, objectives and spaces are values with a hash. The key of a cached result is made of
the values from which the result was computed, so the cache does not change what a function returns.
"""

from functools import lru_cache

remembered = lru_cache(maxsize=16_384)
"""Keeps the last 16,384 results of a function of values; callers must not change these results.

The number is so large because a campaign of a thousand launches needs several results for each launch and
each setting.
"""
latest = lru_cache(maxsize=4)
"""Keeps only the last four results, for functions of a whole history whose results are large."""
