"""What the libraries print, read: small listings in their formats."""

import pytest

from autotune.stacks.knobs import intelmpi, libfabric, mpich, openmpi, ucx
from autotune.stacks.knobs.in_use import facts_in_log
from autotune.stacks.knobs.knob import KnobKind

OPENMPI = """\
ompi:version:full:5.0.11
mca:btl:sm:param:btl_sm_eager_limit:value:4096
mca:btl:sm:param:btl_sm_eager_limit:status:read-only
mca:btl:sm:param:btl_sm_eager_limit:help:Maximum size: of "short" messages
mca:btl:sm:param:btl_sm_eager_limit:deprecated:no
mca:btl:sm:param:btl_sm_eager_limit:type:size_t
mca:btl:sm:param:btl_sm_eager_limit:synonym:name:btl_vader_eager_limit
mca:btl:sm:param:btl_vader_eager_limit:value:4096
mca:btl:sm:param:btl_vader_eager_limit:deprecated:yes
mca:btl:sm:param:btl_vader_eager_limit:type:size_t
mca:btl:sm:param:btl_vader_eager_limit:synonym_of:name:btl_sm_eager_limit
mca:coll:tuned:param:coll_tuned_scan_algorithm:value:ignore
mca:coll:tuned:param:coll_tuned_scan_algorithm:type:int
mca:coll:tuned:param:coll_tuned_scan_algorithm:enumerator:value:0:ignore
mca:coll:tuned:param:coll_tuned_scan_algorithm:enumerator:value:-1:recursive_doubling
mca:op:avx:param:op_avx_support:value:SSE,AVX
mca:op:avx:param:op_avx_support:type:int
mca:op:avx:param:op_avx_support:enumerator:value:1:SSE
mca:op:avx:param:op_avx_support:enumerator:value:2:AVX
mca:mca:base:param:mca_base_component_path:value:"/a:/b"
mca:mca:base:param:mca_base_component_path:type:string
mca:mpi:base:param:mpi_yield_when_idle:value:false
mca:mpi:base:param:mpi_yield_when_idle:type:bool
mca:mpi:base:param:mpi_yield_when_idle:enumerator:value:0:false
mca:mpi:base:param:mpi_yield_when_idle:enumerator:value:1:true
"""

UCX = """\
version 1.20.1
# UCX library configuration file

#
# Error signal handling mode.
#
# syntax:    comma-separated list of: [bt|freeze|none]
#
UCX_HANDLE_ERRORS=none

#
# Size of the receive FIFO.
#
#
# syntax:    unsigned integer
# inherits:  UCX_MM_FIFO_SIZE, UCX_SM_FIFO_SIZE
#
UCX_SYSV_FIFO_SIZE=256

#
# Size of the receive FIFO.
#
# syntax:    unsigned integer
# inherits:  UCX_MM_FIFO_SIZE, UCX_SM_FIFO_SIZE
#
UCX_POSIX_FIFO_SIZE=256

#
# Threshold for switching from eager to rendezvous protocol
#
# syntax:    PAIRS
#
UCX_RNDV_THRESH=intra:auto,inter:auto

#
# The configuration parameter is deprecated.
#
UCX_MEM_CUDA_RELOC (deprecated)

#
# syntax:    unsigned integer
# alias of:  UCX_MAX_RNDV_RAILS
#
UCX_MAX_RNDV_LANES=2
""".replace(
    "PAIRS",
    "comma-separated list of value or key:value pairs, where key is one of [intra,inter] and value is: "
    'memory units: <number>[b|kb|mb|gb], "inf", or "auto". A value without a key is the default.',
)


def by_name(knobs):
    found = {knob.name: knob for knob in knobs}
    assert len(found) == len(knobs)
    return found


def test_open_mpi():
    knobs = by_name(openmpi.parse(OPENMPI))
    limit = knobs["btl_sm_eager_limit"]
    assert (limit.kind, limit.default, limit.component) == (KnobKind.BYTES, "4096", "btl:sm")
    assert limit.version == "5.0.11"
    assert limit.documentation == 'Maximum size: of "short" messages'
    assert limit.variable == "OMPI_MCA_btl_sm_eager_limit"
    assert limit.children == ("btl_vader_eager_limit",)
    assert knobs["btl_vader_eager_limit"].inherits == ("btl_sm_eager_limit",)
    assert knobs["btl_vader_eager_limit"].deprecated
    scan = knobs["coll_tuned_scan_algorithm"]
    assert (scan.kind, scan.allowed) == (KnobKind.ENUMERATOR, ("ignore", "recursive_doubling"))
    assert (knobs["op_avx_support"].kind, knobs["op_avx_support"].allowed) == (KnobKind.LIST, ("SSE", "AVX"))
    assert knobs["mca_base_component_path"].default == "/a:/b"
    assert (knobs["mpi_yield_when_idle"].kind, len(knobs)) == (KnobKind.BOOLEAN, 6)


def test_ucx_with_the_parents_that_it_only_mentions():
    knobs = by_name(ucx.parse(UCX))
    assert {knob.version for knob in knobs.values()} == {"1.20.1"}
    assert knobs["UCX_HANDLE_ERRORS"].allowed == ("bt", "freeze", "none")
    assert knobs["UCX_HANDLE_ERRORS"].documentation == "Error signal handling mode."
    parent = knobs["UCX_MM_FIFO_SIZE"]
    assert parent.children == ("UCX_SYSV_FIFO_SIZE", "UCX_POSIX_FIFO_SIZE")
    assert (parent.kind, parent.default, parent.component) == (KnobKind.INTEGER, "256", "mm")
    assert knobs["UCX_SYSV_FIFO_SIZE"].inherits == ("UCX_MM_FIFO_SIZE", "UCX_SM_FIFO_SIZE")
    assert "UCX_SM_FIFO_SIZE" not in knobs
    assert knobs["UCX_RNDV_THRESH"].keys == ("intra", "inter")
    assert knobs["UCX_MEM_CUDA_RELOC"].deprecated
    assert knobs["UCX_MAX_RNDV_LANES"].inherits == ("UCX_MAX_RNDV_RAILS",)


@pytest.mark.parametrize(
    ("syntax", "kind", "allowed", "keys"),
    [
        ('memory units: <number>[b|kb|mb|gb], "inf", or "auto"', KnobKind.BYTES, ("inf", "auto"), ()),
        ("<y|n>", KnobKind.BOOLEAN, ("y", "n"), ()),
        ("<yes|no|try>", KnobKind.ENUMERATOR, ("yes", "no", "try"), ()),
        ("[auto|get_zcopy]", KnobKind.ENUMERATOR, ("auto", "get_zcopy"), ()),
        ("unsigned integer", KnobKind.INTEGER, (), ()),
        ('unsigned long: <number>, "inf", or "auto"', KnobKind.INTEGER, ("inf", "auto"), ()),
        ('positive floating point number or "auto"', KnobKind.REAL, ("auto",), ()),
        ('time value: <number>[m|s|ms|us|ns], "inf", or "auto"', KnobKind.DURATION, ("inf", "auto"), ()),
        ('bandwidth value: <number>[T|G|M|K]B|b[[p|/]s] or "auto"', KnobKind.BANDWIDTH, ("auto",), ()),
        ("comma-separated list of: [thp|md|heap]", KnobKind.LIST, ("thp", "md", "heap"), ()),
        ("comma-separated list of: string", KnobKind.LIST, (), ()),
        ("comma-separated list (use \"all\" for including all items or '^' for negation) of: string",
         KnobKind.LIST, (), ()),
        ("comma-separated list of value or key:value pairs, where key is one of [a,b] and value is: "
         "time value: <number>[m|s|ms|us|ns]. A value without a key is the default.",
         KnobKind.DURATION, (), ("a", "b")),
        ("system signal (number or SIGxxx)", KnobKind.TEXT, (), ()),
    ],
)  # fmt: skip
def test_syntaxes_of_ucx(syntax, kind, allowed, keys):
    assert ucx.kind_of(syntax) == (kind, allowed, keys)


def test_libfabric_counts_what_providers_repeat_once():
    document = {
        "version": "2.5",
        "parameters": [
            ("FI_TCP_TX_SIZE", 3, "tcp: define default tx context size (default: 256)"),
            ("FI_HMEM", 0, "List of hmem interfaces (default: all available interfaces)"),
            ("FI_HMEM", 0, "List of hmem interfaces"),
            ("FI_SHM_DISABLE_CMA", 2, "shm: Manually disables CMA. Default: false"),
            ("FI_NEW", 9, "a type of tomorrow"),
        ],
    }
    knobs = by_name(libfabric.parse(document))
    assert (knobs["FI_TCP_TX_SIZE"].kind, knobs["FI_TCP_TX_SIZE"].default) == (KnobKind.BYTES, "256")
    assert (knobs["FI_TCP_TX_SIZE"].component, knobs["FI_HMEM"].component) == ("tcp", "")
    assert knobs["FI_SHM_DISABLE_CMA"].allowed == ("0", "1")
    assert knobs["FI_NEW"].kind is KnobKind.TEXT


COMPOSITION = (
    "Select composition (inter_node + intra_node) for Reduce 0 Auto selection 1 NM + SHM with explicit "
    "send-recv between rank 0 and root 2 NM only"
)
"""As MPICH 5.0.2 declares it, without line breaks."""


def test_mpich_has_words_numbers_and_switches_in_its_descriptions():
    algorithm = "Variable to select\nauto - Internal selection\nring - Force ring\n"
    tree = "Tree type\nkary - kary tree\nknomial_1 - knomial tree\n"
    composition = "Select composition\n0 Auto selection\n1 NM + SHM\n"
    document = {
        "version": "5.0.2",
        "variables": [
            ("A_INTRA_ALGORITHM", "int", "1", "COLLECTIVE", algorithm),
            ("A_TREE_TYPE", "text", "kary", "COLLECTIVE", tree),
            ("A_COMPOSITION", "int", "0", "COLLECTIVE", composition),
            ("B_COMPOSITION", "int", "0", "COLLECTIVE", COMPOSITION),
            ("A_CMA_ENABLE", "int", "1", "CH4", "Set to 1 to manually enable CMA."),
            ("A_KVAL", "int", "2", "COLLECTIVE", "k value"),
            ("A_PORT_RANGE", "range", "0:0", "CH3", "a range of ports"),
        ],
    }
    knobs = by_name(mpich.parse(document))
    assert knobs["A_INTRA_ALGORITHM"].default == "ring"
    assert knobs["A_INTRA_ALGORITHM"].allowed == ("auto", "ring")
    assert knobs["A_TREE_TYPE"].kind is KnobKind.ENUMERATOR
    assert knobs["A_COMPOSITION"].allowed == ("0", "1")
    assert knobs["B_COMPOSITION"].allowed == ("0", "1", "2")
    assert knobs["A_CMA_ENABLE"].kind is KnobKind.BOOLEAN
    assert (knobs["A_KVAL"].kind, knobs["A_KVAL"].component) == (KnobKind.INTEGER, "collective")
    assert knobs["A_PORT_RANGE"].kind is KnobKind.TEXT


def test_a_launch_says_what_it_uses():
    log = (
        "[vm:1] select: component ob1 selected\n"
        "[vm:1] mca: bml: Using self btl for send to [[1,1],0] on node vm\n"
        "[vm:1] mca: bml: Using sm btl for send to [[1,1],1] on node vm\n"
        "[vm:1] coll:base:comm_select: selecting       tuned, priority  30, Enabled\n"
        "[vm:1] coll:base:comm_select: selecting          sm, priority   0, Disabled\n"
        "[1.2] [vm:1:0]  ucp_worker.c:1 UCX  INFO  ctx self cfg#0 tag(self/memory cma/memory)\n"
        "[1.2] [vm:1:0]  ucp_worker.c:1 UCX  INFO  ctx intra-node cfg#1 tag(sysv/memory cma/memory)\n"
    )
    assert facts_in_log(log) == {
        *("pml_in_use:ob1", "btl_in_use:sm", "coll_in_use:tuned"),
        *("ucx_lane:sysv", "ucx_lane:cma", "ucx_lane:mm", "ucx_lane:sm", "ucx_lane:scopy"),
    }


@pytest.mark.parametrize("where", ["ctx inter-node cfg#1", "ep_cfg[1]:"])
def test_a_network_card_registers_memory(where):
    own = "[1.2] [vm:1:0]  ucp_worker.c:1 UCX  INFO  ep_cfg[0]: tag(self/memory0 cma/memory)\n"
    lane = f"[1.2] [vm:1:0]  ucp_worker.c:1 UCX  INFO  {where} tag(rc_mlx5/mlx5_0:1)\n"
    assert facts_in_log(own + lane) == {"ucx_lane:rc_mlx5", "ucx_lane:rc", "ucx_lane:ib", "rdma"}


INTEL = """\
I_MPI_SHM_CMA
  MPI Datatype:
    MPI_INT
  Description:
    Enable or disable CMA.
I_MPI_SHM_SPIN
  MPI Datatype:
    MPI_DOUBLE
  Description:
    Control the spin count for sending me
   ssages.
   Verbosity:
    expert
I_MPI_COLL_INTRANODE
  MPI Datatype:
    MPI_CHAR
"""
TABLE = """\
 | NAME                          | DEFAULT VALUE  | DATA TYPE   |
 ================================================================
 | I_MPI_SHM_CMA                 | not defined    | MPI_INT     |
 | I_MPI_SHM_SPIN                | -1             | MPI_DOUBLE  |
"""


def test_intel_mpi():
    cma, spin, coll = intelmpi.parse(INTEL, TABLE, "2021.18")
    assert (cma.name, cma.kind, cma.default, cma.version) == (
        "I_MPI_SHM_CMA",
        KnobKind.INTEGER,
        "",
        "2021.18",
    )
    assert (spin.kind, spin.default) == (KnobKind.REAL, "-1")
    assert spin.documentation == "Control the spin count for sending messages."
    assert (coll.name, coll.kind, coll.documentation) == ("I_MPI_COLL_INTRANODE", KnobKind.TEXT, "")
