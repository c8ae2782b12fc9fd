"""Choose the job of a site that is measured next, from the results so far, and make its configuration."""

import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from autotune.campaign.bench import Compose
from autotune.commands.kept_status import is_site
from autotune.errors import ScenarioError
from autotune.history.events import State
from autotune.scenario import scenario_of, sizes_of
from autotune.scenario.whole_site import Job, Wishes
from autotune.site.abstention import loss_removed
from autotune.site.costs import cost_h, hours, moot, sizes_within, space_of
from autotune.site.directory import SAMPLED, SiteDirectory, job_folder, read_site
from autotune.structure import Document

_FIRST = 2
"""Number of different node counts to measure before others are predicted; one alone shows no trend."""


def upcoming(site: SiteDirectory, document: Mapping[str, Any], attempted: Collection[Job]) -> dict[Job, str]:
    """Return the jobs to measure next, at the same time, each with the reason for its choice.

    All jobs are chosen from the present results, so that none waits for the results of another. Those that
    were ``attempted`` in this run are not chosen again. The result is empty if no remaining job fits the
    budget and would improve the predictions.
    """
    jobs: dict[Job, str] = {}
    while len(jobs) < document["site"]["at_once"]:
        if (following := _following(site, document, attempted, jobs)) is None:
            break
        job, reason = following
        jobs[job] = reason
    return jobs


def _following(
    site: SiteDirectory, document: Mapping[str, Any], attempted: Collection[Job], neighbours: Collection[Job]
) -> tuple[Job, str] | None:
    """Return the job to measure next, beside the jobs ``neighbours``, and the reason; None if there is none.

    Jobs that were begun come first. Then the smallest jobs follow until two numbers of nodes were measured.
    From then on, the job whose measurement is expected to gain most for its node-hours is next.
    """
    others = (job for job in site.wishes.jobs if job not in {*attempted, *neighbours})
    remaining = [job for job in others if not site.is_complete(job)]
    candidates = [job for job in remaining if _fits(site, document, job, neighbours)]
    if begun_jobs := [job for job in candidates if job in site.campaigns and job != site.sampled_job]:
        return begun_jobs[0], "continued"
    if not candidates:
        return None
    if len({nodes for nodes, _ in (*site.campaigns, *neighbours)}) < _FIRST:
        return candidates[0], "small jobs come first"
    if not site.measured:  # without results, only jobs that are needed anyway
        return None if neighbours else (candidates[0], "small jobs come first")
    decisions = {job: site.decided_for(job) for job in candidates}
    value = {job: loss_removed(site.model, decisions[job]) for job in candidates}
    best = max(candidates, key=lambda job: value[job] / cost_h(site, document, job))
    if value[best] <= 0:
        return None
    return best, f"expected to gain {value[best] / len(decisions[best]):.1%} a slot, most for its node-hours"


def _fits(site: SiteDirectory, document: Mapping[str, Any], job: Job, neighbours: Collection[Job]) -> bool:
    """Return whether the remaining node-hours and the nodes suffice for a job beside the jobs ``neighbours``.

    Unless predictions were tested already, the node-hours also have to suffice for the two launches that test
    them. The site is assumed to have as many nodes as its largest job.
    """
    jobs = (job, *neighbours)
    predicted = [one for one in site.predicted_jobs if one not in jobs] if site.sample is None else []
    sample_h = min((cost_h(site, document, one, SAMPLED) for one in predicted), default=0.0)
    jobs_h = sum(cost_h(site, document, one) for one in jobs)
    enough_nodes = sum(nodes for nodes, _ in jobs) <= max(site.wishes.nodes)
    return enough_nodes and jobs_h + sample_h <= hours(document) - site.node_hours


def allowed_h(
    site: SiteDirectory, document: Mapping[str, Any], job: Job, neighbours: Collection[Job] = ()
) -> float:
    """Return the node-hours that a job may use in total: what it has used, and a share of what is left.

    The remaining node-hours are divided between this job and the jobs that run at the same time, in
    proportion to their expected costs.
    """
    used_h = 0.0
    if job in site.campaigns and job != site.sampled_job:
        used_h = job[0] * sum(o.duration_s for o in site.campaigns[job].history) / 3600
    costs = {sharing: cost_h(site, document, sharing) for sharing in {job, *neighbours}}
    return used_h + (hours(document) - site.node_hours) * costs[job] / sum(costs.values())


def cut_short(earlier: SiteDirectory, later: SiteDirectory, job: Job, neighbours: Collection[Job]) -> bool:
    """Return whether a job ended because its share of the node-hours was used up.

    Such a job may continue if the jobs beside it have not used all of their shares. ``neighbours`` are all
    jobs that ran at the same time, including this job. The result is False if the job made no launch.
    """
    campaign = later.campaigns.get(job)
    if len(neighbours) < 2 or campaign is None or campaign.state is not State.INTERRUPTED:
        return False
    launches = len(earlier.campaigns[job].history) if job in earlier.campaigns else 0
    return len(campaign.history) > launches


def job_document(
    document: Mapping[str, Any], root: Path, job: Job, budget_h: float = math.inf
) -> dict[str, Any]:
    """Return the configuration of one job, which may use ``budget_h`` node-hours."""
    budget = {**document["budget"]}
    if math.isfinite(budget_h):
        budget["node_hours"] = max(budget_h, 1e-3)
    job_keys, fix = {key: value for key, value in document.items() if key != "site"}, document["fix"] or {}
    if fix and job[0] == 1:
        still = moot(space_of(document), job[0])
        fix = {name: value for name, value in fix.items() if name not in still}
    ranks, sizes = job[0] * job[1], list(sizes_within(document, job))
    place = {"nodes": job[0], "ppn": job[1], "ranks": ranks, "comm_sizes": sizes if sizes != [ranks] else []}
    return job_keys | {
        "fix": fix,
        "collective": list(document["site"]["collectives"]),
        "cluster": document["cluster"] | place,
        "campaign": {**document["campaign"], "dir": str(job_folder(root, job))},
        "budget": budget,
    }


def check_largest(document: Mapping[str, Any], compose: Compose, site: SiteDirectory) -> None:
    """Check that the largest number of ranks on a node fits the machine, before smaller jobs are measured.

    Raises:
        ScenarioError: a node has fewer cores than the job has ranks on it.
    """
    if remaining := [job for job in site.wishes.jobs if not site.is_complete(job)]:
        largest = max(job for job in remaining if job[0] == remaining[0][0])
        compose(job_document(document, site.path, largest), launches=False)


def wishes_of(document: Mapping[str, Any]) -> Wishes:
    """Return the jobs and limits that a configuration asks for; check its other keys as those of one job.

    Raises:
        ScenarioError: a key is unknown, a value is not allowed, or a call needs more memory than a node has.
    """
    values, sizes = document["site"], sizes_of(document["sizes"])
    values = {**values, "sizes": sizes} if isinstance(values, Mapping) else values
    wishes = Document("site", ScenarioError).structured(Wishes, values, "site")
    job_keys, (nodes, ppn) = {key: value for key, value in document.items() if key != "site"}, wishes.jobs[-1]
    if isinstance(cluster := job_keys.get("cluster"), Mapping):
        job_keys["cluster"] = {**cluster, "nodes": nodes, "ppn": ppn, "ranks": nodes * ppn}
    scenario_of(job_keys | {"collective": list(wishes.collectives)}, "site")
    wishes.check_memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return wishes


def site_at(root: Path, wishes: Wishes) -> SiteDirectory:
    """Return the site in a directory or, if the directory has none, a new site with this request."""
    return read_site(root) if is_site(root) else SiteDirectory(root, wishes, {})


def job_text(job: Job) -> str:
    """Return a job in words, such as ``2 × 8 ranks``."""
    return f"{job[0]} × {job[1]} ranks"
