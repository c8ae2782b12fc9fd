"""One campaign from its scenario to its files: what ``python -m autotune conf=…`` does once composed."""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from autotune.campaign.directory import Record, objective_document, read_record, verifier_of
from autotune.campaign.loop import Campaign
from autotune.campaign.observing import Measurement, measurement_of
from autotune.campaign.strategy import Plan, Strategy
from autotune.errors import (
    CampaignError,
    HandedOver,
    Interrupted,
    ScenarioError,
    TableError,
    UserError,
)
from autotune.exporters.export_check import check_export
from autotune.exporters.files import default_formats, export_files, how_to_use
from autotune.history.journal import FILE, Journal
from autotune.history.objectives import Objective, scores
from autotune.history.trial import Phase
from autotune.importers.profiles import read_profile
from autotune.proposers import proposer
from autotune.proposers.warm_start import FinishedCampaign
from autotune.scenario import CHANGEABLE, Scenario
from autotune.space.loader import space_document
from autotune.views.console import CampaignConsole

if TYPE_CHECKING:
    from autotune.site import Site


def tune(scenario: Scenario, site: "Site") -> int:
    """Run the campaign, or what is left of it, and export what it recommends.

    Raises:
        ScenarioError: the directory holds a campaign with other settings.
        CampaignError: the baseline cannot be measured, or nothing could be.
        LockedError: somebody else is writing the campaign.
        Interrupted: the user ended it.
    """
    directory = scenario.directory
    start_over(scenario)
    console = Console(soft_wrap=False)
    strategy = strategy_of(scenario, site)
    measurement = measurement_of(scenario, site.placement.ranks)
    observer = site.observer(measurement, site.space, directory)
    with Journal(directory) as journal:
        done = _begin(journal, scenario, site)
        if done:
            _say_complete(console, directory)
            return 0
        with CampaignConsole(console, strategy.objectives) as screen, _endings(journal, scenario):
            if site.chosen:
                console.print(site.chosen, highlight=False)
            screen.opening(_title(scenario, site), site.stamp, site.findings, site.space.dropped)
            campaign = Campaign(strategy, observer.observe, journal, screen, time.monotonic)
            campaign.run()
            record = read_record(directory)
            _finish(record, scenario, screen)
            _check_export(record, scenario, site, measurement, console)
        journal.append({"event": "ended", "state": "complete", "launches": scenario.budget.launches})
    return 0


def strategy_of(scenario: Scenario, site: "Site") -> Strategy:
    """Which trial is next, from the scenario's plan.

    Raises:
        ScenarioError: an unknown proposer or option, or objectives that no size counts for.
        UserError: there is no campaign to start warm from.
    """
    screening = scenario.screening
    plan = Plan(
        budget_launches=scenario.budget.launches,
        budget_s=scenario.budget.seconds,
        baseline_launches=scenario.baseline.launches,
        screening=screening.enabled,
        foldover=screening.foldover,
        replicates=screening.replicates,
        centre_points=screening.centre_points,
        min_gain=scenario.stop.min_gain,
        confirm_share=scenario.confirm.share,
        seed=scenario.seed,
    )
    options = dict(scenario.proposer.options)
    if scenario.warm_start:
        earlier = read_record(Path(scenario.warm_start))
        options["warm_start"] = (FinishedCampaign(earlier.space, earlier.history),)
    chosen = proposer(scenario.proposer.name, **options)
    objectives = objectives_of(scenario, site)
    judge = verifier_of(asdict(scenario), site.space, objectives, site.stamp)
    return Strategy(site.space, objectives, plan, chosen, judge)


def objectives_of(scenario: Scenario, site: "Site") -> tuple[Objective, ...]:
    """What is judged, weighed by the scenario's profile of calls where it names one.

    A call's share of an application's time is its count times its duration, which is not known before
    anything was measured: 1 µs and 10 GB/s stand in for it.

    Raises:
        ScenarioError: objectives that no size counts for.
        TableError: a profile that cannot be read, or calls nothing of what is measured.
    """
    judged = scenario.judged()
    if not scenario.objective.weights:
        return judged
    path = Path(scenario.objective.weights)
    try:
        profile = read_profile(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as exc:
        raise TableError(f"objective.weights={path}: {exc}") from exc
    ranks = scenario.cluster.comm_sizes or (site.placement.ranks,)
    slots = [(c, n, size) for c in scenario.collective for n in ranks for size in scenario.sizes]
    weights = profile.weights(slots, {slot: 1e-6 + slot[2] / 10e9 for slot in slots})
    weighed = [replace(o, weights={s: w for s, w in weights.items() if o.covers(s)}) for o in judged]
    return tuple(o for o in weighed if sum(o.weights.values()) > 0)


def _begin(journal: Journal, scenario: Scenario, site: "Site") -> bool:
    """Describe the campaign in a new journal, or check that an old one is the same; whether it is complete.

    Raises:
        ScenarioError: the journal is of a campaign with other settings.
    """
    events = journal.read()
    begun = next((e for e in events if e["event"] == "campaign"), None)
    asked = asdict(scenario)
    if begun is None:
        journal.append(
            {
                "event": "campaign",
                "name": scenario.name,
                "scenario": asked,
                "space": space_document(site.space),
                "fingerprint": site.space.fingerprint,
                "objectives": [objective_document(o) for o in objectives_of(scenario, site)],
                "site": _site_document(site),
            }
        )
    else:
        _check_same(scenario.directory, begun, asked, site)
        last = events[-1]
        same_budget = last.get("launches") == scenario.budget.launches
        if last["event"] == "ended" and last["state"] == "complete" and same_budget:
            return True
    journal.append({"event": "started", "pid": os.getpid(), "host": os.uname().nodename})
    return False


def _check_same(directory: Path, begun: Mapping[str, Any], asked: Mapping[str, Any], site: "Site") -> None:
    plain = _plain(asked)
    changed = [
        key
        for key, value in plain.items()
        if key not in CHANGEABLE and begun["scenario"].get(key, value) != value
    ]
    if changed:
        details = "; ".join(f"{key}: {begun['scenario'].get(key)} → {plain[key]}" for key in changed)
        raise ScenarioError(
            f"{directory} holds a campaign with other settings ({details})",
            "continue it with its own, or use campaign.dir=… for another, or campaign.fresh=true",
        )
    if begun["fingerprint"] != site.space.fingerprint:
        raise ScenarioError(
            f"{directory}: what can be tuned here is no longer what it was when the campaign began",
            "another machine, MPI or search space? use campaign.dir=… or campaign.fresh=true",
        )


def _plain(item: Any) -> Any:
    """As the journal gives it back: tuples become lists."""
    if isinstance(item, Mapping):
        return {str(k): _plain(v) for k, v in item.items()}
    return [_plain(v) for v in item] if isinstance(item, list | tuple) else item


def _site_document(site: "Site") -> dict[str, Any]:
    return {
        "description": site.description,
        "findings": [list(finding) for finding in site.findings],
        "fixed": dict(site.stack.fixed) if site.stack else {},
        "coll": list(site.stack.coll) if site.stack else [],
        "stamp": site.stamp,
        "launcher": dict(site.launched_by),
        "ranks": site.placement.ranks,
        "nodes": site.placement.nodes,
    }


@contextmanager
def _endings(journal: Journal, scenario: Scenario) -> Iterator[None]:
    """Write how the work ended into the journal, and say how to go on.

    Raises:
        Interrupted: in place of KeyboardInterrupt.
    """
    try:
        yield
    except HandedOver as exc:
        journal.append({"event": "ended", "state": "interrupted", "reason": str(exc)})
        raise
    except (KeyboardInterrupt, Interrupted) as exc:
        journal.append({"event": "ended", "state": "interrupted", "reason": "interrupted by the user"})
        raise Interrupted(
            f"interrupted; nothing is lost in {scenario.directory}", "the same command continues the campaign"
        ) from exc
    except Exception as exc:
        journal.append({"event": "ended", "state": "failed", "reason": str(exc)})
        raise


def _finish(record: Record, scenario: Scenario, screen: CampaignConsole) -> None:
    """Show the result and write its files.

    Raises:
        CampaignError: there is none, because no setting could be measured completely.
    """
    recommendation = record.recommendation
    if recommendation is None:
        reasons = "; ".join(sorted({o.reason for o in record.history if not o.ok})[:3])
        raise CampaignError(
            f"none of the {len(record.history)} launches gave a complete curve: {reasons}",
            f"see {record.directory}/launches",
        )
    baseline = scores(record.objectives, record.space, record.history.of(Phase.BASELINE).observations)
    screen.closing(record.space, record.history, recommendation, baseline)
    formats = scenario.export or default_formats(record)
    if formats:
        paths = export_files(recommendation, formats, record.directory / "export")
        screen.exported(paths, how_to_use(record, record.directory / "export"))


def _check_export(
    record: Record, scenario: Scenario, site: "Site", measurement: Measurement, console: Console
) -> None:
    """Use the exported files on fresh launches and say what came of it; only where files have an effect."""
    recommendation = record.recommendation
    if recommendation is None or site.stack is None:
        return
    formats, folder = scenario.export or default_formats(record), record.directory / "export"
    found = check_export(formats, recommendation, folder, site.observer, measurement, site.space)
    if found is not None:
        console.print(str(found), highlight=False, soft_wrap=True)


def _title(scenario: Scenario, site: "Site") -> str:
    if scenario.responses:
        return f"{scenario.name}: {site.description}"
    what = ", ".join(scenario.collective)
    place = site.placement
    where = f" on {place.ranks} ranks, {place.nodes} node(s)" if place.ranks else ""  # a table may not say
    return f"{scenario.name}: {what}{where}"


def _say_complete(console: Console, directory: Path) -> None:
    console.print(
        f"{directory} is complete; its files are in {directory / 'export'}\n"
        f"  python -m autotune report {directory}     the page that shows why\n"
        f"  campaign.fresh=true                       starts over and keeps this one aside",
        highlight=False,
        soft_wrap=True,
    )


def start_over(scenario: Scenario) -> None:
    """For ``campaign.fresh``: rename an existing campaign to the first free one of ``NAME.1``, ``NAME.2`` ….

    Raises:
        UserError: the directory exists and is no campaign.
    """
    directory = scenario.directory
    if not scenario.campaign.fresh or not directory.exists():
        return
    if not (directory / FILE).exists() and any(directory.iterdir()):
        raise UserError(f"{directory} is no campaign: it has no {FILE}", "choose another campaign.dir")
    number = 1
    while (aside := directory.with_name(f"{directory.name}.{number}")).exists():
        number += 1
    directory.rename(aside)
    sys.stdout.write(f"kept the earlier campaign as {aside}\n")
