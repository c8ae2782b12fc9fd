"""A verified setting that slows other calls, by a machine with planted harm, and the best that does not."""

from autotune.history.trial import Phase, Subject
from autotune.recommend.other_calls import OtherDecision, slower
from autotune.recommend.recommendation import Checked
from autotune.verification.choices import ChoiceKind, choices
from tests.unit.verification.test_rounds import (
    OBJECTIVES,
    SPACE,
    Machine,
    point,
    posix_and_ring,
    run,
    searched,
    verifier,
)


def both_faster(tls, choice, size):
    """tcp is faster than posix, and both than all."""
    return 1e-6 * (1 + size / 1024) * {"all": 1.0, "self,posix": 0.9, "self,tcp": 0.7}[tls]


HARM = {"pingpong 8192": {"self,tcp": 1.6}, "halo 8 tight": {"self,tcp": 1.2}, "bcast 8": {}}
"""Times as long as by default that other calls take with a transport."""


def verified(also, verify=None, transports=("all", "self,posix", "self,tcp")):
    machine = Machine(both_faster, also=also)
    judge = verify or verifier()
    history = run(judge, machine, searched(machine, transports))
    return history, judge.verdict(history)


def launched(history):
    fresh = history.of(Phase.VERIFY)
    return {o.trial.point for o in fresh if o.trial.subject is Subject.DEPLOYED}


def listed(history, verdict):
    found = choices(SPACE, OBJECTIVES, history, verdict.recommendation, verdict, (), 0.01)
    return {choice.kind: choice for choice in found}


def test_the_best_is_called_what_it_is_and_the_best_harmless_one_stands_beside_it():
    history, verdict = verified(HARM)
    best, harmless = verdict.recommendation, verdict.harmless.recommendation
    assert (best.point, harmless.point) == (point("self,tcp"), point("self,posix"))
    assert {one.name for one in slower(best.others)} == {"pingpong", "halo"}
    assert not slower(harmless.others)
    assert "for programs that mostly call allreduce: it makes other calls slower, 0.6" in verdict.text
    assert "at 8192 B of pingpong" in verdict.text
    assert "back to back" in verdict.text
    assert "for programs" not in verdict.harmless.text
    assert verdict.harmless.text.startswith("verified: 1.11×")
    assert "other calls (bcast, halo, pingpong) at most " in verdict.harmless.text
    found = listed(history, verdict)
    assert list(found)[:2] == [ChoiceKind.RECOMMENDED, ChoiceKind.HARMLESS]
    assert found[ChoiceKind.RECOMMENDED].harms
    assert "for programs that mostly call allreduce" in found[ChoiceKind.RECOMMENDED].text
    assert (found[ChoiceKind.HARMLESS].harms, found[ChoiceKind.HARMLESS].checked) == (False, Checked.HOLDS)


def test_a_setting_that_slows_nothing_ends_the_verification_as_before():
    history, verdict = verified({name: {} for name in HARM})
    assert launched(history) == {point("self,tcp")}
    assert verdict.harmless is None
    assert {one.decision for one in verdict.recommendation.others} == {OtherDecision.NOT_SLOWER}
    assert ChoiceKind.HARMLESS not in listed(history, verdict)


def test_where_every_setting_slows_something_the_verdict_says_so():
    also = {"pingpong 8192": {"self,tcp": 1.6, "self,posix": 1.5}}
    history, verdict = verified(also)
    assert launched(history) == {point("self,tcp"), point("self,posix")}
    assert verdict.recommendation.point == point("self,tcp")
    assert verdict.harmless is None
    assert "no setting that makes none of them slower was verified" in verdict.text
    assert ChoiceKind.HARMLESS not in listed(history, verdict)


def test_where_no_launches_are_left_no_other_setting_is_looked_at():
    """So many launches as there may be limit what is looked at for being harmless, too."""
    history, verdict = verified(HARM)
    assert len(history.of(Phase.VERIFY)) <= verifier().design.most
    assert verdict.complete


def test_a_loss_that_is_allowed_is_no_harm():
    _, verdict = verified(HARM, verifier(max_loss=0.45, margin=0.5))
    assert not slower(verdict.recommendation.others)
    assert verdict.harmless is None


def test_rules_alone_reach_no_other_call():
    """Whatever other calls took in launches with rules alone, by chance."""
    machine = Machine(posix_and_ring, also={"pingpong 8192": {"all": 1.0}})
    history = run(verifier(), machine, searched(machine, ("all",)))
    verdict = verifier().verdict(history)
    assert any(rule.sets for rule in verdict.recommendation.rules)
    assert verdict.checked is Checked.HOLDS
    assert verdict.recommendation.others == ()
    assert verdict.recommendation.scope == ""
