"""One job-wide setting for a site: the one that loses nowhere, and jobs with one of their own."""

from autotune.site.common import Offered, apart, common

NONE = Offered((0.0, 0.0))


def test_the_setting_that_gains_most_on_all_jobs_is_the_common_one() -> None:
    offers = {
        1: {"": NONE, "a": Offered((0.1, 0.1)), "b": Offered((0.5, 0.0))},
        2: {"": NONE, "a": Offered((0.3,))},
    }
    assert common(offers, "", ["a", "b"]) == "a"  # job 2 was not measured under b
    assert apart(offers, "a", 0.1) == {1: "b"}
    assert apart(offers, "a", 0.2) == {}


def test_a_setting_that_loses_anywhere_is_none_for_all() -> None:
    offers = {1: {"": NONE, "a": Offered((2.0,))}, 2: {"": NONE, "a": Offered((1.0, -0.3), loses=True)}}
    assert common(offers, "", ["a"]) == ""
    assert apart(offers, "", 0.05) == {1: "a"}  # job 2 gains on the whole, and is left alone


def test_a_setting_that_gains_nothing_or_may_not_be_chosen_is_none_for_all() -> None:
    assert common({1: {"": NONE, "a": Offered((2.0,))}}, "", []) == ""
    assert common({1: {"": NONE, "a": NONE}}, "", ["a"]) == ""
