"""What a plan says, and that it counts what a campaign then does."""

from autotune.campaign.strategy import Plan, Strategy
from autotune.commands.plan import Share, shares
from autotune.history.journal import Journal
from autotune.history.trial import Phase
from autotune.proposers import proposer
from tests.campaigns import OBJECTIVES, SPACE, Silent, World


def test_node_hours_from_measuring_alone_to_every_launch_timing_out():
    assert Share("search", 29, 29).row(8, 4.0, 80.0) == ("search", "29", "0.26 … 5.16")
    assert Share("verification", 16, 64).row(8, 4.0, 80.0) == ("verification", "16 … 64", "0.14 … 11.38")


def test_a_campaign_makes_the_launches_that_were_planned(tmp_path):
    from autotune.campaign.loop import Campaign

    plan = Plan(budget_launches=14, baseline_launches=3, seed=1)
    strategy = Strategy(SPACE, OBJECTIVES, plan, proposer("random"))
    with Journal(tmp_path) as journal:
        history = Campaign(strategy, World().observe, journal, Silent(), lambda: 0.0).run()
    made = {phase: len(history.of(Phase(phase))) for phase in ("baseline", "screening", "search", "verify")}
    planned = {one.phase.replace("verification", "verify"): one.launches for one in shares(strategy)}
    assert made == planned
    assert planned["screening"] > 0


def test_without_room_for_a_screening_there_is_none():
    strategy = Strategy(SPACE, OBJECTIVES, Plan(budget_launches=5, baseline_launches=3), proposer("random"))
    assert [one.launches for one in shares(strategy)] == [1, 0, 4, 0]
