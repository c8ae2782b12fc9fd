"""Test performance guidelines, such as allreduce ≤ reduce + bcast, on a campaign's own launches."""

from autotune.campaign.spec import CampaignSpec
from autotune.history.trial import History
from autotune.recommend.guideline_test import Findings, findings
from autotune.recommend.guidelines import of_campaign
from autotune.recommend.recommendation import Recommendation


def campaign_findings(
    about: CampaignSpec, history: History, recommendation: Recommendation | None, rate: float = 0.05
) -> Findings:
    """Test the guidelines on a campaign's launches, for the stack's defaults and the exported settings.

    Args:
        about: Description of the campaign.
        history: All launches of the campaign.
        recommendation: The setting that would be exported; None if there is none.
        rate: Probability that a violation is reported although no guideline is violated.
    """
    return findings(of_campaign(about.space, history, recommendation), rate, about.scenario.verify.max_loss)
