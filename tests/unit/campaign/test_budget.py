"""What a campaign may cost: all phases together, and by the clock."""

from dataclasses import replace
from datetime import datetime
from statistics import fmean

import pytest

from autotune.campaign.loop import CampaignLoop
from autotune.campaign.spec import BenchFacts
from autotune.campaign.time_left import PLENTY, TimeLeft, expected_s, verified_s
from autotune.commands.tune import seconds_until
from autotune.errors import ScenarioError
from autotune.history.events import replayed
from autotune.history.trial import History, Observation, Phase, Status, Subject
from tests.campaigns import Memory, Silent, World, scenario, strategy

VERIFIED = {"verify": {"enabled": True, "launches": 4, "other_loop": "ignored"}}
"""Of each side in a round."""
MORE = {"verify": {"enabled": True, "launches": 8, "other_loop": "ignored"}}
LIMITED = {"budget": {"total_seconds": 240}, **MORE}


class Clock:
    """Time passes in launches alone, a second in each."""

    def __init__(self, world):
        self.world = world

    def __call__(self):
        return float(len(self.world.trials))


def run(planned, events=(), deadline=float("inf")):
    world = World()
    loop = CampaignLoop(planned, world.observe, Memory(events), Silent(), Clock(world), deadline)
    return loop.run(), loop


def test_a_limit_on_all_launches_keeps_a_round_of_the_verification_back():
    history, _ = run(strategy(40, budget={"total_launches": 24}, **VERIFIED))
    assert len(history) <= 24
    assert len(history) - len(history.of(Phase.VERIFY)) == 16
    assert 0 < len(history.of(Phase.VERIFY)) <= 8


def test_fewer_launches_than_the_limit_leaves_are_no_more():
    history, _ = run(strategy(10, budget={"total_launches": 100}, **VERIFIED))
    assert len(history) - len(history.of(Phase.VERIFY, Phase.STARTS)) == 10


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
    assert not loop.cut or len(history) > 20 - 8  # no block of the verification is begun that cannot end


@pytest.mark.parametrize(("total_s", "searched"), [(50.5, 30), (30.5, 15)])
def test_one_limit_on_all_time_keeps_that_of_two_settings_back_and_half_at_most(total_s, searched):
    history, loop = run(strategy(1000, budget={"total_seconds": total_s}, **VERIFIED))
    assert len(history) - len(history.of(Phase.VERIFY)) == searched
    assert 0 < len(history.of(Phase.VERIFY)) <= total_s - searched
    assert not loop.cut or len(history) > total_s - 8  # less than a block of the verification


def ended(fails):
    """A strategy, and its history at the end of a verification for which time was kept back."""
    world, planned = World(fails=fails), strategy(1000, screening={"enabled": False}, **LIMITED)
    history, up = History(), TimeLeft(0.0, 0.0, 1.0)
    for _ in range(9):
        history = history.plus([world.observe(planned.next_trial(history, PLENTY))])
    while (trial := planned.next_trial(history, up)) is not None:
        assert trial.phase in (Phase.VERIFY, Phase.STARTS)
        history = history.plus([world.observe(trial)])
    return planned, history


def test_after_a_verification_that_came_to_nothing_the_search_goes_on_while_time_is_left():
    planned, history = ended(lambda trial: Status.WRONG_RESULT if trial.subject is Subject.DEPLOYED else None)
    assert len(history.of(Phase.VERIFY)) > 0
    assert not planned.plan().verifier.holds(history)
    assert planned.next_trial(history, TimeLeft(9.0, 9.0, 1.0)).phase is Phase.SEARCH
    assert planned.plan().kept_launches(history) == planned.plan().verifier.design.launches
    while not planned.plan().verifier.wants(history):
        history = history.plus([World().observe(planned.next_trial(history, TimeLeft(9.0, 9.0, 1.0)))])
    assert planned.plan().kept_launches(history) > planned.plan().verifier.design.launches
    assert planned.next_trial(history, TimeLeft(0.0, 0.0, 1.0)).phase is Phase.VERIFY  # newly promising


def test_after_one_that_held_nothing_more_is_launched():
    planned, history = ended(lambda trial: None)
    assert planned.plan().verifier.holds(history)
    assert planned.next_trial(history, TimeLeft(90.0, 90.0, 1.0)) is None


def test_a_search_that_has_found_nothing_to_verify_has_all_the_time():
    """At the end of what was its share it had stopped, with half of the time left and nothing to show."""
    nothing = World(fails=lambda trial: Status.CRASHED if trial.phase is Phase.SEARCH else None)
    planned = strategy(1000, budget={"total_seconds": 24.5}, screening={"enabled": False}, **MORE)
    history = CampaignLoop(planned, nothing.observe, Memory(), Silent(), Clock(nothing)).run()
    assert len(history) == 24


def test_a_baseline_that_took_long_does_not_end_a_campaign_before_its_search():
    """One launch of the baseline had been as long as all that was left beside the verification."""
    world, seconds = World(), [0.0]

    def slow(trial):
        took = 9.0 if trial.phase is Phase.BASELINE else 1.0
        seconds[0] += took
        return replace(world.observe(trial), duration_s=took)

    planned = strategy(1000, budget={"total_seconds": 40.5}, screening={"enabled": False}, **MORE)
    history = CampaignLoop(planned, slow, Memory(), Silent(), lambda: seconds[0]).run()
    assert len(history.of(Phase.SEARCH)) > 0


def test_a_launch_of_the_verification_that_measures_in_both_loops_takes_twice_as_long():
    planned = strategy(6, verify={"enabled": True, "launches": 8, "other_loop": "shown"})
    alone = strategy(6, **MORE).campaign
    history, _ = run(planned)
    before = history.of(Phase.BASELINE, Phase.SEARCH)
    expected = expected_s(before, planned.campaign.scenario)
    assert verified_s(before, planned.campaign) == 2 * expected
    assert verified_s(before, alone) == expected
    assert verified_s(history, planned.campaign) == fmean(o.duration_s for o in history.of(Phase.VERIFY))


def test_launches_that_take_long_leave_the_search_half_of_the_time():
    """A busy machine's first launch had taken all: one launch of the discovery, and nothing to verify."""
    world, seconds = World(), [0.0]

    def slow(trial):
        seconds[0] += 10.0
        return replace(world.observe(trial), duration_s=10.0)

    planned = strategy(1000, budget={"total_seconds": 240}, **MORE)
    history = CampaignLoop(planned, slow, Memory(), Silent(), lambda: seconds[0]).run()
    assert len(history) - len(history.of(Phase.VERIFY)) == 12
    assert len(history.of(Phase.VERIFY)) > 0


def test_the_end_of_a_search_that_time_ends_is_its_leaders_too():
    planned = strategy(1000, budget={"total_seconds": 40.5}, confirm={"share": 0.5}, verify={"launches": 4})
    history, _ = run(planned)
    notes = [o.trial.note for o in history.of(Phase.SEARCH)]
    assert "a leader again" in notes[-4:]
    assert "a leader again" not in notes[: len(notes) // 3]


def test_one_disturbed_launch_of_the_baseline_does_not_share_out_the_time():
    asked = scenario(discover={"probe_s": 0.2}, probe={"budget_s": 1.5})
    baseline = World().observe(strategy().next_trial(History()))
    found = replace(baseline, trial=replace(baseline.trial, phase=Phase.DISCOVERY), duration_s=0.7)
    slow = replace(baseline, duration_s=20.0)
    assert expected_s(History((slow,)), asked) == 20.0
    assert expected_s(History((slow, found, found, replace(found, duration_s=9.0))), asked) == pytest.approx(
        2.0
    )
    assert expected_s(History((slow, found, slow, slow)), asked) == 20.0


def test_node_hours_count_the_nodes_of_all_launches():
    bench = BenchFacts(nodes=4)
    history, _ = run(strategy(60, bench=bench, budget={"node_hours": 4 * 10.5 / 3600}))
    assert len(history) == 10


def test_a_campaign_that_was_cut_goes_on_with_the_verification():
    planned = strategy(60, **VERIFIED)
    world, store = World(), Memory()
    for deadline in (14.5, float("inf")):
        loop = CampaignLoop(planned, world.observe, store, Silent(), Clock(world), deadline)
        history = loop.run()
    assert not loop.cut
    assert len(history) > 14


@pytest.mark.parametrize("hangs_at", [5, 33])
def test_a_launch_that_hangs_takes_no_more_than_the_time_that_is_left_and_is_made_again(hangs_at):
    """One at the end had taken eight times the longest launch: a campaign of 280 s ended after 316 s."""
    world, store, seconds = World(), Memory(), [0.0]
    asked = strategy(1000, budget={"total_seconds": 40}, **VERIFIED)

    def observe(trial):
        observation = world.observe(trial)
        if hangs and seconds[0] >= hangs_at:
            observation = Observation(trial, Status.TIMEOUT, duration_s=trial.timeout_s)
        seconds[0] += observation.duration_s
        return observation

    hangs = True
    loop = CampaignLoop(asked, observe, store, Silent(), lambda: seconds[0])
    history = loop.run()
    assert loop.cut
    assert seconds[0] <= 41
    hung = [o.trial.number for o in history if o.status is Status.TIMEOUT]
    cut = [trial.number for trial in replayed(store.read())[1]]
    assert len(cut) == 1
    assert (hangs_at == 5) == bool(hung)  # what had its own time has hung
    hangs = False
    more = CampaignLoop(asked, observe, store, Silent(), lambda: seconds[0], seconds[0] + 20).run()
    assert more.observations[len(history)].trial.number == cut[0]
    assert more.observations[len(history)].ok


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
