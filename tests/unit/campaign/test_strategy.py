"""The loop: order of phases, budgets, failures, and what a listener hears."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from autotune.campaign.loop import CampaignLoop
from autotune.campaign.spec import Narrowing
from autotune.campaign.strategy import Strategy
from autotune.errors import CampaignError
from autotune.history.trial import Phase, Status, Subject
from autotune.recommend.front import recommend
from autotune.space import Point
from tests.campaigns import OBJECTIVES, SPACE, Memory, Silent, World, strategy


def campaign(world=None, store=None, clock=lambda: 0.0, launches=20, **changes):
    planned = strategy(launches, **changes)
    return CampaignLoop(planned, (world or World()).observe, store or Memory(), Silent(), clock)


def test_phases_come_in_order_and_the_budget_is_kept():
    history = campaign().run()
    phases = [o.trial.phase for o in history]
    assert len(phases) == 20
    assert phases[0] is Phase.BASELINE
    assert phases[1:9] == [Phase.SCREENING] * 8
    assert phases[9] is Phase.BASELINE
    assert phases[-1] is Phase.BASELINE
    assert set(phases[10:-1]) == {Phase.SEARCH}
    assert [o.trial.number for o in history] == list(range(1, 21))


def test_the_baseline_is_untouched_and_everything_else_is_swept():
    for observation in campaign().run():
        untouched = observation.trial.phase is Phase.BASELINE
        assert (observation.trial.subject is Subject.UNTOUCHED) == untouched


def test_the_best_setting_of_the_landscape_is_recommended():
    found = recommend(OBJECTIVES, SPACE, campaign(launches=26, screening={"enabled": False}).run())
    assert found.point["tls"] == "posix"
    assert found.point["rndv"] == "64k"
    assert [r.choice["algorithm"] for r in found.rules if r.choice] == ["tree", "ring"]
    assert 1024 < found.rules[1].min_bytes <= 65536
    assert all(g.ratio > 1.1 for g in found.gains)


def test_inert_factors_leave_the_search_and_are_tried_again_at_the_best_setting():
    one = campaign(launches=24)
    history = one.run()
    _, screening = one.plan.screening(history)
    assert "tls" in screening.active
    assert "bind" in screening.fixed
    searched = [o.trial for o in history.of(Phase.SEARCH)]
    held = [all(t.point.get(n) == v for n, v in screening.fixed.items()) for t in searched]
    again = [t.note for t in searched if "again, at the best setting" in t.note]
    assert all(held[: len(searched) // 2 - 1])
    assert not all(held)
    assert again == [f"{name} again, at the best setting" for name in screening.fixed]
    assert [t.freed for t in searched if t.freed] == list(screening.fixed)


def test_what_was_suggested_is_launched_twice_and_thrice_where_the_launches_differ():
    points = tuple(SPACE.complete({"tls": "posix", "rndv": rndv}) for rndv in ("4k", "64k"))

    class Disturbed(World):
        def observe(self, trial):
            seen = super().observe(trial)
            if self.trials.index(trial) == 3:
                slow = (replace(e, median_s=2 * e.median_s) for e in seen.estimates)
                seen = replace(seen, estimates=tuple(slow))
            return seen

    planned = strategy(12, screening={"enabled": False})
    planned = Strategy(replace(planned.campaign, narrowing=Narrowing(SPACE, points, ())), planned.proposer)
    history = CampaignLoop(planned, Disturbed().observe, Memory(), Silent(), lambda: 0.0).run()
    first, second = points
    searched = [o.trial.point for o in history.of(Phase.SEARCH)]
    assert searched[:4] == [first, second, first, second]
    again = second if history.observations[3].trial.point == second else first
    assert searched[4] == again
    assert points.count(searched[5]) == 0


def test_where_nothing_is_left_to_propose_leaders_are_launched_again():
    points = tuple(SPACE.complete({"tls": "posix", "bind": bind}) for bind in ("core", "none"))
    exhausted = SimpleNamespace(propose=lambda problem, history, seed: None)
    asked = strategy(30, screening={"enabled": False}).campaign
    planned = Strategy(replace(asked, narrowing=Narrowing(SPACE, points, ())), exhausted)
    history = CampaignLoop(planned, World(noise=0.02).observe, Memory(), Silent(), lambda: 0.0).run()
    again = [o.trial for o in history.of(Phase.SEARCH) if "nothing else is left" in o.trial.note]
    assert again
    assert {t.point for t in again} <= set(points)


@pytest.mark.parametrize("launches", [1, 2, 5, 11])
def test_a_small_budget_leaves_the_screening_out(launches):
    history = campaign(launches=launches).run()
    assert len(history) == launches
    assert not len(history.of(Phase.SCREENING))
    assert len(history.of(Phase.BASELINE)) == max(1, min(3, launches // 3))


def test_the_budget_of_seconds_ends_the_campaign():
    now = iter(range(1000))
    history = campaign(clock=lambda: float(next(now)), budget={"seconds": 20}).run()
    assert 2 < len(history) < 20


def test_failed_launches_are_data():
    world = World(fails=lambda t: Status.CRASHED if t.point.get("tls") == "tcp" else None)
    history = campaign(world).run()
    counts = Counter(o.status for o in history)
    assert counts[Status.CRASHED] > 3
    assert len(history) == 20
    assert recommend(OBJECTIVES, SPACE, history).point["tls"] != "tcp"


def test_a_baseline_that_fails_ends_the_campaign_with_its_reason():
    world = World(fails=lambda t: Status.TIMEOUT if t.subject is Subject.UNTOUCHED else None)
    store = Memory()
    with pytest.raises(CampaignError, match="pretended timeout"):
        campaign(world, store).run()
    assert [e["event"] for e in store.events] == ["trial", "observation"] * 3


def test_a_baseline_that_fails_once_is_tried_again():
    world = World(fails=lambda t: Status.CRASHED if t.number == 1 else None)
    history = campaign(world).run()
    assert [o.status for o in history.of(Phase.BASELINE)][:2] == [Status.CRASHED, Status.OK]
    assert recommend(OBJECTIVES, SPACE, history).gains


def test_when_everything_else_fails_there_is_nothing_to_recommend():
    world = World(fails=lambda t: Status.LOST if t.subject is Subject.SWEEP else None)
    history = campaign(world).run()
    assert recommend(OBJECTIVES, SPACE, history) is None


def test_a_trial_is_written_before_it_is_launched():
    store = Memory()
    seen = []

    def observe(trial):
        seen.append((store.events[-1]["event"], store.events[-1]["number"]))
        return World().observe(trial)

    one = campaign(store=store, launches=4)
    CampaignLoop(one.strategy, observe, store, Silent(), lambda: 0.0).run()
    assert seen == [("trial", n) for n in (1, 2, 3, 4)]


def test_listeners_hear_the_design_before_and_the_effects_after_the_screening():
    one = campaign()
    one.run()
    heard = [h for h in one.listener.heard if h not in ("observed",) and not h.startswith("trial")]
    assert heard == ["phase baseline", "phase screening", "designed", "screened", "phase search"]


def test_the_default_point_is_all_defaults():
    assert SPACE.default == Point.of({"tls": "all", "rndv": "auto", "bind": "core"})
