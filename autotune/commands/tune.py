"""Run one campaign, from its composed scenario to its exported files: the work of ``autotune conf=…``."""

import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from autotune.campaign.bench import Bench
from autotune.campaign.conclusion import Conclusion, conclude
from autotune.campaign.costs import shares
from autotune.campaign.directory import last_written, read_campaign, start_over
from autotune.campaign.guidelines import campaign_findings
from autotune.campaign.heats import at_once
from autotune.campaign.loop import CampaignLoop
from autotune.campaign.needed import USED_UP, ended_by_budget, used_up
from autotune.campaign.noise import remarks
from autotune.campaign.observing import Measurement, Observer, measurement_of
from autotune.campaign.same_moment import at_one_moment
from autotune.campaign.sealing import is_sealed, seal
from autotune.campaign.spec import CampaignSpec, campaign_event, campaign_in, scenario_document
from autotune.campaign.strategy import Strategy
from autotune.campaign.turns import launch_block
from autotune.campaign.withheld import withheld
from autotune.commands.companions import recordings, worth_text
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
from autotune.exporters.export_check import PROOF_FILE, Proof, check_export, refuted
from autotune.exporters.files import export_files, how_to_use, notes_on, unused
from autotune.history import folder as journal_folder
from autotune.history.events import State, changed_event, ended_event, replayed, started_event
from autotune.history.journal import Journal, as_read, not_stored
from autotune.history.objectives import Objective, scores_of
from autotune.history.trial import History, Observation, Phase, Trial
from autotune.proposers import check_libraries, proposer
from autotune.proposers.warm_start import FinishedCampaign
from autotune.recommend.recommendation import Checked, Recommendation
from autotune.resources import user_text
from autotune.scenario import CHANGEABLE, Scenario, defaults
from autotune.stacks import dialect
from autotune.stacks.installation import unreached
from autotune.views.console import CampaignConsole, Detail
from autotune.views.ending import ending, with_ending
from autotune.views.guidelines import concerning_text
from autotune.views.text import about_text, own_line


def tune(
    scenario: Scenario, bench: Bench, quiet: bool = False, verbose: bool = False, proving: bool = True
) -> int:
    """Run a campaign, or the rest of a campaign that was begun, and export its recommendation.

    If ``proving``, the exported files are checked on fresh launches. Return the exit code: ``FINDING`` if the
    files do not have the effect that they state.

    Raises:
        ScenarioError: the directory contains a campaign with other settings.
        CampaignError: the baseline could not be measured, or no setting could be measured completely.
        LockedError: another process is writing the campaign's journal.
        Interrupted: the user ended the campaign.
    """
    directory = scenario.directory
    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
    console = plain_console(soft_wrap=False, force_jupyter=False)  # plain lines also in a notebook
    line = partial(console.print, highlight=False, soft_wrap=True)  # prints long lines without breaking them
    check_libraries(scenario.proposer.name)
    strategy = strategy_of(scenario, bench)
    measurement = measurement_of(scenario, bench.placement.ranks)
    start_over(scenario)
    observer = bench.observer(measurement, bench.whole, directory)

    def observe(trial: Trial) -> Observation:
        return _launched(observer, [trial])[0]

    with Journal(directory) as journal:
        if journal.torn_bytes:
            line(f"{directory}: a last line was cut off and is dropped ({journal.torn_bytes} bytes)")
        resumed = _begin(journal, strategy.campaign)
        if resumed is None:
            exit_code = _say_over(line, directory)
            CampaignConsole(console, strategy.campaign.objectives).stamped(str(bench.stamp))
            return exit_code
        description, former_history, announced = resumed
        # The journal's decision is kept: a campaign that began with heats (several launches at once, which
        # take turns) goes on with heats, and a campaign that began without heats goes on without them.
        bench_facts = replace(strategy.campaign.bench, at_once=description.bench.at_once)
        decided = replace(strategy.campaign, bench=bench_facts, narrowing=description.narrowing)
        if decided != strategy.campaign:
            strategy = Strategy(decided, strategy.proposer)
        with (
            notifying(scenario.campaign.notify, directory) as notice,
            CampaignConsole(
                console, strategy.campaign.objectives, strategy.campaign.whole.unset, shares(strategy), detail
            ) as screen,
            _journalled_ending(journal, directory),
        ):
            if bench.chosen and detail is not Detail.QUIET:
                console.print(bench.chosen, highlight=False)
            screen.opening(_title(scenario, bench), str(bench.stamp), bench.findings, bench.space.dropped)
            screen.planned(scenario.budget.total_seconds)
            deadline = time.monotonic() + seconds_until(scenario.budget.until, datetime.now())
            keeper = Keeper(directory, journal)
            campaign = CampaignLoop(strategy, observe, journal, screen, time.monotonic, deadline)
            if at_once(observer):
                campaign.observe_heat = partial(_launched, observer, heats=True)
            campaign.noted = lambda history: keeper.keep(campaign.plan.campaign, history)
            history = campaign.run(former_history, announced)
            conclusion, recommendation = _concluded(campaign.plan.campaign, history, directory, screen)
            cut = campaign.cut and recommendation.provenance.checked is not Checked.HOLDS
            state = State.INTERRUPTED if cut else State.COMPLETE
            told = ending(campaign.plan.campaign, history, conclusion, directory, state)
            recommendation = with_ending(recommendation, told)
            proof = _exported(recommendation, scenario, bench, measurement, proving, screen, line)
            if text := worth_text(description, recommendation, conclusion.harmless):
                line(text)
            screen.ended(told)
            screen.stamped(str(bench.stamp))
            notice.text = f"{scenario.title}: {recommendation.provenance.choices[0]}"
            notice.code = ExitCode.FINDING if proof and proof.refutes else ExitCode.WELL
        if cut:
            journal.append(ended_event(State.INTERRUPTED, reason=USED_UP))
        else:
            journal.append(ended_event(State.COMPLETE, launches=scenario.budget.launches))
            keeper.keep(campaign.plan.campaign, history, State.COMPLETE, conclusion)
    return notice.code


def seconds_until(time_of_day: str | None, now: datetime) -> float:
    """Return the seconds from ``now`` until it is a time of day such as ``08:00``; infinite for None."""
    if not time_of_day:
        return math.inf
    hour, minute = map(int, time_of_day.split(":"))
    next_time = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (next_time - now).total_seconds() % 86400


def _launched(observer: Observer, trials: Sequence[Trial], heats: bool = False) -> Sequence[Observation]:
    """Launch trials; if the user ended the work, raise ``Interrupted``: the next run begins with them."""
    return launch_block([(observer, trial) for trial in trials], heats)


def strategy_of(scenario: Scenario, bench: Bench) -> Strategy:
    """Return the strategy that chooses the next launches of a scenario's campaign at a bench.

    Raises:
        ScenarioError: the proposer or one of its options is unknown, or none of the scenario's message sizes
            is within the limits of an objective.
        UserError: ``warm_start`` names no campaign.
    """
    options = dict(scenario.proposer.options)
    if scenario.warm_start:
        earlier = read_campaign(Path(scenario.warm_start))
        finished = FinishedCampaign(earlier.about.space, earlier.history)
        options["warm_start"] = (finished,)
        if not finished.carried(bench.space):
            fixed_there, fixed_here = (str(dict(s.fix)) for s in (earlier.about.scenario, scenario))
            sys.stderr.write(
                f"warm_start={scenario.warm_start}: nothing carries over, for it never launched what is the "
                f"default here (fixed there: {fixed_there}, here: {fixed_here})\n"
            )
    stored, objectives = withheld(scenario), objectives_of(scenario, bench)
    campaign = CampaignSpec(stored, bench.space, objectives, bench.facts, bench.knobs)
    return Strategy(campaign, proposer(scenario.proposer.name, **options))


def objectives_of(scenario: Scenario, bench: Bench) -> tuple[Objective, ...]:
    """Return the objectives; if the scenario names a profile of calls, slots are weighted by this profile.

    A slot is a collective, a communicator size and a message size; its weight is the share of the
    application's time that its calls take. This share is computed from the number of the calls and their
    duration. Durations are not known before anything was measured, so a latency of 1 µs and a bandwidth of
    10 GB/s are assumed.

    Raises:
        ScenarioError: none of the scenario's message sizes is within the limits of an objective.
        TableError: the profile cannot be read, or contains none of the calls that the scenario measures.
    """
    objectives = scenario.judged()
    if not scenario.objective.weights:
        return objectives
    path = Path(scenario.objective.weights)
    text = user_text(path, f"objective.weights={path}")
    ranks = scenario.cluster.comm_sizes or (bench.placement.ranks,)
    slots = [(c, n, size) for c in scenario.collective for n in ranks for size in scenario.sizes]
    assumed_s = {slot: 1e-6 + slot[2] / 10e9 for slot in slots}
    weights = recordings().weights(text, str(path), slots, assumed_s)
    weighed = [replace(o, weights={s: w for s, w in weights.items() if o.covers(s)}) for o in objectives]
    return tuple(o for o in weighed if sum(o.weights.values()) > 0)


def _begin(
    journal: Journal, campaign: CampaignSpec
) -> tuple[CampaignSpec, History, tuple[Trial, ...]] | None:
    """Write the campaign's description into a new journal, or check that an old one has the same description.

    Return the campaign as the journal describes it, its history, and the trials that were begun and have no
    result; None if the campaign is over: complete, or without a budget for further launches.

    Raises:
        ScenarioError: the journal contains a campaign with other settings.
    """
    events = journal.read()
    stored = campaign_in(events)
    # A journal that another user wrote is continued without this user's signature, unless the campaign in the
    # journal starts the same programs as the campaign that this user has composed.
    may_seal = stored is None or is_sealed(events) or _starts_same_programs(campaign, stored)
    if stored is None:
        journal.append(event := campaign_event(campaign))
        events = (*events, as_read(event))
    else:
        changed = _changes(campaign, stored)
        if changed.keys() <= {"budget"} and ended_by_budget(events[-1]):
            asked = replace(stored, scenario=campaign.scenario)
            if _is_over(asked, events, changed=bool(changed)):
                return None
        if changed:
            event = changed_event(changed)
            journal.append(event)
            events = (*events, as_read(event))
            stored = campaign_in(events)
    history, announced = replayed(events)
    journal.append(started_event(os.getpid(), os.uname().nodename, seal(events) if may_seal else ""))
    return stored or campaign, history, announced


def _is_over(asked: CampaignSpec, events: Sequence[Mapping[str, Any]], changed: bool) -> bool:
    """Whether a campaign whose last run its budget has ended would launch nothing more.

    ``changed`` says that the budget that is asked for now is another one.
    """
    history, complete = replayed(events)[0], events[-1]["state"] == State.COMPLETE
    plan, budget = Strategy(asked).plan(history), asked.scenario.budget
    nothing_left = not changed and not plan.undecided(history) and (complete or budget.until is None)
    return used_up(plan.campaign, history) or nothing_left


def _starts_same_programs(campaign: CampaignSpec, stored: CampaignSpec) -> bool:
    composed, recorded = (as_read(campaign_event(each)) for each in (campaign, stored))
    same_place = all(composed[key] == recorded[key] for key in ("space", "site"))
    return same_place and composed.get("knobs") == recorded.get("knobs")


def _changes(campaign: CampaignSpec, stored: CampaignSpec) -> dict[str, Any]:
    """Return the keys whose values differ in the composed and the journal's scenario, with the new values.

    Raises:
        ScenarioError: a key differs that must not be changed, or the parameters that can be tuned are no
            longer the same.
    """
    directory = campaign.scenario.directory
    # Both scenarios are compared as a journal stores them, without keys that do not matter to the campaign.
    requested, recorded = map(scenario_document, (campaign, stored))
    same_space = stored.whole.fingerprint == campaign.whole.fingerprint
    changeable = (*CHANGEABLE, *(("operations",) if same_space else ()))  # operations restrict the space
    differing = [key for key in {**recorded, **requested} if requested.get(key) != recorded.get(key)]
    if changed := [key for key in differing if key not in changeable]:
        old_values, new_values = ({**defaults(), **document} for document in (recorded, requested))
        details = "; ".join(f"{key}: {old_values.get(key)} → {new_values.get(key)}" for key in changed)
        raise ScenarioError(
            f"{directory} holds a campaign with other settings ({details})",
            "continue it with its own, or use campaign.dir=… for another, or campaign.fresh=true",
        )
    if not same_space:
        raise ScenarioError(
            f"{directory}: what can be tuned here is no longer what it was when the campaign began",
            "another machine, MPI or search space? use campaign.dir=… or campaign.fresh=true",
        )
    return {key: requested.get(key, defaults().get(key)) for key in differing if key != "campaign"}


@contextlib.contextmanager
def _journalled_ending(journal: Journal, directory: Path) -> Iterator[None]:
    """If an exception ends the work inside the context, write into the journal how the work ended."""
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
    """Return the error to raise after the user ended a campaign; it says whether the launches are stored."""
    journal = directory / journal_folder.FILE
    if journal.exists():
        lost, hint = f"nothing is lost in {directory}", "the same command continues the campaign"
    else:
        lost = f"{journal} was removed while the campaign ran, and its launches are lost"
        hint = "the same command begins the campaign anew"
    return Interrupted(f"interrupted; {lost}", hint)


def _concluded(
    campaign: CampaignSpec, history: History, directory: Path, screen: CampaignConsole
) -> tuple[Conclusion, Recommendation]:
    """Show the result of a campaign, and return its conclusion with the recommendation.

    Raises:
        CampaignError: no setting can be recommended, because none was measured completely.
    """
    conclusion = conclude(campaign, history, last_written(directory))
    recommendation = conclusion.recommendation
    if recommendation is None:
        if any(o.ok for o in history) and not len(history.of(Phase.SCREENING, Phase.SEARCH)):
            raise CampaignError(
                f"the budget ended before any setting was searched; launches so far: {len(history)}",
                "with larger ones (budget.launches, seconds, total_seconds) the same command continues",
            )
        reasons = "; ".join(sorted({o.reason for o in history if not o.ok})[:3])
        has_baseline = any(o.ok for o in history.of(Phase.BASELINE))
        raise CampaignError(
            f"nothing but the stack's own defaults could be measured, which stay: {reasons}"
            if has_baseline
            else f"none of the {len(history)} launches gave a complete curve: {reasons}",
            f"see {directory}/launches",
        )
    baseline = scores_of(
        campaign.objectives, conclusion.baseline, at_one_moment(history).of(Phase.BASELINE).observations
    )
    screen.closing(campaign.space, at_one_moment(history), recommendation, baseline, conclusion.against)
    violations = campaign_findings(campaign, history, recommendation)
    screen.doubted(concerning_text(violations, campaign.space, recommendation))
    screen.remarked(remark for remark in remarks(campaign, history) if remark.grave)
    return conclusion, recommendation


def _exported(
    recommendation: Recommendation,
    scenario: Scenario,
    bench: Bench,
    measurement: Measurement,
    proving: bool,
    screen: CampaignConsole,
    line: Callable[[str], None],
) -> Proof | None:
    """Export the files, check them on fresh launches if ``proving``, and show how they are used.

    Return the result of the check; None if the files were not checked.
    """
    formats, folder = scenario.export or dialect(bench.space.stack).formats, scenario.directory / "export"
    if formats:
        screen.exported(export_files(recommendation, formats, folder))
    proof = None
    if proving and bench.stack is not None:  # without a stack, a model is tuned, and it ignores files
        proof = check_export(formats, recommendation, folder, bench.observer, measurement, bench.whole)
    if proof is not None:
        line(str(proof))
    if formats and not (proof and proof.refutes):
        use = how_to_use(recommendation, formats, folder)
        checked = recommendation.provenance.checked
        screen.usable(use, unused(recommendation, folder), notes_on(recommendation, use), checked)
        mpirun = bench.stack.installation.mpirun if bench.stack and "mpirun " in use else None
        if mpirun and (remark := unreached(mpirun)):
            line(remark)
    return proof


def _title(scenario: Scenario, bench: Bench) -> str:
    if scenario.responses:
        return f"{scenario.title}: {bench.description}"
    collectives = ", ".join(scenario.collective)
    placement = bench.placement
    # A recorded table may lack the number of ranks.
    place_text = f" on {placement.ranks} ranks, {placement.nodes} node(s)" if placement.ranks else ""
    return f"{scenario.title}: {collectives}{place_text}"


def _say_over(line: Callable[[str], None], directory: Path) -> ExitCode:
    """Say that a campaign is over, and which command goes on if it has no verdict; return the exit code."""
    files, campaign = directory / "export", read_campaign(directory)
    state = ending(campaign.about, campaign.history, campaign.conclude(), directory, campaign.state)
    is_refuted = refuted(files)
    if campaign.state is State.COMPLETE:
        line(
            f"{directory} is complete; its files are in {files}"
            f"{f', but do not do what they say: {files / PROOF_FILE}' if is_refuted else ''}\n"
            f"the page that shows why:\n  {own_line('report', str(directory))}\n"
            "campaign.fresh=true starts over and keeps this one aside"
        )
    if state.command:
        lacking = "it has no verdict"
        if campaign.state is not State.COMPLETE:
            lacking = f"{directory} has used its budget, and has no verdict"
        line(f"{lacking}; this goes on, for {about_text(state.seconds) or 'a while'}:\n  {state.command}")
    elif campaign.state is not State.COMPLETE:
        line(f"{directory} has used its budget; with a larger one, such as budget.launches, this continues")
    return ExitCode.FINDING if is_refuted else ExitCode.WELL
