"""``worth``: what a recommendation saves an application, and when the campaign is paid back."""

import math
import sys
from dataclasses import asdict
from pathlib import Path

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.importers.profiles import read_profile
from autotune.recommend.worth import Worth
from autotune.recommend.worth import worth as worth_of
from autotune.resources import user_text
from autotune.views.documents import json_text
from autotune.views.text import duration_text


def worth_to(campaign: CampaignDirectory, calls: Path, application_s: float | None) -> Worth:
    """The time that a campaign's recommendation saves the application with these calls."""
    profile = read_profile(user_text(calls), str(calls))
    spent_s = sum(o.duration_s for o in campaign.history)
    return worth_of(profile, campaign.recommended().gains, spent_s, application_s)


def worth(directory: Path, calls: Path, application_s: float | None, as_json: bool) -> None:
    """Print the savings an hour of application time, with an interval."""
    campaign = read_campaign(directory)
    recommendation, gained = campaign.recommended(), worth_to(campaign, calls, application_s)
    low, high = gained.interval_per_hour_s
    if as_json:
        numbers = {
            **asdict(gained),
            "saved_per_hour_s": gained.saved_per_hour_s,
            "interval_per_hour_s": [low, high],
            "paid_back_after_s": gained.paid_back_after_s,
            "verified": recommendation.provenance.verified,
        }
        sys.stdout.write(json_text(numbers))
        return
    ranks, nodes = recommendation.provenance.ranks, recommendation.provenance.nodes
    lines = [
        f"{calls}: {gained.calls:.4g} calls a run and rank, {gained.other_calls:.4g} not covered: of what "
        "was not tuned, or more than a factor of two beyond the sizes measured",
        f"saved an hour of application time: {gained.saved_per_hour_s:.3g} s ({low:.3g} … {high:.3g})",
        f"the campaign cost {gained.campaign_s * nodes / 3600:.3g} node-hours of launches; "
        + (
            f"paid back after {duration_text(gained.paid_back_after_s)} of application time"
            if math.isfinite(gained.paid_back_after_s)
            else "nothing pays it back"
        ),
        f"[{recommendation.provenance.verified}]",
    ]
    if sizes := ", ".join(map(str, gained.other_sizes)):
        measured = f"{ranks} ranks on {nodes} node(s)"
        lines.insert(1, f"NOT THE SAME SIZE: calls on {sizes} ranks, measured on {measured}")
    if recommendation.provenance.stamp:
        lines.append(recommendation.provenance.stamp)
    sys.stdout.write("\n".join(lines) + "\n")
