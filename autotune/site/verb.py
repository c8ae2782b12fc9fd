"""``conf=site``: run a campaign for each job size of a site, small jobs first, and export one set of files.

A site's directory contains ``site.json``, which says what the user asked for, and an ordinary campaign for
each job in ``jobs/``; resuming the site resumes these campaigns. The next job, the predictions for jobs that
were not measured, and the exported files are functions of the campaigns' journals alone.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.bench import Bench, Compose
from autotune.campaign.noise import untimed
from autotune.commands.kept_status import is_site
from autotune.commands.status import progress
from autotune.commands.tune import tune
from autotune.errors import (
    AutotuneError,
    CampaignError,
    ExitCode,
    LockedError,
    ScenarioError,
    StackError,
    StorageError,
    printable,
)
from autotune.exporters.files import export_files, how_to_use, notes_on, unused
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import WISHES, make_empty, remove_folder
from autotune.history.journal import is_locked, locked
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario
from autotune.scenario.whole_site import Job
from autotune.site.beside import run_side_by_side
from autotune.site.check import read_back
from autotune.site.costs import cost_h, hours
from autotune.site.directory import (
    SAMPLE,
    SAMPLED,
    Sample,
    SiteDirectory,
    job_folder,
    read_site,
)
from autotune.site.files import recommendation_of
from autotune.site.load import UNDER_LOAD, Loads, compare_under_load, load_text
from autotune.site.map import site_page
from autotune.site.next_job import (
    allowed_h,
    check_largest,
    cut_short,
    job_document,
    job_text,
    site_at,
    upcoming,
    wishes_of,
)
from autotune.site.transfer import DEFAULT
from autotune.stacks import dialect
from autotune.structure import plain
from autotune.views.documents import answer_text


def site_status(directory: Path, as_json: bool) -> None:
    """Print the progress of a site, as text or as JSON."""
    site = read_site(directory)
    document = {
        "node_hours": site.node_hours,
        "z": site.z,
        "setting": dict(site.common),
        "apart": [list(job) for job in site.separate],
        "jobs": [
            {"nodes": nodes, "ppn": ppn, "state": campaign.state.value, "launches": len(campaign.history)}
            for (nodes, ppn), campaign in site.campaigns.items()
        ],
        "predicted": sum(decision.choice != DEFAULT for decision in site.decided),
        "slots_not_measured": len(site.decided),
        "sample": site.sample_text,
    }
    sys.stdout.write(answer_text("status-site", document) if as_json else site_progress(directory)[0])


def site_progress(directory: Path) -> tuple[str, bool]:
    """Return a text on the progress of a site and its running jobs, and whether a process works on them."""
    site = read_site(directory)
    text, going_on = status_text(site), is_locked(directory, WISHES)
    for job in (j for j in site.wishes.jobs if not site.is_complete(j)):
        with suppress(AutotuneError):  # the job was not begun
            current = progress(job_folder(directory, job))
            going_on |= current.going_on
            text += f"{job_text(job)} now:\n{current.text}" if current.going_on else ""
    return text, going_on


def site_report(directory: Path, out: Path | None) -> None:
    """Write the page of a site with the map of its gains, by default ``report.html`` in its directory."""
    site, target = read_site(directory), out or directory / "report.html"
    page = site_page(f"Site {directory.name}", status_text(site).splitlines(), _cells(site))
    write_files({target: printable(page)}, links=out is not None)
    sys.stdout.write(f"{target}\n")


def _cells(site: SiteDirectory) -> Iterator[tuple[str, int, int, int, float, bool]]:
    """Yield the map's entries: collective, nodes, ranks per node, bytes, speed-up, and whether predicted.

    A speed-up of 1 means that the choice is left to the library.
    """
    for job, recommendation in site.chosen.items():
        ratios = {gain.slot: gain.ratio for gain in recommendation.gains}
        for name, nodes, ppn, size in site.wishes.slots(job):
            yield name, nodes, ppn, size, ratios.get((name, nodes * ppn, size), 1.0), False
    for decision in site.decided:
        yield *astuple(decision.shape), math.exp(decision.gain), decision.choice != DEFAULT


def tune_site(document: Mapping[str, Any], compose: Compose, quiet: bool = False) -> int:
    """Measure the jobs of a site until its node-hours are used up, and write the files for all jobs.

    Returns:
        The largest exit code of the jobs.

    Raises:
        ScenarioError: the directory contains a site with a different request, or a job does not fit this
            machine.
        LockedError: another process is working on the site.
        CampaignError: no job could be measured.
    """
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    if document["campaign"].get("fresh"):
        raise ScenarioError("campaign.fresh=true is of a single campaign", "campaign.dir=… for another site")
    site = site_at(root, wishes)
    stored = site.wishes
    if names := stored.without(wishes):
        differing = ", ".join(f"{name}={json.dumps(plain(getattr(stored, name)))}" for name in names)
        raise ScenarioError(
            f"{root} holds a site with other wishes: {differing}",
            "campaign.dir=… for another; site.nodes and site.ppn may have further values",
        )
    check_largest(document, compose, replace(site, wishes=wishes))
    written = {root / WISHES: json.dumps(plain(wishes)) + "\n"}
    if not is_site(root):
        write_files(written, parents=True, below=root)
    lock = locked(root, WISHES)
    try:
        if any(getattr(stored, name) != getattr(wishes, name) for name in ("jobs", "predicted", "setting")):
            if added_jobs := wishes.added_to(stored):
                sys.stdout.write(f"further jobs: {', '.join(map(job_text, added_jobs))}\n")
            write_files(written, below=root)
            lock, former = locked(root, WISHES), lock  # write_files replaced the file: lock the new file
            os.close(former)
        return _tune_jobs(root, document, compose, quiet)
    finally:
        os.close(lock)


def _tune_jobs(root: Path, document: Mapping[str, Any], compose: Compose, quiet: bool) -> int:
    """Measure the jobs of a site, and write its files; return the largest exit code.

    After the jobs, one job with predictions is measured to test them, and the chosen settings are compared
    with the defaults while other work loads the machine.
    """
    codes, places = [int(ExitCode.WELL)], dict[Job, tuple[Scenario, Bench]]()

    def job_configuration(job: Job, neighbours: Collection[Job] = (), **changed: Any) -> dict[str, Any]:
        """Return the configuration of a job with its share of the node-hours, and with changed sections."""
        configuration = {**document, **changed}
        if job in site.campaigns:  # a job that was begun keeps its communicator sizes
            sizes = site.campaigns[job].about.scenario.cluster.comm_sizes
            configuration["cluster"] = {**document["cluster"], "comm_sizes": list(sizes) or [job[0] * job[1]]}
        return job_document(configuration, root, job, allowed_h(site, document, job, neighbours))

    def place_of(job: Job, configuration: dict[str, Any] | None = None) -> tuple[Scenario, Bench]:
        """Return the scenario of a job and the means to launch it, made anew if a configuration is given."""
        if job not in places or configuration:
            scenario, place = compose(configuration or job_configuration(job))
            places[job] = place.asked(scenario), place
        return places[job]

    def measure_job(job: Job, reason: str, **changed: Any) -> None:
        sys.stdout.write(f"\n{job_text(job)}: {reason}\n")
        sys.stdout.flush()
        try:
            codes.append(tune(*place_of(job, job_configuration(job, **changed)), quiet, proving=False))
        except (CampaignError, StackError) as exc:  # the other jobs may succeed
            if isinstance(exc, LockedError | StorageError):
                raise
            sys.stderr.write(f"{job_text(job)}: {exc}\n")
            codes.append(int(exc.exit_code))

    def measure_side_by_side(jobs: Mapping[Job, str]) -> None:
        documents, first = dict[str, dict[str, Any]](), 1
        for job, reason in jobs.items():
            sys.stdout.write(f"\n{job_text(job)}, beside others: {reason}\n")
            changed = {"launch": {**document["launch"], "first_node": first}, "campaign": campaign_of(job)}
            documents[job_text(job)] = job_configuration(job, jobs, **changed)
            place_of(job, documents[job_text(job)])  # an error is raised before anything is launched
            first += job[0]
        codes.extend(run_side_by_side(documents, compose.origin, quiet, root / "beside"))

    # A job that has only the two launches that test predictions is measured again from the beginning.
    def campaign_of(job: Job) -> dict[str, Any]:
        return {**document["campaign"], "fresh": job == site.sampled_job}

    def write(recommendation: Recommendation, folder: Path, jobs: Collection[Job]) -> None:
        formats = tuple(document.get("export") or ()) or dialect(recommendation.provenance.family).formats
        export_files(recommendation, formats, folder)
        codes.append(read_back(recommendation, formats, folder, jobs, place_of))
        use = how_to_use(recommendation, formats, folder)
        usage_texts.append(f"use it with:\n  {use}" if use else unused(recommendation, folder))
        usage_texts.extend(notes_on(recommendation, use))

    usage_texts, attempted = list[str](), list[Job]()
    site = read_site(root)
    if locked_jobs := [job_text(job) for job in site.wishes.jobs if is_locked(job_folder(root, job))]:
        raise LockedError(f"{', '.join(locked_jobs)}: being written by another process", "wait for its end")
    while jobs := upcoming(site, document, attempted):
        if len(jobs) > 1:
            measure_side_by_side(jobs)
        else:
            ((job, reason),) = jobs.items()
            measure_job(job, reason, campaign=campaign_of(job))
        earlier, site = site, read_site(root)
        attempted += [job for job in jobs if not cut_short(earlier, site, job, jobs)]
    if (drawn := _drawn_sample(site, document)) is not None:
        if site.sample is None:  # otherwise an earlier process saved the predictions
            predicted = tuple(one for one in site.decided_for(drawn) if one.choice != DEFAULT)
            sample = Sample(drawn, site.z or 0.0, predicted)
            write_files({root / SAMPLE: json.dumps(plain(sample)) + "\n"})
        budget, verify = {**document["budget"], "launches": SAMPLED}, {**document["verify"], "enabled": False}
        fix = {**(document["fix"] or {}), **site.common}  # predictions are for this setting only
        measure_job(drawn, "a sample of what is predicted", budget=budget, verify=verify, fix=fix)
        site = read_site(root)
    site = _under_load(site, document, place_of)
    write(
        recommendation_of(site), root / "export", [job for job in site.campaigns if job not in site.separate]
    )
    for job in wishes_of(document).jobs:
        folder = job_folder(root / "export", job)
        if job in site.separate:
            write(site.separate[job], folder, [job])
        else:  # an earlier run may have written files of its own for the job
            remove_folder(folder, root)
    sys.stdout.write(status_text(site) + "\n".join(usage_texts) + "\n")
    return max(codes)


def _under_load(
    site: SiteDirectory, document: Mapping[str, Any], place_of: Callable[[Job], tuple[Scenario, Bench]]
) -> SiteDirectory:
    """Compare all chosen settings with the defaults under load, as far as the node-hours allow."""
    if not (command := site.wishes.under_load):
        return site
    launches = 2 * document["verify"]["launches"]
    while not_loaded := next(site.not_loaded, None):
        job, setting, recommendation = not_loaded
        if cost_h(site, document, job, launches) > hours(document) - site.node_hours:
            sys.stdout.write(f"{job_text(job)}: no node-hours are left to compare it under load\n")
            break
        sys.stdout.write(f"\n{job_text(job)}: under load\n")
        sys.stdout.flush()
        folder = job_folder(site.path, job)
        work_folder = make_empty(folder / "under_load")
        result = compare_under_load(command, setting, recommendation, *place_of(job), work_folder)
        sys.stdout.write(f"{job_text(job)}: {load_text(result)}\n")
        results = Loads((*site.loads.get(job, Loads()).found, result))
        write_files({folder / UNDER_LOAD: json.dumps(plain(results)) + "\n"})
        site = read_site(site.path)
    return site


def _drawn_sample(site: SiteDirectory, document: Mapping[str, Any]) -> Job | None:
    """Return the job that is to be measured to test its predictions; None if there is none.

    If a job was chosen earlier and its two launches are not complete, that job is returned. Otherwise a job
    is drawn at random from those that have predictions and whose two launches fit the remaining node-hours.
    """
    if (sample := site.sample) is not None:
        campaign = site.campaigns.get(sample.job)
        is_sample = campaign is not None and site.sampled_job is not None
        unfinished = campaign is None or (is_sample and campaign.state is not State.COMPLETE)
        return sample.job if unfinished else None
    left_h = hours(document) - site.node_hours
    paid = [job for job in site.predicted_jobs if cost_h(site, document, job, SAMPLED) <= left_h]
    return paid[int(np.random.default_rng(document["seed"]).integers(len(paid)))] if paid else None


def status_text(site: SiteDirectory) -> str:
    """Return a text on the progress of a site, with a line for each job."""
    lines = []
    for job in site.wishes.jobs:
        if job in site.campaigns and job != site.sampled_job:
            campaign = site.campaigns[job]
            texts = [f"{campaign.state.value}, {len(campaign.history)} launches"]
            if (untimed_calls := untimed(campaign.history)) is not None:
                texts.append(untimed_calls.text)
            texts += map(load_text, site.loads.get(job, Loads()).found)
            if (best := site.best.get(job)) and best.harms:
                taken = site.wishes.setting == "best"
                decision_text = "taken" if taken else "not taken (site.setting=best takes it)"
                texts.append(f"{decision_text}: {best.text}")
        else:
            decisions = site.decided_for(job)
            count = sum(decision.choice != DEFAULT for decision in decisions)
            texts = [f"not measured; {count} of {len(decisions)} slots predicted, the library's else"]
        lines += [f"{job_text(job)}: {text}" for text in texts]
    if site.settings[1:]:
        setting = f"under {site.common}" if site.common else "under the library's own job-wide values"
        separate = ", ".join(f"{job_text(job)} under {one.point}" for job, one in site.separate.items())
        lines.append(f"one set of files {setting}; of their own: {separate or 'no job'}")
    doubt = "nothing is predicted: too few node counts were measured to say how predictions do"
    doubt = f"a prediction needs a gain above {site.z:g} standard deviations" if site.z else doubt
    usage = f"{site.node_hours:.2f} node-hours used; {doubt}"
    return "".join(f"{line}\n" for line in (*lines, site.sample_text, _written(site), usage) if line)


def _written(site: SiteDirectory) -> str:
    """Return a sentence on whether the files contain the predicted rules; empty if nothing is predicted."""
    if not site.predicted_jobs:
        return ""
    jobs = ", ".join(map(job_text, site.predicted_jobs))
    if site.wishes.predicted:
        return f"the files have the rules predicted for {jobs}: UNVERIFIED, until these are measured"
    return f"the files leave {jobs} to the library; site.predicted=true writes what is predicted, UNVERIFIED"
