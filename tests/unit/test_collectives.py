"""The table of collectives, and that there is no other."""

import re
from pathlib import Path

import pytest

from autotune.collectives import COLLECTIVES, PATTERNS, Lookup, Pattern, Size, called

ROOT = Path(__file__).parents[2]
_SOURCES = (".py", ".c", ".h", ".toml")


def files(*suffixes):
    """The sources of these kinds, by their paths in the project."""
    for folder in ("autotune", "launchers", "plugins"):
        yield from (p.relative_to(ROOT) for p in (ROOT / folder).rglob("*.*") if p.suffix in suffixes)


def test_an_entry_says_nothing_twice_and_nothing_of_what_is_not_there():
    for name, collective in COLLECTIVES.items():
        if theirs := collective.openmpi:
            assert len(set(theirs.algorithms)) == len(theirs.algorithms), name
            assert {*theirs.own_names, *theirs.since} <= set(theirs.algorithms), name
        if collective.mpich:
            assert not set(collective.mpich.algorithms) & set(collective.mpich.forcible), name
        assert len(set(collective.intel)) == len(collective.intel), name


def test_ids_and_aliases_are_one_to_one():
    ids = [c.openmpi.id for c in COLLECTIVES.values() if c.openmpi]
    assert sorted(ids) == list(range(17))
    words = [word for c in COLLECTIVES.values() for word in (c.name, *c.aliases)]
    assert len(set(words)) == len(words)


def test_only_what_carries_data_has_a_size():
    assert [name for name, c in COLLECTIVES.items() if c.size is Size.NONE] == ["barrier"]
    assert COLLECTIVES["barrier"].openmpi.lookup is Lookup.NOTHING


def test_no_rules_choose_for_a_pattern():
    assert {COLLECTIVES[name].pattern for name in PATTERNS} == {
        *(Pattern.PAIR, Pattern.PAIRS, Pattern.NEIGHBOURS, Pattern.ONE_SIDED, Pattern.NONBLOCKING)
    }
    for pattern in map(COLLECTIVES.__getitem__, PATTERNS):
        assert not (pattern.openmpi or pattern.mpich or pattern.intel or pattern.costs), pattern.name
        assert not pattern.overlaps or not COLLECTIVES[pattern.overlaps].overlaps


def test_a_non_blocking_call_is_not_taken_for_its_pattern():
    """What an application computes between the two calls of its own is not what is computed here."""
    assert called("MPI_Iallreduce") == ""


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("MPI_Bcast", "bcast"),
        ("Broadcast", "bcast"),
        ("all-to-all", "alltoall"),
        ("Unidir_Put", "put"),
        ("gossip", ""),
        ("", ""),
    ],
)
def test_a_collective_has_other_names_too(title, name):
    assert called(title) == name


def test_a_pattern_stands_in_four_files():
    """Its entry, its call in C, its declaration, its model; names that are no other word.

    One that measures calls of recordings stands beside these calls too.
    """
    texts = {path.as_posix(): (ROOT / path).read_text() for path in files(*_SOURCES)}
    known = {"collectives.toml", "probe/kernel.c", "probe/messages.py", "simulate/messages.py"}
    for pattern in (name for name in PATTERNS if "_" in name or name in ("multipair", "halo3d")):
        word = re.compile(rf"\b(OP_)?{pattern}\b", re.IGNORECASE)
        found = {name.removeprefix("autotune/") for name, text in texts.items() if word.search(text)}
        assert {"collectives.toml", "probe/kernel.c"} <= found - {"application/recorded_time.py"} <= known


def test_no_other_module_lists_the_collectives():
    """But for what is called, switched in a run, has a model, parameters or fixed rules, and UCC's names."""
    assert {path.as_posix() for path in files(".py") if "reduce_scatter" in (ROOT / path).read_text()} == {
        *("autotune/lint/explained.py", "autotune/lint/settings.py", "autotune/probe/operations.py"),
        *("autotune/simulate/algorithms.py", "autotune/simulate/components.py"),
        *("autotune/stacks/fixed_rules.py", "autotune/stacks/switched.py"),
        "plugins/autotune_formats/ucc_grammar.py",
    }
