"""Ratios of heats on a machine whose states change what a setting gains."""

import math

import numpy as np
import pytest

from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.states import Ratios, StatePriors, slopes
from autotune.campaign.states import corrections as corrections_by
from autotune.history.objectives import envelope
from autotune.history.trial import Cell, Estimate, History, Observation, Phase, Status, Subject, Trial
from autotune.space import Point, Space

SIZES = (8, 1024, 65536)
SLOTS = [("allreduce", 2, size) for size in SIZES]
GAIN = {"ob1": (0.1, 0.0, 0.0), "ucx": (0.2, 0.3, 0.5)}
"""Ln of the gain in the state that prevails."""
SLOPE = {"ob1": (0.0, 0.0, 0.0), "ucx": (0.0, 0.1, -0.5)}
"""Change of the ratio with ln of how slow the default is."""


def setting(family: str, size: str) -> Point:
    return Point.of({"pml": family, "eager": size, "transport": "sm" if family == "ucx" else "none"})


SETTINGS = [setting(family, size) for family in GAIN for size in ("1k", "4k", "16k")]


def machine(states: list[float], sd: float = 0.02, seed: int = 1) -> History:
    """Heats of the default and three settings, drawn among six, at these states of the machine."""
    rng, made, number = np.random.default_rng(seed), [], 0
    for z in states:
        chosen = [None, *(SETTINGS[i] for i in rng.permutation(len(SETTINGS))[:3])]
        heat = number + 1
        for point in chosen:
            number += 1
            gain, slope = (GAIN[point["pml"]], SLOPE[point["pml"]]) if point else ((0,) * 3, (0,) * 3)
            estimates = []
            for j, size in enumerate(SIZES):
                log = math.log(1e-6 * (1 + size / 1024)) + z - gain[j] + slope[j] * z + rng.normal(0, sd)
                estimates.append(
                    Estimate(Cell("allreduce", 2, size), math.exp(log), 1e-3 * math.exp(log), 50)
                )
            subject = Subject.SWEEP if point else Subject.UNTOUCHED
            phase = Phase.SEARCH if point else Phase.BASELINE
            trial = Trial(number, phase, point or SETTINGS[0], subject, heat=heat)
            made.append(Observation(trial, Status.OK, tuple(estimates)))
    return History(tuple(made))


def logs(history: History, family: str) -> np.ndarray:
    rows = [o for o in history if o.trial.subject is Subject.SWEEP and o.trial.point["pml"] == family]
    return np.array(
        [[math.log(e.median_s / (1e-6 * (1 + e.cell.message_bytes / 1024))) for e in o.usable] for o in rows]
    )


def corrections(launches: list[Ratios], state: float) -> list[dict]:
    return corrections_by(launches, slopes(launches), state)


def test_ratios_of_two_states_are_those_of_the_one_that_prevails():
    states = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    seen = at_one_moment(machine(states))
    for family in GAIN:
        assert logs(seen, family).mean(axis=0) == pytest.approx(-np.array(GAIN[family]), abs=0.04)
        assert logs(seen, family).std(axis=0).max() < 0.06  # 0.2 where states are mixed


def test_what_is_believed_of_losses_is_read_in_the_state_in_which_a_setting_is_slowest():
    """ucx gains 0.3 and 0.5 where this state prevails, 0.2 and 1.0 in the other; ob1 the same in both."""
    states = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    seen = at_one_moment(machine(states))
    assert logs(seen.in_slowest_states, "ucx").mean(axis=0) == pytest.approx([-0.2, -0.2, -0.5], abs=0.05)
    assert logs(seen.in_slowest_states, "ob1").mean(axis=0) == pytest.approx([-0.1, 0.0, 0.0], abs=0.05)
    # One heat in twenty-four whose default alone was disturbed is no state of the machine.
    disturbed = at_one_moment(machine([*states, *states[:-1], 3.0]))
    assert logs(disturbed.in_slowest_states, "ucx").mean(axis=0)[1] > -0.25


def test_a_machine_of_one_state_is_left_as_it_is():
    rng = np.random.default_rng(3)
    history = machine(list(rng.normal(0, 0.02, 20)))
    ratios = [
        Ratios(p, float(rng.normal(0, 0.02)), dict.fromkeys(SLOTS, rng.normal(0, 0.02))) for p in SETTINGS * 9
    ]
    assert corrections(ratios, 0.0) == [{}] * len(ratios)
    seen = at_one_moment(history)
    assert logs(seen, "ucx").std(axis=0).max() < 0.06
    assert seen.in_slowest_states.observations == seen.observations


def test_a_setting_whose_launches_jump_corrects_nobody():
    """One launch in another state took a thousand times as long, by chance; the others show no slope."""
    point, *others = SETTINGS
    ratios = [Ratios(p, z, dict.fromkeys(SLOTS, 0.0)) for p in others for z in (0.0, 1.0, 0.0)]
    ratios += [Ratios(point, 0.0, dict.fromkeys(SLOTS, 0.0)), Ratios(point, 1.0, dict.fromkeys(SLOTS, 7.0))]
    assert all(not any(by.values()) for by in corrections(ratios, 0.0))


def test_a_setting_seen_in_one_state_is_corrected_by_what_is_like_it():
    seen, alone = setting("ucx", "1k"), setting("ucx", "4k")
    ratios = [Ratios(seen, z, {SLOTS[0]: -0.3 - 0.5 * z}) for z in (0.0, 1.0, 0.0, 1.0, 0.0)]
    ratios += [Ratios(setting("ob1", "1k"), z, {SLOTS[0]: -0.1}) for z in (0.0, 1.0, 0.0, 1.0, 0.0)]
    ratios += [Ratios(alone, 1.0, {SLOTS[0]: -0.8})]
    *_, by = corrections(ratios, 0.0)
    assert by[SLOTS[0]] == pytest.approx(0.5, abs=0.01)
    assert not any(corrections(ratios, 0.0)[6].values())


def test_launches_of_a_setting_in_one_state_alone_leave_its_slope_to_settings_like_it():
    """Their own z differ a little, so that their own slopes are noise."""
    seen, again = setting("ucx", "1k"), setting("ucx", "4k")
    ratios = [Ratios(seen, z, {SLOTS[0]: -0.3 - 0.5 * z}) for z in (0.0, 1.0, 0.0, 1.0, 0.0)]
    ratios += [Ratios(again, 1.0 + dz, {SLOTS[0]: -0.8 + 3 * dz}) for dz in (-0.01, 0.0, 0.01, 0.02)]
    for by in corrections(ratios, 0.0)[-4:]:
        assert by[SLOTS[0]] == pytest.approx(0.5, abs=0.02)


def test_where_other_settings_do_not_count_only_a_settings_own_launches_correct_it(monkeypatch):
    monkeypatch.setattr("autotune.campaign.states.STATES", StatePriors(unlike=0.0))
    seen, alone = setting("ucx", "1k"), setting("ucx", "4k")
    ratios = [Ratios(seen, z, {SLOTS[0]: -0.3 - 0.5 * z}) for z in (0.0, 1.0, 0.0, 1.0)]
    first, *_, last = corrections([*ratios, Ratios(alone, 1.0, {SLOTS[0]: -0.8})], 1.0)
    assert first[SLOTS[0]] == pytest.approx(-0.5)
    assert not last


def test_the_untouched_stack_gains_nothing_against_itself_however_its_launches_differ():
    """Settings are compared with the default of their heat; a second default there shows only the noise."""
    rng, made = np.random.default_rng(5), []
    for number in range(1, 13, 2):
        for i in range(2):
            trial = Trial(number + i, Phase.BASELINE, SETTINGS[0], Subject.UNTOUCHED, heat=number)
            times = [1e-6 * math.exp(rng.normal(0, 0.2)) for _ in SIZES]
            cells = [Cell("allreduce", 2, size) for size in SIZES]
            estimates = tuple(Estimate(c, t, 1e-9, 50) for c, t in zip(cells, times, strict=True))
            made.append(Observation(trial, Status.OK, estimates))
    seen = at_one_moment(History(tuple(made)))
    baseline = envelope(Space("none", ()), seen)
    first = {(e.cell.collective, 2, e.cell.message_bytes): e.median_s for e in made[0].estimates}
    assert len(seen) == 6
    for slot, winner in baseline.items():
        assert winner.median_s == pytest.approx(first[slot])
        assert winner.sem_s > 0.03 * winner.median_s
