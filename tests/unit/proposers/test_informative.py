"""What a model is shown of a long history."""

import pytest

from autotune.campaign.ports import Problem
from autotune.history.trial import History, Phase, Status, Trial
from autotune.proposers import observations, proposer
from autotune.proposers.observations import informative
from tests.campaigns import OBJECTIVES, SPACE, World

PROBLEM = Problem(SPACE, OBJECTIVES)


@pytest.fixture
def seen():
    """Two launches of every point, each fifth one failed."""
    world = World(noise=1e-3, fails=lambda trial: Status.CRASHED if trial.number % 5 == 0 else None)
    points = [*SPACE.points(), *SPACE.points()]
    return [world.observe(Trial(i, Phase.SEARCH, point, seed=i)) for i, point in enumerate(points, start=1)]


def test_a_short_history_is_shown_whole(seen):
    assert informative(PROBLEM, seen) == seen


def test_of_a_long_one_the_best_with_their_repeats_and_an_even_part_of_the_rest(seen, monkeypatch):
    monkeypatch.setattr(observations, "SHOWN", 16)
    shown = informative(PROBLEM, seen)
    numbers = [o.trial.number for o in shown]
    assert len(shown) == 16
    assert numbers == sorted(numbers)
    best = [o.trial.number for o in seen if o.ok and o.trial.point["tls"] == "posix"][:8]
    assert len(set(best) & set(numbers)) >= 6
    assert any(not o.ok for o in shown)
    assert {o.trial.point["tls"] for o in shown} == {"all", "posix", "tcp"}


def test_what_was_tried_but_is_not_shown_is_not_tried_again(seen, monkeypatch):
    monkeypatch.setattr(observations, "SHOWN", 8)
    left = SPACE.complete({"tls": "posix", "rndv": "64k", "bind": "none"})
    history = History(tuple(o for o in seen if o.trial.point != left))
    assert proposer("curve").propose(PROBLEM, history, 1).point == left
