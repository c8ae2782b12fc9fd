"""Components and transports that a launch really uses, as facts by which knobs are kept or dropped."""

import re
import sys
from collections.abc import Mapping

from autotune.errors import StackError
from autotune.probe.ucx import read_report
from autotune.stacks import dialect
from autotune.stacks.installation import Installation, output
from autotune.stacks.knobs.discover import CHOSEN_PML, families_of

_PROGRAM = "from mpi4py import MPI; MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank)"
_TALK = {
    "OMPI_MCA_pml_base_verbose": "10",
    "OMPI_MCA_bml_base_verbose": "100",
    "OMPI_MCA_btl_base_verbose": "100",
    "OMPI_MCA_coll_base_verbose": "20",
    "UCX_LOG_LEVEL": "info",
}
"""Makes a launch say what it selects."""

_UCX = {f"OMPI_MCA_{name}": value for name, value in CHOSEN_PML["ucx"].items()}
"""Makes Open MPI take UCX where it would not by itself."""

_WITHOUT_RDMA = {"self", "sm", "vader", "tcp", "sysv", "posix", "cma", "knem", "xpmem"}
"""Layers and transports that register no memory with a network card."""


def openmpi_in_use(installation: Installation, fixed: Mapping[str, str], ranks: int = 2) -> frozenset[str]:
    """Components selected by Open MPI between ranks of this machine, by itself and over UCX.

    Facts are ``pml_in_use:…``, ``btl_in_use:…``, ``coll_in_use:…``, ``ucx_lane:…`` and ``rdma``.

    Raises:
        StackError: a launch does not end.
    """
    env = {**fixed, **_TALK, **dialect("openmpi").mpirun_env(), "MPI4PY_LIBMPI": str(installation.library)}
    command = [str(installation.mpirun), "-np", str(ranks), sys.executable, "-P", "-c", _PROGRAM]
    facts = said(output(command, env))
    if not facts:
        raise StackError(f"a launch by {installation.mpirun} does not say which components it selects")
    if "OMPI_MCA_pml" not in fixed and "pml_in_use:ucx" not in facts:
        over_ucx = said(output(command, {**env, **_UCX}))
        facts |= {fact for fact in over_ucx if fact.startswith("ucx_lane:") or fact == "rdma"}
    return facts


def said(log: str) -> frozenset[str]:
    """The facts in what such a launch printed."""
    facts = {f"pml_in_use:{name}" for name in re.findall(r"select: component (\w+) selected", log)}
    # What a process sends to itself moves no message between ranks.
    layers = set(re.findall(r"bml: Using (?!self )(\w+) btl for send to", log))
    facts |= {f"btl_in_use:{name}" for name in layers}
    facts |= {f"coll_in_use:{name}" for name in re.findall(r"selecting +(\w+), priority +\d+, Enabled", log)}
    reported = read_report(log).lanes
    lanes = {lane.partition("/")[0] for where in reported.keys() - {"self"} for lane in reported[where]}
    facts |= {f"ucx_lane:{name}" for name in lanes | families_of(lanes)}
    return frozenset(facts | ({"rdma"} if (layers | lanes) - _WITHOUT_RDMA else set()))
