"""The estimated end of a campaign, against when it came: pretended launches that take time by a clock."""

import math
from dataclasses import replace

import pytest

from autotune.campaign.estimate import remaining_s
from autotune.campaign.loop import CampaignLoop
from autotune.history.trial import History, Phase
from tests.campaigns import Memory, Silent, World, strategy


class Timed(Silent):
    """Writes down the longest time left, and the expected one."""

    def __init__(self, clock, expected):
        super().__init__()
        self.clock, self.expected, self.said = clock, expected, []

    def launching(self, trial, elapsed_s, left_s):
        self.said.append((self.clock(), elapsed_s, left_s, self.expected()))


def played(took_s, launches=40, **changes):
    """A whole campaign whose launches take so long, by their number: its end, and what was estimated."""
    now, world, seen = [100.0], World(), []
    planned = strategy(launches, **changes)

    def observe(trial):
        doubled = trial.phase is Phase.VERIFY and planned.campaign.scenario.other_loop
        both_loops = 2 if doubled else 1  # a launch of the verification measures both
        seconds = both_loops * took_s(trial.number)
        now[0] += seconds
        seen.append(replace(world.observe(trial), duration_s=seconds))
        return seen[-1]

    listener = Timed(lambda: now[0], lambda: remaining_s(planned.campaign, History(tuple(seen))))
    CampaignLoop(planned, observe, Memory(), listener, lambda: now[0]).run()
    return now[0], listener.said


@pytest.mark.parametrize(
    ("took_s", "changes"),
    [
        (lambda number: 2.0, {}),
        (lambda number: 2.0, {"verify": {"launches": 8}}),
        (lambda number: 2.0 if number % 9 else 6.0, {"verify": {"launches": 8}}),
        (lambda number: 2.0, {"budget": {"total_seconds": 70.0}, "verify": {"launches": 8}}),
        (lambda number: 2.0, {"budget": {"seconds": 40.0}, "verify": {"launches": 8}}),
    ],
    ids=["no verification", "verified", "some launches hang", "limited in all", "limited search"],
)
def test_the_end_is_estimated_within_30_per_cent(took_s, changes):
    end, said = played(took_s, **changes)
    begun = said[0][0]
    assert math.isinf(said[0][2]) and math.isinf(said[0][3])  # nothing is known of a launch before the first
    assert [elapsed for _, elapsed, *_ in said] == [at - begun for at, *_ in said]
    ends = [at + expected for at, _, _, expected in said[3:]]
    wrong = [at for at in ends if not 0.7 <= (at - begun) / (end - begun) <= 1.3]
    assert len(wrong) <= len(said) // 10


@pytest.mark.parametrize("changes", [{}, {"budget": {"total_seconds": 70.0}}], ids=["launches", "time"])
def test_the_longest_time_left_is_a_bound_and_never_rises(changes):
    end, said = played(lambda number: 2.0, verify={"launches": 8, "other_loop": "ignored"}, **changes)
    ends = [at + longest for at, _, longest, _ in said[3:]]
    assert min(ends) >= end - 4.0  # a launch of the verification that begins in time may end late
    longest = [left for _, _, left, _ in said[3:]]
    assert longest == sorted(longest, reverse=True)
