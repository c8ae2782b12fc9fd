"""Whatever is cut off a log: what is still read is right, or the cut is told."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.application.profiles import CallProfile, Calls, read_profile
from autotune.errors import TableError
from autotune.tables.importers import read
from tests.unit.application import test_profiles
from tests.unit.tables.importers import test_imb, test_reprompi

DATA = Path(__file__).parents[1] / "data" / "logs"
LOGS = {path.name: path.read_text() for path in sorted(DATA.glob("*.txt"))}


@pytest.mark.parametrize("name", sorted(LOGS))
@given(data=st.data())
def test_a_cut_log_gives_right_rows_or_an_error(name, data):
    text = LOGS[name]
    whole = read(text, name)
    cut = data.draw(st.integers(0, len(text)))
    try:
        found = read(text[:cut], name)
    except TableError as exc:
        assert exc.message.startswith(name)
        return
    assert found == whole[: len(found)]
    if name.startswith("imb"):  # these logs say when they are complete
        assert found == whole


@pytest.mark.parametrize("name", sorted(LOGS))
@given(data=st.data())
def test_a_line_lost_inside_is_told_or_was_no_row(name, data):
    lines = LOGS[name].splitlines(keepends=True)
    whole = read(LOGS[name], name)
    lost = data.draw(st.integers(0, len(lines) - 1))
    # Nobody can know with which size a table should begin and end, nor which comes after 0 bytes.
    ends = {0, len(whole) - 1} | {i + 1 for i, m in enumerate(whole) if not m.message_bytes}
    rows = {m.line - 1: i for i, m in enumerate(whole)}
    try:
        found = read("".join(lines[:lost] + lines[lost + 1 :]), name)
    except TableError as exc:
        assert exc.message.startswith(name)
        return
    assert rows.get(lost, 0) in ends
    assert len(found) == len(whole) - (lost in rows)


TEXTS = [
    *LOGS.values(),
    test_imb.SUITE,
    test_reprompi.HEAD.format(size=4) + test_reprompi.runtimes() + test_reprompi.END,
    "Processes,Size (KB),Latency,algorithm\n2,8,1.5,ring\n2,16,1.7,ring\n",
]
PROFILES = [test_profiles.MPIP, test_profiles.MONITORED.read_text(), "size,count,np\n8,100,2\n1K,20,\n"]
WORDS = ["", "-1", "nan", "1e999", "0", "9" * 11, "1.5", "x", "#", ",", "Pass", "Fail", "-", "µs", "\t", "\n"]


@pytest.mark.parametrize("reader", [read, read_profile])
@given(data=st.data())
def test_damaged_words_are_read_or_refused(reader, data):
    text = data.draw(st.sampled_from(TEXTS if reader is read else PROFILES))
    words = re.split(r"(\s+|,)", text)
    for _ in range(data.draw(st.integers(1, 4))):
        words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.sampled_from(WORDS))
    try:
        assert reader("".join(words), "damaged")
    except TableError as exc:
        assert exc.message.startswith("damaged")


@given(text=st.text(alphabet=st.characters(codec="utf-8"), max_size=300))
def test_any_text_is_read_or_refused(text):
    try:
        assert read(text, "any")
    except TableError as exc:
        assert exc.message.startswith("any")


sizes = st.lists(st.integers(0, 1 << 30), min_size=1, max_size=6, unique=True)


@given(
    measured=sizes, calls=st.lists(st.tuples(st.floats(0, 2e9), st.floats(0.5, 1e6)), min_size=1, max_size=10)
)
def test_weights_sum_to_one_and_stay_between_the_sizes(measured, calls):
    slots = [("bcast", 2, size) for size in measured]
    profile = CallProfile("p", tuple(Calls(size, count) for size, count in calls))
    weights = profile.weights(slots)
    assert sum(weights.values()) == pytest.approx(1.0)
    assert all(weight >= 0 for weight in weights.values())
    if len(calls) == 1:
        within = [s for s in measured if weights["bcast", 2, s] > 0]
        assert len(within) <= 2
        assert not [s for s in measured if min(within) < s < max(within)]
