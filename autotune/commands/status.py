"""``status DIR``: how far a campaign is."""

import math
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import Conclusion
from autotune.campaign.costs import planned
from autotune.campaign.description import Description
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.discovery import slots_of
from autotune.campaign.estimate import remaining_s
from autotune.commands.guidelines import campaign_findings
from autotune.commands.kept_status import JOBS, LONG, Progress, keep, kept
from autotune.errors import AutotuneError, UserError
from autotune.history.events import State
from autotune.history.folder import FILE
from autotune.history.journal import Journal, content
from autotune.history.trial import History
from autotune.recommend.recommendation import Checked, Provenance
from autotune.structure import plain
from autotune.verification.choices import Choice
from autotune.verification.one_round import fresh_launches
from autotune.views.discovery import discovery_document, headline
from autotune.views.guidelines import concerning_text
from autotune.views.text import advice_text, duration_text

_EVERY_S, _SHARE = 10.0, 50
"""A running campaign's status is kept so often, or after so many times the time that keeping it takes."""


def status(directory: Path, as_json: bool) -> None:
    """Print how far a campaign is, and what it waits for.

    Raises:
        AutotuneError: as ``progress``.
    """
    now = progress(directory)
    sys.stdout.write(now.json if as_json else now.text)


def progress(directory: Path) -> Progress:
    """How far a campaign is, and what it waits for; of a long one kept for the next time.

    Raises:
        UserError: there is no campaign, and none in the queue.
        JournalError: its journal is damaged or of a newer format.
    """
    submitted = (directory / JOBS).is_dir()
    if submitted and not content(directory):
        return _waiting(directory)
    now = kept(directory)
    if now is None:
        campaign = read_campaign(directory)
        now = concluded(campaign, campaign.conclude())
        if len(campaign.history) >= LONG:
            keep(directory, now)
    if submitted and now.document["state"] != State.COMPLETE and (queue := _queue(directory)):
        return replace(now, document={**now.document, "queue": list(queue)})
    return now


def concluded(campaign: CampaignDirectory, found: Conclusion) -> Progress:
    """How far a campaign is, by all of its journal."""
    about, recommendation = campaign.about, found.recommendation
    provenance = recommendation.provenance if recommendation else Provenance()
    document: dict[str, Any] = {
        "campaign": about.scenario.title,
        "directory": str(campaign.path),
        "state": campaign.state,
        "reason": campaign.reason,
        "phase": campaign.phase,
        "phases": list(planned(about)),
        "launches": len(campaign.history),
        "measured_s": sum(o.duration_s for o in campaign.history),
        "budget_launches": about.scenario.budget.launches,
        "trials": dict(campaign.trials),
        "stamp": str(about.site.stamp),
        "verified": provenance.verified,
        "verdict": _verdict(found),
        "recommendation": dict(recommendation.point) if recommendation else None,
        "speedup": recommendation.speedup if recommendation and recommendation.gains else None,
        "choices": [_choice(choice) for choice in found.choices],
    }
    if queued_s := sum(o.queue_s for o in campaign.history):
        document["queued_s"] = queued_s
    if campaign.state is not State.COMPLETE and math.isfinite(left_s := remaining_s(about, campaign.history)):
        document["left_s"] = round(left_s, 1)
    lines = []
    if about.discovered is not None:
        document["discovery"] = discovery_document(about, slots_of(campaign.history))
        lines.append(f"  discovery  {headline(about.discovered)}")
    if recommendation:
        gain = f", {found.speedup[0]:.2f}× the default" if recommendation.gains else ""
        advice = advice_text(recommendation, about.space.unset)
        lines.append(f"  best       {advice}{gain} [{provenance.verified}]")
        lines += [f"  choice     {choice.text}" for choice in found.choices]
        violated = campaign_findings(about, campaign.history, recommendation)
        if doubt := concerning_text(violated, about.space, recommendation):
            lines.append(f"  guidelines violated: {doubt}")
    return Progress(
        plain(document),
        tuple(lines),
        len(campaign.history),
        dict(Counter(o.trial.phase.value for o in campaign.history)),
        tuple((trial.number, trial.phase.value) for trial in campaign.pending),
        campaign.lines,
        (campaign.path / FILE).stat().st_mtime,
    )


class Keeper:
    """Keeps what is said of a campaign while it runs, in a small part of the time."""

    def __init__(self, directory: Path, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._next_s = 0.0

    def keep(self, about: Description, history: History, state: State = State.RUNNING) -> None:
        """Keep what is said now, if it is time again or the campaign has ended."""
        began_s = time.monotonic()
        if len(history) < LONG or (state is State.RUNNING and began_s < self._next_s):
            return
        campaign = CampaignDirectory(self._directory, about, history, state, "", (), self._journal.lines)
        with suppress(AutotuneError, OSError):
            keep(self._directory, concluded(campaign, campaign.conclude()))
        now_s = time.monotonic()
        self._next_s = now_s + max(_EVERY_S, _SHARE * (now_s - began_s))


def _waiting(directory: Path) -> Progress:
    """Status of a campaign whose job has not begun it."""
    queue = _queue(directory)
    if not queue:
        raise UserError(
            f"{directory}: its job ended before the campaign began",
            f"see {directory / JOBS}/*_log.out; the same command begins it",
        )
    return Progress({"directory": str(directory), "state": "waiting", "queue": list(queue)})


def _queue(directory: Path) -> tuple[str, ...]:
    """The campaign's jobs that wait or run, as its launcher words them."""
    words: tuple[str, ...] = import_module("hydra_plugins.autotune._slurm").queue(directory, duration_text)
    return words


def _verdict(found: Conclusion) -> dict[str, Any]:
    """The verification as values: its progress, the speed-up with its 95 % interval."""
    fresh = fresh_launches(found.verdict.rounds) if found.verdict else 0
    ratio, interval = found.speedup
    return {
        "checked": str(found.recommendation.provenance.checked if found.recommendation else Checked.NOT),
        "fresh_launches": fresh,
        "speedup": ratio,
        "interval": list(interval),
        "max_slowdown": found.verdict.hidden if found.verdict else None,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    chosen = choice.recommendation
    return {
        "kind": choice.kind,
        "checked": choice.checked,
        "changes": dict(choice.changes),
        "rules": sum(rule.sets for rule in chosen.rules),
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
