"""Kill after any event, resume, and nothing differs from a campaign that was never killed."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.campaign.loop import CampaignLoop
from autotune.history.events import history_of, observation_event, observation_of, trial_of
from autotune.history.journal import Journal, read_events
from autotune.history.trial import Phase, Status
from autotune.structure import plain
from tests.campaigns import Memory, Silent, World, strategy

LAUNCHES = 16


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


class Fragile(Memory):
    """A store whose process dies after so many events."""

    def __init__(self, events, limit):
        super().__init__(events)
        self.limit = limit

    def append(self, *events):
        if len(self.events) + len(events) > self.limit:
            raise Killed
        super().append(*events)


def run(store, name="random"):
    planned = strategy(LAUNCHES, proposer=name, seed=11, verify={"launches": 12})

    def fails(t):
        return Status.CRASHED if t.point.get("tls") == "tcp" and t.seed % 3 == 0 else None

    return CampaignLoop(planned, World(fails=fails).observe, store, Silent(), lambda: 0.0).run()


@pytest.fixture(scope="module")
def whole():
    store = Memory()
    return store.events, run(store)


def test_the_whole_has_every_phase(whole):
    _, history = whole
    assert {o.trial.phase for o in history} == set(Phase) - {Phase.DISCOVERY}
    assert len(history) >= LAUNCHES + 4  # a sure gain ends a round after one block


def test_killed_anywhere_the_next_event_is_that_of_an_uninterrupted_campaign(whole):
    """So are all that follow, then, however often it is killed."""
    events, _ = whole
    for kill in (*range(0, len(events), 5), len(events)):  # trials and observations of each phase
        store = Fragile(events[:kill], kill + 1)
        with contextlib.suppress(Killed):
            run(store)
        assert store.events == events[: kill + 1]


@settings(max_examples=20)
@given(st.data())
def test_a_journal_cut_anywhere_in_its_last_line_loses_that_line_only(whole, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("cut")
    with Journal(folder) as journal:
        for event in whole[0][:7]:
            journal.append(event)
    path = folder / "journal.jsonl"
    text = path.read_bytes()
    last = text.rstrip(b"\n").rfind(b"\n") + 1
    cut = data.draw(st.integers(last, len(text) - 1))
    path.write_bytes(text[:cut])
    with Journal(folder) as journal:
        assert len(journal.read()) == 7  # the first line is the journal's own
        journal.append({"event": "note"})
    assert [e["event"] for e in read_events(folder)][-2:] == ["observation", "note"]


def test_observations_survive_the_journal(whole):
    events = json.loads(json.dumps(whole[0], default=str))
    history = history_of(events)
    assert len(history) == len(whole[1])
    trial = trial_of(events[0])
    for observation in history:
        event = json.loads(json.dumps(plain(observation_event(observation))))
        again = observation_of(event, observation.trial)
        assert again == observation
    assert trial.number == 1


@pytest.mark.parametrize("line", [b"{", b"[]", b"\xff\xfe", b'"text"'])
def test_a_damaged_line_inside_is_an_error_that_says_where(tmp_path, line):
    from autotune.errors import JournalError

    with Journal(tmp_path) as journal:
        journal.append({"event": "note"})
    path = tmp_path / "journal.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n" + b'{"event":"note"}\n')
    with pytest.raises(JournalError, match="line 3"):
        read_events(tmp_path)
