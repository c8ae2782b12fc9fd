"""List names of parameters of Open MPI and UCX, and options of ``mpirun``; no installation is needed."""

import re

from autotune.resources import facts

KNOWN = facts("stacks/known")  # The tables of ``known.toml``; comments in that file describe each table.

# Patterns of the parameters of Open MPI 4's launcher (OLD), of Open MPI 5's launcher PRRTE (NEW), and of
# parameters that both launchers can have (_EITHER).
OLD = re.compile(r"orte_\w+|plm_rsh_\w+|rmaps_base_(?!verbose)\w+|hwloc_base_(?!verbose|mem_bind)\w+")
NEW = re.compile(r"prte_\w+|plm_ssh_\w+|(rmaps|hwloc)_default_\w+")
_EITHER = re.compile(r"(oob|plm|ras|odls|rmaps|ess|errmgr|state|iof|grpcomm|routed|filem|schizo)(_\w+)?")


def of_the_runtime(name: str) -> bool:
    """Whether a parameter belongs to the launcher of some version of Open MPI, and not to its library."""
    return any(pattern.fullmatch(name) for pattern in (OLD, NEW, _EITHER))
