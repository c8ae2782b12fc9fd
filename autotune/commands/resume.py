"""``autotune DIR``: take a campaign up again, as its journal describes it, with time for a verdict."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from autotune.campaign.directory import CampaignDirectory, read_campaign
from autotune.campaign.interruption import heeded
from autotune.campaign.needed import ended_by_budget, extended, needed
from autotune.commands.trust import check_trusted
from autotune.commands.tune import tune
from autotune.errors import ScenarioError, allowed
from autotune.history.events import State
from autotune.history.journal import read_events
from autotune.scenario import CHANGEABLE, Scenario, restored
from autotune.structure import plain
from autotune.views.text import about_text


@heeded()
def resume(
    directory: Path,
    words: Sequence[str] = (),
    quiet: bool = False,
    verbose: bool = False,
    unasked: bool = False,
) -> int:
    """Continue the campaign in a directory with the scenario of its journal, and return the exit code.

    If its budget is used up and a verdict is missing, it gets the time that the estimate says. ``words`` are
    keys with other values, ``SECTION.KEY=VALUE``. With ``unasked``, the programs that the journal names are
    started without a question.

    Raises:
        UserError: the directory contains no campaign.
        ScenarioError: a word names no key that may be changed.
        JournalError: others could have written the journal, or the user did not agree to start its programs.
        AutotuneError: for the same reasons as in ``tune``.
    """
    from autotune.commands.hydra_bridge import connected

    campaign = read_campaign(directory)
    about = campaign.about
    check_trusted(directory, about, unasked)
    scenario = changed(about.scenario, words)
    if scenario == about.scenario:
        scenario, said = _with_time(campaign)
        sys.stdout.write(said)
    place = replace(scenario.campaign, dir=str(directory), fresh=False)
    scenario = replace(scenario, campaign=place)
    return tune(scenario, connected(about.bench.launcher, scenario), quiet, verbose)


def changed(scenario: Scenario, words: Sequence[str]) -> Scenario:
    """Return a scenario in which words such as ``budget.total_seconds=900`` have changed keys.

    Raises:
        ScenarioError: a word names no key that may be changed, or no value of it.
    """
    document: dict[str, Any] = plain(scenario)
    for word in words:
        path, equals, text = word.partition("=")
        section, dot, key = path.partition(".")
        known = section in CHANGEABLE and (not dot or key in (document[section] or ()))
        if not (equals and known):
            inner = document[section] if dot and section in CHANGEABLE else ()
            hint = allowed(path, [f"{section}.{k}" for k in inner or ()] or CHANGEABLE)
            raise ScenarioError(f"{word}: cannot be changed in a campaign that was begun", hint)
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as exc:
            raise ScenarioError(f"{word}: {' '.join(str(exc).split())}", "expected KEY=VALUE") from exc
        document[section] = {**document[section], key: value} if dot else value
    return restored(document) if words else scenario


def _with_time(campaign: CampaignDirectory) -> tuple[Scenario, str]:
    """Return the scenario with time for a verdict, and a line that says so; empty if none is added."""
    about, history = campaign.about, campaign.history
    # A run that was killed or interrupted goes on with the budget that its journal has.
    if not ended_by_budget(read_events(campaign.path)[-1]):
        return about.scenario, ""
    need = needed(about, history, campaign.conclude().verdict, campaign.state is State.COMPLETE)
    if need is None:
        return about.scenario, ""
    scenario = extended(about, history, need)
    sections = ("budget", "verify")
    before, after = ({s: plain(getattr(one, s)) for s in sections} for one in (about.scenario, scenario))
    more = [
        f"{section}.{key}: {old} → {after[section][key]}"
        for section in sections
        for key, old in before[section].items()
        if old != after[section][key]
    ]
    time_text = about_text(need.seconds) or "a while"
    said = f"{campaign.path} goes on for {time_text} ({', '.join(more)})\n"
    return scenario, said if more else ""
