"""One setting after the other beside the default: each stays until it holds, is refused, or is hopeless."""

from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest

from autotune.history.objectives import Objective
from autotune.history.trial import History, Phase, Status, Subject, Trial
from autotune.recommend.recommendation import Checked
from autotune.space import Parameter, Space
from autotune.verification.rounds import Verifier
from tests.unit.verification.test_rounds import (
    DESIGN,
    RING,
    SPACE,
    Machine,
    point,
    run,
    searched,
    verifier,
)

SAFE, RISKY = point("self,posix"), point("self,tcp")


def one_promises_the_other_is_safe(tls, choice, size):
    """tcp is 2.5 times as fast and in doubt at 16 B; posix is 1.3 times as fast at every size."""
    at_16 = {"all": 1.0, "self,posix": 1 / 1.3, "self,tcp": 1.07}
    beyond = {"all": 4.0, "self,posix": 4.0 / 1.3, "self,tcp": 4.0 / 2.5}
    return (1.0 if choice != RING else 1.5) * 1e-6 * (at_16 if size == 16 else beyond)[tls]


def lucky(tls, choice, size):
    """As the search saw it: tcp seemed to lose nothing to speak of."""
    seen = one_promises_the_other_is_safe(tls, choice, size)
    return seen / (1.06 if (tls, size) == ("self,tcp", 16) else 1.0)


def blocks(history):
    made = history.of(Phase.VERIFY).observations
    return [list(group) for _, group in groupby(made, key=lambda o: o.trial.block)]


def raced(block):
    return {o.trial.point for o in block if o.trial.subject is Subject.DEPLOYED}


def verified(machine, seed_history=None):
    history = run(verifier(), machine, seed_history or searched(machine))
    return verifier().verdict(history), history


@pytest.mark.parametrize("seed", range(3))
def test_what_promises_more_comes_first_and_the_safe_one_is_handed_over(seed):
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.03, seed=seed)
    verdict, history = verified(machine)
    order = [raced(block) for block in blocks(history)]
    assert order[0] == {RISKY}
    assert order == sorted(order, key=lambda points: points == {SAFE})  # nothing is left and taken up again
    assert verdict.recommendation.point == SAFE
    assert verdict.complete


def test_each_block_has_every_side_equally_often():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.03)
    _, history = verified(machine)
    for block in blocks(history):
        order = [(o.trial.subject, o.trial.point) for o in block]
        assert set(Counter(order).values()) == {DESIGN.each}
        assert (Subject.UNTOUCHED, SPACE.default) in order


def test_what_fails_leaves_its_place_and_the_next_one_gets_it():
    machine = Machine(
        lambda tls, choice, size: {"all": 1.0, "self,posix": 0.8, "self,tcp": 0.5}[tls] * 1e-6,
        ending=lambda side, n: Status.CRASHED if side == "self,tcp" else Status.OK,
    )
    verdict, history = verified(machine)
    tried = [o for o in history.of(Phase.VERIFY) if o.trial.point == RISKY]
    assert 0 < len(tried) < DESIGN.setting_launches
    assert verdict.recommendation.point == SAFE


def test_after_a_wrong_result_the_block_goes_on_without_the_setting():
    machine = Machine(
        lambda tls, choice, size: {"all": 1.0, "self,posix": 0.8, "self,tcp": 0.5}[tls] * 1e-6,
        ending=lambda side, n: Status.WRONG_RESULT if side == "self,tcp" else Status.OK,
    )
    verdict, history = verified(machine)
    assert sum(o.trial.point == RISKY for o in history.of(Phase.VERIFY)) == 1
    assert verdict.recommendation.point == SAFE
    assert "another setting: 1 gave wrong results of its 1 launches" in verdict.text


def test_nothing_is_handed_over_before_it_had_its_launches_nor_after_all_are_used_up():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.03)
    verdict, history = verified(machine)
    own = [o for o in history.of(Phase.VERIFY) if o.trial.point == verdict.recommendation.point]
    assert len(own) >= DESIGN.setting_launches
    assert len(history.of(Phase.VERIFY)) <= DESIGN.most
    first = searched(machine)
    for kept in range(len(first), len(history)):
        assert not verifier().verdict(History(history.observations[:kept])).complete


def test_a_race_that_was_cut_tells_what_its_launches_show():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.01)
    whole, begun = run(verifier(), machine, searched(machine)), len(searched(machine))
    first, cut = (
        verifier().verdict(History(whole.observations[: begun + n]))
        for n in (6, len(whole.of(Phase.VERIFY)) - 4)
    )
    assert first.text == "UNVERIFIED (verification not finished)"  # it was not looked at yet
    assert not cut.complete
    assert cut.text.startswith("UNVERIFIED (verification not finished; 1.")
    assert "so far, on" in cut.text


def test_launches_of_the_untouched_stack_count_once():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.03)
    verdict, history = verified(machine)
    mine = [r for r in verdict.rounds if r.setting.point == verdict.recommendation.point]
    behind = {o.trial.number for r in mine for o in r.launches}
    assert len(behind) <= len(history.of(Phase.VERIFY))
    assert f"on {len(behind)} fresh launches" in verdict.text


def test_a_race_is_a_function_of_the_history_wherever_it_was_stopped():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.0)
    whole = run(verifier(), machine, searched(machine))
    for kept in range(len(searched(machine)), len(whole)):
        assert verifier().next_trial(History(whole.observations[:kept])) == whole.observations[kept].trial


def test_a_block_that_another_version_began_is_left_and_the_race_goes_on():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.01)
    history = searched(machine)
    first = history.next_number
    for number in (first, first + 1):
        trial = Trial(number, Phase.VERIFY, SAFE, Subject.DEPLOYED, block=first)
        history = history.plus([machine.observe(trial)])
    verdict = verifier().verdict(run(verifier(), machine, history))
    assert verdict.complete
    assert verdict.recommendation.point == SAFE


def test_a_block_goes_on_as_it_was_begun_whatever_time_is_left():
    machine = Machine(one_promises_the_other_is_safe, seen=lucky, noise=0.0)
    history = first = searched(machine)
    whole = DESIGN.each * 2
    for launch in range(1, whole + 1):
        history = history.plus([machine.observe(verifier().next_trial(history, 100))])
        for in_time in (0, 100)[launch == whole :]:
            going_on = verifier().next_trial(history, in_time)
            assert (going_on.block != first.next_number) == (launch == whole)


def test_where_time_limits_the_launches_their_number_does_not():
    """Settings that lose had used up all launches, with minutes left for the one that does not."""
    many = tuple(f"self,{i}" for i in range(6))
    space = Space("test", (Parameter("UCX_TLS", ("all", "self,posix", *many), "all"), SPACE["algorithm"]))

    def speeds(tls, choice, size, found=True):
        loses = 3.0 if tls in many and size == 16 and found else 1.0
        gains = 1.3 if tls == "self,posix" else 2.0 + 0.1 * many.index(tls) if tls in many else 1.0
        return loses * (1.0 if choice != RING else 1.5) * 1e-6 / gains

    machine = Machine(speeds, seen=lambda *at: speeds(*at, found=False), noise=0.01)
    found = []
    for timed in (False, True):
        asked = Verifier(space, (Objective("latency"),), replace(DESIGN, timed=timed), seed=3)
        history = run(asked, machine, searched(machine, ("self,posix", *many)))
        found.append((asked.verdict(history).recommendation.point, len(history.of(Phase.VERIFY))))
    (_, counted), (handed_over, made) = found
    assert counted <= DESIGN.most
    assert handed_over == SAFE or made > counted


def test_what_loses_nowhere_is_a_candidate_however_many_promise_more():
    """One launch showed 1.4 times the speed at every size; twenty others gain more, but not at 16 B."""
    many = tuple(f"self,{i}" for i in range(20))
    space = Space("test", (Parameter("UCX_TLS", ("all", "self,posix", *many), "all"), SPACE["algorithm"]))

    def speeds(tls, choice, size):
        gains = 0.995 if size == 16 else 2.0 + 0.01 * int(tls.removeprefix("self,") if tls in many else 0)
        return (1.0 if choice != RING else 1.5) * 1e-6 / {"all": 1.0, "self,posix": 1.4}.get(tls, gains)

    history = searched(Machine(speeds, noise=0.0), ("self,posix", *many))
    asked = Verifier(space, (Objective("latency"),), DESIGN, seed=3)
    assert asked.next_trial(history) is not None
    assert SAFE in [setting.point for setting in asked.searched(history).recommended]


def test_while_there_is_time_what_promises_more_than_what_holds_is_tried_and_what_holds_stays():
    """It stood as "not verified" beside a setting that held, with 46 s left for the next one."""
    machine = Machine(lambda tls, choice, size: {"all": 1.0, "self,posix": 0.8, "self,tcp": 0.5}[tls] * 1e-6)
    timed = verifier(timed=True)
    history = run(timed, machine, searched(machine, ("all", "self,posix")))
    assert timed.verdict(history).recommendation.point == SAFE
    found = machine.observe(Trial(history.next_number, Phase.SEARCH, RISKY))
    history = history.plus([found])
    late = timed.next_trial(history, DESIGN.launches - 1)
    assert late is None and verifier().next_trial(history) is None
    trial = timed.next_trial(history, DESIGN.launches)
    history = history.plus([machine.observe(trial)])
    assert timed.verdict(history).checked is Checked.HOLDS
    assert timed.verdict(history).recommendation.point == SAFE
    assert timed.verdict(run(timed, machine, history)).recommendation.point == RISKY
