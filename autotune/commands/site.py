"""``conf=site``: a campaign for each job size of a site, small ones first, and one set of files.

A directory of a site has its wishes in ``site.json`` and an ordinary campaign for each job in ``jobs/``:
resuming is resuming these. Which job comes next, what is predicted for those that were not made, and the
files are functions of the journals alone.
"""

import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from autotune.campaign.site import Site
from autotune.commands.kept_status import is_site
from autotune.commands.site_check import read_back
from autotune.commands.site_directory import (
    SAMPLE,
    SAMPLED,
    Sample,
    SiteDirectory,
    cells,
    job_folder,
    read_site,
)
from autotune.commands.site_next import cost_h, hours, upcoming
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
)
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.exporters.writing import write_files
from autotune.history.folder import WISHES
from autotune.history.journal import is_locked, locked
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario, sizes_of
from autotune.scenario.whole_site import Job, Wishes, node_bytes
from autotune.site import DEFAULT
from autotune.stacks import dialect
from autotune.structure import Document, plain
from autotune.views.site_map import site_page

Compose = Callable[[dict[str, Any]], tuple[Scenario, Site]]  # A job's configuration → where it is made.


def site_status(directory: Path, as_json: bool) -> None:
    """Print how far a site is."""
    site = read_site(directory)
    document = {
        "node_hours": site.node_hours,
        "z": site.z,
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
            text += f"{_name(job)} now:\n{now.text}" if now.going_on else ""
    return text, going_on


def site_report(directory: Path, out: Path | None) -> None:
    """Write the page of a site with its map."""
    site, target = read_site(directory), out or directory / "report.html"
    page = site_page(f"Site {directory.name}", status_text(site).splitlines(), cells(site))
    write_files({target: page}, links=out is not None)
    sys.stdout.write(f"{target}\n")


def wishes_of(document: Mapping[str, Any]) -> Wishes:
    """Read the wishes of a composed configuration.

    Raises:
        ScenarioError: an unknown key, a value that is not allowed, or a call that no node has memory for.
    """
    asked = {**document["site"], "sizes": sizes_of(document["sizes"])}
    wishes = Document("site", ScenarioError).structured(Wishes, asked)
    wishes.check_memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return wishes


def tune_site(document: Mapping[str, Any], compose: Compose, quiet: bool = False) -> int:
    """Make the jobs of a site one after another, as far as its node-hours go, and write its files.

    Returns:
        The exit code, the worst of the jobs'.

    Raises:
        ScenarioError: the directory holds a site with other wishes.
        LockedError: somebody else is making its jobs.
        CampaignError: no job could be measured.
    """
    wishes, root = wishes_of(document), Path(document["campaign"]["dir"])
    if document["campaign"].get("fresh"):
        raise ScenarioError("campaign.fresh=true is of a single campaign", "campaign.dir=… for another site")
    if not is_site(root):
        write_files({root / WISHES: json.dumps(plain(wishes)) + "\n"}, parents=True)
    elif read_site(root).wishes != wishes:
        raise ScenarioError(f"{root} holds a site with other wishes", "campaign.dir=… for another")
    lock = locked(root, WISHES)
    try:
        return _tuned(root, document, compose, quiet)
    finally:
        os.close(lock)


def _tuned(root: Path, document: Mapping[str, Any], compose: Compose, quiet: bool) -> int:
    codes, places = [int(ExitCode.WELL)], dict[Job, tuple[Scenario, Site]]()

    def place_of(job: Job, **changed: Any) -> tuple[Scenario, Site]:
        if job not in places or changed:
            scenario, place = compose(_job({**document, **changed}, root, job, site.node_hours))
            places[job] = place.asked(scenario), place
        return places[job]

    def make(job: Job, why: str, **changed: Any) -> None:
        sys.stdout.write(f"\n{_name(job)}: {why}\n")
        sys.stdout.flush()
        try:
            codes.append(tune(*place_of(job, **changed), quiet, proving=False))
        except (CampaignError, StackError) as exc:  # the other jobs may do
            if isinstance(exc, LockedError | StorageError):
                raise
            sys.stderr.write(f"{_name(job)}: {exc}\n")
            codes.append(int(exc.exit_code))

    tried = list[Job]()
    while (following := upcoming(site := read_site(root), document, tried)) is not None:
        tried.append(following[0])
        make(*following)
    if (drawn := _drawn(site, document)) is not None:
        predicted = tuple(one for one in site.decided_for(drawn) if one.choice != DEFAULT)
        write_files({root / SAMPLE: json.dumps(plain(Sample(drawn, site.z or 0.0, predicted))) + "\n"})
        budget, verify = {**document["budget"], "launches": SAMPLED}, {**document["verify"], "enabled": False}
        make(drawn, "a sample of what is predicted", budget=budget, verify=verify)
        site = read_site(root)
    recommendation = site.recommendation()
    formats = tuple(document.get("export") or ()) or dialect(site.first.about.space.stack).formats
    export_files(recommendation, formats, root / "export")
    codes.append(read_back(recommendation, formats, root / "export", site.recommended, place_of))
    sys.stdout.write(f"{status_text(site)}{_use(recommendation, formats, root / 'export')}\n")
    return max(codes)


def _drawn(site: SiteDirectory, document: Mapping[str, Any]) -> Job | None:
    """A job of which something is predicted, at random, of those of which a sample can still be paid."""
    left_h = hours(document) - site.node_hours
    paid = [job for job in site.predicted_jobs if cost_h(site, document, job, SAMPLED) <= left_h]
    if site.sample is not None or not paid:
        return None
    return paid[int(np.random.default_rng(document["seed"]).integers(len(paid)))]


def _use(recommendation: Recommendation, formats: Sequence[str], folder: Path) -> str:
    line = how_to_use(recommendation, formats, folder)
    return f"use it with:\n  {line}" if line else unused(recommendation, folder)


def plan_site(document: Mapping[str, Any], compose: Compose) -> int:
    """Print the jobs of a site, what each takes, and which of them its node-hours reach.

    The jobs' own order is decided as they are measured; planned is from small to large.
    """
    del compose  # nothing is launched, so that no place is asked for
    wishes, root = wishes_of(document), Path(document["campaign"]["dir"])
    site = read_site(root) if is_site(root) else SiteDirectory(root, wishes, {})
    most, spent = hours(document), site.node_hours
    lines = [f"{'nodes':>6} {'ppn':>4} {'ranks':>6} {'node-hours':>10} {'GiB/node':>8}"]
    for job in wishes.jobs:
        done = site.made(job)
        cost = 0.0 if done else cost_h(site, document, job)
        fits = spent + cost <= most
        spent += cost if fits else 0.0
        room = max(node_bytes(*slot) for slot in wishes.slots(job)) / 2**30
        what = "measured already" if done else "measured" if fits else "predicted, or left to the library"
        lines.append(f"{job[0]:6} {job[1]:4} {job[0] * job[1]:6} {cost:10.2f} {room:8.2f}  {what}")
    slots = len(wishes.jobs) * len(wishes.slots(wishes.jobs[0]))
    limit = f" of {most:g}" if math.isfinite(most) else ""
    known = "launches as so far" if site.campaigns else "before any launch: less than it will be"
    lines.append(f"together {spent:.2f}{limit} node-hours ({known}), {slots} slots in {root}")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.WELL


def status_text(site: SiteDirectory) -> str:
    """How far a site is, a line for each job."""
    lines = []
    for job in site.wishes.jobs:
        if job in site.campaigns and job != site.sampled_job:
            campaign = site.campaigns[job]
            lines.append(f"{_name(job)}: {campaign.state.value}, {len(campaign.history)} launches")
        else:
            mine = site.decided_for(job)
            n = sum(one.choice != DEFAULT for one in mine)
            lines.append(
                f"{_name(job)}: not measured; {n} of {len(mine)} slots predicted, the library's else"
            )
    doubt = (
        f"a prediction needs a gain above {site.z:g} standard deviations"
        if site.z
        else ("nothing is predicted: too few node counts were measured to say how predictions do")
    )
    used = f"{site.node_hours:.2f} node-hours used; {doubt}"
    return "".join(f"{line}\n" for line in (*lines, site.sample_text, used) if line)


def _job(document: Mapping[str, Any], root: Path, job: Job, spent_h: float) -> dict[str, Any]:
    """The configuration of one job."""
    budget = {**document["budget"]}
    if math.isfinite(hours(document)):
        budget["node_hours"] = max(hours(document) - spent_h, 1e-3)
    own = {key: value for key, value in document.items() if key != "site"}
    return own | {
        "collective": list(document["site"]["collectives"]),
        "cluster": {**document["cluster"], "nodes": job[0], "ppn": job[1], "ranks": job[0] * job[1]},
        "campaign": {**document["campaign"], "dir": str(job_folder(root, job)), "fresh": False},
        "budget": budget,
    }


def _name(job: Job) -> str:
    return f"{job[0]} × {job[1]} ranks"
