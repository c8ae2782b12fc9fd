"""A verification whose launches are alive at once: what is launched together, what a kill leaves of it."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.description import SiteFacts
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.noise import spread_in_heats
from autotune.history.events import replayed
from autotune.history.trial import Phase, Status, Subject
from tests.campaigns import Memory, Silent, World, strategy

HEATS = SiteFacts(ranks=2, at_once=True)


class Moments(World):
    """Launches whose moment makes all of them slower or faster; those of a heat have one moment."""

    def __init__(self, sd=0.0, seed=1, **more):
        super().__init__(**more)
        self.rng, self.sd, self.heats = np.random.default_rng(seed), sd, []

    def observe(self, trial):
        return self._at(self.rng.normal(0, self.sd), trial)

    def observe_heat(self, trials):
        self.heats.append(tuple(trials))
        moment = self.rng.normal(0, self.sd)
        return [self._at(moment, trial) for trial in trials]

    def _at(self, moment, trial):
        seen = super().observe(trial)
        slower = float(np.exp(moment))
        return replace(
            seen,
            estimates=tuple(
                replace(e, median_s=e.median_s * slower, sem_s=e.sem_s * slower) for e in seen.estimates
            ),
        )


def campaign(site=HEATS, **verify):
    return strategy(18, site=site, verify={"enabled": True, "launches": 12, **verify})


def run(plan, world, store, heats=True, begun=()):
    loop = CampaignLoop(plan, world.observe, store, Silent(), lambda: 0.0)
    loop.observe_heat = world.observe_heat if heats else None
    history, announced = replayed(store.events)
    return loop.run(history, announced)


def test_a_block_of_the_verification_is_one_heat_of_two_launches_a_side():
    world = Moments()
    history = run(campaign(), world, Memory())
    fresh = [o.trial for o in history.of(Phase.VERIFY)]
    assert fresh
    assert [t for heat in world.heats for t in heat] == fresh
    for heat in world.heats:
        assert all(t.heat and t.block == heat[0].number for t in heat)
        sides = [t.point if t.subject is Subject.DEPLOYED else None for t in heat]
        assert all(sides.count(side) == 2 for side in sides)
        assert None in sides
    assert len({tuple(t.subject for t in heat) for heat in world.heats}) > 1


@pytest.mark.parametrize("site", [SiteFacts(ranks=2), replace(HEATS, at_once=False)])
def test_where_launches_cannot_be_alive_at_once_they_are_made_one_after_the_other(site):
    world = Moments()
    history = run(campaign(site), world, Memory())
    assert not world.heats
    assert not any(o.trial.heat for o in history)


def test_heats_can_be_switched_off():
    world = Moments()
    run(campaign(heats=False), world, Memory())
    assert not world.heats


def test_what_differs_between_moments_hides_nothing_in_a_heat():
    """Moments that differ by 30 % leave a heat's intervals as they were, and no others."""
    sites = {"quiet": (HEATS, 0.0), "heats": (HEATS, 0.3), "apart": (SiteFacts(ranks=2), 0.3)}
    fresh, error = {}, {}
    for name, (site, sd) in sites.items():
        plan = campaign(site)
        history = run(plan, Moments(sd=sd), Memory())
        assert plan.plan().verifier.holds(history)
        fresh[name] = history.of(Phase.VERIFY)
        error[name] = plan.plan().verifier.verdict(history).rounds[-1].total.sem
    assert error["heats"] < 2 * error["quiet"]
    assert error["apart"] > 5 * error["heats"]
    assert spread_in_heats(fresh["heats"]) == pytest.approx(0.01, rel=0.5)  # as the launches' own noise
    assert spread_in_heats(fresh["apart"]) is None


class Killed(Exception):  # noqa: N818 - not an error
    """The driver was killed."""


class Fragile(Memory):
    """A store after whose n-th event the driver is killed."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def append(self, event):
        if len(self.events) >= self.last:
            raise Killed
        super().append(event)


def test_killed_after_any_event_of_a_heat_the_campaign_goes_on_and_launches_it_again():
    whole = Memory()
    run(campaign(), Moments(), whole)
    first = next(i for i, e in enumerate(whole.events) if e.get("heat"))
    for last in range(first, first + 9):
        store = Fragile(last)
        with pytest.raises(Killed):
            run(campaign(), Moments(), store)
        store.last = 10**6
        world = Moments()
        history = run(campaign(), world, store)
        numbers = [o.trial.number for o in history]
        assert numbers == sorted(set(numbers)) == list(range(1, len(numbers) + 1))
        assert campaign().plan().verifier.holds(history)
        assert all(o.trial.heat for o in history.of(Phase.VERIFY))
        assert {t.number for heat in world.heats for t in heat} <= set(numbers)


def test_a_launch_that_fails_in_a_heat_counts_against_its_setting_alone():
    bad = {"tls": "posix"}

    def fails(trial):
        hits = trial.phase is Phase.VERIFY and trial.subject is Subject.DEPLOYED
        return Status.CRASHED if hits and trial.point.get("tls") == bad["tls"] else None

    world = Moments(fails=fails)
    plan = campaign()
    history = run(plan, world, Memory())
    verdict = plan.plan().verifier.verdict(history)
    assert verdict.recommendation.point.get("tls") != "posix"
    assert all(o.ok for o in history.of(Phase.VERIFY) if o.trial.subject is Subject.UNTOUCHED)
