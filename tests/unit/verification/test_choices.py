"""What may be handed over after a verification, and what each of it costs where."""

from dataclasses import replace

import pytest

from autotune.history.objectives import Objective
from autotune.history.trial import Phase, Subject
from autotune.recommend.recommendation import Checked
from autotune.space import Point
from autotune.verification.choices import ChoiceKind, choices
from tests.unit.verification.test_rounds import (
    OBJECTIVES,
    SPACE,
    Machine,
    point,
    run,
    searched,
    trade,
    verifier,
)

EVERY = ("all", "self,posix", "self,tcp")


def told(history, objectives=OBJECTIVES, max_loss=0.01):
    judge = replace(verifier(max_loss=max_loss), objectives=objectives)
    verdict = judge.verdict(history) if len(history.of(Phase.VERIFY)) else None
    chosen = verdict.recommendation if verdict else judge.best(history)
    found = choices(SPACE, objectives, history, chosen, verdict, (), max_loss)
    return {choice.kind: choice for choice in found}


def test_the_recommended_setting_stands_beside_the_best_on_the_whole_with_its_price():
    machine = Machine(trade)
    found = told(run(verifier(), machine, searched(machine, EVERY)))
    assert list(found) == [ChoiceKind.RECOMMENDED, ChoiceKind.OVERALL]
    safe, best = found.values()
    assert (safe.changes, safe.checked, safe.prices) == (point("self,posix"), Checked.HOLDS, ())
    assert "verified" in safe.text
    assert (best.changes, best.checked) == (point("self,tcp"), Checked.NOT)
    (price,) = best.prices
    assert price.gain.slot == ("allreduce", 2, 16)
    assert price.gain.ratio == pytest.approx(1 / 1.2, abs=0.02)
    assert (price.effect.name, price.effect.value, price.effect.launches) == ("UCX_TLS", "self,tcp", 1)
    assert best.unverified.startswith("UNVERIFIED (best overall; 0.8")
    assert "not verified" in best.text
    assert "goes with UCX_TLS=self,tcp: 0.8" in best.text
    assert "accepted with" in best.text


def test_what_was_launched_and_refused_shows_what_its_fresh_launches_say():
    machine = Machine(trade)
    history = run(verifier(), machine, searched(machine, ("all", "self,tcp"), baselines=1))
    best = told(history)[ChoiceKind.OVERALL]
    assert best.checked is Checked.REFUSED
    fresh = [o for o in history.of(Phase.VERIFY) if o.trial.subject is Subject.DEPLOYED]
    assert best.recommendation.point in {o.trial.point for o in fresh}
    assert "measured on fresh launches, and not confirmed" in best.text


def test_what_fresh_launches_show_to_be_slower_on_the_whole_is_no_choice():
    def slower(tls, choice, size):
        return trade("all", choice, size) * (2.5 if tls == "self,tcp" else 1.0)

    machine = Machine(slower, seen=trade)  # the search had luck
    history = run(verifier(), machine, searched(machine, ("all", "self,tcp"), baselines=1))
    best = told(history)[ChoiceKind.OVERALL]
    assert (best.changes, best.checked) == (Point(), Checked.REFUSED)
    assert best.text == "best overall: the stack's own defaults [verified]"


def test_a_profile_of_calls_has_a_choice_of_its_own():
    slot = ("allreduce", 2, 16)
    machine = Machine(trade)
    found = told(searched(machine, EVERY), (Objective("latency", weights={slot: 1.0}),))
    assert found[ChoiceKind.PROFILE].changes == point("self,posix")
    assert found[ChoiceKind.OVERALL].changes == point("self,tcp")


def test_a_price_that_is_allowed_is_none():
    machine = Machine(trade)
    found = told(searched(machine, EVERY), max_loss=0.25)
    assert found[ChoiceKind.RECOMMENDED].changes == found[ChoiceKind.OVERALL].changes == point("self,tcp")
    assert not found[ChoiceKind.OVERALL].prices
