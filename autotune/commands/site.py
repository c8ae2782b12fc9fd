"""``conf=site``: a campaign for each job size of a site, small ones first, and one set of files.

A directory of a site has its wishes in ``site.json`` and an ordinary campaign for each job in ``jobs/``:
resuming is resuming these. Which job comes next, what is predicted for those that were not made, and the
files are functions of the journals alone.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.noise import untimed
from autotune.campaign.site import Compose, Site
from autotune.commands.kept_status import is_site
from autotune.commands.site_beside import made_beside
from autotune.commands.site_check import read_back
from autotune.commands.site_costs import cost_h, hours
from autotune.commands.site_directory import (
    SAMPLE,
    SAMPLED,
    Sample,
    SiteDirectory,
    job_folder,
    read_site,
)
from autotune.commands.site_load import UNDER_LOAD, Loads, load_text, observed
from autotune.commands.site_next import (
    allowed_h,
    begun,
    check_largest,
    cut_short,
    job_document,
    job_text,
    upcoming,
    wishes_of,
)
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
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import WISHES, make_empty, remove_folder
from autotune.history.journal import is_locked, locked
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario
from autotune.scenario.whole_site import Job
from autotune.site import DEFAULT
from autotune.stacks import dialect
from autotune.structure import plain
from autotune.views.site_map import site_page


def site_status(directory: Path, as_json: bool) -> None:
    """Print how far a site is."""
    site = read_site(directory)
    document = {
        "node_hours": site.node_hours,
        "z": site.z,
        "setting": dict(site.common),
        "apart": [list(job) for job in site.apart],
        "jobs": [
            {"nodes": n, "ppn": p, "state": c.state.value, "launches": len(c.history)}
            for (n, p), c in site.campaigns.items()
        ],
        "predicted": sum(one.choice != DEFAULT for one in site.decided),
        "slots_not_measured": len(site.decided),
        "sample": site.sample_text,
    }
    sys.stdout.write(json.dumps(plain(document)) + "\n" if as_json else site_progress(directory)[0])


def site_progress(directory: Path) -> tuple[str, bool]:
    """How far a site is, with the job under way, and whether it goes on."""
    site = read_site(directory)
    text, going_on = status_text(site), is_locked(directory, WISHES)
    for job in (one for one in site.wishes.jobs if not site.made(one)):
        with suppress(AutotuneError):  # it was not begun
            now = progress(job_folder(directory, job))
            going_on |= now.going_on
            text += f"{job_text(job)} now:\n{now.text}" if now.going_on else ""
    return text, going_on


def site_report(directory: Path, out: Path | None) -> None:
    """Write the page of a site with its map."""
    site, target = read_site(directory), out or directory / "report.html"
    page = site_page(f"Site {directory.name}", status_text(site).splitlines(), _cells(site))
    write_files({target: printable(page)}, links=out is not None)
    sys.stdout.write(f"{target}\n")


def _cells(site: SiteDirectory) -> Iterator[tuple[str, int, int, int, float, bool]]:
    """Collective, nodes, ppn, bytes, default / tuned (1: the library decides), and whether predicted."""
    by_slot = {(job, gain.slot): gain.ratio for job, one in site.chosen.items() for gain in one.gains}
    for job in site.chosen:
        for name, nodes, ppn, size in site.wishes.slots(job):
            yield name, nodes, ppn, size, by_slot.get((job, (name, nodes * ppn, size)), 1.0), False
    for made in site.decided:
        yield *astuple(made.shape), math.exp(made.gain), made.choice != DEFAULT


def tune_site(document: Mapping[str, Any], compose: Compose, quiet: bool = False) -> int:
    """Make the jobs of a site one after another, as far as its node-hours go, and write its files.

    Returns:
        The exit code, the worst of the jobs'.

    Raises:
        ScenarioError: the directory holds a site with other wishes, or a job does not fit this machine.
        LockedError: somebody else is making its jobs.
        CampaignError: no job could be measured.
    """
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    if document["campaign"].get("fresh"):
        raise ScenarioError("campaign.fresh=true is of a single campaign", "campaign.dir=… for another site")
    site = begun(root, wishes)
    kept = site.wishes
    if other := [f"{name}={json.dumps(plain(getattr(kept, name)))}" for name in kept.without(wishes)]:
        raise ScenarioError(
            f"{root} holds a site with other wishes: {', '.join(other)}",
            "campaign.dir=… for another; site.nodes and site.ppn may have further values",
        )
    check_largest(document, compose, replace(site, wishes=wishes))
    written = {root / WISHES: json.dumps(plain(wishes)) + "\n"}
    if not is_site(root):
        write_files(written, parents=True, below=root)
    lock = locked(root, WISHES)
    try:
        if kept.jobs != wishes.jobs:
            sys.stdout.write(f"further jobs: {', '.join(map(job_text, wishes.added_to(kept)))}\n")
            write_files(written, below=root)
            lock, former = locked(root, WISHES), lock  # of the file that is there now
            os.close(former)
        return _tuned(root, document, compose, quiet)
    finally:
        os.close(lock)


def _tuned(root: Path, document: Mapping[str, Any], compose: Compose, quiet: bool) -> int:
    codes, places = [int(ExitCode.WELL)], dict[Job, tuple[Scenario, Site]]()

    def asked(job: Job, beside: Collection[Job] = (), **changed: Any) -> dict[str, Any]:
        made = {**document, **changed}
        if job in site.campaigns:  # with the communicators that it measures, whatever jobs came since
            sizes = site.campaigns[job].about.scenario.cluster.comm_sizes
            made["cluster"] = {**document["cluster"], "comm_sizes": list(sizes) or [job[0] * job[1]]}
        return job_document(made, root, job, allowed_h(site, document, job, beside))

    def place_of(job: Job, made: dict[str, Any] | None = None) -> tuple[Scenario, Site]:
        if job not in places or made:
            scenario, place = compose(made or asked(job))
            places[job] = place.asked(scenario), place
        return places[job]

    def make(job: Job, why: str, **changed: Any) -> None:
        sys.stdout.write(f"\n{job_text(job)}: {why}\n")
        sys.stdout.flush()
        try:
            codes.append(tune(*place_of(job, asked(job, **changed)), quiet, proving=False))
        except (CampaignError, StackError) as exc:  # the other jobs may do
            if isinstance(exc, LockedError | StorageError):
                raise
            sys.stderr.write(f"{job_text(job)}: {exc}\n")
            codes.append(int(exc.exit_code))

    def make_beside(jobs: Mapping[Job, str]) -> None:
        documents, first = dict[str, dict[str, Any]](), 1
        for job, why in jobs.items():
            sys.stdout.write(f"\n{job_text(job)}, beside others: {why}\n")
            launch = {**document["launch"], "first_node": first}
            documents[job_text(job)] = asked(job, jobs, launch=launch, campaign=campaign(job))
            place_of(job, documents[job_text(job)])  # refused here, it is before anything is launched
            first += job[0]
        codes.extend(made_beside(documents, compose.origin, quiet, root / "beside"))

    def campaign(job: Job) -> dict[str, Any]:  # of a sample everything is measured now
        return {**document["campaign"], "fresh": job == site.sampled_job}

    def write(recommendation: Recommendation, folder: Path, jobs: Collection[Job]) -> None:
        formats = tuple(document.get("export") or ()) or dialect(recommendation.provenance.family).formats
        export_files(recommendation, formats, folder)
        codes.append(read_back(recommendation, formats, folder, jobs, place_of))
        used.append(_use(recommendation, formats, folder))

    used, tried = list[str](), list[Job]()
    site = read_site(root)
    if writing := [job_text(job) for job in site.wishes.jobs if is_locked(job_folder(root, job))]:
        raise LockedError(f"{', '.join(writing)}: being written by another process", "wait for its end")
    while jobs := upcoming(site, document, tried):
        if len(jobs) > 1:
            make_beside(jobs)
        else:
            make(*next(iter(jobs.items())), campaign=campaign(next(iter(jobs))))
        before, site = site, read_site(root)
        tried += [job for job in jobs if not cut_short(before, site, job, jobs)]
    if (drawn := _drawn(site, document)) is not None:
        if site.sample is None:  # else it was begun, and handed to a job or interrupted
            predicted = tuple(one for one in site.decided_for(drawn) if one.choice != DEFAULT)
            write_files({root / SAMPLE: json.dumps(plain(Sample(drawn, site.z or 0.0, predicted))) + "\n"})
        budget, verify = {**document["budget"], "launches": SAMPLED}, {**document["verify"], "enabled": False}
        fix = {**(document["fix"] or {}), **site.common}  # of which alone anything is predicted
        make(drawn, "a sample of what is predicted", budget=budget, verify=verify, fix=fix)
        site = read_site(root)
    site = _under_load(site, document, place_of)
    write(site.recommendation(), root / "export", [job for job in site.campaigns if job not in site.apart])
    for job in wishes_of(document).jobs:
        folder = job_folder(root / "export", job)
        if job in site.apart:
            write(site.apart[job], folder, [job])
        else:  # which an earlier run may have written
            remove_folder(folder, root)
    sys.stdout.write(status_text(site) + "\n".join(used) + "\n")
    return max(codes)


def _under_load(
    site: SiteDirectory, document: Mapping[str, Any], place_of: Callable[[Job], tuple[Scenario, Site]]
) -> SiteDirectory:
    """Every chosen setting compared under load, as far as the node-hours pay for it; the site since."""
    if not (command := site.wishes.under_load):
        return site
    launches = 2 * document["verify"]["launches"]
    while following := next(site.not_loaded, None):
        job, setting, one = following
        if cost_h(site, document, job, launches) > hours(document) - site.node_hours:
            sys.stdout.write(f"{job_text(job)}: no node-hours are left to compare it under load\n")
            break
        sys.stdout.write(f"\n{job_text(job)}: under load\n")
        sys.stdout.flush()
        folder = job_folder(site.path, job)
        found = observed(command, setting, one, *place_of(job), make_empty(folder / "under_load"))
        sys.stdout.write(f"{job_text(job)}: {load_text(found)}\n")
        kept = Loads((*site.loads.get(job, Loads()).found, found))
        write_files({folder / UNDER_LOAD: json.dumps(plain(kept)) + "\n"})
        site = read_site(site.path)
    return site


def _drawn(site: SiteDirectory, document: Mapping[str, Any]) -> Job | None:
    """A job of which something is predicted, at random, of those of which a sample can still be paid.

    Or the one that was drawn before, of which the sample is not complete.
    """
    if (earlier := site.sample) is not None:
        begun = site.campaigns.get(earlier.job)
        left = begun is None or (site.sampled_job is not None and begun.state is not State.COMPLETE)
        return earlier.job if left else None
    left_h = hours(document) - site.node_hours
    paid = [job for job in site.predicted_jobs if cost_h(site, document, job, SAMPLED) <= left_h]
    if not paid:
        return None
    return paid[int(np.random.default_rng(document["seed"]).integers(len(paid)))]


def _use(recommendation: Recommendation, formats: Sequence[str], folder: Path) -> str:
    line = how_to_use(recommendation, formats, folder)
    return f"use it with:\n  {line}" if line else unused(recommendation, folder)


def status_text(site: SiteDirectory) -> str:
    """How far a site is, a line for each job."""
    lines = []
    apart = ", ".join(f"{job_text(job)} under {site.apart[job].point}" for job in site.apart)
    for job in site.wishes.jobs:
        if job in site.campaigns and job != site.sampled_job:
            campaign = site.campaigns[job]
            lines.append(f"{job_text(job)}: {campaign.state.value}, {len(campaign.history)} launches")
            if (left := untimed(campaign.history)) is not None:
                lines.append(f"{job_text(job)}: {left.text}")
            lines += [f"{job_text(job)}: {load_text(one)}" for one in site.loads.get(job, Loads()).found]
        else:
            mine = site.decided_for(job)
            n = sum(one.choice != DEFAULT for one in mine)
            lines.append(
                f"{job_text(job)}: not measured; {n} of {len(mine)} slots predicted, the library's else"
            )
    if site.settings[1:]:
        setting = f"under {site.common}" if site.common else "under the library's own job-wide values"
        lines.append(f"one set of files {setting}; of their own: {apart or 'no job'}")
    doubt = (
        f"a prediction needs a gain above {site.z:g} standard deviations"
        if site.z
        else ("nothing is predicted: too few node counts were measured to say how predictions do")
    )
    used = f"{site.node_hours:.2f} node-hours used; {doubt}"
    return "".join(f"{line}\n" for line in (*lines, site.sample_text, used) if line)
