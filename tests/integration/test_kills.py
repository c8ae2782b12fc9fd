"""A few of the kills of ``make kill-test``, and a power cut at every step of a campaign's life."""

import random

import pytest

from tests.kills import HEAT_S, HEATS, SIMULATED, hunt


def test_a_campaign_that_is_killed_again_and_again_loses_nothing(tmp_path):
    words = (*SIMULATED, "sizes=[8,1M]", "budget.launches=12", "verify.launches=4")
    out = hunt(tmp_path, words, 4, 4, random.Random(1), same=True)
    assert sum(out.kills.values()) == 4
    assert out.faults == []


@pytest.mark.mpi
@pytest.mark.slow
def test_a_campaign_that_is_killed_in_its_heats_loses_nothing_and_leaves_nothing(tmp_path):
    out = hunt(tmp_path, (*HEATS, "verify.max_failures=1"), 4, 4, random.Random(1), same=False, heat_s=HEAT_S)
    assert sum(out.kills.values()) == 4
    assert out.faults == []
