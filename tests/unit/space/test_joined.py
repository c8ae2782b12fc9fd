"""Discovered knobs beside named parameters, and what is left of both."""

from autotune.space import Level, Parameter, Point, Space
from autotune.space.joined import joined, narrowed

NAMED = Space(
    "named",
    (
        Parameter("bind_to", ("default", "core"), "default"),
        Parameter("algorithm", ("default", "ring"), "default", Level.CALL, True, requires=("coll:tuned",)),
        Parameter("loop", ("a", "b"), "a", Level.CALL, True),
    ),
)
KNOBS = Space(
    "knobs",
    (
        Parameter("coll_sm_priority", ("0", "95"), "0"),
        Parameter("coll_sm_tree_degree", (2, 4, 8), 4, when={"coll_sm_priority": ("95",)}),
        Parameter("coll_han_priority", ("35", "0"), "35"),
    ),
)


def swept(space, **values):
    return {q for point in space.choices("allreduce", space.complete(values)) for q in point}


def test_what_no_call_reaches_is_not_swept():
    space = joined(NAMED, KNOBS)
    assert swept(space) == {"algorithm", "loop"}
    assert swept(space, coll_han_priority="0") == {"algorithm", "loop"}  # it is below now, whatever it was
    assert swept(space, coll_sm_priority="95") == {"loop"}


def test_a_component_that_made_no_difference_leaves_the_sweep_as_it_was():
    space = narrowed(joined(NAMED, KNOBS), {}, ())
    assert space.default == Point()
    assert swept(space) == {"algorithm", "loop"}


def test_what_needs_an_active_knob_keeps_it():
    space = narrowed(joined(NAMED, KNOBS), {"coll_sm_tree_degree": (8,)}, ())
    assert [p.name for p in space.job] == ["coll_sm_priority", "coll_sm_tree_degree"]
    assert swept(space, coll_sm_priority="95") == {"loop"}
    assert swept(space) == {"algorithm", "loop"}


def test_a_knob_of_a_transport_waits_for_lists_that_have_it():
    """Beside another list UCX refuses it, and a discovery would say that launches fail with the knob."""
    lists = ("all", "self,sysv", "self,sysv,cma", "self,sm", "self,tcp")
    named = Space("named", (Parameter("UCX_TLS", lists, "all"),))
    of_lanes = {
        "UCX_SCOPY_BW": ("ucx_lane:all", "ucx_lane:cma", "ucx_lane:scopy", "ucx_lane:sm"),
        "UCX_TCP_RX_SEG_SIZE": ("ucx_lane:all", "ucx_lane:tcp"),
        "UCX_ZCOPY_THRESH": (),
    }
    knobs = Space("knobs", tuple(Parameter(n, (1, 2), 1, requires=needs) for n, needs in of_lanes.items()))
    space = joined(named, knobs)

    def there(value):
        return set(of_lanes) & set(space.complete({"UCX_TLS": value}))

    assert [there(value) for value in lists] == [
        {*of_lanes},
        {"UCX_ZCOPY_THRESH"},
        {"UCX_SCOPY_BW", "UCX_ZCOPY_THRESH"},
        {"UCX_SCOPY_BW", "UCX_ZCOPY_THRESH"},
        {"UCX_TCP_RX_SEG_SIZE", "UCX_ZCOPY_THRESH"},
    ]
    assert [p.name for p in narrowed(space, {"UCX_SCOPY_BW": (2,)}, ()).job] == ["UCX_SCOPY_BW"]
    assert joined(Space("named", ()), knobs).parameters == tuple(
        Parameter(name, (1, 2), 1) for name in of_lanes
    )
    (gone, *_) = joined(Space("named", (Parameter("UCX_TLS", ("self,tcp",), "self,tcp"),)), knobs).dropped
    assert (gone.parameter, gone.reason) == ("UCX_SCOPY_BW", "depends on UCX_TLS, not available here")
