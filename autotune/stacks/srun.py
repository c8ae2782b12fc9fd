"""Options of ``srun`` that place ranks, for launches and exported files.

The tables translate values of ``Placement``, which are written as in Open MPI's options.
"""

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, str] = {
    "core": "block:block",
    "slot": "block:block",
    "numa": "block:cyclic",
    "node": "cyclic",
}
"""Maps a value of ``map_by`` to a value of ``--distribution``. The latter says how ranks are distributed over
nodes and, after a colon, over the sockets of each node."""

CPU_BINDS: Mapping[str, str] = {
    "core": "cores",
    "none": "none",
    "numa": "ldoms",
    "socket": "sockets",
    "package": "sockets",
    "hwthread": "threads",
}
"""Maps a value of ``bind_to`` to a value of ``--cpu-bind``."""
