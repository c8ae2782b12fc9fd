"""Every finding has a code of the one table; codes keep their meaning, and each has a section in the book."""

import ast
import re
from pathlib import Path, PurePath

import pytest

from autotune.lint.codes import CODES, GROUPS, chosen, page
from autotune.lint.finding import Finding
from tests.unit.test_architecture import MODULES

ROOT = Path(__file__).resolve().parents[3]

FROZEN = """
MPI101 Version header that is not read as one
MPI102 Letters in a rules file
MPI103 Number with a leading zero in a rules file
MPI104 Collective without algorithms in coll_tuned
MPI105 Collective that comes twice in a rules file
MPI106 Entry or row that no call reaches
MPI107 Algorithm for two ranks, used by more
MPI108 First entry also used by smaller communicators
MPI109 Counts or numbers that do not fit
MPI110 Classic rules on Open MPI 6
MPI111 Segment size for an algorithm without segments
MPI112 Rules by message size where ranks may differ
MPI113 Algorithm that coll_tuned does not have
MPI114 Chain with fan-out 0
MPI115 JSON rules before Open MPI 6
MPI116 JSON rules that the reader gives up
MPI117 Key or word of JSON rules that is skipped
MPI121 Rules or forced algorithm without use_dynamic_rules
MPI122 Rules file beside a forced algorithm
MPI123 coll_han above coll_tuned on several nodes
MPI124 Rules for coll_tuned, which is excluded
MPI125 Path of a rules file that leads nowhere
MPI201 Line that assigns nothing
MPI202 Parameter that is set twice in a file
MPI203 Name that this kind of file does not take
MPI204 Comment behind a value
MPI205 Quotes around a value in a file
MPI206 Carriage returns at line ends
MPI207 File for --tune without a newline at its end
MPI208 Indented line in a file for --tune
MPI209 Line of a file for --tune that is no option
MPI210 export in ucx.conf
MPI301 Parameter that Open MPI does not have
MPI302 Capital letters in the name of a parameter
MPI303 Parameter without its framework
MPI304 Parameter of a component that the version lacks
MPI305 Parameter that Open MPI 5.0 has replaced
MPI306 Parameter of the launcher where it is not read
MPI307 Parameter that PRRTE does not have
MPI308 Parameter that a bug disables in the stated releases
MPI311 Value that Open MPI refuses
MPI312 Value that is taken for another number
MPI321 ^ within a list of components
MPI322 Component that is not there
MPI323 List of coll without basic or libnbc
MPI324 List of btl without self
MPI325 Include list beside an exclude list
MPI326 List of btl beside pml ucx
MPI327 UCX variables beside a pml that does not use UCX
MPI328 mca_base_env_list where it acts on every job
MPI329 Transports that keep pml ucx from being chosen
MPI401 Option that the launcher does not have
MPI402 Options of mapping and binding that contradict
MPI403 Place that the launcher does not know
MPI404 Option behind the program
MPI405 --mca with an equals sign
MPI406 Parameter that is set twice in one command
MPI407 -x beside mca_base_env_list
MPI408 -x NAME=VALUE on a line of srun
MPI409 Plugin of srun that Open MPI 5.0 does not know
MPI410 Comma in a value of --export
MPI411 Option on a line after the launch
MPI501 Variable that is set but not exported
MPI502 Misspelt prefix of a variable
MPI503 MCA parameter as a variable without its prefix
MPI504 Semicolon without quotes in an exported list
MPI505 Quote that is not closed
MPI506 Typographic dash, quote or blank
MPI507 Blank beside the equals sign of an assignment
MPI601 Variable that UCX does not have
MPI602 Value that UCX refuses
MPI603 Number that UCX cuts
MPI604 intra: or inter: where UCX does not take them
MPI605 Device that UCX does not find
MPI606 Transport that UCX does not know
MPI621 Line of ucc.conf that UCC does not read
MPI622 Variable of another layer in a section of ucc.conf
MPI623 Sections of ucc.conf that overlap
MPI624 Score map that UCC refuses
MPI625 Entry of a score map without effect
MPI626 Variable that ucc.conf sets too
MPI701 Variable that the library does not have
MPI702 Variable that the library no longer has
MPI703 Value that the library refuses
MPI704 Value that libfabric misreads
MPI705 Variables of MVAPICH2 beside those of MVAPICH 3
MPI706 Algorithm that the library does not have
MPI707 Value of I_MPI_ADJUST that is misread
MPI901 Suppression that suppresses nothing
MPI902 Suppression of an unknown code
MPI990 Finding of another distribution's plugin
"""
"""All codes that were ever published. Lines are added, never changed or removed: reports, suppressions and
configurations of others contain the codes."""

RETIRED: frozenset[str] = frozenset()
"""Those of them that are no longer in the table."""

BY_OTHERS = {"MPI990"}
"""Codes that no module of this project uses: they are for plugins of other distributions."""

PRODUCERS = [m for m in MODULES if m.room in ("lint", "autotune_formats") and m.name != "lint.codes"]


def test_codes_are_never_given_to_something_else():
    frozen = dict(line.split(" ", 1) for line in FROZEN.strip().splitlines())
    assert set(CODES) == set(frozen) - RETIRED
    assert {name: code.title for name, code in CODES.items()} == {n: frozen[n] for n in CODES}


def test_codes_ascend_and_begin_with_their_subject():
    assert list(CODES) == sorted(CODES)
    assert {name[:4] for name in CODES} == {f"MPI{digit}" for digit in GROUPS}
    assert all(re.fullmatch(r"MPI\d{3}", name) for name in CODES)
    assert len({code.title for code in CODES.values()}) == len(CODES)


def literals():
    return {
        node.value
        for module in PRODUCERS
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and re.fullmatch(r"MPI\d+", str(node.value))
    }


def test_every_code_is_used_and_every_code_that_is_used_is_in_the_table():
    in_codes = {"MPI901", "MPI902"}  # `suppression` has them from `codes`, by name
    assert literals() | in_codes == set(CODES) - BY_OTHERS


def test_no_finding_is_made_without_a_code():
    """The code is written at the call, or handed on by the functions that make a finding for others."""
    handed = {"code", "UNUSED", "UNKNOWN", "*problem"}
    made = 0
    for module in PRODUCERS:
        for call in module.calls:
            name = ast.unparse(call.func).rpartition(".")[2]
            if name not in ("finding", "note", "Finding"):
                continue
            at = call.args[2 if name == "Finding" else 0]
            said = at.value if isinstance(at, ast.Constant) else ast.unparse(at)
            assert said in CODES or said in handed, f"{module.name}, line {call.lineno}: {said}"
            made += 1
    assert made > 100


def test_a_finding_of_another_code_cannot_be_made():
    with pytest.raises(ValueError, match="'MPI100' is no code"):
        Finding(PurePath("a"), 1, "MPI100", "effect", "remedy")


@pytest.mark.parametrize(
    ("select", "ignore", "some", "none"),
    [
        ((), (), {"MPI101", "MPI990"}, set()),
        (("MPI1",), (), {"MPI101", "MPI125"}, {"MPI201"}),
        (("MPI1,MPI301",), ("MPI12",), {"MPI101", "MPI301"}, {"MPI121", "MPI302"}),
        (("MPI121",), ("MPI1",), {"MPI121"}, {"MPI101", "MPI201"}),
        (("MPI1",), ("MPI1",), set(), {"MPI101"}),
    ],
)
def test_the_longer_beginning_decides(select, ignore, some, none):
    codes = chosen(select, ignore)
    assert some <= codes and not none & codes


def test_the_book_has_a_section_for_each_code():
    text = (ROOT / "docs" / "lint.md").read_text("utf-8")
    sections = "\n".join(page())
    assert text[text.index("\n## Rules") + 1 :] == sections, (
        "write there what autotune.lint.codes.page() yields"
    )
    assert re.findall(r"^### (\w+)$", text, re.MULTILINE) == list(CODES)


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
def test_a_section_says_problem_remedy_and_reason(code):
    assert len(code.title) <= 70 and not code.title.endswith(".")
    assert all(text.endswith(".") for text in (code.problem, code.right, code.why))
    assert not code.exceptions or code.exceptions.endswith(".")
