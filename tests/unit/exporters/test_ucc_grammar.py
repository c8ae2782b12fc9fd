"""The grammar of ``ucc.conf``: what its sources take, and what they refuse."""

import pytest

from autotune.errors import UserError
from autotune_formats import ucc_grammar as ucc
from autotune_formats.ucc_grammar import INF
from tests.unit.exporters.readers import chosen_by_ucc, holds

FILE = """\
# for all teams
UCC_CL_BASIC_TLS=^sharp,nccl

[vendor=amd model=rome team_size=8-16 ppn=8 nnodes=1-2]
UCC_TL_UCP_ALLREDUCE_KN_RADIX=0-8k:host:8,8k-inf:host:2
UCC_TL_UCP_TUNE=allreduce:0-4k:@0#allreduce:4k-inf:@sra_knomial#bcast,reduce:host:inf:@dbt:[4-16,32]
; a comment too
[nnodes=3]
UCC_TL_UCP_TUNE=0
"""


def test_sections_and_their_conditions():
    top, rome, three = ucc.sections(FILE)
    assert top.values == {"UCC_CL_BASIC_TLS": "^sharp,nccl"}
    assert rome.conditions == {
        "vendor": "amd",
        "model": "rome",
        "team_size": (8, 16),
        "ppn": (8, 8),
        "nnodes": (1, 2),
    }
    assert rome.line == 4
    assert holds(rome, team_size=16, ppn=8, nnodes=2)
    assert not holds(rome, team_size=17, ppn=8, nnodes=2)
    assert not holds(rome, team_size=16, ppn=4, nnodes=2)
    assert holds(top, team_size=1)
    assert not rome.meets(three)
    assert top.meets(rome)


def test_tokens_in_any_order():
    first, second, third = ucc.tokens(ucc.sections(FILE)[1].values[ucc.TUNE])
    assert (first.collectives, first.ranges, first.algorithm) == (("allreduce",), ((0, 4096),), "0")
    assert second.ranges == ((4096, INF),)
    assert (third.collectives, third.score, third.algorithm) == (("bcast", "reduce"), "inf", "dbt")
    assert third.teams == ((4, 16), (32, 32))
    assert not third.sized


@pytest.mark.parametrize(
    ("size", "team", "algorithm"), [(0, 8, "knomial"), (4095, 8, "knomial"), (4096, 8, "ring"), (9000, 2, "")]
)
def test_where_ranges_meet_the_later_one_begins(size, team, algorithm):
    value = "allreduce:0-4k:[4-inf]:@knomial#allreduce:4k-8k,8k-inf:[4-inf]:@ring"
    assert chosen_by_ucc(value, "allreduce", size, team) == algorithm
    assert chosen_by_ucc(value, "bcast", size, team) == ""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("allreduce:0-4k:@0#alreduce:@1", "'alreduce' in 'alreduce:@1' is no collective"),
        ("allreduce:0..4k:@0", "'0..4k'"),
        ("allreduce:4k:@0", "'4k'"),
        ("allreduce:@0:@1", "a second algorithm"),
        ("allreduce:0-4k:@", "'@'"),
        ("allreduce:[4-x]:@0", "'[4-x]'"),
        ("allreduce:@0 # small", "' small'"),
    ],
)
def test_what_is_refused_is_named(value, words):
    with pytest.raises(UserError) as refused:
        ucc.tokens(value)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("UCC_A=1\nUCX_TLS=rc\n", "2: 'UCX_TLS=rc' is no variable of UCC"),
        ("[team_size=8\n", "1: the section '[team_size=8' is not closed"),
        ("[ranks=8]\n", "1: a section cannot ask for 'ranks'"),
        ("\n[team_size=8-inf]\n", "2: 'team_size=8-inf' is no range"),
        ("UCC_A=1\n  UCC_B=2\n", "2: an indented line goes on"),
    ],
)
def test_a_damaged_file_is_named_by_its_line(text, words):
    with pytest.raises(UserError) as refused:
        ucc.sections(text)
    assert words in str(refused.value)
