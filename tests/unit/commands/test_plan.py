"""What a plan says, and that it counts what a campaign then does."""

from autotune.campaign.costs import Share, shares
from autotune.history.journal import Journal
from autotune.history.trial import Phase
from tests.campaigns import Silent, World, strategy


def test_node_hours_from_measuring_alone_to_every_launch_timing_out():
    assert Share("search", 29, 29).row(8, 4.0, 80.0) == ("search", "29", "0.26 … 5.16")
    assert Share("verification", 16, 64).row(8, 4.0, 80.0) == ("verification", "16 to 64", "0.14 … 11.38")


def test_a_campaign_makes_the_launches_that_were_planned(tmp_path):
    from autotune.campaign.loop import CampaignLoop

    planned_by = strategy(14, seed=1)
    with Journal(tmp_path) as journal:
        history = CampaignLoop(planned_by, World().observe, journal, Silent(), lambda: 0.0).run()
    made = {phase: len(history.of(Phase(phase))) for phase in ("baseline", "screening", "search", "verify")}
    planned = {one.phase.replace("verification", "verify"): one.launches for one in shares(planned_by)}
    assert made == planned
    assert planned["screening"] > 0


def test_without_room_for_a_screening_there_is_none():
    assert [one.launches for one in shares(strategy(5))] == [1, 0, 4, 0]
