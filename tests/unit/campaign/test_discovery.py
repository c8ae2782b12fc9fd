"""What the search begins with after a discovery."""

from autotune.campaign.discovery import adding_up
from autotune.screening.discovery import Effect


def effect(name, *log_ratio, level=1):
    return Effect(1, (name, level), log_ratio, (0.02,) * len(log_ratio), True)


def test_levels_that_act_at_different_sizes_add_up_and_those_that_do_the_same_do_not():
    scheme = effect("scheme", 0.0, 0.0, -0.60, -0.2)
    same = effect("threshold", 0.01, 0.0, -0.55, -0.2)
    small = effect("element", -0.15, 0.0, 0.0, 0.0)
    assert adding_up([small, same, scheme]) == (scheme.change, small.change)


def test_what_takes_an_arms_loss_away_is_worth_more_than_its_gain():
    much, there = effect("much", -0.5, -0.5, -0.5, 0.0), effect("there", 0.0, 0.0, 0.0, -0.1)
    little = effect("little", -0.1, 0.0, 0.0, 0.0)
    assert adding_up([little, there], (-0.3, -0.3, -0.3, 0.1))[0] == there.change
    assert adding_up([much, there], (-0.3, -0.3, -0.3, 0.1)) == (much.change, there.change)


def test_what_costs_more_than_it_adds_is_left_out():
    good, dear = effect("good", -0.5, -0.5, 0.0), effect("dear", 0.6, 0.0, -0.4)
    assert adding_up([good, dear]) == (good.change,)


def test_of_one_knob_one_level_and_of_chance_nothing():
    low, high = effect("k", -0.3, 0.0), effect("k", 0.0, -0.4, level=2)
    assert adding_up([low, high]) == (high.change,)
    assert adding_up([effect("k", -0.03, 0.03)]) == ()
    assert adding_up([]) == ()
