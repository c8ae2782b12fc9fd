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
