"""One campaign from its scenario to its files: what ``autotune conf=…`` does once composed."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from autotune.campaign.conclusion import conclude
from autotune.campaign.costs import shares
from autotune.campaign.description import Description, campaign_event, campaign_in, scenario_document
from autotune.campaign.directory import last_written, read_campaign, start_over
from autotune.campaign.drift import corrected
from autotune.campaign.heats import at_once, observe_heat
from autotune.campaign.interruption import check
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.noise import remarks
from autotune.campaign.observing import Observer, measurement_of
from autotune.campaign.sealing import is_sealed, seal
from autotune.campaign.site import Site
from autotune.campaign.strategy import Strategy
from autotune.commands.application import worth_text
from autotune.commands.guidelines import campaign_findings
from autotune.commands.notice import notifying
from autotune.commands.status import Keeper
from autotune.commands.terminal import console as plain_console
from autotune.errors import (
    STORAGE,
    CampaignError,
    ExitCode,
    HandedOver,
    Interrupted,
    JournalError,
    ScenarioError,
    StorageError,
)
from autotune.exporters.export_check import PROOF_FILE, check_export, refuted
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.history import folder as journal_folder
from autotune.history.events import State, changed_event, ended_event, replayed, started_event
from autotune.history.journal import Journal, as_read, not_stored
from autotune.history.objectives import Objective, scores
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.importers.profiles import read_profile
from autotune.proposers import proposer
from autotune.proposers.warm_start import FinishedCampaign
from autotune.recommend.recommendation import Recommendation
from autotune.resources import user_text
from autotune.scenario import CHANGEABLE, Scenario
from autotune.stacks import dialect
from autotune.stacks.installation import unreached
from autotune.views.console import CampaignConsole, Detail
from autotune.views.guidelines import concerning_text


def tune(
    scenario: Scenario, site: Site, quiet: bool = False, verbose: bool = False, proving: bool = True
) -> int:
    """Run the campaign, or what is left of it, and export what it recommends.

    ``quiet`` prints the result alone, ``verbose`` also what was measured in each launch; ``proving``
    checks the files on fresh launches.

    Returns:
        The exit code: a finding where the exported files do not do what they say.

    Raises:
        ScenarioError: the directory holds a campaign with other settings.
        CampaignError: the baseline cannot be measured, or nothing could be.
        LockedError: somebody else is writing the campaign.
        Interrupted: the user ended it.
    """
    directory = scenario.directory
    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
    console = plain_console(soft_wrap=False, force_jupyter=False)  # plain lines in a notebook too
    line = partial(console.print, highlight=False, soft_wrap=True)  # never broken by us
    strategy = strategy_of(scenario, site)
    measurement = measurement_of(scenario, site.placement.ranks)
    start_over(scenario)
    observer = site.observer(measurement, site.whole, directory)
    with Journal(directory) as journal:
        if journal.torn_bytes:
            line(f"{directory}: a last line was cut off and is dropped ({journal.torn_bytes} bytes)")
        read = _begin(journal, strategy.campaign)
        if read is None:
            ended = _say_complete(line, directory)
            CampaignConsole(console, strategy.campaign.objectives).stamped(str(site.stamp))
            return ended
        begun, before, announced = read
        with (
            notifying(scenario.campaign.notify, directory) as ending,
            CampaignConsole(
                console, strategy.campaign.objectives, strategy.campaign.whole.unset, shares(strategy), detail
            ) as screen,
            _endings(journal, directory),
        ):
            if site.chosen and detail is not Detail.QUIET:
                console.print(site.chosen, highlight=False)
            screen.opening(_title(scenario, site), str(site.stamp), site.findings, site.space.dropped)
            screen.planned(scenario.budget.total_seconds)
            observe, clock = _unless_interrupted(observer), time.monotonic
            deadline = clock() + seconds_until(scenario.budget.until, datetime.now())
            keeper = Keeper(directory, journal)
            campaign = CampaignLoop(strategy, observe, journal, screen, clock, deadline)
            if at_once(observer):
                campaign.observe_heat = lambda trials: observe_heat([(observer, t) for t in trials])
            campaign.noted = lambda history: keeper.keep(campaign.plan.campaign, history)
            history = campaign.run(before, announced)
            formats, folder = scenario.export or dialect(site.space.stack).formats, directory / "export"
            recommendation = _finish(campaign.plan.campaign, history, formats, directory, screen)
            proof = None
            if proving and site.stack is not None:  # files have an effect
                proof = check_export(formats, recommendation, folder, site.observer, measurement, site.whole)
            if proof is not None:
                line(str(proof))
            sound = proof is None or not proof.refutes
            if sound and formats:
                use = how_to_use(recommendation, formats, folder)
                screen.usable(use, unused(recommendation, folder))
                if "mpirun " in use and site.stack and (other := unreached(site.stack.installation.mpirun)):
                    line(other)
            if text := worth_text(begun, recommendation):
                line(text)
            screen.stamped(str(site.stamp))
            ending.text = f"{scenario.title}: {recommendation.provenance.choices[0]}"
            ending.code = ExitCode.WELL if sound else ExitCode.FINDING
        if campaign.cut:
            why = (
                "no time is left (budget.total_seconds, until, node_hours); with more this command continues"
            )
            journal.append(ended_event(State.INTERRUPTED, reason=why))
            line(why)
        else:
            journal.append(ended_event(State.COMPLETE, launches=scenario.budget.launches))
            keeper.keep(campaign.plan.campaign, history, State.COMPLETE)
    return ending.code


def seconds_until(time_of_day: str | None, now: datetime) -> float:
    """Seconds to the next time that the clock shows this, as in ``08:00``; infinite without one."""
    if not time_of_day:
        return math.inf
    hour, minute = map(int, time_of_day.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (then - now).total_seconds() % 86400


def _unless_interrupted(observer: Observer) -> Callable[[Trial], Observation]:
    """Makes trials until the work is to end: what is written and not made by then is made first later."""

    def observe(trial: Trial) -> Observation:
        check()
        return observer.observe(trial)

    return observe


def strategy_of(scenario: Scenario, site: Site) -> Strategy:
    """Which trial is next, in the campaign of a scenario at a site.

    Raises:
        ScenarioError: an unknown proposer or option, or objectives that no size counts for.
        UserError: there is no campaign to start warm from.
    """
    options = dict(scenario.proposer.options)
    if scenario.warm_start:
        earlier = read_campaign(Path(scenario.warm_start))
        finished = FinishedCampaign(earlier.about.space, earlier.history)
        options["warm_start"] = (finished,)
        if not finished.carried(site.space):
            there, here = (str(dict(one.fix)) for one in (earlier.about.scenario, scenario))
            sys.stderr.write(
                f"warm_start={scenario.warm_start}: nothing carries over, for it never launched what is the "
                f"default here (fixed there: {there}, here: {here})\n"
            )
    campaign = Description(scenario, site.space, objectives_of(scenario, site), site.facts, site.knobs)
    return Strategy(campaign, proposer(scenario.proposer.name, **options))


def objectives_of(scenario: Scenario, site: Site) -> tuple[Objective, ...]:
    """The objectives, weighted by the scenario's profile of calls where it names one.

    A call's share of an application's time is its count times its duration, which is not known before
    anything was measured: 1 µs and 10 GB/s are assumed.

    Raises:
        ScenarioError: objectives that no size counts for.
        TableError: a profile that cannot be read, or calls nothing of what is measured.
    """
    judged = scenario.judged()
    if not scenario.objective.weights:
        return judged
    path = Path(scenario.objective.weights)
    profile = read_profile(user_text(path, f"objective.weights={path}"), str(path))
    ranks = scenario.cluster.comm_sizes or (site.placement.ranks,)
    slots = [(c, n, size) for c in scenario.collective for n in ranks for size in scenario.sizes]
    weights = profile.weights(slots, {slot: 1e-6 + slot[2] / 10e9 for slot in slots})
    weighed = [replace(o, weights={s: w for s, w in weights.items() if o.covers(s)}) for o in judged]
    return tuple(o for o in weighed if sum(o.weights.values()) > 0)


def _begin(journal: Journal, campaign: Description) -> tuple[Description, History, tuple[Trial, ...]] | None:
    """Describe the campaign in a new journal, or check that an old one is the same.

    Returns:
        The campaign as the journal describes it, its history, and trials that were begun and not observed;
        None where it is complete. A long journal is read once.
    """
    events = journal.read()
    begun = campaign_in(events)
    # What somebody else's journal says and nobody was asked for is not sealed by going on with it.
    ours = begun is None or is_sealed(events) or _same(campaign, begun)
    if begun is None:
        journal.append(event := campaign_event(campaign))
        events = (*events, as_read(event))
    else:
        changed = _changes(campaign, begun)
        complete = ended_event(State.COMPLETE, launches=campaign.scenario.budget.launches)
        if not changed and events[-1] == complete:
            return None
        if changed:
            event = changed_event(changed)
            journal.append(event)
            events = (*events, as_read(event))
            begun = campaign_in(events)
    history, announced = replayed(events)
    journal.append(started_event(os.getpid(), os.uname().nodename, seal(events) if ours else ""))
    return begun or campaign, history, announced


def _same(campaign: Description, begun: Description) -> bool:
    """Whether what was composed here would have the same things started as what the journal describes."""
    asked, was = (as_read(campaign_event(one)) for one in (campaign, begun))
    return all(asked[key] == was[key] for key in ("space", "site")) and asked.get("knobs") == was.get("knobs")


def _changes(campaign: Description, begun: Description) -> dict[str, Any]:
    """Changes from the begun campaign's description to the one asked for, where changes are allowed."""
    here = campaign.scenario.directory
    # As the journal keeps them: what means nothing to a campaign is not written, and not compared.
    asked, was = map(scenario_document, (campaign, begun))
    changed = [key for key in asked if key not in CHANGEABLE and asked[key] != was.get(key)]
    if changed:
        details = "; ".join(f"{key}: {was.get(key)} → {asked[key]}" for key in changed)
        raise ScenarioError(
            f"{here} holds a campaign with other settings ({details})",
            "continue it with its own, or use campaign.dir=… for another, or campaign.fresh=true",
        )
    if begun.whole.fingerprint != campaign.whole.fingerprint:
        raise ScenarioError(
            f"{here}: what can be tuned here is no longer what it was when the campaign began",
            "another machine, MPI or search space? use campaign.dir=… or campaign.fresh=true",
        )
    return {key: asked[key] for key in CHANGEABLE if key != "campaign" and asked[key] != was[key]}


@contextlib.contextmanager
def _endings(journal: Journal, directory: Path) -> Iterator[None]:
    """Write how the work ended into the journal, and say how to go on."""
    try:
        yield
    except HandedOver as exc:
        journal.append(ended_event(State.INTERRUPTED, reason=str(exc)))
        raise
    except (KeyboardInterrupt, Interrupted) as exc:
        journal.append(ended_event(State.INTERRUPTED, reason="interrupted by the user"))
        raise interrupted(directory) from exc
    except Exception as exc:
        full = isinstance(exc, OSError) and exc.errno in STORAGE
        with contextlib.suppress(JournalError, StorageError):
            journal.append(ended_event(State.FAILED, reason=str(exc)))
        if full and isinstance(exc, OSError):
            raise not_stored(directory, exc) from exc
        raise


def interrupted(directory: Path) -> Interrupted:
    """The sentence on a campaign that the user ended: whether its launches are still there."""
    journal = directory / journal_folder.FILE
    if journal.exists():
        return Interrupted(
            f"interrupted; nothing is lost in {directory}", "the same command continues the campaign"
        )
    return Interrupted(
        f"interrupted; {journal} was removed while the campaign ran, and its launches are lost",
        "the same command begins the campaign anew",
    )


def _finish(
    campaign: Description, history: History, formats: Sequence[str], directory: Path, screen: CampaignConsole
) -> Recommendation:
    """Show the result and write its files."""
    found = conclude(campaign, history, last_written(directory))
    recommendation = found.recommendation
    if recommendation is None:
        if any(o.ok for o in history) and not len(history.of(Phase.SCREENING, Phase.SEARCH)):
            raise CampaignError(
                f"the budget ended before any setting was searched; launches so far: {len(history)}",
                "with larger ones (budget.launches, seconds, total_seconds) the same command continues",
            )
        reasons = "; ".join(sorted({o.reason for o in history if not o.ok})[:3])
        well = any(o.ok for o in history.of(Phase.BASELINE))
        raise CampaignError(
            f"nothing but the stack's own defaults could be measured, which stay: {reasons}"
            if well
            else f"none of the {len(history)} launches gave a complete curve: {reasons}",
            f"see {directory}/launches",
        )
    baseline = scores(campaign.objectives, campaign.space, history.of(Phase.BASELINE).observations)
    screen.closing(campaign.space, corrected(history), recommendation, baseline, found.against)
    violated = campaign_findings(campaign, history, recommendation)
    screen.doubted(concerning_text(violated, campaign.space, recommendation))
    screen.remarked(remark for remark in remarks(campaign, history) if remark.grave)
    if formats:
        screen.exported(export_files(recommendation, formats, directory / "export"))
    return recommendation


def _title(scenario: Scenario, site: Site) -> str:
    if scenario.responses:
        return f"{scenario.title}: {site.description}"
    what = ", ".join(scenario.collective)
    place = site.placement
    where = f" on {place.ranks} ranks, {place.nodes} node(s)" if place.ranks else ""  # a table may not say
    return f"{scenario.title}: {what}{where}"


def _say_complete(line: Callable[[str], None], directory: Path) -> ExitCode:
    """Say what there is, and end like the first time."""
    files = directory / "export"
    wrong = refuted(files)
    line(
        f"{directory} is complete; its files are in {files}"
        f"{f', but do not do what they say: {files / PROOF_FILE}' if wrong else ''}\n"
        f"  autotune report {directory}     the page that shows why\n"
        f"  campaign.fresh=true                       starts over and keeps this one aside"
    )
    return ExitCode.FINDING if wrong else ExitCode.WELL
