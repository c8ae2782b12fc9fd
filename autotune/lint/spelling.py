"""Which known name a slip of the pen was meant for."""

from collections.abc import Collection
from difflib import get_close_matches


def meant(name: str, known: Collection[str]) -> str:
    """The known name that one resembles so closely that it can only be a slip; empty for none, or itself."""
    if name in known:
        return ""
    if close := get_close_matches(name, known, n=1, cutoff=0.9):
        return close[0]
    # Letters that changed places count twice above: too much in a short name.
    return next((k for k in get_close_matches(name, known, n=3, cutoff=0.8) if sorted(k) == sorted(name)), "")
