"""Placement of ranks in the words of ``srun`` (used by steps 5 and 12).

The tables translate the words of ``Placement``, which are Open MPI's.
"""

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, str] = {
    "core": "block:block",
    "slot": "block:block",
    "numa": "block:cyclic",
    "node": "cyclic",
}
"""``map_by`` → ``--distribution``: first over nodes, then over the sockets of each node."""

CPU_BINDS: Mapping[str, str] = {
    "core": "cores",
    "none": "none",
    "numa": "ldoms",
    "socket": "sockets",
    "package": "sockets",
    "hwthread": "threads",
}
"""``bind_to`` → ``--cpu-bind``."""
