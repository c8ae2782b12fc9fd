"""Merging into a user's file keeps every byte of theirs, and taking out gives it back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.errors import UserError
from autotune.exporters.install import BEGIN, END, installed, merged, without

OURS = "# campaign x, größer\npml = ucx\ncoll_tuned_use_dynamic_rules = 1\n"


def test_their_lines_stay_and_ours_are_marked():
    text = merged(b"# mine\nbtl = self\n", OURS).decode()
    begin, *ours, end = text.removeprefix("# mine\nbtl = self\n\n").splitlines()
    assert begin.startswith(BEGIN)
    assert end.startswith(END)
    assert ours == OURS.splitlines()
    assert installed(text.encode()) == {"pml": "ucx", "coll_tuned_use_dynamic_rules": "1"}


def test_a_line_of_theirs_that_says_otherwise_is_kept_as_a_comment_and_comes_back():
    text = merged(b"pml = ob1\nbtl = self\n", OURS)
    assert b"\npml = ob1" not in text
    assert text.startswith(b"# replaced: pml = ob1\nbtl = self\n")
    assert without(text).content == b"pml = ob1\nbtl = self\n"


def test_installing_again_replaces_the_block_and_forgets_nothing():
    once = merged(b"pml = ob1\n", OURS)
    assert merged(once, OURS) == once
    other = merged(once, "coll = ^han\n")
    assert installed(other) == {"coll": "^han"}
    assert without(other).content == b"pml = ob1\n"


def test_no_file_an_empty_one_and_the_block_alone_are_three_things():
    for before in (None, b""):
        text = merged(before, OURS)
        assert text.startswith(BEGIN.encode())
        assert without(text).content == before
        assert without(text).as_before
        assert without(merged(text, "coll = ^han")).content == before
    assert installed(b"pml = ob1\n") == {}
    assert installed(None) == {}


@pytest.mark.parametrize(
    "text", [f"{BEGIN}\n", f"{END}\n", f"{END}\n{BEGIN}\n", f"{BEGIN}\n{BEGIN}\n{END}\n"]
)
def test_damaged_markers_are_not_guessed_at(text):
    with pytest.raises(UserError, match="markers"):
        without(text.encode())


LINES = st.sampled_from(
    [
        *(b"# note", b"", b" ", b"pml = ob1", b"btl = self,tcp", b"odd line", b"coll=^han", b"pml=\xfcber"),
        *(b"# replaced: pml = x", b"\x85", b"a\x0cb", b"\r", b"pml = ob1\r", b"\xef\xbb\xbf# BOM", b"\0"),
    ]
)
FILES = st.one_of(
    st.none(), st.binary(max_size=60), st.lists(LINES, max_size=8).map(b"\n".join), st.binary(max_size=9)
)


@given(FILES, st.booleans())
def test_whatever_a_file_holds_it_is_given_back_byte_by_byte(theirs, again):
    text = merged(theirs, OURS)
    rest = without(merged(text, "coll = ^han\nmtl = ^psm2\n") if again else text)
    assert rest.content == theirs
    assert rest.as_before
    assert [line for line in text.split(b"\n") if line.startswith(b"pml")] == [b"pml = ucx"]


@given(FILES, st.lists(LINES, min_size=1, max_size=3), st.sampled_from(["above", "inside", "below"]))
def test_what_was_edited_since_stays_and_is_told(theirs, lines, where):
    text = merged(theirs, OURS)
    added = b"".join(b"mine%d = %s\n" % (i, line) for i, line in enumerate(lines))
    at = {"above": 0, "inside": text.index(b"pml = ucx\n"), "below": len(text)}[where]
    rest = without(text[:at] + added + text[at:])
    assert not rest.as_before
    left = rest.content or b""
    assert added.rstrip(b"\n") in left
    assert b"pml = ucx" not in left
    assert (theirs or b"").rstrip(b"\n") in left


def test_a_line_of_ours_that_was_changed_or_taken_out_by_hand():
    text = merged(b"btl = self\n", OURS)
    changed = without(text.replace(b"pml = ucx", b"pml = cm"))
    assert changed.content == b"btl = self\npml = cm\n"
    assert not changed.as_before
    taken = without(text.replace(b"pml = ucx\n", b""))
    assert taken.content == b"btl = self\n"


def test_an_editor_that_changes_line_ends_leaves_nothing_of_ours():
    text = merged(b"btl = self\n", OURS).replace(b"\n", b"\r\n")
    rest = without(text)
    assert installed(rest.content) == {}
    assert b"ucx" not in (rest.content or b"")
    assert not rest.as_before
