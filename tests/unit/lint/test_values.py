"""Values that each layer's own listing or record refuses; what it takes is left alone."""

import json
from pathlib import Path, PurePath

import pytest

from autotune.lint.files import lint
from autotune.stacks.knobs import KnobKind, libfabric
from autotune.stacks.knobs.recorded import recorded

DATA = Path(__file__).parents[2] / "data/knobs"


def found(*said):
    text = "".join(f"export {one}\n" for one in said)
    return [str(finding) for finding in lint({PurePath("job.sh"): text})]


REFUSED = [
    ("FI_HMEM=system,cuda", "knows no 'system,cuda'", "between semicolons"),
    ("FI_PROVIDER=tpc", "knows no 'tpc'", "did you mean tcp?"),
    ("FI_LOG_LEVEL=warning", "knows no FI_LOG_LEVEL = warning", "debug, info, trace, warn"),
    ("FI_EFA_USE_DEVICE_RDMA=y", "is no boolean", "0 or 1"),
    ("FI_MR_CACHE_MAX_COUNT=16k", "silently taken for 16", "without a unit"),
    ("FI_CXI_RX_MATCH_MODE=sofware", "knows no FI_CXI_RX_MATCH_MODE", "did you mean 'software'?"),
    ("FI_LOG_LEVL=info", "knows no FI_LOG_LEVL", "did you mean FI_LOG_LEVEL?"),
    ("MPIR_CVAR_BCAST_MIN_PROCS=8k", "MPI_Init aborts", "a whole number"),
    ("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=RING", "MPI_Init aborts", "ring, smp, tree"),
    ("MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM=ring", "MPI_Init aborts", "did you mean 'tsp_ring'?"),
    ("MPIR_CVAR_CH4_OFI_RNDV_PROTOCOL=get", "MPI_Init aborts", "auto, direct, pipeline, read, write"),
    ("I_MPI_ADJUST_BCAST=40", "has no bcast algorithm 40", "8 knomial"),
    ("I_MPI_ADJUST_IALLTOALL='1:0-100;9'", "has no ialltoall algorithm 9", "at most 7"),
    ("I_MPI_ADJUST_ALLREDUCE=ring", "says that it ignores", "8 ring"),
]


@pytest.mark.parametrize(("said", "effect", "remedy"), REFUSED, ids=[one[0] for one in REFUSED])
def test_a_value_that_is_not_taken(said, effect, remedy):
    (finding,) = found(said)
    assert effect in finding and remedy in finding


def test_values_that_are_taken():
    said = """FI_HMEM='system;cuda' FI_PROVIDER='verbs;ofi_rxm' FI_PROVIDER=^sockets FI_PROVIDER=TCP
    FI_OFI_RXM_USE_SRX=TRUE FI_MR_CACHE_MAX_COUNT=0x10 FI_UNIVERSE_SIZE=$SLURM_NTASKS FI_LOG_LEVEL=Warn
    MPIR_CVAR_BCAST_MIN_PROCS=-1
    MPIR_CVAR_ENABLE_GPU=0 MPIR_CVAR_ASYNC_PROGRESS=on MPIR_CVAR_BCAST_INTRA_ALGORITHM=nb
    I_MPI_ADJUST_ALLREDUCE='1:0-64;2:65-2147483647' I_MPI_ADJUST_GATHER=3@0-16 I_MPI_ADJUST_BCAST_NODE=shm"""
    assert found(*said.split()) == []


def test_the_record_is_what_libfabric_declares():
    declared = libfabric.parse(json.loads((DATA / "libfabric-2.5-efa.json").read_text()))
    kinds = {knob.name: knob.kind for knob in declared}
    words = (KnobKind.ENUMERATOR, KnobKind.LIST)
    record = {n: k.kind for n, k in recorded().items() if n in kinds and k.kind not in words}
    assert record == {n: k for n, k in kinds.items() if n in record}
    assert set(kinds) <= set(recorded())
