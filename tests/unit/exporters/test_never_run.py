"""Formats of libraries that are not here: a reader of their grammar finds in them what was recommended."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UserError
from autotune.exporters import exporter
from autotune.history.lookup import choice_at
from autotune.history.trial import Rule
from autotune.recommend.recommendation import Provenance, Recommendation
from autotune.space import Point
from autotune_formats import ucc_grammar as ucc
from tests.golden.test_exports import PLUGINS, SITE, UCC, exported
from tests.unit.exporters.readers import chosen_by_ucc, holds


@pytest.mark.parametrize("name", PLUGINS)
def test_each_file_says_that_it_was_never_run(name):
    assert all("FORMAT CHECKED, NEVER RUN HERE" in text for text in exported(name).values())
    assert "never run" in exporter(name).summary


def source(ranks, nodes=1, **options):
    return Provenance("c", "2026-11-22", "UCC 1.6", nodes, ranks, **options)


def tables_of(collective, names, key):
    """Rules of one communicator size, from 0 bytes on, some of them empty."""
    choices = st.one_of(st.just(Point()), st.sampled_from(names).map(lambda name: Point.of({key: name})))
    return st.builds(
        lambda ranks, starts, made: [
            Rule(collective, ranks, start, choice)
            for start, choice in zip([0, *sorted(starts)], made, strict=False)
        ],
        st.integers(2, 70),
        st.sets(st.integers(1, 2**20), max_size=4),
        st.lists(choices, min_size=1, max_size=5),
    )


SIZED = {n: c for n, c in ucc.COLLECTIVES.items() if c.counts is not ucc.Counts.NOTHING}
OF_UCC = st.lists(
    st.sampled_from(sorted(SIZED)).flatmap(lambda n: tables_of(n, SIZED[n].algorithms, "ucc_algorithm")),
    min_size=1,
    max_size=4,
    unique_by=lambda table: (table[0].collective, table[0].comm_size),
)


@given(tables=OF_UCC, data=st.data())
def test_a_ucc_conf_gives_each_call_the_algorithm_that_was_recommended(tables, data):
    rules = tuple(rule for table in tables for rule in table)
    ranks = max(rule.comm_size for rule in rules)
    recommended = Recommendation(Point(), rules, provenance=source(ranks))
    if not any(rule.choice for rule in rules):
        return
    (text,) = exporter("ucc_conf").export(recommended, Path("/x")).values()
    _, *parts = ucc.sections(text)
    assert not any(a.meets(b) for i, a in enumerate(parts) for b in parts[:i])
    collective = data.draw(st.sampled_from(sorted({rule.collective for rule in rules})))
    team = data.draw(st.one_of(st.sampled_from([r.comm_size for r in rules]), st.integers(2, 150)))
    size = data.draw(st.one_of(st.sampled_from([r.min_bytes for r in rules]), st.integers(0, 2**21)))
    wanted = str(choice_at(rules, (collective, team, size)).get("ucc_algorithm", ""))
    held = [part for part in parts if holds(part, team_size=team, ppn=team, nnodes=1)]
    # A table holds for other team sizes too: there its thresholds stay where they were measured.
    owner = next((r.comm_size for r in rules if r.collective == collective and r.comm_size == team), 0)
    if ucc.COLLECTIVES[collective].counts is ucc.Counts.TOTAL:
        if not owner:
            return
        size *= team
    assert len(held) <= 1
    found = chosen_by_ucc(held[0].values[ucc.TUNE], collective, size, team) if held else ""
    assert found == wanted


def test_the_line_asks_for_ucc_only_where_something_is_uccs():
    made = exporter("ucc_conf")
    assert "coll_ucc_enable 1" in made.use(UCC, SITE)
    assert "coll_ucc_enable" not in made.use(Recommendation(Point(), (), provenance=source(8)), SITE)


def test_radices_stand_by_size_where_ucc_takes_them_so():
    (text,) = exporter("ucc_conf").export(UCC, SITE).values()
    top, small, world = ucc.sections(text)
    assert top.values == {"UCC_CL_BASIC_TLS": "^sharp,nccl"}
    assert small.values["UCC_TL_UCP_ALLREDUCE_SRA_KN_RADIX"] == "4096-65536:host:4,65536-inf:host:8"
    assert holds(world, team_size=64, ppn=8, nnodes=8)
    assert not holds(world, team_size=64, ppn=4, nnodes=16)
    assert not holds(small, team_size=64, ppn=8, nnodes=8)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        (
            [("alltoallv", 0, {"ucc_algorithm": "hybrid"}), ("alltoallv", 64, {})],
            "no size rules for alltoallv",
        ),
        ([("allreduce", 0, {"ucc_algorithm": "rabenseifner"})], "no allreduce algorithm 'rabenseifner'"),
        ([("scan", 0, {"ucc_algorithm": "linear"})], "UCC has no scan"),
        ([("allreduce", 0, {"algorithm": "ring"})], "no rule of this recommendation is for UCC"),
        ([("allreduce", 0, {"ucc_algorithm": "ring", "ucc_radix": 4})], "takes no radix"),
        (
            [
                ("bcast", 0, {"ucc_algorithm": "knomial", "ucc_radix": 4}),
                ("bcast", 64, {"ucc_algorithm": "knomial", "ucc_radix": 8}),
            ],
            "BCAST_KN_RADIX is one number",
        ),
    ],
)
def test_what_ucc_cannot_say_is_refused(rules, words):
    listed = tuple(Rule(name, 8, size, Point.of(choice)) for name, size, choice in rules)
    with pytest.raises(UserError, match=words):
        exporter("ucc_conf").export(Recommendation(Point(), listed, provenance=source(8)), SITE)
