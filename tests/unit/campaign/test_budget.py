"""What a campaign may cost: all phases together, and by the clock."""

from datetime import datetime

import pytest

from autotune.campaign.description import SiteFacts
from autotune.campaign.loop import Campaign
from autotune.commands.tune import seconds_until
from autotune.errors import ScenarioError
from autotune.history.trial import Phase
from tests.campaigns import Memory, Silent, World, scenario, strategy

VERIFIED = {"verify": {"enabled": True, "launches": 8}}


class Clock:
    """Time passes in launches alone, a second in each."""

    def __init__(self, world):
        self.world = world

    def __call__(self):
        return float(len(self.world.trials))


def run(planned, events=(), deadline=float("inf")):
    world = World()
    loop = Campaign(planned, world.observe, Memory(events), Silent(), Clock(world), deadline)
    return loop.run(), loop


def test_a_limit_on_all_launches_keeps_a_round_of_the_verification_back():
    history, _ = run(strategy(40, budget={"total_launches": 24}, **VERIFIED))
    assert len(history) <= 24
    assert len(history) - len(history.of(Phase.VERIFY)) == 16
    assert 0 < len(history.of(Phase.VERIFY)) <= 8


def test_fewer_launches_than_the_limit_leaves_are_no_more():
    history, _ = run(strategy(10, budget={"total_launches": 100}, **VERIFIED))
    assert len(history) - len(history.of(Phase.VERIFY)) == 10


def test_a_limit_that_leaves_nothing_to_search_is_refused():
    with pytest.raises(ScenarioError, match="total_launches=8: 8 go to what is not search"):
        run(strategy(40, budget={"total_launches": 8}, **VERIFIED))


def test_nothing_is_started_that_could_not_end_by_the_deadline():
    history, loop = run(strategy(60), deadline=12.5)
    assert len(history) == 12
    assert not loop.cut  # without a verification all was done that could be


def test_time_for_the_verification_is_kept_back_before_the_deadline():
    history, loop = run(strategy(60, **VERIFIED), deadline=20.5)
    assert len(history) - len(history.of(Phase.VERIFY)) == 12
    assert len(history) <= 20
    assert 0 < len(history.of(Phase.VERIFY)) <= 8
    assert not loop.cut or len(history) == 20


def test_node_hours_count_the_nodes_of_all_launches():
    site = SiteFacts(nodes=4)
    history, _ = run(strategy(60, site=site, budget={"node_hours": 4 * 10.5 / 3600}))
    assert len(history) == 10


def test_a_campaign_that_was_cut_goes_on_with_the_verification():
    planned = strategy(60, **VERIFIED)
    world, store = World(), Memory()
    for deadline in (14.5, float("inf")):
        loop = Campaign(planned, world.observe, store, Silent(), Clock(world), deadline)
        history = loop.run()
    assert not loop.cut
    assert len(history) > 14


def test_seconds_start_no_launch_that_would_end_after_them():
    history, _ = run(strategy(60, budget={"seconds": 7.5}))
    assert len(history) == 7


@pytest.mark.parametrize(
    ("until", "seconds"),
    [("08:00", 9 * 3600 + 1800), ("23:00", 1800), ("22:29", 86340), (None, float("inf"))],
)
def test_the_time_of_day_is_the_next_one(until, seconds):
    assert seconds_until(until, datetime(2026, 3, 1, 22, 30)) == seconds


@pytest.mark.parametrize("until", ["8", "24:00", "630", "noon", "07:60"])
def test_other_words_are_no_time_of_day(until):
    with pytest.raises(ScenarioError, match=f"budget.until={until}"):
        scenario(budget={"until": until})
