"""A campaign that discovers: on a simulated cluster, killed anywhere, and read back."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import pytest
import yaml

from autotune.campaign.conclusion import conclude
from autotune.campaign.discovery import Discovery
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.observing import measurement_of
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import Narrowing, campaign_event, campaign_in
from autotune.campaign.strategy import Strategy
from autotune.commands.tune import strategy_of
from autotune.errors import JournalError
from autotune.history.events import history_of
from autotune.history.trial import History, Phase, Subject
from autotune.resources import conf_text
from autotune.screening.discovery import ChangeEffect, DiscoveryResult
from autotune.space import Parameter, Space
from autotune.space.loader import load_space, space_text_of
from autotune.structure import plain
from hydra_plugins.autotune._simulated import simulated_bench
from tests.campaigns import Memory, Silent, scenario
from tests.property.test_resume import Fragile, Killed

SIZES = [8, 1024, 65536, 1048576]
KNOBS = {f"k{i}": {"a": 1.0, "b": 1.0} for i in range(40)} | {
    "helps": {"a": 0.7, "b": 1.0},
    "large": {"a": [1.0, 1.0, 1.0, 0.6]},
    "slows": {"a": 3.0},
    "fatal": {"a": "fatal", "b": 1.0},
    "hangs": {"a": "hangs"},
}
WANTED = scenario(
    space="discover",
    sizes=SIZES,
    seed=3,
    machine=yaml.safe_load(conf_text("machine/bm_optimized3_36")),
    simulate={"knobs": KNOBS, "noise": {"launch": 0.02, "between": 0.02}},
    cluster={"nodes": 2, "ppn": 4},
    discover={"launches": 160, "space": "openmpi_ucx_cluster"},
    budget={"launches": 12},
    proposer={"name": "random", "options": {}},
    verify={"launches": 12},
)
SITE = simulated_bench(WANTED)


def run(store, disturb=lambda observation: observation) -> History:
    observer = SITE.observer(measurement_of(WANTED, SITE.placement.ranks), SITE.whole, None)

    def observe(trial):
        return disturb(observer.observe(trial))

    return CampaignLoop(strategy_of(WANTED, SITE), observe, store, Silent(), lambda: 0.0).run()


def test_time_between_the_launches_of_a_discovery_is_not_the_searchs():
    wanted = replace(WANTED, budget=replace(WANTED.budget, seconds=100.0))
    observer, now = SITE.observer(measurement_of(wanted, SITE.placement.ranks), SITE.whole, None), [0.0]

    def observe(trial):
        now[0] += 3.0
        return replace(observer.observe(trial), duration_s=0.5)

    history = CampaignLoop(strategy_of(wanted, SITE), observe, Memory(), Silent(), lambda: now[0]).run()
    assert len(history.of(Phase.DISCOVERY)) > 100  # three times what the search has
    assert len(history.of(Phase.SEARCH)) > 5


@pytest.fixture(scope="module")
def whole():
    store = Memory()
    return store, run(store)


def test_the_discovery_finds_what_was_planted_and_the_search_goes_on_with_it(whole):
    _, history = whole
    about = strategy_of(WANTED, SITE).plan(history).campaign
    found = about.discovered
    assert {e.change for e in found.active} >= {("helps", "a"), ("large", "a")}
    assert ("slows", "a") in {e.change for e in found.harmful}
    assert {change for _, change in found.set_aside} == {("fatal", "a"), ("hangs", "a")}
    names = {p.name for p in about.space.job}
    named = {p.name for p in SITE.space.job}
    assert names >= {"helps", "large"} | named
    assert len(names - named) <= 4
    assert found.factors == sum(len(p.values) > 1 for p in SITE.whole.job)  # what is no longer searched too
    searched = history.of(Phase.SEARCH).observations
    assert {"helps": "a", "large": "a"}.items() <= dict(searched[0].trial.point).items()
    point = conclude(about, history, "").recommendation.point
    assert point["helps"] == point["large"] == "a"


def test_a_disturbed_launch_does_not_lose_what_was_confirmed():
    """The first launch of what the discovery found takes three times as long: it is launched again."""
    first = []

    def disturb(observation):
        if observation.trial.phase is not Phase.SEARCH or first:
            return observation
        first.append(observation.trial.point)
        slow = (replace(e, median_s=3 * e.median_s) for e in observation.estimates)
        return replace(observation, estimates=tuple(slow))

    history = run(Memory(), disturb)
    assert sum(o.trial.point == first[0] for o in history.of(Phase.SEARCH)) >= 3
    about = strategy_of(WANTED, SITE).plan(history).campaign
    point = conclude(about, history, "").recommendation.point
    assert point["helps"] == point["large"] == "a"


def test_findings_are_shown_once_and_stay_where_the_states_of_a_machine_change_what_is_gained():
    """Every other heat the machine is twice as slow for the default, and three times for what helps."""
    machine = strategy_of(WANTED, SITE)
    plan = Strategy(replace(machine.campaign, bench=replace(machine.campaign.bench, at_once=True)))
    plan.proposer = machine.proposer
    observer = SITE.observer(measurement_of(WANTED, SITE.placement.ranks), SITE.whole, None)
    heats = []

    def observe_heat(trials):
        heats.append(trials)
        slow = len(heats) % 2
        factor = [(3.0 if t.point.get("helps") == "a" else 2.0) if slow else 1.0 for t in trials]
        return [times_of(observer.observe(t), f) for t, f in zip(trials, factor, strict=True)]

    listener = Silent()
    loop = CampaignLoop(plan, observer.observe, Memory(), listener, lambda: 0.0)
    loop.observe_heat = observe_heat
    history = loop.run()
    assert len(history.of(Phase.SEARCH)) > 5
    assert listener.heard.count("discovered") == 1
    n = next(i for i, o in enumerate(history) if o.trial.phase is Phase.SEARCH)
    again = Strategy(plan.campaign)
    assert again.plan(history).campaign.discovered == plan.plan(history).campaign.discovered
    assert again.plan(History(history.observations[:n])).campaign == plan.plan(history).campaign


def times_of(observation, factor):
    estimates = (replace(e, median_s=factor * e.median_s) for e in observation.estimates)
    return replace(observation, estimates=tuple(estimates))


def test_the_search_learns_from_the_discoverys_launches_of_settings_that_it_may_choose(whole):
    _, history = whole
    plan = strategy_of(WANTED, SITE).plan(history)
    before = history.of(Phase.BASELINE, Phase.DISCOVERY)
    taught = before.of_discovery(plan.campaign.whole, plan.space)
    assert all(o.trial.point in plan.space for o in taught)
    changed = {name for o in taught for name in plan.space.changes(o.trial.point)}
    assert {"helps", "large"} <= changed
    assert len(taught) < len(before.of(Phase.DISCOVERY))  # others set what the search leaves alone
    assert any(e.cell.choice for o in history.of(Phase.SEARCH) for e in o.usable)
    assert len(history.of_discovery(plan.campaign.whole, plan.space)) == 0  # algorithms are swept here


def test_what_there_was_no_time_to_confirm_is_searched_all_the_same(whole):
    _, history = whole
    discovery = strategy_of(WANTED, SITE).discovery
    cut = History(tuple(o for o in history if o.trial.phase is not Phase.DISCOVERY or not o.trial.block))
    found = discovery.found(cut)
    assert not found.active
    assert {e.change for e in found.unconfirmed} >= {("helps", "a"), ("large", "a")}
    assert not {e.change for e in found.harmful} & {e.change for e in found.unconfirmed}
    space = discovery.searched(found)
    assert {"helps", "large"} <= {p.name for p in space.job}
    suggested = [dict(p) for p in discovery.suggested(found, space)]
    assert all(any(p.get(name) == "a" for p in suggested) for name in ("helps", "large"))


def test_what_is_slower_nowhere_is_suggested_first_and_alone(whole):
    _, history = whole
    discovery = strategy_of(WANTED, SITE).discovery
    errors = (0.01,) * len(SIZES)
    free = ChangeEffect(0, ("helps", "a"), (-0.3, -0.3, 0.0, 0.0), errors, True)
    paid = ChangeEffect(0, ("large", "a"), (0.3, 0.0, -0.6, -0.9), errors, True)
    found = replace(discovery.found(history), active=(free, paid), unconfirmed=())
    first, second, *_ = discovery.suggested(found, discovery.searched(found))
    assert {"helps": "a", "large": "default"}.items() <= dict(first).items()
    assert {"helps": "a", "large": "a"}.items() <= dict(second).items()


def test_what_needs_a_component_that_costs_something_is_not_free():
    space = Space(
        "test",
        (
            Parameter("priority", ("0", "95"), "0"),
            Parameter("segments", ("1", "32"), "1", when={"priority": ("95",)}),
            Parameter("eager", ("4k", "64k"), "4k"),
        ),
    )
    discovery = Discovery(space, WANTED.discover, 0)
    found = DiscoveryResult(
        tuple(
            ChangeEffect(0, change, log_ratio, (0.01, 0.01), True)
            for change, log_ratio in (
                (("priority", "95"), (0.5, -1.0)),
                (("segments", "32"), (0.0, -0.1)),
                (("eager", "64k"), (0.0, -0.7)),
            )
        ),
        *((), (), (), (), ((0.0, 0.0),), 0.05),
    )
    assert discovery.free(found, space) == (space.complete({"eager": "64k"}),)
    assert space.complete({"priority": "95", "segments": "32", "eager": "64k"}) in discovery.suggested(
        found, space
    )


def test_the_discovery_has_a_budget_of_its_own(whole):
    _, history = whole
    discovering = history.of(Phase.DISCOVERY)
    assert len(discovering) <= 160
    assert {o.trial.subject for o in discovering} == {Subject.DEPLOYED}
    searched = at_one_moment(history).of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
    assert len(searched) == 12
    hanging = [o for o in discovering if o.status == "timeout"]
    assert hanging
    assert all(o.duration_s <= 60 for o in hanging)


@pytest.mark.parametrize("kill", [3, 60, 133, 251, 320, 345])
def test_killed_anywhere_the_next_events_are_those_of_an_uninterrupted_campaign(whole, kill):
    """A trial and its observation: so are all that follow, then."""
    events = whole[0].events
    cut = Fragile(events[:kill], kill + 2)
    with contextlib.suppress(Killed):
        run(cut)
    assert len(cut.events) > kill
    points = [[e["point"] for e in its if e["event"] == "trial"] for its in (cut.events, events[: kill + 2])]
    assert points[0] == points[1]


def test_what_a_discovery_decided_is_written_once_and_read_back(whole):
    """The journal's word counts, also where the discovery would be judged otherwise by now."""
    described = campaign_event(strategy_of(WANTED, SITE).campaign)
    events = [json.loads(json.dumps(plain(event))) for event in (described, *whole[0].events)]
    kinds = [event.get("phase", event["event"]) for event in events if event["event"] != "observation"]
    assert kinds.count("narrowed") == 1
    assert set(kinds[kinds.index("narrowed") :]) <= {"narrowed", "baseline", "search", "verify", "starts"}
    plan = strategy_of(WANTED, SITE).plan(whole[1])
    stored = campaign_in(events)
    assert stored.narrowing == plan.campaign.narrowing
    assert Strategy(stored).plan(whole[1]).campaign == plan.campaign
    chosen = plan.space.default
    otherwise = Narrowing(plan.space.fix({"helps": "a"}), (chosen,), (chosen,))
    decided = Strategy(replace(stored, narrowing=otherwise)).plan(whole[1]).campaign
    assert (decided.space, decided.suggested, decided.confirmed) == (otherwise.space, (chosen,), (chosen,))
    assert decided.discovered == plan.campaign.discovered


@pytest.mark.parametrize("damage", [{"space": 3}, {"suggested": [7]}, {"confirmed": None}])
def test_a_damaged_result_of_a_discovery_is_refused(whole, damage):
    event = next(e for e in whole[0].events if e["event"] == "narrowed")
    described = campaign_event(strategy_of(WANTED, SITE).campaign)
    with pytest.raises(JournalError, match="discovery"):
        campaign_in([described, {**event, **damage}])


def test_what_was_found_is_a_file_that_loads(whole):
    _, history = whole
    about = strategy_of(WANTED, SITE).plan(history).campaign
    text = space_text_of(about.space, ["of a test"], {"helps": ["a: 1.43"]})
    back = load_space(text, about.space.name)
    assert back.fingerprint == load_space(space_text_of(back, [], {}), "again").fingerprint
    assert [p.name for p in back.parameters] == [p.name for p in about.space.parameters]
    assert all(
        back[p.name].values == p.values and back[p.name].when == p.when for p in about.space.parameters
    )
    assert json.dumps([list(p) for p in back.choices("allreduce")])
    assert np.all([p in back for p in (back.default,)])
    assert len(history_of(whole[0].events)) == len(history)
