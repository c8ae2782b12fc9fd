"""What Intel MPI calls its algorithms in ``I_MPI_ADJUST_*`` (used by step 12)."""

from collections.abc import Mapping

from autotune.collectives import COLLECTIVES
from autotune.errors import UserError, allowed

_INTEL: Mapping[str, tuple[str, ...]] = {c.name: c.intel for c in COLLECTIVES.values() if c.intel}


def algorithm_id(collective: str, name: str) -> int:
    """The id of an algorithm, given by its name or as the id itself.

    Raises:
        UserError: Intel MPI lets nobody choose for this collective, or has no such algorithm.
    """
    if collective not in _INTEL:
        raise UserError(f"Intel MPI adjusts no {collective}", allowed(collective, _INTEL))
    if name.isdecimal():
        return int(name)
    known = _INTEL[collective]
    if name not in known:
        raise UserError(f"Intel MPI has no {collective} algorithm {name!r}", allowed(name, known))
    return known.index(name) + 1
