"""``status DIR``: print how far a campaign has come, and its results so far, once or again and again."""

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
from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.discovery import slots_of
from autotune.campaign.estimate import remaining_s
from autotune.campaign.guidelines import campaign_findings
from autotune.campaign.spec import CampaignSpec
from autotune.commands.companions import sites
from autotune.commands.kept_status import JOBS, LONG, Progress, is_site, store_status, stored_status
from autotune.commands.terminal import console
from autotune.errors import AutotuneError, UserError
from autotune.exporters.document import call_document
from autotune.history.events import State
from autotune.history.folder import FILE
from autotune.history.journal import Journal, content
from autotune.history.objectives import known_end
from autotune.history.trial import History
from autotune.recommend.recommendation import Checked, Provenance
from autotune.structure import plain
from autotune.verification.choices import Choice
from autotune.verification.one_round import fresh_launches
from autotune.views.discovery import discovery_document, headline
from autotune.views.ending import standing
from autotune.views.guidelines import concerning_text
from autotune.views.text import advice_text, duration_text, interval_text

_EVERY_S, _SHARE = 10.0, 50
"""The shortest time between two updates of a running campaign's stored status: in seconds, and as a multiple
of the time that an update takes; the longer of the two applies."""
_SHOWN_EVERY_S, _SHOWN_SHARE = 1.0, 10  # Likewise the shortest time between two updates by ``watch``.


def status(directory: Path, as_json: bool) -> None:
    """Print how far a campaign has come, and which batch jobs it waits for.

    Raises:
        AutotuneError: for the same reasons as in ``progress``.
    """
    current = progress(directory)
    sys.stdout.write(current.json if as_json else current.text)


def progress(directory: Path) -> Progress:
    """Return how far a campaign has come, and which batch jobs it waits for; store it for a long campaign.

    Raises:
        UserError: the directory contains no campaign, and no batch job that would begin a campaign is queued.
        JournalError: the campaign's journal is damaged, or a newer version wrote it.
    """
    submitted = (directory / JOBS).is_dir()
    if submitted and not content(directory):
        return _waiting(directory)
    current = stored_status(directory)
    if current is None:
        campaign = read_campaign(directory)
        current = concluded(campaign, campaign.conclude())
        if len(campaign.history) >= LONG:
            store_status(directory, current)
    if submitted and current.document["state"] != State.COMPLETE and (queue := _queue(directory)):
        return replace(current, document={**current.document, "queue": list(queue)})
    return current


def watch(directory: Path) -> None:
    """Show how far a campaign or a site has come, until it ends or the user presses Ctrl-C.

    Raises:
        AutotuneError: for the same reasons as in ``status``.
    """
    from rich.live import Live
    from rich.text import Text

    with Live(console=console(), auto_refresh=False) as live:
        try:
            while True:
                began_s = time.monotonic()
                if is_site(directory):
                    text, going_on = sites().progress(directory)
                else:
                    current = progress(directory)
                    text, going_on = current.text, current.going_on
                live.update(Text(text.rstrip()), refresh=True)
                if not going_on:
                    return
                time.sleep(max(_SHOWN_EVERY_S, _SHOWN_SHARE * (time.monotonic() - began_s)))
        except KeyboardInterrupt:
            return


def concluded(campaign: CampaignDirectory, conclusion: Conclusion) -> Progress:
    """Return the status of a campaign, computed from its whole journal and from its conclusion."""
    about, recommendation = campaign.about, conclusion.recommendation
    provenance = recommendation.provenance if recommendation else Provenance()
    document: dict[str, Any] = {
        "campaign": about.scenario.title,
        "state": campaign.state,
        "reason": campaign.reason,
        "phase": campaign.phase,
        "phases": list(planned(about)),
        "launches": len(campaign.history),
        "measured_s": sum(observation.duration_s for observation in campaign.history),
        "budget_launches": about.scenario.budget.launches,
        "trials": dict(campaign.trials),
        "stamp": str(about.bench.stamp),
        "verified": provenance.verified,
        "verdict": _verdict(conclusion),
        "recommendation": dict(recommendation.point) if recommendation else None,
        "speedup": recommendation.speedup if recommendation and recommendation.gains else None,
        "choices": [_choice(choice) for choice in conclusion.choices],
    }
    if queued_s := sum(observation.queue_s for observation in campaign.history):
        document["queued_s"] = queued_s
    if campaign.state is not State.COMPLETE and math.isfinite(left_s := remaining_s(about, campaign.history)):
        document["left_s"] = round(left_s, 1)
    lines = []
    if about.discovered is not None:
        document["discovery"] = discovery_document(about, slots_of(campaign.history))
        lines.append(f"  discovery  {headline(about.discovered)}")
    if recommendation:
        gain = f", {conclusion.speedup[0]:.2f}× the default" if recommendation.gains else ""
        advice = advice_text(recommendation, about.space.unset)
        shown = "verified" if provenance.verdict else provenance.verified
        lines.append(f"  best       {advice}{gain} [{shown}]")
        lines += [f"  {label:<10} {text}" for label, text in provenance.verdict]
        lines += [f"  choice     {choice.text}" for choice in conclusion.choices]
        violations = campaign_findings(about, campaign.history, recommendation)
        if doubt := concerning_text(violations, about.space, recommendation):
            lines.append(f"  guidelines violated: {doubt}")
    return Progress(
        plain(document),
        campaign.path,
        standing(about, campaign.history, conclusion, campaign.state),
        tuple(lines),
        len(campaign.history),
        dict(Counter(observation.trial.phase.value for observation in campaign.history)),
        tuple((trial.number, trial.phase.value) for trial in campaign.pending),
        campaign.lines,
        (campaign.path / FILE).stat().st_mtime,
    )


class Keeper:
    """Stores the status of a campaign when it is complete, and of a long one while it runs.

    While it runs, it is stored so rarely that storing takes a small share of the time.
    """

    def __init__(self, directory: Path, journal: Journal) -> None:
        self._directory = directory
        self._journal = journal
        self._next_s = 0.0

    def keep(
        self,
        about: CampaignSpec,
        history: History,
        state: State = State.RUNNING,
        conclusion: Conclusion | None = None,
    ) -> None:
        """Store the present status if it is due, or at once if the campaign does not run any more.

        Its conclusion is computed if it is not given.
        """
        began_s = time.monotonic()
        if state is State.RUNNING and (len(history) < LONG or began_s < self._next_s):
            return
        campaign = CampaignDirectory(self._directory, about, history, state, "", (), self._journal.lines)
        with suppress(AutotuneError, OSError):
            store_status(self._directory, concluded(campaign, conclusion or campaign.conclude()))
        now_s = time.monotonic()
        self._next_s = now_s + max(_EVERY_S, _SHARE * (now_s - began_s))


def _waiting(directory: Path) -> Progress:
    queue = _queue(directory)
    if not queue:
        raise UserError(
            f"{directory}: its job ended before the campaign began",
            f"see {directory / JOBS}/*_log.out; the same command begins it",
        )
    return Progress({"state": "waiting", "queue": list(queue)}, directory)


def _queue(directory: Path) -> tuple[str, ...]:
    lines: tuple[str, ...] = import_module("hydra_plugins.autotune._slurm").queue(directory, duration_text)
    return lines


def _verdict(conclusion: Conclusion) -> dict[str, Any]:
    fresh = fresh_launches(conclusion.verdict.rounds) if conclusion.verdict else 0
    ratio, interval = conclusion.speedup
    return {
        "checked": str(
            conclusion.recommendation.provenance.checked if conclusion.recommendation else Checked.NOT
        ),
        "fresh_launches": fresh,
        "speedup": ratio,
        "interval": list(interval) if interval_text(interval) else [None, None],
        "max_slowdown": conclusion.verdict.hidden if conclusion.verdict else None,
    }


def _choice(choice: Choice) -> dict[str, Any]:
    """Return as JSON values a setting that the user may choose, and the slots in which it loses time."""
    recommendation, others = choice.recommendation, choice.recommendation.others
    return {
        "kind": choice.kind,
        "checked": choice.checked,
        "changes": dict(choice.changes),
        "rules": sum(rule.sets for rule in recommendation.rules),
        "speedup": recommendation.speedup if recommendation.gains else None,
        "prices": [
            {
                "slot": list(price.gain.slot),
                "ratio": price.gain.ratio,
                "interval": [known_end(end) for end in price.gain.interval],
                "main_effect": plain(price.effect),
            }
            for price in choice.prices
        ],
        **({"other_calls": [call_document(call) for call in others]} if others else {}),
        "text": choice.text,
    }
