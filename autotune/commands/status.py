"""``status DIR``: how far a campaign is."""

import sys
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from autotune.campaign.directory import read_campaign
from autotune.campaign.discovery import sizes_of
from autotune.commands.guidelines import campaign_findings
from autotune.commands.kept_status import LONG, keep
from autotune.errors import UserError
from autotune.history.events import State
from autotune.history.journal import FILE, content
from autotune.history.trial import Phase
from autotune.recommend.front import Provenance
from autotune.structure import plain
from autotune.verification.choices import Choice
from autotune.views.discovery import discovery_document, headline
from autotune.views.documents import json_text
from autotune.views.guidelines import concerning_text
from autotune.views.text import advice_text, duration_text


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is."""

    document: dict[str, Any]
    """As JSON values."""
    lines: tuple[str, ...]
    """In words."""
    going_on: bool
    """Whether it runs, or waits for a job to begin it."""
    for_good: bool = False
    """Whether it stays so, and took so long to conclude that it is kept."""

    @property
    def text(self) -> str:
        """For a terminal."""
        return "\n".join(self.lines) + "\n"


JOBS = "slurm"
"""Where the scripts and the output of a campaign's jobs are."""


def status(directory: Path, as_json: bool) -> None:
    """Print how far a campaign is, and what it waits for.

    Raises:
        AutotuneError: as ``progress``.
    """
    now = progress(directory)
    values = json_text(now.document)
    sys.stdout.write(values if as_json else now.text)
    if now.for_good:
        keep(directory, now.text, values)


def progress(directory: Path) -> Progress:
    """How far a campaign is, and what it waits for.

    Raises:
        UserError: there is no campaign, and none in the queue.
        JournalError: its journal is damaged or of a newer format.
    """
    submitted = (directory / JOBS).is_dir()
    if submitted and not content(directory):
        return _waiting(directory)
    campaign = read_campaign(directory)
    queue = _queue(directory) if submitted and campaign.state is not State.COMPLETE else ()
    under_way = [trial.number for trial in campaign.pending if campaign.state is State.RUNNING]
    for_s = time.time() - (directory / FILE).stat().st_mtime
    queued_s = sum(o.queue_s for o in campaign.history)
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
    waits = {"under_way": under_way, "queue": list(queue), "queued_s": queued_s}
    document |= {key: value for key, value in waits.items() if value}
    if about.discovered is not None:
        document["discovery"] = discovery_document(about, sizes_of(campaign.history))
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
    lines += [f"  now        launch {number}, for {duration_text(for_s)}" for number in under_way]
    lines += [f"  queue      {job}" for job in queue]
    if queued_s >= 1:
        lines.append(f"  waited     {duration_text(queued_s)} in the queue, all launches together")
    if about.discovered is not None:
        lines.append(f"  discovery  {headline(about, about.discovered)}")
    if recommendation:
        gain = f", {found.speedup[0]:.2f}× the default" if recommendation.gains else ""
        advice = advice_text(recommendation, about.space.untouched)
        lines.append(f"  best       {advice}{gain} [{provenance.verified}]")
        lines += [f"  choice     {choice.text}" for choice in found.choices]
        violated = campaign_findings(about, campaign.history, recommendation)
        if doubt := concerning_text(violated, about.space, recommendation):
            lines.append(f"  guidelines violated: {doubt}")
    if about.site.stamp:
        lines.append(f"  {about.site.stamp}")
    running = campaign.state is State.RUNNING
    for_good = len(campaign.history) >= LONG and not running and not submitted
    return Progress(document, tuple(lines), running or bool(queue), for_good)


def _waiting(directory: Path) -> Progress:
    """What there is of a campaign whose job has not begun it.

    Raises:
        UserError: no job will.
    """
    queue = _queue(directory)
    if not queue:
        raise UserError(
            f"{directory}: its job ended before the campaign began",
            f"see {directory / JOBS}/*_log.out; the same command begins it",
        )
    document = {"directory": str(directory), "state": "waiting", "queue": list(queue)}
    lines = (f"{directory}: waiting, nothing is launched yet", *(f"  queue      {job}" for job in queue))
    return Progress(document, lines, going_on=True)


def _queue(directory: Path) -> tuple[str, ...]:
    """The campaign's jobs that wait or run, as its launcher words them."""
    words: tuple[str, ...] = import_module("hydra_plugins.autotune._slurm").queue(directory)
    return words


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
