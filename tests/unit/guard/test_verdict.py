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
    nights[33] = _found(nights[33], SLOTS[2], nights[30].day)
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
    assert all(2 < seen.wanted < 30 for seen in early.seen)
    assert late.inconclusive == ()
    assert all(seen.day < 0.03 for seen in late.seen)


def test_checks_of_one_day_are_one_night_and_what_was_kept_begins_anew():
    nights = Machine().nights(4, np.random.default_rng(7))
    again = [nights[0], _dated(nights[1], nights[0].date), nights[2], nights[3]]
    assert [len(night.launches) for night in comparable(again)] == [32, 16, 16]
    assert len({one.block for one in comparable(again)[0].launches}) == 4
    kept = _kept(nights[2])
    assert comparable([nights[0], nights[1], kept, nights[3]]) == (kept, nights[3])


def test_nothing_measured_is_nothing_said():
    assert judge([]).seen == ()


def _found(night, slot, since):
    return replace(night, found=((slot_text(slot), since),))


def _dated(night, date):
    return replace(night, date=date)


def _kept(night):
    return replace(night, kept=True)
