"""Facts of Open MPI and UCX that need no installation: their names, and the words of ``mpirun``."""

import re

from autotune.resources import facts

KNOWN = facts("stacks/known")  # The tables of ``known.toml``; the file says what each of them holds.

# Parameters of the launcher of Open MPI 4, those of PRRTE, and those that may belong to either.
OLD = re.compile(r"orte_\w+|plm_rsh_\w+|rmaps_base_(?!verbose)\w+|hwloc_base_(?!verbose|mem_bind)\w+")
NEW = re.compile(r"prte_\w+|plm_ssh_\w+|(rmaps|hwloc)_default_\w+")
_EITHER = re.compile(r"(oob|plm|ras|odls|rmaps|ess|errmgr|state|iof|grpcomm|routed|filem|schizo)(_\w+)?")


def of_the_runtime(name: str) -> bool:
    """Whether a parameter belongs to the launcher of some version of Open MPI, and not to its library."""
    return any(pattern.fullmatch(name) for pattern in (OLD, NEW, _EITHER))
