"""``status``, ``history`` and ``doctor``: looking without changing anything."""

import json
import sys
from pathlib import Path
from typing import Any

from autotune.campaign.directory import read_record
from autotune.errors import UserError, allowed
from autotune.history.trial import Phase
from autotune.resources import space_text
from autotune.space.loader import load_space


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
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
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


def history(directory: Path, table_format: str, out: Path | None) -> None:
    """Print or write all measurements."""
    if table_format not in ("csv", "parquet"):
        raise UserError(f"--format {table_format}", allowed(table_format, ("csv", "parquet")))
    record = read_record(directory)
    from autotune.views.frames import history_frame, write_table

    write_table(history_frame(record.history), table_format, out)


def doctor(as_json: bool, mpirun: str | None, space: str | None) -> None:
    """Print what is here."""
    from autotune.stacks.installation import find
    from autotune.stacks.openmpi import detect

    stack = detect(find(mpirun), {}, {}, 0)
    findings = dict(stack.findings())
    dropped = stack.available(load_space(space_text(space), space)).dropped if space else ()
    if as_json:
        document = {
            "findings": findings,
            "facts": sorted(stack.facts),
            "dropped": [{"parameter": d.parameter, "value": d.value, "reason": d.reason} for d in dropped],
        }
        sys.stdout.write(json.dumps(document, indent=1) + "\n")
        return
    from rich.console import Console

    from autotune.views.tables import machine_table

    Console().print(machine_table(findings.items(), dropped))
