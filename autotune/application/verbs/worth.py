"""``report --worth``: print the time that a recommendation saves an application, and when it pays off."""

import math
import sys
from dataclasses import asdict
from pathlib import Path

from autotune.application.profiles import read_profile
from autotune.application.worth import Worth, end_text
from autotune.application.worth import worth as worth_of
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.resources import user_text
from autotune.views.documents import answer_text
from autotune.views.text import duration_text


def worth_to(campaign: CampaignDirectory, calls: Path, application_s: float | None) -> Worth:
    """Return the time that a campaign's recommendation saves an application.

    ``calls`` is a file with the calls of one rank in a run: a table of sizes and counts, or a profile.
    ``application_s`` is the wall time of this run in seconds; None: the file contains this time.

    Raises:
        TableError: the profile cannot be read.
        UserError: the campaign has no recommendation, or the wall time is unknown.
    """
    profile = read_profile(user_text(calls), str(calls))
    spent_s = sum(o.duration_s for o in campaign.history)
    return worth_of(profile, campaign.recommended().effects, spent_s, application_s)


def worth(directory: Path, calls: Path, application_s: float | None, as_json: bool) -> None:
    """Print what ``worth_to`` returns for the campaign in a directory, as text or as JSON."""
    campaign = read_campaign(directory)
    gained, provenance = worth_to(campaign, calls, application_s), campaign.recommended().provenance
    low, high = gained.interval_per_hour_s
    if as_json:
        numbers = {
            **asdict(gained),
            "saved_per_hour_s": gained.saved_per_hour_s,
            "interval_per_hour_s": [low, high],
            "paid_back_after_s": gained.paid_back_after_s,
            "paid_back_interval_s": list(gained.paid_back_interval_s),
            "verified": provenance.verified,
        }
        sys.stdout.write(answer_text("report-worth", numbers))
        return
    ranks, nodes = provenance.ranks, provenance.nodes
    lines = [
        f"{calls}: {gained.calls:.4g} calls a run and rank, {gained.other_calls:.4g} not covered: of what "
        "was not tuned, or more than a factor of two beyond the sizes measured",
        f"saved an hour of application time: {gained.saved_per_hour_s:.3g} s ({end_text(low)} … {high:.3g})",
        f"the campaign cost {gained.campaign_s * nodes / 3600:.3g} node-hours of launches; "
        + _payback(gained),
        f"[{provenance.verified}]",
    ]
    if sizes := ", ".join(map(str, gained.other_sizes)):
        measured = f"{ranks} ranks on {nodes} node(s)"
        lines.insert(1, f"NOT THE SAME SIZE: calls on {sizes} ranks, measured on {measured}")
    if provenance.stamp:
        lines.append(provenance.stamp)
    sys.stdout.write("\n".join(lines) + "\n")


def _payback(gained: Worth) -> str:
    early, late = gained.paid_back_interval_s
    if math.isinf(early):
        return "nothing pays it back"
    earliest, latest = duration_text(early), duration_text(late) if math.isfinite(late) else "never"
    if math.isinf(gained.paid_back_after_s):
        return f"whether it is paid back is not known, after {earliest} of application time at the earliest"
    expected = duration_text(gained.paid_back_after_s)
    return f"paid back after {expected} ({earliest} … {latest}) of application time"
