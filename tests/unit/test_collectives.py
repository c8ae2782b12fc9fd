"""The table of collectives, and that there is no other."""

import re
from pathlib import Path

import pytest

from autotune.collectives import COLLECTIVES, PATTERNS, Lookup, Pattern, Size, called

ROOT = Path(__file__).parents[2]
_SOURCES = (".py", ".c", ".h", ".toml")


@pytest.mark.parametrize("collective", COLLECTIVES.values(), ids=COLLECTIVES)
def test_an_entry_says_nothing_twice_and_nothing_of_what_is_not_there(collective):
    theirs = collective.openmpi
    if theirs:
        assert len(set(theirs.algorithms)) == len(theirs.algorithms)
        assert {*theirs.own_names, *theirs.since} <= set(theirs.algorithms)
    if collective.mpich:
        assert not set(collective.mpich.algorithms) & set(collective.mpich.forcible)
    assert len(set(collective.intel)) == len(collective.intel)


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


@pytest.mark.parametrize(
    "pattern", [name for name in PATTERNS if "_" in name or name in ("multipair", "halo3d")]
)
def test_a_pattern_stands_in_four_files(pattern):
    """Its entry, its call in C, its declaration, its model; names that are no other word.

    One that measures calls of recordings stands beside these calls too.
    """
    folders = ("autotune", "launchers", "plugins")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.*") if path.suffix in _SOURCES]
    known = {"collectives.toml", "probe/kernel.c", "probe/messages.py", "simulate/messages.py"}
    word = re.compile(rf"\b(OP_)?{pattern}\b", re.IGNORECASE)
    found = {
        path.relative_to(ROOT / "autotune").as_posix() for path in files if word.search(path.read_text())
    }
    assert {"collectives.toml", "probe/kernel.c"} <= found - {"application/recorded_time.py"} <= known


def test_no_other_module_lists_the_collectives():
    """But for what is called, switched in a run, has a model, parameters or fixed rules, and UCC's names."""
    folders = ("autotune", "launchers", "plugins")
    modules = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    assert {
        path.relative_to(ROOT).as_posix() for path in modules if "reduce_scatter" in path.read_text()
    } == {
        "autotune/lint/explained.py",
        "autotune/lint/settings.py",
        "autotune/probe/operations.py",
        "autotune/simulate/algorithms.py",
        "autotune/simulate/components.py",
        "autotune/stacks/fixed_rules.py",
        "autotune/stacks/switched.py",
        "plugins/autotune_formats/ucc_grammar.py",
    }
