"""The space: conditions, points, choices, fixing, restricting, encoding, and its file."""

import numpy as np
import pytest

from autotune.errors import SpaceError
from autotune.resources import folder, space_text
from autotune.space import Level, Parameter, Point, Space, encode, size_in_bytes
from autotune.space.loader import load_space, space_document, space_of

TLS = Parameter("tls", ("all", "posix", "tcp"), "all")
RNDV = Parameter("rndv", ("auto", "4k", "64k"), "auto", ordered=True, when={"tls": ("posix", "tcp")})
ALGORITHM = Parameter("algorithm", ("default", "ring"), "default", level=Level.CALL, per_size=True)
SEGSIZE = Parameter(
    "segsize", (0, 1024), 0, level=Level.CALL, per_size=True, ordered=True, when={"algorithm": ("ring",)}
)
SPACE = Space("small", (TLS, RNDV, ALGORITHM, SEGSIZE))


@pytest.mark.parametrize(
    ("text", "number"),
    [("4k", 4096), ("1m", 2**20), ("64KiB", 65536), ("2.5k", 2560), (7, 7), ("auto", None), ("k", None)],
)
def test_sizes_are_read_with_binary_units(text, number):
    assert size_in_bytes(text) == number


def test_points_leave_out_what_is_not_active():
    assert SPACE.default == Point.of({"tls": "all"})
    assert list(SPACE.points()) == [
        Point.of({"tls": "all"}),
        *(Point.of({"tls": t, "rndv": r}) for t in ("posix", "tcp") for r in ("auto", "4k", "64k")),
    ]
    assert SPACE.complete({"tls": "all", "rndv": "4k"}) == SPACE.default
    assert SPACE.unset == Point.of({"tls": "all", "rndv": "auto"})


def test_choices_follow_their_own_conditions():
    assert SPACE.choices("allreduce") == (
        Point.of({"algorithm": "default"}),
        Point.of({"algorithm": "ring", "segsize": 0}),
        Point.of({"algorithm": "ring", "segsize": 1024}),
    )


def test_choices_can_depend_on_the_job():
    gated = Parameter("alg", ("default", "ring"), "default", level=Level.CALL, when={"tls": ("tcp",)})
    space = Space("gated", (TLS, gated))
    assert space.choices("bcast", Point.of({"tls": "all"})) == (Point(),)
    assert len(space.choices("bcast", Point.of({"tls": "tcp"}))) == 2


def test_a_condition_may_hold_where_its_parent_is_missing_and_for_some_collectives_always():
    text = """
parameters:
  component: {values: [han, tuned], requires: ["nodes:2"]}
  algorithm:
    level: call
    when: {component: [tuned, null]}
    always: [alltoall]
    collectives: {bcast: [default, ring], alltoall: [default, ring]}
"""
    alone = load_space(text, "t").restrict(frozenset({"nodes:1"}))
    space = load_space(text, "t").restrict(frozenset({"nodes:1", "nodes:2"}))
    assert space_of(space_document(space)) == space
    swept = {
        (what, kind): len(one.choices(kind, Point.of(point)))
        for what, one, point in (("alone", alone, {}), ("han", space, {"component": "han"}))
        for kind in ("bcast", "alltoall")
    }
    assert {key for key, choices in swept.items() if choices == 1} == {("han", "bcast")}
    assert len(space.choices("bcast", Point.of({"component": "tuned"}))) == 2


def test_membership_and_neighbours():
    point = Point.of({"tls": "posix", "rndv": "4k"})
    assert point in SPACE
    assert Point.of({"tls": "posix"}) not in SPACE
    assert Point.of({"tls": "all", "rndv": "4k"}) not in SPACE
    assert set(SPACE.neighbours(point)) == {
        SPACE.default,
        Point.of({"tls": "tcp", "rndv": "4k"}),
        Point.of({"tls": "posix", "rndv": "auto"}),
        Point.of({"tls": "posix", "rndv": "64k"}),
    }


def test_a_point_outside_has_the_neighbours_of_what_it_becomes_inside():
    held = SPACE.fix({"rndv": "auto"})
    outside = Point.of({"tls": "posix", "rndv": "4k"})
    assert outside not in held
    assert set(held.neighbours(outside)) == {
        held.default,
        Point.of({"tls": "posix", "rndv": "auto"}),
        Point.of({"tls": "tcp", "rndv": "auto"}),
    }


def test_draws_are_distinct_members_and_depend_on_the_generator_alone():
    one = SPACE.draw(np.random.default_rng(3), 5)
    assert one == SPACE.draw(np.random.default_rng(3), 5)
    assert len(set(one)) == 5
    assert all(point in SPACE for point in one)


def test_fixing_a_parent_removes_children_that_cannot_be_active():
    assert [p.name for p in SPACE.fix({"tls": "all"}).job] == ["tls"]
    fixed = SPACE.fix({"tls": "tcp"})
    assert list(fixed.points()) == [Point.of({"tls": "tcp", "rndv": r}) for r in ("auto", "4k", "64k")]


def test_a_machine_keeps_what_it_has_and_says_what_it_has_not():
    tls = Parameter("tls", ("all", "rc", "tcp"), "all", value_requires={"rc": ("ucx_tl:rc",)})
    hcoll = Parameter("hcoll", ("off", "on"), "off", requires=("coll:hcoll",))
    child = Parameter("level", (1, 2), 1, when={"hcoll": ("on",)})
    space = Space("wide", (tls, hcoll, child)).restrict(frozenset({"ucx_tl:tcp"}))
    assert [p.name for p in space.parameters] == ["tls"]
    assert space["tls"].values == ("all", "tcp")
    assert [(d.parameter, d.value, d.reason) for d in space.dropped] == [
        ("tls", "rc", "needs ucx_tl:rc"),
        ("hcoll", None, "needs coll:hcoll"),
        ("level", None, "depends on hcoll, not available here"),
    ]


def test_a_child_that_wants_the_default_of_a_missing_parent_stays():
    hcoll = Parameter("hcoll", ("off", "on"), "off", requires=("coll:hcoll",))
    tuned = Parameter("fanout", (2, 4), 2, when={"hcoll": ("off",)})
    space = Space("wide", (hcoll, tuned)).restrict(frozenset())
    assert [p.name for p in space.parameters] == ["fanout"]
    assert space.default == Point.of({"fanout": 2})


def test_encoding_separates_the_scale_from_what_stands_beside_it():
    points = [SPACE.default, *(Point.of({"tls": "tcp", "rndv": r}) for r in ("auto", "4k", "64k"))]
    x = encode(SPACE, points)
    assert x.shape == (4, 6)  # three transports, position, "auto", "not active"
    assert len({tuple(row) for row in x}) == 4
    assert x[2:, 3].tolist() == [0.0, 1.0]
    assert x[:, 5].tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Parameter("x", (), 1), "no values"),
        (lambda: Parameter("x", (1, 1), 1), "twice"),
        (lambda: Parameter("x", (1, 2), 3), "default"),
        (lambda: Space("s", (TLS, TLS)), "twice"),
        (lambda: Space("s", (RNDV, TLS)), "earlier"),
        (lambda: SPACE.complete({"tsl": "all"}), "did you mean 'tls'"),
        (lambda: SPACE.complete({"tls": "ib"}), "all, posix, tcp"),
        (lambda: SPACE.fix({"tls": "ib"}), "allowed: all"),
        (lambda: SPACE["nothing"], "tls, rndv"),
    ],
)
def test_mistakes_are_named_with_what_is_allowed(make, words):
    with pytest.raises(SpaceError, match=words):
        make()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "no YAML"),
        ("- 1", "must be a mapping"),
        ("parameter: {}", "unknown key 'parameter'"),
        ("parameters: {}", "no parameters"),
        ("parameters: {x: 3}", "must be a mapping"),
        ("parameters: {x: {value: [1]}}", "unknown key 'value'"),
        ("parameters: {x: {values: [1], level: job}}", "call, launch, boot"),
        ("parameters: {x: {values: [[1]]}}", "allowed: text, numbers"),
        ("parameters: {x: {values: [1], ordered: 3}}", "true, false"),
        ("parameters: {x: {values: [a], apply: {evn: {A: '1'}}}}", "did you mean 'env'"),
        (
            "parameters: {x: {values: [a, b], apply: {a: {env: {A: '1'}}, c: {env: {}}}}}",
            "none of its values",
        ),
    ],
)
def test_a_file_with_a_mistake_is_refused(text, words):
    with pytest.raises(SpaceError, match=words):
        load_space(text, "mine")


@pytest.mark.parametrize("name", [p.stem for p in sorted(folder("search_spaces").glob("*.yaml"))])
def test_shipped_spaces_load_and_survive_the_journal(name):
    space = load_space(space_text(name), name)
    again = space_of(space_document(space))
    assert again == space
    assert again.fingerprint == space.fingerprint
    assert space.default in space


def test_an_unknown_space_lists_the_shipped_ones():
    with pytest.raises(SpaceError, match="did you mean 'openmpi_ucx_local'"):
        space_text("openmpi_ucx_locl")
