"""A verification whose launches are alive at once: what is launched together, what a kill leaves of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from autotune.campaign.loop import CampaignLoop
from autotune.campaign.noise import spread_in_heats
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.spec import BenchFacts
from autotune.history.events import replayed
from autotune.history.objectives import slot_of
from autotune.history.trial import Phase, Status, Subject
from tests.campaigns import Memory, Silent, World, strategy

HEATS = BenchFacts(ranks=2, at_once=True)


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


VERIFY = {"enabled": True, "launches": 12}


def campaign(bench=HEATS, **verify):
    return strategy(18, bench=bench, verify={**VERIFY, **verify})


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
    heats = [heat for heat in world.heats if heat[0].phase is Phase.VERIFY]
    assert [t for heat in heats for t in heat] == fresh
    for heat in heats:
        assert all(t.heat == t.block == heat[0].number for t in heat)
        sides = [t.point if t.subject is Subject.DEPLOYED else None for t in heat]
        assert all(sides.count(side) == 2 for side in sides)
        assert None in sides
    assert len({tuple(t.subject for t in heat) for heat in heats}) > 1


def test_before_the_verification_each_heat_has_the_default_first_and_a_few_settings():
    world = Moments()
    history = run(campaign(), world, Memory())
    heats = [heat for heat in world.heats if heat[0].phase is not Phase.VERIFY]
    assert [t for heat in heats for t in heat] == [
        o.trial for o in history if o.trial.phase not in ("verify", "starts")
    ]
    for first, *settings in heats:
        assert first.subject is Subject.UNTOUCHED
        assert 1 <= len(settings) <= 3
        assert {t.heat for t in (first, *settings)} == {first.number}
        assert len({t.phase for t in settings}) == 1
    screened = [heat for heat in heats if heat[1].phase is Phase.SCREENING]
    assert [len(heat) for heat in screened] == [4] * (len(screened) - 1) + [len(screened[-1])]


def test_a_heat_of_the_search_has_what_the_proposer_would_choose_next_and_no_setting_twice():
    world = Moments()
    history = run(strategy(40, bench=HEATS, verify={"enabled": False}), world, Memory())
    searched = [heat[1:] for heat in world.heats if heat[1].phase is Phase.SEARCH]
    assert searched
    assert all(len({t.point for t in heat}) == len(heat) for heat in searched)
    chosen = [[t for t in heat if t.note != "a leader again"] for heat in searched]
    assert max(map(len, chosen)) > 1
    assert len(at_one_moment(history)) == 40


@pytest.mark.parametrize("total", [40, 60])
def test_a_limit_on_all_launches_counts_the_untouched_ones_and_keeps_a_verification(total):
    plan = strategy(
        200, bench=HEATS, budget={"total_launches": total}, verify={"enabled": True, "launches": 8}
    )
    history = run(plan, Moments(), Memory())
    verified = history.of(Phase.VERIFY)
    assert len(history) <= total
    assert len(history) - len(history.of(Phase.VERIFY, Phase.STARTS)) <= total - 16
    assert verified


def test_the_budget_counts_no_untouched_launch_beside_others():
    history = run(campaign(enabled=False), Moments(), Memory())
    assert len(at_one_moment(history)) == 18 < len(history)


def test_moments_change_nothing_that_is_launched_and_nothing_that_the_search_reads():
    quiet, wild = (run(campaign(), Moments(sd=sd), Memory()) for sd in (0.0, 0.5))
    before = [o.trial for o in quiet if o.trial.phase is not Phase.VERIFY]
    assert [o.trial for o in wild if o.trial.phase is not Phase.VERIFY] == before
    times = []
    for history in (quiet, wild):
        seen = at_one_moment(history)
        assert at_one_moment(seen) is seen
        made = seen.of(Phase.BASELINE, Phase.SCREENING, Phase.SEARCH)
        times.append(np.log([e.median_s for o in made for e in o.estimates]))
    np.testing.assert_allclose(times[1] - times[0], times[1][0] - times[0][0])  # that of the reference


def test_an_error_of_the_default_beside_it_widens_that_of_a_setting():
    history = run(campaign(), Moments(), Memory())
    first, setting = history.observations[0], next(o for o in history if o.trial.subject is Subject.SWEEP)
    default = next(o for o in history if o.trial.number == setting.trial.heat)
    seen = next(o for o in at_one_moment(history) if o.trial.number == setting.trial.number)
    references, defaults = ({slot_of(e.cell): e for e in o.estimates} for o in (first, default))
    for before, after in zip(setting.estimates, seen.estimates, strict=True):
        reference, beside = references[slot_of(before.cell)], defaults[slot_of(before.cell)]
        relative = math.hypot(before.sem_s / before.median_s, beside.sem_s / beside.median_s)
        assert after.sem_s / after.median_s == pytest.approx(relative)
        assert after.median_s == pytest.approx(reference.median_s * before.median_s / beside.median_s)


def test_what_had_no_default_beside_it_is_launched_again():
    defaults = []

    def fails(trial):
        defaults.extend([trial] * (trial.subject is Subject.UNTOUCHED))
        return Status.CRASHED if len(defaults) == 4 and trial is defaults[-1] else None

    world = Moments(fails=fails)
    history = run(campaign(), world, Memory())
    at = next(o.trial for o in history if o.status is Status.CRASHED)
    alone = [t for t in next(heat for heat in world.heats if at in heat) if t is not at]
    assert alone
    assert {t.number for t in alone} <= {o.trial.repeats for o in history}


@pytest.mark.parametrize("bench", [BenchFacts(ranks=2), replace(HEATS, at_once=False)])
def test_where_launches_cannot_be_alive_at_once_they_are_made_one_after_the_other(bench):
    world = Moments()
    history = run(campaign(bench), world, Memory())
    assert not world.heats
    assert not any(o.trial.heat for o in history)


def test_heats_can_be_switched_off():
    world = Moments()
    run(strategy(18, bench=HEATS, launch={"heats": False}, verify=VERIFY), world, Memory())
    assert not world.heats


def test_what_differs_between_moments_hides_nothing_in_a_heat():
    """Moments that differ by 30 % leave a heat's intervals as they were, and no others."""
    benches = {"quiet": (HEATS, 0.0), "heats": (HEATS, 0.3), "apart": (BenchFacts(ranks=2), 0.3)}
    fresh, error = {}, {}
    for name, (bench, sd) in benches.items():
        plan = campaign(bench)
        history = run(plan, Moments(sd=sd), Memory())
        assert plan.plan().verifier.holds(history)
        fresh[name] = history.of(Phase.VERIFY)
        error[name] = plan.plan().verifier.verdict(history).rounds[-1].total.sem
    assert error["heats"] < 2 * error["quiet"]
    assert error["apart"] > 5 * error["heats"]
    assert spread_in_heats(fresh["heats"]) == pytest.approx(0.01, rel=0.5)  # as the launches' own noise
    assert spread_in_heats(fresh["apart"]) is None


@pytest.mark.parametrize("bad", [1, 2])
def test_no_number_is_given_twice_where_a_default_fails(bad):
    """The launch that a heat is compared with may be the last of all."""
    world = Moments(fails=lambda trial: Status.CRASHED if trial.number == bad else None)
    history = run(campaign(), world, Memory())
    numbers = [o.trial.number for o in history]
    assert numbers == sorted(set(numbers))
    assert at_one_moment(history).next_number == history.next_number == len(numbers) + 1


class Killed(Exception):  # noqa: N818 - not an error
    """The driver was killed."""


class Fragile(Memory):
    """A store after whose n-th event the driver is killed."""

    def __init__(self, last):
        super().__init__()
        self.last = last

    def append(self, *events):
        if len(self.events) + len(events) > self.last:
            raise Killed
        super().append(*events)


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
