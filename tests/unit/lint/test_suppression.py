"""Comments suppress findings of the codes that they name, and nothing else; needless ones are findings."""

from pathlib import PurePath

import pytest

from autotune.lint.files import lint


def codes(text, name="mca-params.conf", mpi="", **options):
    return [(f.line, f.code) for f in lint({PurePath(name): text}, mpi, **options)]


QUOTED = "pml = 'ucx'\n"
"""A line with the finding MPI205."""


def test_a_comment_suppresses_in_the_next_line_and_in_its_own():
    assert codes(QUOTED) == [(1, "MPI205")]
    assert codes(f"# autotune: ignore=MPI205\n{QUOTED}") == []
    script = "export UCX_TLS = rc  # autotune: ignore=MPI507\n"
    assert codes(script.partition("#")[0] + "\n", "a.sh") == [(1, "MPI507")]
    assert codes(script, "a.sh") == []


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        (
            "coll_tuned_rules.conf",
            "1\n7\n1\n0\n1\n# autotune: ignore=MPI113 not reached here\n0 99 0 0\n",
            "MPI113",
        ),
        ("ucx.conf", "# autotune: ignore=MPI205\nUCX_TLS='rc'\n", "MPI205"),
        ("tune.txt", "# autotune: ignore=MPI208\n --mca pml ucx\n--mca btl self\n", "MPI208"),
        ("ucc.conf", "# autotune: ignore=MPI624\nUCC_TL_UCP_TUNE=alreduce:@0\n", "MPI624"),
        ("job.sh", "#!/bin/sh\n# autotune: ignore=MPI410\n#SBATCH --export=ALL,UCX_TLS=rc,sm\n", "MPI410"),
        ("a.sh", "# autotune: ignore=MPI408\nsrun -n 2 \\\n  -x UCX_TLS=rc ./a\n", "MPI408"),
    ],
)
def test_every_kind_of_file_with_comments_has_them(name, text, code):
    other = text.replace(code, "MPI101")
    assert codes(text, name) == []
    assert {c for _, c in codes(other, name)} == {code, "MPI901"}


def test_several_codes_and_several_comments():
    text = "pml = 'ucx' # why\n"
    assert {code for _, code in codes(text)} == {"MPI204", "MPI205"}
    assert codes(f"# autotune: ignore=MPI204, MPI205\n{text}") == []
    assert codes(f"# autotune: ignore=MPI204\n# autotune: ignore=MPI205 two of them\n{text}") == []


def test_only_the_named_code_in_the_covered_lines():
    assert codes(f"# autotune: ignore=MPI204\n{QUOTED}") == [(1, "MPI901"), (2, "MPI205")]
    assert codes(f"# autotune: ignore=MPI205\n\n{QUOTED}") == [(1, "MPI901"), (3, "MPI205")]
    trailing = "export UCX_TLS=rc # autotune: ignore=MPI507\nexport UCX_TLS = rc\n"
    assert codes(trailing, "a.sh") == [(1, "MPI901"), (2, "MPI507")]


@pytest.mark.parametrize("comment", ["ignore=MPI20", "ignore=mpi205", "ignore", "ignore=", "ignore=all"])
def test_an_unknown_code_is_named_and_suppresses_nothing(comment):
    first, second = lint({PurePath("mca-params.conf"): f"# autotune: {comment}\n{QUOTED}"})
    assert (first.line, first.code, first.sure) == (1, "MPI902", True)
    assert (comment.partition("=")[2] or "ignore=") in first.effect
    assert (second.line, second.code) == (2, "MPI205")


@pytest.mark.parametrize(
    ("code", "mpi", "nodes", "sure"),
    [
        ("MPI205", "", None, True),
        ("MPI205", "openmpi5", None, False),  # needed for another version
        ("MPI205", "", 1, False),
        ("MPI125", "", None, False),  # the file may exist here alone
        ("MPI121", "", None, False),  # another file may set the switch
    ],
)
def test_a_needless_suppression_is_a_note_where_another_run_may_need_it(code, mpi, nodes, sure):
    (only,) = lint({PurePath("mca-params.conf"): f"# autotune: ignore={code}\npml = ucx\n"}, mpi, nodes=nodes)
    assert (only.code, only.sure) == ("MPI901", sure)


def test_a_note_may_be_suppressed():
    text = "mpirun --mca pml ucx --mca btl tcp ./a\n"
    assert [f.sure for f in lint({PurePath("a.sh"): text}) if f.code == "MPI326"] == [False]
    assert "MPI326" not in {code for _, code in codes(f"# autotune: ignore=MPI326\n{text}", "a.sh")}


def test_files_that_are_not_judged_are_not_judged_for_comments_either():
    assert codes("#!/bin/csh\n# autotune: ignore=MPI101\nsetenv A 1\n", "a.csh") == []


def test_a_file_of_others_that_speaks_of_the_program_has_no_suppression():
    assert codes("# autotune ignores this; see autotune: ignored files\npml = ucx\n") == []
