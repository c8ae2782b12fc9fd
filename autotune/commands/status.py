"""``status DIR``: how far a campaign is."""

import sys
from pathlib import Path
from typing import Any

from autotune.campaign.directory import read_campaign
from autotune.campaign.discovery import sizes_of
from autotune.history.trial import Phase
from autotune.recommend.front import Provenance
from autotune.structure import plain
from autotune.verification.choices import Choice
from autotune.views.discovery import discovery_document, headline
from autotune.views.documents import json_text


def status(directory: Path, as_json: bool) -> None:
    """Print how far a campaign is."""
    campaign = read_campaign(directory)
    about, found = campaign.about, campaign.conclude()
    recommendation = found.recommendation
    provenance = recommendation.provenance if recommendation else Provenance()
    document: dict[str, Any] = {
        "campaign": about.scenario.title,
        "directory": str(directory),
        "state": campaign.state,
        "reason": campaign.reason,
        "phase": campaign.phase,
        "launches": len(campaign.history),
        "budget_launches": about.scenario.budget.launches,
        "trials": dict(campaign.trials),
        "stamp": str(about.site.stamp),
        "verified": provenance.verified,
        "recommendation": dict(recommendation.point) if recommendation else None,
        "speedup": recommendation.speedup if recommendation and recommendation.gains else None,
        "choices": [_choice(choice) for choice in found.choices],
    }
    if about.discovered is not None:
        document["discovery"] = discovery_document(about, sizes_of(campaign.history))
    if as_json:
        sys.stdout.write(json_text(document))
        return
    why = f" ({campaign.reason})" if campaign.reason else ""
    verified = len(campaign.history.of(Phase.VERIFY))
    discovering = len(campaign.history.of(Phase.DISCOVERY))
    searched = len(campaign.history) - verified - discovering
    fresh = f", {discovering} for the discovery" if discovering else ""
    fresh += f", {verified} more for the verification" if verified else ""
    counts = ", ".join(f"{n} {name}" for name, n in campaign.trials.items()) or "none yet"
    lines = [
        f"{about.scenario.title}: {campaign.state}{why}, phase {campaign.phase}",
        f"  launches   {searched} of {document['budget_launches']}{fresh}: {counts}",
    ]
    if about.discovered is not None:
        lines.append(f"  discovery  {headline(about, about.discovered)}")
    if recommendation:
        gain = f", {recommendation.speedup:.2f}× the default" if recommendation.gains else ""
        lines.append(f"  best       {recommendation.point}{gain} [{provenance.verified}]")
        lines += [f"  choice     {choice.text}" for choice in found.choices]
    if about.site.stamp:
        lines.append(f"  {about.site.stamp}")
    sys.stdout.write("\n".join(lines) + "\n")


def _choice(choice: Choice) -> dict[str, Any]:
    """One choice as JSON values."""
    chosen = choice.recommendation
    return {
        "kind": choice.kind,
        "checked": choice.checked,
        "changes": dict(choice.changes),
        "rules": sum(bool(rule.choice) for rule in chosen.rules),
        "speedup": chosen.speedup if chosen.gains else None,
        "prices": [
            {
                "slot": list(price.gain.slot),
                "ratio": price.gain.ratio,
                "interval": list(price.gain.interval),
                "main_effect": plain(price.effect),
            }
            for price in choice.prices
        ],
        "text": choice.text,
    }
