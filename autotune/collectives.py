"""The table of collectives: everything that is known about one stands in its entry, and nowhere else.

Adding one takes its entry here, a timed call in ``probe/kernel.c`` and its declaration in
``probe/operations.py``; a model of it in ``simulate/algorithms.py`` is optional.

Names are MPI's without the prefix, in lower case. Algorithms of Open MPI were read in the sources of 4.1.8,
5.0.10 and the main branch (6.x), those of MPICH in the sources of 5.0, those of Intel MPI in its developer
reference (*I_MPI_ADJUST family*).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Size(StrEnum):
    """What a message size counts, here as in the OSU benchmarks."""

    VECTOR = "vector"
    """The whole vector of a rank."""
    BLOCK = "block"
    """The block that a rank gives or gets."""
    PEER = "peer"
    """The block that a rank has for each other rank."""
    MESSAGE = "message"
    """The one message."""
    NONE = "none"
    """Nothing: it carries no data and counts as 0 bytes."""


class Pattern(StrEnum):
    """Who sends to whom."""

    ONE_TO_ALL = "one_to_all"
    ALL_TO_ONE = "all_to_one"
    ALL_TO_ALL = "all_to_all"
    PAIR = "pair"
    """The first and the last rank send to each other."""
    ONE_SIDED = "one_sided"
    """The first rank reads or writes the last one's memory."""


class Lookup(StrEnum):
    """What a row of a ``coll_tuned`` rules file is compared with."""

    SIZE = "bytes per rank"
    """The message size as it is counted here."""
    TOTAL = "bytes of all blocks"
    """The block times the communicator size."""
    ROOT = "bytes of all blocks, which not all ranks know"
    """As ``TOTAL``, but ranks can disagree (``scatter`` looks up the send count, which only the root has;
    ``gather`` one that a root with MPI_IN_PLACE has not): they would run different algorithms, and wait for
    each other for ever."""
    NOTHING = "0"
    """Always 0 bytes, or a number without the count (``scan``, ``exscan``)."""


@dataclass(frozen=True, slots=True)
class OpenMpi:
    """A collective in Open MPI."""

    id: int
    """Its number in rules files."""
    algorithms: tuple[str, ...] = ()
    """Of ``coll_tuned``, by id from 1; without any there is no choice."""
    lookup: Lookup = Lookup.NOTHING
    """What rules files compare."""
    own_names: Mapping[str, str] = field(default_factory=dict)
    """What Open MPI itself calls an algorithm, where its name is not ours."""
    since: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """First version (major, minor) of the algorithms that have not always been there."""
    han: bool = False
    """Whether ``coll_han`` has dynamic rules for it."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """What Open MPI 6 calls an algorithm that 5.0 called otherwise; a JSON rule by the old name is void."""


@dataclass(frozen=True, slots=True)
class Mpich:
    """A collective in MPICH."""

    algorithms: Mapping[str, tuple[str, ...]]
    """Algorithm without parameters of its own → what it needs, in the words of ``stacks.mpich``."""
    forcible: tuple[str, ...] = ()
    """Further ones, which a variable can force but a selection tree cannot name without their parameters."""
    size: str = "avg_msg_size"
    """What a selection tree can ask for its size: any other condition aborts. Empty: nothing."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective, or an operation between two ranks that is tuned like one."""

    name: str
    """MPI's, lower case."""
    size: Size
    """What its message size counts."""
    pattern: Pattern
    """Who sends to whom."""
    aliases: tuple[str, ...] = ()
    """What benchmarks and profilers also call it, lower case, without ``mpi_``."""
    measured: bool = True
    """Whether the probe can measure it."""
    costs: str = ""
    """Which formulas of ``proposers.priors`` tell what its algorithms cost; empty: none does."""
    openmpi: OpenMpi | None = None
    """In Open MPI; None: it has no algorithms there."""
    mpich: Mpich | None = None
    """In MPICH."""
    intel: tuple[str, ...] = ()
    """Algorithms of Intel MPI, by id from 1."""
    nccl: str = ""
    """What NCCL's tuner calls it; empty: it knows none."""
    composed: str = ""
    """What together does the same: ways apart by blanks; ``/p``, ``*p``: sizes by the number of ranks p."""

    @property
    def sums(self) -> bool:
        """Whether it reduces, so that its result can depend on the order of operands."""
        return self.name in _SUMMING


_SUMMING = frozenset(
    ("allreduce", "reduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan", "accumulate")
)


def _words(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_BASIC = {"linear": "basic_linear"}
_COMMUTATIVE = {
    "pairwise": ("commutative",),
    "recursive_doubling": (),
    "recursive_halving": ("commutative",),
}

_TOTAL = "total_msg_size"

_ALL = (
    Collective(
        "allreduce",
        Size.VECTOR,
        Pattern.ALL_TO_ALL,
        nccl="allreduce",
        composed="reduce+bcast reduce_scatter_block/p+allgather/p "
        "reduce_scatter/p+allgather/p reduce_scatter/p+allgatherv/p",
        costs="allreduce",
        openmpi=OpenMpi(
            2,
            _words(
                "linear nonoverlapping recursive_doubling ring segmented_ring rabenseifner allgather_reduce"
            ),
            Lookup.SIZE,
            _BASIC,
            {"allgather_reduce": (6, 0)},
            han=True,
        ),
        mpich=Mpich(
            {
                "smp": ("commutative", "parent"),
                "recursive_doubling": (),
                "reduce_scatter_allgather": ("built_in", "count"),
                "ring": ("commutative",),
            },
            _words("recursive_multiplying tree recexch k_reduce_scatter_allgather"),
        ),
        intel=_words(
            "recursive_doubling rabenseifner reduce_bcast topology_reduce_bcast binomial_gather_scatter "
            "topology_binomial_gather_scatter shumilin_ring ring knomial"
        ),
    ),
    Collective(
        "reduce",
        Size.VECTOR,
        Pattern.ALL_TO_ONE,
        nccl="reduce",
        composed="allreduce reduce_scatter_block/p+gather/p "
        "reduce_scatter/p+gather/p reduce_scatter/p+gatherv/p",
        costs="rooted",
        openmpi=OpenMpi(
            11,
            _words("linear chain pipeline binary binomial in_order_binary rabenseifner knomial"),
            Lookup.SIZE,
            {"in_order_binary": "in-order_binary"},
            {"knomial": (6, 0)},
            han=True,
        ),
        mpich=Mpich(
            {
                "binomial": (),
                "smp": ("commutative", "parent"),
                "reduce_scatter_gather": ("built_in", "count"),
            },
            ("circ_graph",),
        ),
        intel=_words("shumilin binomial topology_shumilin topology_binomial rabenseifner"),
    ),
    Collective(
        "bcast",
        Size.VECTOR,
        Pattern.ONE_TO_ALL,
        nccl="broadcast",
        composed="scatter/p+allgather/p",
        aliases=("broadcast",),
        costs="rooted",
        openmpi=OpenMpi(
            7,
            _words(
                "linear chain pipeline split_binary binary binomial knomial scatter_allgather "
                "scatter_allgather_ring"
            ),
            Lookup.SIZE,
            {**_BASIC, "split_binary": "split_binary_tree", "binary": "binary_tree"},
            han=True,
        ),
        mpich=Mpich(
            {
                "binomial": (),
                "scatter_recursive_doubling_allgather": (),
                "scatter_ring_allgather": (),
                "smp": ("parent",),
            },
            _words("tree pipelined_tree circ_graph"),
        ),
        intel=_words(
            "binomial recursive_doubling ring topology_binomial topology_recursive_doubling topology_ring "
            "shumilin knomial"
        ),
    ),
    Collective(
        "allgather",
        Size.BLOCK,
        Pattern.ALL_TO_ALL,
        nccl="allgather",
        composed="gather+bcast*p allgatherv alltoall allreduce*p",
        costs="blocks",
        openmpi=OpenMpi(
            0,
            _words("linear bruck recursive_doubling ring neighbor two_proc sparbit direct"),
            Lookup.TOTAL,
            {"direct": "direct-messaging"},
            {"sparbit": (5, 0), "direct": (6, 0)},
            han=True,
            renamed={"bruck": "bruck-k-fanout"},
        ),
        mpich=Mpich(
            {"brucks": (), "recursive_doubling": ("pow2",), "ring": ()},
            _words("k_brucks recexch_doubling recexch_halving circ_graph"),
            _TOTAL,
        ),
        intel=_words("recursive_doubling bruck ring topology_gatherv_bcast knomial"),
    ),
    Collective(
        "allgatherv",
        Size.BLOCK,
        Pattern.ALL_TO_ALL,
        costs="blocks",
        openmpi=OpenMpi(
            1,
            _words("linear bruck ring neighbor two_proc sparbit"),
            Lookup.SIZE,
            {"linear": "default"},
            {"sparbit": (5, 0)},
            han=True,
        ),
        mpich=Mpich({"brucks": (), "recursive_doubling": ("pow2",), "ring": ()}, size=_TOTAL),
        intel=_words("recursive_doubling bruck ring topology_gatherv_bcast"),
    ),
    Collective(
        "alltoall",
        Size.PEER,
        Pattern.ALL_TO_ALL,
        composed="alltoallv allgather*p",
        aliases=("all-to-all",),
        costs="alltoall",
        openmpi=OpenMpi(3, _words("linear pairwise modified_bruck linear_sync two_proc"), Lookup.TOTAL),
        mpich=Mpich(
            {"brucks": ("no_inplace",), "pairwise": ("no_inplace",), "scattered": ("no_inplace",)},
            ("k_brucks",),
        ),
        intel=_words("bruck isend_irecv pairwise plum"),
    ),
    Collective(
        "alltoallv",
        Size.PEER,
        Pattern.ALL_TO_ALL,
        composed="alltoallw",
        aliases=("all-to-allv",),
        costs="alltoall",
        openmpi=OpenMpi(4, ("linear", "pairwise"), own_names=_BASIC),
        mpich=Mpich({"scattered": ("no_inplace",)}, size=_TOTAL),
    ),
    Collective(
        "alltoallw",
        Size.PEER,
        Pattern.ALL_TO_ALL,
        aliases=("all-to-allw",),
        measured=False,
        openmpi=OpenMpi(5),
    ),
    Collective(
        "gather",
        Size.BLOCK,
        Pattern.ALL_TO_ONE,
        composed="gatherv allgather reduce*p",
        costs="blocks",
        openmpi=OpenMpi(9, ("linear", "binomial", "linear_sync"), Lookup.ROOT, _BASIC, han=True),
        mpich=Mpich({"binomial": ()}, size=_TOTAL),
        intel=_words("binomial topology_binomial shumilin"),
    ),
    Collective("gatherv", Size.BLOCK, Pattern.ALL_TO_ONE, measured=False, openmpi=OpenMpi(10)),
    Collective(
        "scatter",
        Size.BLOCK,
        Pattern.ONE_TO_ALL,
        composed="scatterv bcast*p",
        costs="blocks",
        openmpi=OpenMpi(15, ("linear", "binomial", "linear_nb"), Lookup.ROOT, _BASIC, han=True),
        mpich=Mpich({"binomial": ()}, size=_TOTAL),
        intel=_words("binomial topology_binomial shumilin"),
    ),
    Collective("scatterv", Size.BLOCK, Pattern.ONE_TO_ALL, measured=False, openmpi=OpenMpi(16)),
    Collective(
        "reduce_scatter",
        Size.BLOCK,
        Pattern.ALL_TO_ALL,
        composed="reduce*p+scatterv allreduce*p",
        costs="blocks",
        openmpi=OpenMpi(
            12,
            _words("nonoverlapping recursive_halving ring butterfly"),
            Lookup.TOTAL,
            {"nonoverlapping": "non-overlapping"},
        ),
        mpich=Mpich({"noncommutative": (), **_COMMUTATIVE}, size=_TOTAL),
        intel=_words(
            "recursive_halving pairwise recursive_doubling reduce_scatterv topology_reduce_scatterv"
        ),
    ),
    Collective(
        "reduce_scatter_block",
        Size.BLOCK,
        Pattern.ALL_TO_ALL,
        nccl="reducescatter",
        composed="reduce_scatter reduce*p+scatter allreduce*p",
        costs="blocks",
        openmpi=OpenMpi(
            13, _words("linear recursive_doubling recursive_halving butterfly"), Lookup.TOTAL, _BASIC
        ),
        mpich=Mpich({"noncommutative": ("pow2",), **_COMMUTATIVE}, size=_TOTAL),
    ),
    Collective(
        "barrier",
        Size.NONE,
        Pattern.ALL_TO_ALL,
        composed="allreduce",
        openmpi=OpenMpi(6, _words("linear double_ring recursive_doubling bruck two_proc tree"), han=True),
        mpich=Mpich({"smp": ("parent",)}, ("k_dissemination", "recexch"), size=""),
        intel=_words(
            "dissemination recursive_doubling topology_dissemination topology_recursive_doubling "
            "binomial_gather_scatter topology_binomial_gather_scatter"
        ),
    ),
    Collective(
        "scan",
        Size.VECTOR,
        Pattern.ALL_TO_ALL,
        openmpi=OpenMpi(14, ("linear", "recursive_doubling")),
        mpich=Mpich({"smp": ("consecutive",), "recursive_doubling": ()}, size=""),
        intel=("partial_results_gathering", "topology_partial_results_gathering"),
    ),
    Collective(
        "exscan",
        Size.VECTOR,
        Pattern.ALL_TO_ALL,
        openmpi=OpenMpi(8, ("linear", "recursive_doubling")),
        mpich=Mpich({"recursive_doubling": ()}, size=""),
        intel=("partial_results_gathering", "partial_results_gathering_layout"),
    ),
    Collective("pingpong", Size.MESSAGE, Pattern.PAIR, aliases=("latency",)),
    Collective("put", Size.MESSAGE, Pattern.ONE_SIDED, aliases=("put bandwidth", "unidir_put")),
    Collective("get", Size.MESSAGE, Pattern.ONE_SIDED, aliases=("get bandwidth", "unidir_get")),
    Collective("accumulate", Size.MESSAGE, Pattern.ONE_SIDED),
)

COLLECTIVES: Mapping[str, Collective] = {collective.name: collective for collective in _ALL}
"""All of them by name."""

MEASURED: tuple[str, ...] = tuple(collective.name for collective in _ALL if collective.measured)
"""Names of those that the probe can measure; it numbers them so in its kernel."""

_CALLED = {alias: c.name for c in _ALL for alias in (c.name, *c.aliases)}


def called(title: str) -> str:
    """The collective that a benchmark or a profiler calls so; empty where it is none of them."""
    return _CALLED.get(title.lower().removeprefix("mpi_"), "")
