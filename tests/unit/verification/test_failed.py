"""What fails more often than the untouched stack beside it is not handed over, however fast it is."""

from itertools import combinations
from math import comb

import pytest

from autotune.history.trial import Observation, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Checked
from autotune.space import Point
from autotune.verification.failed import Failures
from tests.unit.verification.test_choices import told
from tests.unit.verification.test_rounds import (
    SPACE,
    Machine,
    point,
    posix_and_ring,
    run,
    searched,
    verifier,
)

FAILING = [Status.CRASHED, Status.TIMEOUT, Status.LOST, Status.NOT_APPLIED, Status.INVALID]
EVERY = ("all", "self,posix", "self,tcp")


def verified(ending, transports=EVERY):
    machine = Machine(posix_and_ring, ending=ending)
    history = run(verifier(), machine, searched(machine, transports))
    return verifier().verdict(history), history


def sides(deployed, untouched):
    """Launches of both sides, those that failed as ``True``."""
    launches = []
    for subject, failed in ((Subject.DEPLOYED, deployed), (Subject.UNTOUCHED, untouched)):
        for wrong in failed:
            trial = Trial(len(launches) + 1, Phase.VERIFY, Point(), subject)
            launches.append(Observation(trial, Status.CRASHED if wrong else Status.OK))
    return launches


@pytest.mark.parametrize("status", FAILING)
def test_a_fast_setting_of_which_every_third_launch_fails_is_refused(status):
    verdict, history = verified(lambda side, n: status if side == "self,posix" and n % 3 == 1 else Status.OK)
    assert verdict.recommendation.point != point("self,posix")
    failed = [o for o in history.of(Phase.VERIFY) if not o.ok]
    assert failed
    last = {r.setting.point: r.failures for r in verdict.rounds}
    assert len(last[point("self,posix")].deployed) == len(failed)
    assert f"another setting: {len(failed)} " in verdict.text
    assert "of its" in verdict.text


def test_one_wrong_result_refuses_at_once():
    wrong = Status.WRONG_RESULT
    verdict, history = verified(lambda side, n: wrong if side == "self,posix" and n == 2 else Status.OK)
    assert verdict.recommendation.point != point("self,posix")
    deployed = [o for o in history.of(Phase.VERIFY) if o.trial.point == point("self,posix")]
    assert len([o for o in deployed if o.trial.subject is Subject.DEPLOYED]) == 2
    assert "1 gave wrong results of its 2 launches" in verdict.text


def test_a_failure_that_the_untouched_stack_has_too_is_told_and_refuses_nothing():
    verdict, _ = verified(lambda side, n: Status.CRASHED if n == 1 else Status.OK, ("all", "self,posix"))
    assert verdict.recommendation.point == point("self,posix")
    assert verdict.checked is Checked.HOLDS
    assert "; 1 crashed of its " in verdict.text
    assert "1 crashed of the " in verdict.text


def test_what_could_not_be_compared_is_not_called_no_better():
    verdict, _ = verified(lambda side, n: Status.TIMEOUT if side == "untouched" else Status.OK)
    assert verdict.recommendation.point == SPACE.default
    assert verdict.checked is Checked.UNUSABLE
    assert "could not be compared" in verdict.text
    assert "hung of the" in verdict.text
    assert "nothing was better" not in verdict.text


def test_the_choices_name_the_failures_of_what_they_offer():
    machine = Machine(
        posix_and_ring, ending=lambda side, n: Status.CRASHED if side == "self,posix" else Status.OK
    )
    found = told(run(verifier(), machine, searched(machine, ("all", "self,posix"))))
    (best,) = (choice for choice in found.values() if choice.changes == point("self,posix"))
    assert best.checked is Checked.REFUSED
    assert "crashed of its" in best.text
    assert "crashed of its" in best.unverified
    assert "accepted with" not in best.text


def test_the_chance_of_failures_is_that_of_all_ways_in_which_they_could_fall():
    found = Failures.of(sides([True, True, True, False, False], [True, False, False, False]))
    every = list(combinations(range(9), 4))
    as_many = sum(sum(place < 5 for place in failed) >= 3 for failed in every)
    share = as_many / comb(9, 4)
    assert found.surely_more(share + 1e-9)
    assert not found.surely_more(share - 1e-9)


@pytest.mark.parametrize(
    ("deployed", "untouched", "unsettled", "doubtful", "more"),
    [
        (0, 0, False, False, False),
        (1, 0, True, False, False),
        (1, 1, False, False, False),
        (2, 0, True, True, False),
        (2, 1, True, False, False),
        (2, 2, False, False, False),
        (5, 0, True, True, True),
        (0, 2, False, False, False),
    ],
)
def test_one_failure_shows_nothing_and_more_of_them_as_much_as_chance_leaves(
    deployed, untouched, unsettled, doubtful, more
):
    found = Failures.of(sides(*([n < failed for n in range(8)] for failed in (deployed, untouched))))
    assert (found.unsettled, found.doubtful, found.more) == (unsettled, doubtful, more)


def test_one_launch_alone_is_no_finding_beside_any_number_of_others():
    found = Failures.of(sides([True], [False] * 40))
    assert not found.more
    assert not found.doubtful
    assert found.objection == ""


def test_where_every_tenth_launch_of_both_sides_crashes_nobody_is_said_to_fail_more_often():
    found = Failures.of(sides([n == 3 for n in range(10)], [n in (4, 14) for n in range(20)]))
    assert not found.doubtful
    assert found.objection == ""


def test_failures_that_may_be_chance_are_not_said_to_be_more():
    few = Failures.of(sides([n < 2 for n in range(8)], [False] * 8))
    assert few.objection == "may fail more often than the untouched stack"
    surely = Failures.of(sides([n < 5 for n in range(8)], [False] * 8))
    assert surely.objection == "fails more often than the untouched stack"


def made_again(subject, times=1):
    return Observation(
        Trial(1, Phase.VERIFY, Point(), subject), Status.OK, extra={"lost_before": float(times)}
    )


def test_a_launch_that_was_lost_and_made_again_is_none_until_it_is_the_settings_doing():
    untouched = sides([], [False] * 8)
    well = sides([False] * 7, [])
    assert not Failures.of([made_again(Subject.DEPLOYED), *well, *untouched]).any
    mine, both = [made_again(Subject.DEPLOYED)] * 4, [made_again(Subject.UNTOUCHED)] * 4
    assert Failures.of([*mine, *well[:4], *untouched]).deployed == (Status.LOST,) * 4
    assert not Failures.of([*mine, *well[:4], *both, *untouched[:4]]).any


def test_a_job_that_never_started_says_nothing_of_its_setting():
    never = Observation(Trial(1, Phase.VERIFY, Point(), Subject.DEPLOYED), Status.LOST, queue_s=3600.0)
    found = Failures.of([never, *sides([False] * 7, [False] * 8)])
    assert (found.deployed, found.n_deployed) == ((), 7)
