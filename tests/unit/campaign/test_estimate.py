"""The estimated end of a campaign, against when it came: pretended launches that take time by a clock."""

import math

import pytest

from autotune.campaign.loop import CampaignLoop
from autotune.history.trial import Phase
from tests.campaigns import Memory, Silent, World, strategy


class Timed(Silent):
    """Writes down what was estimated, and when."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.said = clock, []

    def launching(self, trial, elapsed_s, left_s):
        self.said.append((self.clock(), elapsed_s, left_s))


def played(took_s, launches=40, **changes):
    """A whole campaign whose launches take so long, by their number: its end, and what was estimated."""
    now, world = [100.0], World()
    planned = strategy(launches, **changes)

    def observe(trial):
        both_loops = 2 if trial.phase is Phase.VERIFY else 1  # a launch of the verification measures both
        now[0] += both_loops * took_s(trial.number)
        return world.observe(trial)

    listener = Timed(lambda: now[0])
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
    assert math.isinf(said[0][2])  # nothing is known of a launch before the first
    assert [elapsed for _, elapsed, _ in said] == [at - begun for at, _, _ in said]
    wrong = [at + left for at, _, left in said[3:] if not 0.7 <= (at + left - begun) / (end - begun) <= 1.3]
    assert len(wrong) <= len(said) // 10
