"""Where ranks are put, in the words of ``srun`` (used by steps 5 and 12).

The words to be translated are those of ``Placement``, which are Open MPI's.
"""

from collections.abc import Mapping

DISTRIBUTIONS: Mapping[str, str] = {
    "core": "block:block",
    "slot": "block:block",
    "numa": "block:cyclic",
    "node": "cyclic",
}
"""``map_by`` → ``--distribution``: over nodes, then over the sockets of each."""

CPU_BINDS: Mapping[str, str] = {
    "core": "cores",
    "none": "none",
    "numa": "ldoms",
    "socket": "sockets",
    "package": "sockets",
    "hwthread": "threads",
}
"""``bind_to`` → ``--cpu-bind``."""
