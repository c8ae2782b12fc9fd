"""What every store promises: events come back as they went in, to whoever opens it next."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.campaign.ports import Store
from autotune.errors import LockedError
from autotune.history.journal import FILE, Journal
from autotune.structure import plain
from tests.campaigns import Memory
from tests.contract.implementations import implementations


class OnDisk:
    """Journals of one directory, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store for one process's life."""
        with Journal(self.directory) as journal:
            yield journal


class InMemory:
    """The fake of the tests: what one process leaves is given to the next."""

    def __init__(self, directory: Path) -> None:
        self.left: list[Mapping[str, object]] = []

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store for one pretended process's life."""
        memory = Memory(self.left)
        yield memory
        self.left = memory.events


STORES = {"Journal": OnDisk, "Memory": InMemory}
EACH = pytest.mark.parametrize("kind", STORES.values(), ids=STORES)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.builds(
    lambda name, rest: {**rest, "event": name}, st.text(), st.dictionaries(st.text(), JSON, max_size=4)
)


def said(event: object) -> object:
    """As JSON says it: null for what is not finite."""
    return json.loads(json.dumps(plain(event)))


def test_every_store_is_under_this_suite():
    assert implementations("append", "read") == set(STORES)


@EACH
@settings(max_examples=30)
@given(lives=st.lists(st.lists(EVENTS, max_size=3), min_size=1, max_size=3))
def test_what_was_appended_is_read_in_order_in_this_life_and_in_the_next(kind, lives):
    with TemporaryDirectory() as folder:
        store = kind(Path(folder))
        with store.opened() as first:
            so_far = list(first.read())
        for events in lives:
            with store.opened() as opened:
                for event in events:
                    opened.append(event)
                    so_far.append(said(event))
                    assert list(opened.read()) == so_far
        with store.opened() as last:
            assert list(last.read()) == so_far


@EACH
def test_nothing_is_shared_with_who_appends_or_reads(kind, tmp_path):
    with kind(tmp_path).opened() as store:
        event = {"event": "note", "inner": {"list": [1]}}
        before = deepcopy(event)
        store.append(event)
        event["inner"]["list"].append(2)
        store.read()[-1]["inner"]["list"].append(3)
        assert store.read()[-1] == before


@EACH
def test_reading_changes_nothing(kind, tmp_path):
    with kind(tmp_path).opened() as store:
        store.append({"event": "note"})
        assert list(store.read()) == list(store.read())


class TestOnDisk:
    """What only a store can promise that outlives its process."""

    def test_a_second_writer_is_refused_until_the_first_has_gone(self, tmp_path):
        with Journal(tmp_path), pytest.raises(LockedError, match="another process"):
            Journal(tmp_path)
        with Journal(tmp_path) as again:
            again.append({"event": "note"})

    @settings(max_examples=30)
    @given(events=st.lists(EVENTS, min_size=1, max_size=3), data=st.data())
    def test_a_line_that_a_crash_cut_off_is_lost_alone(self, events, data):
        with TemporaryDirectory() as folder:
            with Journal(Path(folder)) as journal:
                for event in events:
                    journal.append(event)
                whole = list(journal.read())
            path = Path(folder) / FILE
            text = path.read_bytes()
            begin = text.rfind(b"\n", 0, len(text) - 1) + 1
            path.write_bytes(text[: data.draw(st.integers(begin, len(text) - 1), "cut at")])
            with Journal(Path(folder)) as journal:
                assert list(journal.read()) == whole[:-1]
                journal.append(events[-1])
                assert list(journal.read()) == whole

    def test_another_process_reads_what_was_appended_at_once(self, tmp_path):
        from autotune.history.journal import read_events

        with Journal(tmp_path) as journal:
            journal.append({"event": "note"})
            assert read_events(tmp_path)[-1] == {"event": "note"}
