"""From the history to a recommendation: the front, the compromise, and never worse than the default."""

import math

import numpy as np

from autotune.history.trial import History, Phase, Subject, Trial
from autotune.recommend.front import (
    candidates,
    leader,
    loss,
    pareto_front,
    ranked,
    recommend,
    recommendations,
)
from tests.campaigns import OBJECTIVES, SIZES, SPACE, World


def history(*points, baseline=True):
    world = World(noise=1e-4)
    trials = [Trial(1, Phase.BASELINE, SPACE.default, Subject.UNTOUCHED)] if baseline else []
    trials += [
        Trial(len(trials) + i, Phase.SEARCH, SPACE.complete(values), seed=i)
        for i, values in enumerate(points, start=1)
    ]
    return History(tuple(world.observe(trial) for trial in trials))


def test_the_front_holds_what_nothing_dominates():
    seen = history({"tls": "posix"}, {"tls": "posix", "rndv": "64k"}, {"tls": "tcp"})
    judged = candidates(OBJECTIVES, SPACE, seen)
    assert len(judged) == 3
    front = pareto_front(OBJECTIVES, judged)
    assert {c.point["tls"] for c in front} == {"posix"}
    assert ranked(OBJECTIVES, judged)[0].point == SPACE.complete({"tls": "posix", "rndv": "64k"})


def test_nothing_worse_than_the_untouched_stack_is_recommended():
    found = recommend(OBJECTIVES, SPACE, history({"tls": "tcp"}, {"tls": "tcp", "rndv": "4k"}))
    assert found.point == SPACE.default
    assert found.rules == ()
    assert math.isclose(found.speedup, 1.0)


def test_a_better_setting_is_recommended_with_its_gains():
    found = recommend(OBJECTIVES, SPACE, history({"tls": "tcp"}, {"tls": "posix"}))
    assert found.point == SPACE.complete({"tls": "posix"})
    assert found.speedup > 1.5


def test_settings_behind_the_default_are_no_alternatives_either():
    found = recommendations(OBJECTIVES, SPACE, history({"tls": "posix"}, {"tls": "tcp"}))
    assert [r.point["tls"] for r in found] == ["posix"]


def test_without_a_baseline_the_best_setting_is_recommended():
    found = recommend(OBJECTIVES, SPACE, history({"tls": "tcp"}, baseline=False))
    assert found.point["tls"] == "tcp"
    assert found.gains == ()


def test_without_any_complete_setting_there_is_no_recommendation():
    assert recommend(OBJECTIVES, SPACE, history()) is None
    assert recommend(OBJECTIVES, SPACE, History()) is None


def test_an_empty_choice_means_the_stack_decides():
    rules = recommend(OBJECTIVES, SPACE, history({"tls": "posix"})).rules
    assert [r.min_bytes for r in rules if not r.choice] == [2 * max(SIZES) + 1]


def test_the_leader_is_the_best_compromise_of_all_that_was_seen_by_then():
    rng = np.random.default_rng(2)
    seen = history(*map(dict, SPACE.draw(rng, 12)), *map(dict, SPACE.draw(rng, 12)))
    assert leader(OBJECTIVES, SPACE, History()) is None
    best = [leader(OBJECTIVES, SPACE, History(seen.observations[:n])) for n in range(2, len(seen) + 1)]
    losses = [loss(OBJECTIVES, one) for one in best]
    assert len({one.point for one in best}) > 2
    assert min(loss(OBJECTIVES, c) for c in candidates(OBJECTIVES, SPACE, seen)) == losses[-1]
