"""``status DIR``: how far a campaign is."""

import sys
from pathlib import Path
from typing import Any

from autotune.campaign.directory import read_record
from autotune.history.trial import Phase
from autotune.views.documents import json_text


def status(directory: Path, as_json: bool) -> None:
    """Print how far a campaign is."""
    record = read_record(directory)
    recommendation = record.recommendation
    document: dict[str, Any] = {
        "campaign": record.name,
        "directory": str(directory),
        "state": record.state,
        "reason": record.reason,
        "phase": record.phase,
        "launches": len(record.history),
        "budget_launches": record.scenario["budget"]["launches"],
        "trials": dict(record.trials),
        "stamp": record.site.get("stamp", ""),
        "verified": recommendation.provenance.verified if recommendation else "UNVERIFIED",
        "recommendation": dict(recommendation.point) if recommendation else None,
        "speedup": recommendation.speedup if recommendation and recommendation.gains else None,
    }
    if as_json:
        sys.stdout.write(json_text(document))
        return
    why = f" ({record.reason})" if record.reason else ""
    verified = len(record.history.of(Phase.VERIFY))
    searched = len(record.history) - verified
    fresh = f", {verified} more for the verification" if verified else ""
    counts = ", ".join(f"{n} {name}" for name, n in record.trials.items()) or "none yet"
    lines = [
        f"{record.name}: {record.state}{why}, phase {record.phase}",
        f"  launches   {searched} of {document['budget_launches']}{fresh}: {counts}",
    ]
    if recommendation:
        gain = f", {recommendation.speedup:.2f}× the default" if recommendation.gains else ""
        lines.append(f"  best       {recommendation.point}{gain} [{recommendation.provenance.verified}]")
    if record.site.get("stamp"):
        lines.append(f"  {record.site['stamp']}")
    sys.stdout.write("\n".join(lines) + "\n")
