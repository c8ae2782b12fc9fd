"""Memory of what was computed from launches, so that each further one does not repeat it (between steps).

Observations, histories, objectives and spaces are values with a hash: what was computed of them is found
again by what it was computed of, and stays a function of it alone.
"""

from functools import lru_cache

remembered = lru_cache(maxsize=16_384)
"""Keeps the last results of a function of values; callers do not change these.

So many, since a campaign of a thousand launches asks about each launch and each setting in several ways.
"""
latest = lru_cache(maxsize=4)
"""Keeps only the last few, of functions of a whole history whose results are large."""
