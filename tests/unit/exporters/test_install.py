"""Merging into a user's file keeps every line of theirs, and taking out gives it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UserError
from autotune.exporters.install import BEGIN, END, installed, merged, without

OURS = "# campaign x\npml = ucx\ncoll_tuned_use_dynamic_rules = 1\n"


def test_their_lines_stay_and_ours_are_marked():
    text = merged("# mine\nbtl = self\n", OURS)
    assert text == f"# mine\nbtl = self\n\n{BEGIN}\n{OURS}{END}\n"
    assert installed(text) == {"pml": "ucx", "coll_tuned_use_dynamic_rules": "1"}


def test_a_line_of_theirs_that_says_otherwise_is_kept_as_a_comment_and_comes_back():
    text = merged("pml = ob1\nbtl = self\n", OURS)
    assert "\npml = ob1" not in text
    assert "# replaced: pml = ob1\n" in text
    assert sorted(without(text).splitlines()) == ["btl = self", "pml = ob1"]


def test_installing_again_replaces_the_block_and_forgets_nothing():
    once = merged("pml = ob1\n", OURS)
    assert merged(once, OURS) == once
    other = merged(once, "coll = ^han\n")
    assert installed(other) == {"coll": "^han"}
    assert without(other) == "pml = ob1\n"


def test_an_empty_file_becomes_the_block_and_empty_again():
    text = merged("", OURS)
    assert text.startswith(BEGIN)
    assert without(text) == ""
    assert installed("pml = ob1\n") == {}


@pytest.mark.parametrize(
    "text", [f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"]
)
def test_damaged_markers_are_not_guessed_at(text):
    with pytest.raises(UserError, match="markers"):
        without(text)


LINES = st.lists(
    st.sampled_from(["# note", "", "pml = ob1", "btl = self,tcp", "odd line", "coll=^han"]), max_size=8
)


@given(LINES)
def test_no_line_of_theirs_is_ever_lost(lines):
    theirs = "".join(f"{line}\n" for line in lines)
    text = merged(theirs, OURS)
    wanted = sorted(line for line in lines if line.strip())
    assert sorted(line for line in without(text).splitlines() if line.strip()) == wanted
    assert [line for line in text.splitlines() if line.startswith("pml")] == ["pml = ucx"]
