"""From classed knobs and facts to a space."""

from dataclasses import replace
from pathlib import Path

import pytest

from autotune.errors import SpaceError, StackError
from autotune.space import Level
from autotune.space.loader import space_document, space_of
from autotune.stacks import dialect
from autotune.stacks.installation import Installation
from autotune.stacks.knobs import Knob, KnobKind, classify, discovered_space, ucx
from autotune.stacks.knobs.in_use import between_nodes, facts_in_log, openmpi_in_use
from autotune.stacks.knobs.knob import Way
from autotune.stacks.knobs.listing import job_facts
from autotune.stacks.knobs.rules import load, parse
from autotune.stacks.ports import Placement

FACTS = frozenset(
    {"mpi:openmpi", "pml_in_use:ob1", "pml_built:ob1", "pml_built:ucx", "btl_in_use:sm", "coll:sm"}
    | {"coll_in_use:tuned", "ucx_lane:mm", "ucx_lane:sysv", "ucx_tl:sysv"}
    | job_facts(1, ["allreduce"])
)
SIZES = (8, 4096, 1048576)


def mca(name, component, default="4096", kind=KnobKind.INTEGER, **more):
    return Knob("openmpi", "5.0.11", name, kind, default, component=component, way=Way.MCA, **more)


def env(name, component, default="256", kind=KnobKind.INTEGER, **more):
    return Knob("ucx", "1.20.1", name, kind, default, component=component, **more)


KNOBS = (
    mca("btl_sm_eager_limit", "btl:sm", kind=KnobKind.BYTES),
    mca("btl_vader_eager_limit", "btl:sm", kind=KnobKind.BYTES, inherits=("btl_sm_eager_limit",)),
    mca("btl_tcp_eager_limit", "btl:tcp", kind=KnobKind.BYTES),
    mca("btl_sm_backing_directory", "btl:sm", "/elsewhere", KnobKind.TEXT),
    mca("coll_sm_tree_degree", "coll:sm", "4"),
    mca("coll_sm_priority", "coll:sm", "0"),
    mca("coll_tuned_bcast_algorithm_segmentsize", "coll:tuned", "0"),
    mca("mpool_hugepage_page_size", "mpool:hugepage", "2097152"),
    env("UCX_SYSV_FIFO_SIZE", "sysv", inherits=("UCX_MM_FIFO_SIZE", "UCX_SM_FIFO_SIZE")),
    env("UCX_MM_FIFO_SIZE", "mm", children=("UCX_SYSV_FIFO_SIZE",)),
    env("UCX_TCP_MAX_POLL", "tcp"),
    env("UCX_TLS", "", "all", KnobKind.LIST),
)


def classed():
    return [one for knob in KNOBS for one in classify([knob], load(knob.layer))]


def dropped(space):
    return {d.parameter: d.reason for d in space.dropped if d.value is None}


def test_what_is_in_effect_becomes_a_parameter_and_the_rest_has_a_reason():
    space = discovered_space(classed(), FACTS, SIZES)
    assert " ".join(p.name for p in space.parameters) == (
        "pml btl_sm_eager_limit coll_sm_priority UCX_MM_FIFO_SIZE UCX_TLS coll_sm_tree_degree"
    )
    assert dropped(space) == {
        "btl_vader_eager_limit": "set by btl_sm_eager_limit",
        "btl_tcp_eager_limit": "needs btl_in_use:tcp",
        "coll_tuned_bcast_algorithm_segmentsize": "left to the sweep inside each launch",
        "UCX_SYSV_FIFO_SIZE": "set by UCX_MM_FIFO_SIZE",
        "UCX_TCP_MAX_POLL": "needs ucx_lane:tcp",
    }
    assert all(p.level is Level.LAUNCH for p in space.parameters)
    assert space["UCX_TLS"].values == ("all", "self,sysv")


def test_what_serves_blocking_collectives_alone_is_not_tried_on_a_halo():
    space = discovered_space(classed(), FACTS - job_facts(1, ["allreduce"]) | job_facts(1, ["halo"]), SIZES)
    assert " ".join(p.name for p in space.parameters) == "pml btl_sm_eager_limit UCX_MM_FIFO_SIZE UCX_TLS"
    assert dropped(space)["coll_sm_priority"] == "needs pattern:collective"


def test_conditions_are_derived():
    space = discovered_space(classed(), FACTS, SIZES)
    assert space["pml"].values == ("default", "ucx")
    assert space["btl_sm_eager_limit"].when == {"pml": ("default",)}
    assert space["UCX_MM_FIFO_SIZE"].when == {"pml": ("ucx",)}
    assert space["coll_sm_tree_degree"].when == {"coll_sm_priority": ("95",)}
    assert "UCX_TLS" not in space.default
    over_ucx = discovered_space(classed(), (FACTS - {"pml_in_use:ob1"}) | {"pml_in_use:ucx"}, SIZES)
    assert over_ucx["pml"].values == ("default", "ob1")
    assert over_ucx["UCX_TLS"].when == {"pml": ("default",)}
    assert over_ucx["btl_sm_eager_limit"].when == {"pml": ("ob1",)}


def test_without_a_choice_of_the_pml_what_holds_always_is_no_condition():
    space = discovered_space(classed(), FACTS - {"pml_built:ucx", "coll:sm"}, SIZES)
    assert "pml" not in {p.name for p in space.parameters}
    assert space["btl_sm_eager_limit"].when == {}
    assert dropped(space)["UCX_TLS"] == "in effect only with pml = ucx"
    assert dropped(space)["coll_sm_tree_degree"] == "in effect only with coll_sm_priority = 95"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("btl_sm_backing_directory", "never touched .protected: a limit or a file that can abort a run"),
        ("mpool_hugepage", "no variable 'mpool_hugepage' to include"),
    ],
)
def test_what_is_protected_or_not_there_cannot_be_included(name, message):
    with pytest.raises(SpaceError, match=message) as caught:
        discovered_space(classed(), FACTS, SIZES, include=(name,))
    unknown = "mpool_hugepage_page_size"
    assert unknown in caught.value.hint
    assert unknown in {
        p.name for p in discovered_space(classed(), FACTS, SIZES, include=(unknown,)).parameters
    }


def test_conditions_in_a_circle_are_a_mistake_of_the_rules():
    rules = parse(
        "a: {class: performance, reason: r, match: a, when: {b: '1'}}\n"
        "b: {class: performance, reason: r, match: b, when: {a: '1'}}\n",
        "a test",
    )
    with pytest.raises(SpaceError, match="go in a circle"):
        discovered_space(classify([mca("a", ""), mca("b", "")], rules), FACTS, SIZES)


def test_the_stack_renders_its_points_and_the_journal_keeps_it():
    space = discovered_space(classed(), FACTS, SIZES)
    point = space.complete({"pml": "ucx", "UCX_MM_FIFO_SIZE": 512, "coll_sm_priority": "95"})
    words = dialect(space.stack)
    variables, placement = words.environment(space, point, {})
    assert variables == {
        "OMPI_MCA_pml": "ucx",
        "OMPI_MCA_opal_common_ucx_tls": "any",
        "OMPI_MCA_opal_common_ucx_devices": "any",
        "OMPI_MCA_coll_sm_priority": "95",
        "UCX_MM_FIFO_SIZE": "512",
    }
    assert placement == {}
    assert words.environment(space, space.default, {}) == ({}, {})
    assert space_of(space_document(space)) == space


def test_over_infiniband_the_knobs_of_the_transport_in_use_are_turned():
    listed = Path(__file__).resolve().parents[3] / "data" / "knobs" / "ucx-1.13-infiniband.txt"
    log = "select: component ucx selected\nUCX  INFO  ucp_context_0 inter-node cfg#1 tag(dc_mlx5/mlx5_0:1)\n"
    facts = facts_in_log(log) | {"mpi:openmpi", "pml_built:ucx", "pml:ucx", "nodes:2"}
    space = discovered_space(classify(ucx.parse(listed.read_text()), load("ucx")), facts, SIZES)
    turned = {p.name for p in space.parameters}
    assert {"UCX_DC_NUM_DCI", "UCX_DC_TX_QUEUE_LEN", "UCX_DC_SEG_SIZE", "UCX_IB_REG_METHODS"} <= turned
    assert {"UCX_RC_TX_QUEUE_LEN", "UCX_DC_MLX5_NUM_DCI", "UCX_DC_SL", "UCX_DC_TIMEOUT"}.isdisjoint(turned)


def test_a_parameter_says_whether_it_is_strong_elsewhere_and_which_transports_it_needs():
    space = discovered_space(classed(), FACTS, SIZES)
    strong = {p.name for p in space.parameters if p.strong}
    assert strong == {"btl_sm_eager_limit", "coll_sm_priority", "UCX_TLS"}
    plain = replace(space, parameters=tuple(replace(p, strong=False) for p in space.parameters))
    assert plain.fingerprint == space.fingerprint
    wanted = {f"ucx_lane:{word}" for word in ("all", "mm", "posix", "sm", "sysv", "xpmem")}
    assert set(space["UCX_MM_FIFO_SIZE"].requires) == wanted
    assert not space["btl_sm_eager_limit"].requires


HAN = (
    mca("coll_han_priority", "coll:han", "35"),
    mca("coll_han_bcast_segsize", "coll:han", "65536"),
    mca(
        "coll_han_use_bcast_algorithm",
        "coll:han",
        "default",
        KnobKind.ENUMERATOR,
        allowed=("default", "intra"),
    ),
    *(mca(f"coll_han_bcast_{level}_module", "coll:han", "self", KnobKind.TEXT) for level in ("up", "low")),
)
FOUR_NODES = """\
[cn0:1] select: component ob1 selected
[cn0:1] mca: bml: Using sm btl for send to [[1,1],1] on node cn0
[cn0:1] mca: bml: Using tcp btl for send to [[1,1],2] on node cn1
[cn0:1] coll:base:comm_select: selecting       tuned, priority  30, Enabled
[cn0:1] coll:base:comm_select: selecting         han, priority  35, Enabled
"""
OVER_UCX = """\
[1.2] [cn0:1:0]  ucp_worker.c:1 UCX  INFO  ctx intra-node cfg#1 tag(sysv/memory cma/memory)
[1.2] [cn0:1:0]  ucp_worker.c:1 UCX  INFO  ctx inter-node cfg#2 tag(tcp/eth0)
"""


class Elsewhere:
    """A launcher whose launches print what a test says, by whether UCX is asked for."""

    def __init__(self, by_itself, over_ucx):
        self.printed, self.made = {None: by_itself, "ucx": over_ucx}, []

    def heard(self, program, placement, env):
        self.made.append(placement)
        return self.printed[env.get("OMPI_MCA_pml")]


def test_what_is_in_use_is_asked_of_the_campaigns_own_launches():
    launcher, place = Elsewhere(FOUR_NODES, OVER_UCX), Placement(8, 4, 2)
    here = Installation("openmpi", "5.0.11", Path("/none/mpirun"), Path("/none/libmpi.so"), "site")
    facts = openmpi_in_use(here, {}, place, launcher)
    assert launcher.made == [place, place]
    assert {"coll_in_use:han", "btl_in_use:tcp", "ucx_lane:tcp", "pml_in_use:ob1"} <= facts
    assert "rdma" not in facts
    facts |= {"mpi:openmpi", "pml_built:ob1", "pml_built:ucx", "coll:sm"} | job_facts(4, ["bcast"])
    knobs = [one for knob in (*KNOBS, *HAN) for one in classify([knob], load(knob.layer))]
    space = discovered_space(knobs, facts, SIZES)
    kept = {p.name: p.values for p in space.parameters}
    assert {knob.name for knob in HAN[:3]} | {"btl_tcp_eager_limit", "UCX_TCP_MAX_POLL"} <= kept.keys()


def test_a_launch_that_prints_nothing_known_is_an_error_with_its_last_words():
    here = Installation("openmpi", "5.0.11", Path("/none/mpirun"), Path("/none/libmpi.so"), "site")
    with pytest.raises(StackError, match="does not say which components it selects: no room"):
        openmpi_in_use(here, {}, Placement(8, 4, 2), Elsewhere("no room", ""))


@pytest.mark.parametrize(
    ("built", "kept"),
    [
        (("coll:adapt", "coll:sm"), {"up": ("self", "1"), "low": ("self", "1")}),
        (("coll:sm",), {"low": ("self", "1")}),
        ((), {}),
    ],
)
def test_levels_of_hans_modules_are_places_in_its_tables_and_not_the_names_that_it_takes(built, kept):
    facts = {"mpi:openmpi", "pml_in_use:ob1", "coll_in_use:han", *built, *job_facts(4, ["bcast"])}
    knobs = [one for knob in HAN for one in classify([knob], load(knob.layer))]
    space = discovered_space(knobs, facts, SIZES)
    found = {p.name: p.values for p in space.parameters if p.name.endswith("_module")}
    assert found == {f"coll_han_bcast_{level}_module": values for level, values in kept.items()}


def test_where_no_launch_can_be_made_there_what_only_nodes_use_between_them_counts_as_used():
    components = {"coll:han", "coll:sm", "btl:sm", "btl:tcp", "btl:self"}
    lanes = {f"ucx_lane:{name}" for name in ("tcp", "rc_mlx5", "rc", "ib")}
    used = {"coll_in_use:han", "btl_in_use:tcp", "rdma", *lanes}
    assert between_nodes(components | {"ucx_tl:tcp", "ucx_tl:posix", "ucx_tl:rc_mlx5"}) == used
    assert between_nodes({"coll:sm", "btl:sm", "ucx_tl:sysv"}) == set()
