"""Find which components and transports a launch really uses, to leave out knobs that have no effect.

A *knob* is a variable that a library declares. The result depends on where the launch runs: hierarchical
collectives and transports between nodes are used only on several nodes. So the campaign's own launcher makes
the launch, with the campaign's ranks and nodes.
"""

import re
import sys
from collections.abc import Collection, Mapping

from autotune.errors import StackError
from autotune.probe.ucx import read_report
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, output
from autotune.stacks.knobs.discover import CHOSEN_PML, families_of
from autotune.stacks.ports import Hearing, Placement

TWO_RANKS = Placement(2)  # Two ranks on this machine.
_TALK = {
    "OMPI_MCA_pml_base_verbose": "10",
    "OMPI_MCA_bml_base_verbose": "100",
    "OMPI_MCA_btl_base_verbose": "100",
    "OMPI_MCA_coll_base_verbose": "20",
    "UCX_LOG_LEVEL": "info",
}
"""Variables that make a launch print what it selects."""

_PROGRAM = (
    "import os; own = os.environ; rank = own.get('OMPI_COMM_WORLD_RANK', own.get('PMIX_RANK', '0')); "
    f"[own.pop(name, '') for name in {tuple(_TALK)} if rank != '0']; "
    "from mpi4py import MPI; comm = MPI.COMM_WORLD; comm.allreduce(comm.rank); comm.alltoall([0] * comm.size)"
)
"""Program in which every rank sends to every other rank. Only the first rank prints what it selects. That
suffices, since the first rank has peers on its own node and on other nodes."""

_UCX = {f"OMPI_MCA_{name}": value for name, value in CHOSEN_PML["ucx"].items()}
"""Variables that make Open MPI use UCX even where it would not use UCX by itself."""

_WITHOUT_RDMA = {"self", "sm", "vader", "tcp", "sysv", "posix", "cma", "knem", "xpmem"}
"""Transport components of Open MPI (``btl``) and of UCX that register no memory with a network card."""

_ONE_NODE = _WITHOUT_RDMA - {"tcp"} | {"smcuda", "cuda", "rocm", "template"}
"""Transport components of Open MPI (``btl``) and of UCX that carry no messages between nodes."""

_SEVERAL_NODES = {"han"}  # Collective components that are not used if all ranks are on one node.
_BUILT = ("coll:", "btl:", "ucx_tl:")  # Prefixes of the facts of a stack that name built components.


def openmpi_in_use(
    installation: Installation,
    fixed: Mapping[str, str],
    placement: Placement = TWO_RANKS,
    launcher: object = None,
) -> frozenset[str]:
    """Return facts about the components that Open MPI selects by itself, and about transports of UCX.

    The facts are ``pml_in_use:…``, ``btl_in_use:…``, ``coll_in_use:…``, ``ucx_lane:…`` and ``rdma``. If Open
    MPI does not select UCX by itself, a second launch with UCX finds UCX's transports. If ``launcher`` can
    return what programs print (``Hearing``), it makes the launches; otherwise two ranks are launched on this
    machine.

    Raises:
        StackError: a launch does not end, or does not print what it selects.
    """
    env = {**fixed, **_TALK, "MPI4PY_LIBMPI": str(installation.library)}
    program = (sys.executable, "-P", "-c", _PROGRAM)

    def hear(env: Mapping[str, str]) -> str:
        if isinstance(launcher, Hearing):
            return launcher.heard(program, placement, env)
        command = [str(installation.mpirun), "-np", "2", *program]
        return output(command, {**env, **dialect("openmpi").mpirun_env()})

    log = hear(env)
    facts = facts_in_log(log)
    if not facts:
        end = " | ".join(log.strip().splitlines()[-3:])
        raise StackError(
            f"a launch by {installation.mpirun} does not say which components it selects: {end or 'nothing'}"
        )
    if "OMPI_MCA_pml" not in fixed and "pml_in_use:ucx" not in facts:
        over_ucx = facts_in_log(hear({**env, **_UCX}))
        facts |= {fact for fact in over_ucx if fact.startswith("ucx_lane:") or fact == "rdma"}
    return facts


def between_nodes(built: Collection[str]) -> frozenset[str]:
    """Return the facts about communication between nodes, which no launch on one machine can show.

    Every built component (``coll:…``, ``btl:…``, ``ucx_tl:…``) that can be used between nodes is assumed to
    be in use.
    """
    names = {kind: {fact[len(kind) :] for fact in built if fact.startswith(kind)} for kind in _BUILT}
    lanes = names["ucx_tl:"] - _ONE_NODE
    return frozenset(
        {f"coll_in_use:{name}" for name in names["coll:"] & _SEVERAL_NODES}
        | {f"btl_in_use:{name}" for name in names["btl:"] - _ONE_NODE}
        | {f"ucx_lane:{name}" for name in lanes | families_of(lanes)}
        | ({"rdma"} if lanes - _WITHOUT_RDMA else set())
    )


def facts_in_log(log: str) -> frozenset[str]:
    """Return the facts that are shown by the output of a launch with the variables of ``_TALK``."""
    facts = {f"pml_in_use:{name}" for name in re.findall(r"select: component (\w+) selected", log)}
    # The component ``self`` is left out: a process uses it only for messages to itself.
    layers = set(re.findall(r"bml: Using (?!self )(\w+) btl for send to", log))
    facts |= {f"btl_in_use:{name}" for name in layers}
    facts |= {f"coll_in_use:{name}" for name in re.findall(r"selecting +(\w+), priority +\d+, Enabled", log)}
    reported = read_report(log).lanes
    lanes = {lane.partition("/")[0] for scope in reported.keys() - {"self"} for lane in reported[scope]}
    facts |= {f"ucx_lane:{name}" for name in lanes | families_of(lanes)}
    return frozenset(facts | ({"rdma"} if (layers | lanes) - _WITHOUT_RDMA else set()))
