"""Verdicts on simulated nights: quiet where nothing changed, and what was lost is named."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.guard.kept import comparable, slot_text
from autotune.guard.verdict import Kind, judge
from autotune.verification.comparison import WHOLE
from tests.unit.guard.nights_of import SLOTS, Machine

BUSY = Machine(day=0.02, drift=0.003, exchange=0.02)


@pytest.mark.parametrize("machine", [Machine(), BUSY], ids=["steady", "busy"])
def test_nights_without_a_change_are_quiet(machine):
    nights = machine.nights(40, np.random.default_rng(1))
    assert [judge(nights[:n]).found for n in (2, 10, 25, 40)] == [()] * 4


@pytest.mark.parametrize("machine", [Machine(), BUSY], ids=["steady", "busy"])
@pytest.mark.parametrize("stack_too", [False, True], ids=["settings lose", "both lose"])
def test_a_tenth_at_one_size_is_found_in_three_nights(machine, stack_too):
    loss = (30, SLOTS[2], 1.1, stack_too)
    nights = machine.nights(33, np.random.default_rng(2), each=24, loss=loss)
    (found,) = judge(nights).found
    assert (found.slot, found.kind) == (SLOTS[2], Kind.SLOWER)
    assert found.since in [night.day for night in nights[29:32]]
    assert found.interval[0] < 1.1 < found.interval[1]
    assert (found.ratio > 1.05 * found.default) == (not stack_too)


def test_settings_that_fall_behind_the_default_are_found_in_one_night_and_are_to_be_tuned_again():
    nights = Machine().nights(1, np.random.default_rng(3), each=16, loss=(0, SLOTS[1], 1.5, False))
    verdict = judge(nights)
    assert [(f.slot, f.kind) for f in verdict.found] == [(SLOTS[1], Kind.BEHIND)]
    assert verdict.found[0].ratio == pytest.approx(1.5 * np.exp(-0.15), rel=0.05)
    assert verdict.worse == (SLOTS[1],)


def test_one_bad_night_is_a_suspicion_and_no_claim():
    nights = Machine().nights(31, np.random.default_rng(4), each=16, loss=(30, SLOTS[0], 3.0, True))
    verdict = judge(nights)
    assert verdict.found == ()
    assert SLOTS[0] in verdict.suspected


def test_what_was_found_stays_found_until_it_is_kept_or_comes_back():
    rng = np.random.default_rng(5)
    nights = Machine().nights(60, rng, each=16, loss=(30, SLOTS[2], 1.3, True))
    nights[33] = replace(nights[33], found=((slot_text(SLOTS[2]), nights[30].day),))
    assert [f.slot for f in judge(nights).found if f.slot != WHOLE] == [SLOTS[2]]
    back = Machine().nights(60, rng, each=16)
    back[:34] = nights[:34]
    assert judge(back).found == ()


def test_an_upgrade_is_told_with_fewer_nights_of_history():
    states = ["old"] * 14 + ["new"] * 3
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        nights = Machine().nights(17, rng, each=16, loss=(14, SLOTS[2], 1.1, True), states=states)
        found.append(any(f.slot == SLOTS[2] for f in judge(nights).found))
    assert sum(found) >= 4


def test_early_nights_say_how_many_are_wanted_and_later_ones_exclude_a_loss():
    nights = Machine().nights(30, np.random.default_rng(6), each=16)
    early, late = judge(nights[:3]), judge(nights)
    assert early.inconclusive
    assert all(2 < seen.nights_needed < 30 for seen in early.seen)
    assert late.inconclusive == ()
    assert all(seen.day < 0.03 for seen in late.seen)


def test_checks_of_one_day_are_one_night_and_what_was_kept_begins_anew():
    nights = Machine().nights(4, np.random.default_rng(7))
    again = [nights[0], replace(nights[1], date=nights[0].date), nights[2], nights[3]]
    assert [len(night.launches) for night in comparable(again)] == [32, 16, 16]
    assert len({one.block for one in comparable(again)[0].launches}) == 4
    kept = replace(nights[2], kept=True)
    assert comparable([nights[0], nights[1], kept, nights[3]]) == (kept, nights[3])


DATES = {
    "on one day": ("2026-11-28T09:00:00Z", "2026-11-28T11:00:00Z"),
    "across midnight": ("2026-11-28T23:50:00Z", "2026-11-29T00:20:00Z"),
    "in another time zone": ("2026-11-28T23:30:00+00:00", "2026-11-29T08:45:00+09:00"),
    "after the clock was set back": ("2026-11-28T11:00:00Z", "2026-11-28T09:00:00Z"),
    "at the same second": ("2026-11-28T11:00:00Z", "2026-11-28T11:00:00Z"),
}


def kept_and_checked(
    dates, loss=(1, None, 3.0, True), slots=SLOTS[:5], each=8, seed=9, states=("old", "new")
):
    """Both nights, the second one with a loss, in all sizes where nothing else is said."""
    rng = np.random.default_rng(seed)
    first, second = Machine().nights(2, rng, each=each, loss=loss, slots=slots, states=states)
    return replace(first, date=dates[0], kept=True), replace(second, date=dates[1])


@pytest.mark.parametrize("dates", DATES.values(), ids=DATES)
def test_what_was_kept_and_a_check_after_an_upgrade_are_compared_whatever_the_clock_says(dates):
    """Of one date they were merged into one night, which was 1.07 times as slow as itself."""
    nights = comparable(kept_and_checked(dates))
    assert len(nights) == 2
    (found,) = judge(nights).found
    assert (found.slot, found.kind) == (WHOLE, Kind.SLOWER)
    assert found.interval[0] < 3.0 < found.interval[1]
    assert found.ratio == pytest.approx(3.0, rel=0.15)
    assert found.default == pytest.approx(3.0, rel=0.15)


def test_a_loss_of_one_size_after_an_upgrade_of_the_same_day_is_found_there():
    made = kept_and_checked(DATES["on one day"], (1, SLOTS[3], 2.0, True), SLOTS, 16, seed=3)
    found = judge(comparable(made)).found
    assert [one.slot for one in found if one.slot != WHOLE] == [SLOTS[3]]


def test_an_upgrade_that_costs_nothing_makes_no_claim_on_the_same_day():
    for seed in range(12):
        nights = comparable(kept_and_checked(DATES["on one day"], None, SLOTS, 24, seed))
        assert judge(nights).found == ()


def test_without_a_change_that_is_known_one_check_is_a_suspicion():
    verdict = judge(comparable(kept_and_checked(DATES["on one day"], states=("one", "one"))))
    assert (verdict.found, verdict.suspected) == ((), (WHOLE,))


def test_days_apart_one_night_after_an_upgrade_is_no_claim():
    """What a day does is not known of one day."""
    dates = ("2026-11-01T09:00:00Z", "2026-11-28T09:00:00Z")
    assert judge(comparable(kept_and_checked(dates))).found == ()


def test_what_was_found_on_the_day_of_an_upgrade_stays_found_the_next_night():
    kept, check = kept_and_checked(DATES["on one day"])
    (found,) = judge(comparable((kept, check))).found
    assert found.since == check.date
    check = replace(check, found=((slot_text(found.slot), found.since),))
    again = replace(check, found=(), date="2026-11-29T02:00:00Z")
    (still,) = judge(comparable((kept, check, again))).found
    assert (still.slot, still.since) == (WHOLE, check.date)


def test_two_checks_of_a_day_are_one_night_only_once_a_third_is_judged():
    kept, check = kept_and_checked(DATES["on one day"])
    evening, next_day = (
        replace(check, date=date) for date in ("2026-11-28T18:00:00Z", "2026-11-29T09:00:00Z")
    )
    assert [len(night.launches) for night in comparable((kept, check, evening))] == [16, 16, 16]
    assert [len(night.launches) for night in comparable((kept, check, evening, next_day))] == [16, 32, 16]


def test_nothing_measured_is_nothing_said():
    assert judge([]).seen == ()
