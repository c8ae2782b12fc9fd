"""Options of ``srun`` that place ranks, for launches and exported files.

The tables translate the values of ``Placement``, which are those of Open MPI's options.
"""

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, str] = {
    "core": "block:block",
    "slot": "block:block",
    "numa": "block:cyclic",
    "node": "cyclic",
}
"""Maps ``map_by`` to ``--distribution``: first over nodes, then over the sockets of each node."""

CPU_BINDS: Mapping[str, str] = {
    "core": "cores",
    "none": "none",
    "numa": "ldoms",
    "socket": "sockets",
    "package": "sockets",
    "hwthread": "threads",
}
"""Maps ``bind_to`` to ``--cpu-bind``."""
