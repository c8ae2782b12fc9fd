"""What launches that failed lead to: second tries, a machine that is suspected, time limits."""

import os
import signal
from dataclasses import replace

import pytest

from autotune.campaign.failures import applicable, broken, settled
from autotune.campaign.interruption import heeded
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.noise import remarks
from autotune.errors import CampaignError, ExitCode, Interrupted
from autotune.history.events import replayed, trial_event
from autotune.history.trial import History, Observation, Phase, Status, Subject, Trial
from tests.campaigns import SPACE, Memory, Silent, World, scenario, strategy


def run(fails, store=None, launches=24, world=None, **changes):
    changes = {"screening": {"enabled": False}, **changes}
    made = world or World()
    made.fails = fails
    store = store or Memory()
    return CampaignLoop(strategy(launches, **changes), made.observe, store, Silent(), lambda: 0.0).run()


def at_first_sight(status):
    """Every point of transport ``posix`` fails when it is launched for the first time."""
    seen = set()

    def fails(trial):
        fresh = trial.point not in seen and trial.point.get("tls") == "posix"
        seen.add(trial.point)
        return status if fresh else None

    return fails


@pytest.mark.parametrize("status", [Status.CRASHED, Status.LOST, Status.TIMEOUT])
def test_what_failed_is_launched_once_more_after_another_launch_went_well(status):
    history = run(at_first_sight(status))
    failed = {o.trial.number: o.trial for o in history if not o.ok}
    again = [o.trial for o in history if o.trial.repeats]
    assert failed
    assert {t.repeats for t in again} == set(failed)
    for trial in again:
        assert trial.point == failed[trial.repeats].point
        assert trial.note == f"trial {trial.repeats} again: it may have been the machine"
        between = [o.ok for o in history if trial.repeats < o.trial.number < trial.number]
        assert any(between)
    assert len(history) == 24  # a second try is one of the budget's launches


def test_a_launch_that_failed_when_the_work_was_to_end_is_made_again():
    """Where all of a job is told to end, ``mpirun`` may be the first: a launch was lost to its setting."""
    store, ended = Memory(), []

    def fails(trial):
        if trial.phase is not Phase.SEARCH or ended:
            return None
        ended.append(trial)
        os.kill(os.getpid(), signal.SIGTERM)
        return Status.LOST

    with pytest.raises(Interrupted), heeded():
        run(fails, store)
    history, begun = replayed(store.read())
    assert [trial.number for trial in begun] == [ended[0].number]
    assert all(o.ok for o in history)
    assert all(o.ok and not o.trial.repeats for o in run(fails, store))


@pytest.mark.parametrize("gap", [True, False])
def test_a_gap_in_a_curve_by_a_wrong_result_is_measured_once_more(gap):
    class Wrong(World):
        def observe(self, trial):
            seen, bad = super().observe(trial), trial.phase is Phase.SEARCH and trial.number % 5 == 0
            lost = [e for e in seen.estimates if e.cell.message_bytes == 8][: None if gap else 1]
            worse = (replace(e, status=Status.WRONG_RESULT) if e in lost else e for e in seen.estimates)
            return replace(seen, estimates=tuple(worse)) if bad and not trial.repeats else seen

    history = run(lambda t: None, world=Wrong())
    assert all(o.ok for o in history)
    again = [o.trial.repeats for o in history if o.trial.repeats]
    assert bool(again) == gap
    assert len(set(again)) == len(again)
    assert all(number % 5 == 0 for number in again)


@pytest.mark.parametrize("status", [Status.WRONG_RESULT, Status.INVALID, Status.NOT_APPLIED])
def test_what_cannot_pass_is_not_launched_again(status):
    assert not any(o.trial.repeats for o in run(at_first_sight(status)))


def test_what_is_never_applied_is_left_out_of_the_search():
    """Whatever the reason: a reader that cannot read a report must cost a family, not the campaign."""

    def fails(trial):
        return Status.NOT_APPLIED if trial.point.get("tls") != "all" else None

    history = run(fails, launches=30)
    searched = [o.trial.point.get("tls") for o in history.of(Phase.SEARCH)]
    assert max(searched.count("posix"), searched.count("tcp")) <= 4  # three points of each tell
    assert set(searched[10:]) == {"all"}
    left = applicable(SPACE, history)
    assert left["tls"].values == ("all",)
    assert all(point in SPACE for point in left.points())
    said = [r for r in remarks(strategy(30).campaign, history) if r.grave and "not" in r.text]
    assert said
    assert {"tls=posix", "tls=tcp"} <= {part.partition(":")[0] for part in said[0].text.split("; ")}


def test_the_value_that_failing_launches_share_is_at_fault_and_not_what_was_beside_it():
    first = Trial(1, Phase.SEARCH, SPACE.default)
    values = [
        ("posix", "4k", "none"),
        ("posix", "64k", "none"),
        ("posix", "auto", "none"),
        ("posix", "auto", "core"),
    ]
    failed = [
        Observation(
            replace(first, point=SPACE.complete({"tls": t, "rndv": r, "bind": b})), Status.NOT_APPLIED
        )
        for t, r, b in values
    ]
    left = applicable(SPACE, History(tuple(failed)))
    assert left["tls"].values == ("all", "tcp")
    assert left["bind"].values == ("core", "none")
    one_was_as_asked = replace(failed[0], status=Status.CRASHED)
    assert applicable(SPACE, History((*failed[1:], one_was_as_asked)))["tls"].values == SPACE["tls"].values


def test_second_tries_end_where_they_are_in_vain():
    history = run(lambda t: Status.CRASHED if t.point.get("tls") in ("tcp", "posix") else None)
    in_vain = [o for o in history if o.trial.repeats]
    assert 1 <= len(in_vain) <= 4
    assert not any(o.ok for o in in_vain)
    assert all(sum(o.trial.repeats == n for o in history) <= 1 for n in range(1, 25))


def test_the_screening_is_judged_on_the_second_tries():
    seen = set()

    def fails(trial):
        fresh = trial.phase is Phase.SCREENING and trial.number % 3 == 0 and trial.point not in seen
        seen.add(trial.point)
        return Status.CRASHED if fresh and not trial.repeats else None

    one = strategy(24)
    history = run(fails, screening={})
    clean = run(lambda trial: None, screening={})
    assert sum(bool(o.trial.repeats) for o in history.of(Phase.SCREENING)) >= 2
    (found, screening), (wanted, unharmed) = one.plan().screening(history), one.plan().screening(clean)
    assert screening.active == unharmed.active
    assert len(found) == len(wanted)


def test_proposers_are_told_of_a_failure_that_passed_as_of_a_launch_that_went_well():
    history = run(at_first_sight(Status.CRASHED))
    told = settled(history)
    assert all(o.ok for o in told if o.trial.point.get("tls") == "posix" and o.trial.number < 20)
    assert len({o.trial.point for o in told}) == len({o.trial.point for o in history})


def dies(after, back=10**9):
    """A machine on which nothing works any more after so many launches, until so many were made."""
    made = []

    def fails(trial):
        made.append(trial)
        return Status.LOST if after < len(made) <= back else None

    return fails


def test_three_points_lost_in_a_row_and_the_untouched_stack_too_end_the_campaign():
    store = Memory()
    with pytest.raises(CampaignError, match="can no longer be measured: lost: pretended lost") as ended:
        run(dies(after=6), store)
    assert ended.value.exit_code is ExitCode.STUCK
    last = [e for e in store.events if e["event"] == "trial"][6:]
    assert [e["phase"] for e in last] == ["search"] * 3 + ["baseline"] * 3
    assert last[-1]["note"] == "several points in a row failed: is it the machine?"


@pytest.mark.parametrize("ill", [False, True])
def test_where_launches_fail_by_chance_three_in_a_row_are_no_broken_machine(ill):
    history = run(at_first_sight(Status.CRASHED if ill else None), launches=30)
    assert any(o.trial.repeats and o.ok for o in history) == ill
    last, stops = history.observations[-1].trial, []
    for number in range(31, 51):
        side = (Subject.UNTOUCHED, Subject.DEPLOYED)[number % 2]
        trial = replace(last, number=number, phase=Phase.VERIFY, subject=side, repeats=0)
        history = history.plus([Observation(trial, Status.CRASHED, reason="signal 11", duration_s=1.0)])
        stops += [number - 30] if broken(history) else []
    assert stops[0] == 3 if not ill else 4 <= stops[0] <= 12
    assert stops[1] == 2 * stops[0]


def test_a_machine_that_was_seen_to_is_no_fault_of_the_points():
    store, fails = Memory(), dies(after=6, back=15)
    for _ in range(2):  # each run of a broken machine asks the untouched stack first
        with pytest.raises(CampaignError):
            run(fails, store)
    history = run(fails, store)
    lost = {o.trial.point for o in history if o.status is Status.LOST and o.trial.phase is Phase.SEARCH}
    assert len(lost) == 3
    assert not any(o.status is Status.LOST for o in settled(history))
    assert lost <= {o.trial.point for o in history if o.ok}


def test_a_region_where_nothing_works_does_not_cost_a_baseline_for_every_three_launches():
    history = run(lambda t: Status.CRASHED if t.subject is Subject.SWEEP else None, launches=18)
    assert len(history) == 18
    assert len(history.of(Phase.BASELINE)) <= 3 + 2


def test_one_bad_point_launched_three_times_is_no_bad_machine():
    world = World()
    history = run(lambda t: None, world=world)
    one = next(o.trial for o in history if o.trial.phase is Phase.SEARCH)
    bad = [
        Observation(replace(one, number=100 + i), Status.CRASHED, reason="signal 11", duration_s=1.0)
        for i in range(3)
    ]
    trial = strategy(60, screening={"enabled": False}).next_trial(History((*history.observations[:6], *bad)))
    assert trial is not None
    assert trial.phase is not Phase.BASELINE


def test_a_launch_is_given_a_multiple_of_what_others_took():
    history = run(lambda t: None)
    first = next(o.trial for o in history if o.trial.phase is Phase.SEARCH)
    others = [o.trial for o in history if o.trial.number > first.number]
    assert first.timeout_s == 0.0  # none of its kind was made yet: as every launch of the campaign
    assert {t.timeout_s for t in others} == {10.0}
    assert "timeout_s" not in trial_event(first)
    assert "repeats" not in trial_event(first)


def test_a_second_try_of_a_hang_has_more_time():
    again = [o.trial for o in run(at_first_sight(Status.TIMEOUT)) if o.trial.repeats]
    assert again
    assert all(t.timeout_s == 20.0 for t in again)


def test_a_limit_that_the_scenario_names_is_the_limit():
    assert scenario(launch={"timeout_s": 7.0}).launch.timeout_s == 7.0
    assert {o.trial.timeout_s for o in run(lambda t: None, launch={"timeout_s": 7.0})} == {0.0}


@pytest.mark.parametrize("status", [Status.LOST, Status.CRASHED])
def test_a_verification_ends_where_nothing_works_any_more(status):
    store, made = Memory(), []

    def fails(trial):
        made.append(trial)
        return status if sum(t.phase is Phase.VERIFY for t in made) > 2 else None

    with pytest.raises(CampaignError, match="can no longer be measured"):
        run(fails, store, verify={"enabled": True, "launches": 16})
    assert sum(e.get("phase") == "verify" for e in store.events) == 2 + 3
