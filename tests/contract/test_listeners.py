"""What every listener promises, to watch and change nothing; and what the loop promises to tell it."""

import io
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import pytest
from rich.console import Console

from autotune.campaign.loop import CampaignLoop
from autotune.campaign.ports import Listener
from autotune.history.trial import Phase, Status
from autotune.views.console import CampaignConsole
from tests.campaigns import OBJECTIVES, Memory, Silent, World, strategy
from tests.contract.implementations import implementations

METHODS = ("phase", "forecast", "discovered", "designed", "screened", "launching", "observed")


def on_terminal() -> CampaignConsole:
    return CampaignConsole(Console(file=io.StringIO(), force_terminal=True, width=100), OBJECTIVES)


def in_a_file() -> CampaignConsole:
    return CampaignConsole(Console(file=io.StringIO()), OBJECTIVES)


LISTENERS: dict[str, Callable[[], Listener]] = {
    "CampaignConsole on a terminal": on_terminal,
    "CampaignConsole in a file": in_a_file,
    "Silent": Silent,
}
EACH = pytest.mark.parametrize("made", LISTENERS.values(), ids=LISTENERS)


class Record:
    """Writes down every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[object, ...]]] = []
        self.events: list[dict[str, object]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        assert name in METHODS, f"the port has no {name}"
        return lambda *given: self.calls.append((name, given))


def play(listener: object, events: list[dict[str, object]] | None = None) -> Memory:
    """A whole campaign with launches that fail, from the beginning or after some events; its store."""
    planned = strategy(16, seed=11, verify={"launches": 12})
    world = World(fails=lambda t: Status.CRASHED if t.point.get("tls") == "tcp" and t.seed % 3 == 0 else None)
    store = Memory(events or ())
    CampaignLoop(planned, world.observe, store, listener, lambda: 0.0).run()
    return store


@pytest.fixture(scope="module")
def told() -> Record:
    record = Record()
    record.events = play(record).events
    return record


@contextmanager
def watching(made: Callable[[], Listener]) -> Iterator[Listener]:
    """A listener, in its context where it has one."""
    listener = made()
    with listener if isinstance(listener, AbstractContextManager) else nullcontext():
        yield listener


def test_every_listener_is_under_this_suite():
    assert implementations(*METHODS) == {name.split()[0] for name in LISTENERS}


@EACH
def test_a_campaign_is_the_same_whoever_watches(made, told):
    with watching(made) as listener:
        assert play(listener).events == told.events


@pytest.mark.parametrize("made", [on_terminal, in_a_file])
@pytest.mark.parametrize("after", [2, 22, 33])
def test_who_comes_late_changes_nothing_either(made, told, after):
    """A resumed campaign tells a new listener the rest alone."""
    with watching(made) as listener:
        assert play(listener, told.events[:after]).events == told.events


@EACH
def test_nothing_comes_back(made, told):
    with watching(made) as listener:
        assert {getattr(listener, name)(*given) for name, given in told.calls} == {None}


class TestTheLoop:
    """The order in which it tells."""

    def test_each_launch_is_announced_and_then_observed(self, told):
        launches = [(name, given) for name, given in told.calls if name in ("launching", "observed")]
        assert [name for name, _ in launches] == ["launching", "observed"] * (len(launches) // 2)
        for (_, (trial, elapsed_s, left_s)), (_, (step,)) in zip(launches[::2], launches[1::2], strict=True):
            assert step.observation.trial == trial
            assert elapsed_s >= 0
            assert left_s >= 0
            assert math.isinf(left_s) == (trial.number == 1)  # nothing is known yet

    def test_each_phase_begins_once_before_its_launches(self, told):
        begun: list[Phase] = []
        for name, given in told.calls:
            if name == "phase":
                assert given[0] not in begun
                assert given[1] >= 0
                begun.append(given[0])
            elif name == "launching":
                assert given[0].phase in begun
        assert begun == [phase for phase in Phase if phase is not Phase.DISCOVERY]  # nothing to discover

    def test_the_design_comes_with_its_phase_and_the_effects_after_its_last_launch(self, told):
        names = [name if name != "phase" else f"phase {given[0]}" for name, given in told.calls]
        assert names.index("designed") == names.index(f"phase {Phase.SCREENING}") + 1
        assert names.index("screened") == names.index(f"phase {Phase.SEARCH}") - 1
        assert names.count("designed") == names.count("screened") == 1

    def test_what_a_verdict_needs_is_told_as_the_verification_begins(self, told):
        names = [name if name != "phase" else f"phase {given[0]}" for name, given in told.calls]
        assert names.count("forecast") == 1
        assert names.index("forecast") == names.index(f"phase {Phase.VERIFY}") - 1
        ((need, left_s),) = [given for name, given in told.calls if name == "forecast"]
        assert need.setting is not None and need.launches >= 12 and left_s == math.inf

    def test_failed_launches_are_told_too(self, told):
        told = {given[0].observation.status for name, given in told.calls if name == "observed"}
        assert told == {Status.OK, Status.CRASHED}
