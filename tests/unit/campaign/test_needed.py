"""What a verdict needs: more where launches differ more, and a budget that suffices for it."""

import math
from dataclasses import replace

import pytest

from autotune.campaign.conclusion import conclude
from autotune.campaign.estimate import remaining_s
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.needed import USED_UP, ended_by_budget, extended, needed, unlimited, used_up
from autotune.history.events import State, ended_event
from autotune.history.trial import History
from tests.campaigns import Memory, Silent, World, strategy

VERIFIED = {"verify": {"enabled": True, "launches": 4, "other_loop": "ignored"}}


def run(planned, noise=0.01, events=()):
    world = World(noise=noise)
    loop = CampaignLoop(planned, world.observe, Memory(events), Silent(), lambda: float(len(world.trials)))
    return loop.run(), loop


def verdict_of(planned, history):
    return conclude(planned.campaign, history, "2026-11-22").verdict


@pytest.fixture(scope="module")
def cut():
    """A campaign whose limit on all launches leaves no room for the last ones of its verification."""
    planned = strategy(6, budget={"total_launches": 16}, **VERIFIED)
    history, loop = run(planned)
    assert loop.cut
    return planned, history


def test_a_campaign_whose_budget_ends_before_its_verdict_is_cut_and_has_used_it_up(cut):
    planned, history = cut
    assert used_up(planned.campaign, history)
    assert not used_up(strategy(6, **VERIFIED).campaign, history)
    assert needed(planned.campaign, history, verdict_of(planned, history)) is not None


def test_with_what_it_needs_it_comes_to_a_verdict(cut):
    planned, history = cut
    need = needed(planned.campaign, history, verdict_of(planned, history))
    scenario = extended(planned.campaign, history, need)
    assert scenario.budget.total_launches > 16
    assert replace(scenario, budget=planned.campaign.scenario.budget) == planned.campaign.scenario
    more = strategy(6, budget={"total_launches": scenario.budget.total_launches}, **VERIFIED)
    world = World()
    loop = CampaignLoop(more, world.observe, Memory(), Silent(), lambda: float(len(world.trials)))
    whole = loop.run(history, ())
    assert not loop.cut
    assert needed(more.campaign, whole, verdict_of(more, whole)) is None


def test_before_any_fresh_launch_the_noise_of_the_search_decides():
    planned = strategy(12, confirm={"share": 0.5}, **VERIFIED)
    needs = []
    for noise in (0.01, 0.2):
        history, _ = run(strategy(12, confirm={"share": 0.5}), noise)
        needs.append(needed(planned.campaign, history, None))
    quiet, noisy = needs
    assert quiet.spread < noisy.spread
    assert 4 <= quiet.launches <= noisy.launches
    assert quiet.had == noisy.had == 0
    assert 0 < quiet.seconds <= noisy.seconds < math.inf


def test_a_disabled_verification_is_what_is_needed():
    planned = strategy(12)
    history, _ = run(planned)
    need = needed(planned.campaign, history, None)
    assert extended(planned.campaign, history, need).verify.enabled


def test_a_search_that_has_not_begun_needs_its_own_time():
    planned = strategy(12, budget={"total_seconds": 1.0}, **VERIFIED)
    need = needed(planned.campaign, History(), None)
    assert need.setting is None and math.isinf(need.seconds)
    assert extended(planned.campaign, History(), need).budget.total_seconds == 1.0


def test_a_search_that_was_interrupted_needs_no_more_than_the_time_that_it_has():
    planned = strategy(12, budget={"total_seconds": 20.0}, **VERIFIED)
    history, _ = run(planned)
    begun = History(tuple(history)[:1])
    need = needed(planned.campaign, begun, None)
    assert need.setting is None and not used_up(planned.campaign, begun)
    left_s = 20.0 - sum(o.took_s for o in begun)
    assert 0 < need.seconds <= left_s
    assert remaining_s(unlimited(planned.campaign), begun) > left_s


@pytest.mark.parametrize(
    ("event", "by_budget"),
    [
        (ended_event(State.COMPLETE, launches=6), True),
        (ended_event(State.INTERRUPTED, reason=USED_UP), True),
        (ended_event(State.INTERRUPTED, reason="no time is left (budget.total_seconds, until)"), True),
        (ended_event(State.INTERRUPTED, reason="interrupted by the user"), False),
        (ended_event(State.FAILED, reason="the disk"), False),
        ({"event": "observation", "trial": 3}, False),
    ],
)
def test_a_run_that_was_killed_was_not_ended_by_its_budget(event, by_budget):
    assert ended_by_budget(event) is by_budget
