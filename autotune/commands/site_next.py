"""Which job of a site is next, and what jobs cost: by the journals of those that were made."""

import math
from collections.abc import Collection, Mapping
from statistics import fmean
from typing import Any

import numpy as np

from autotune.commands.site_directory import SAMPLED, SiteDirectory
from autotune.resources import space_text
from autotune.scenario.whole_site import Job
from autotune.site import loss_removed
from autotune.space.loader import load_space
from autotune.stacks.ports import START_S

_FIRST = 2  # Node counts that are measured before a model is asked: one shows nothing of another.


def upcoming(
    site: SiteDirectory, document: Mapping[str, Any], tried: Collection[Job]
) -> tuple[Job, str] | None:
    """The job to make next, and why; None: none is left that fits the budget and would show more."""
    left = [job for job in site.wishes.jobs if job not in tried and not site.made(job)]
    left = [job for job in left if fits(site, document, job)]
    if begun := [job for job in left if job in site.campaigns and job != site.sampled_job]:
        return begun[0], "continued"
    if not left:
        return None
    if len({nodes for nodes, _ in site.campaigns}) < _FIRST or not site.measured:
        return left[0], "small jobs come first"
    mine = {job: site.decided_for(job) for job in left}
    worth = {job: loss_removed(site.model, mine[job]) for job in left}
    best = max(left, key=lambda job: worth[job] / cost_h(site, document, job))
    if worth[best] <= 0:
        return None
    return best, f"expected to gain {worth[best] / len(mine[best]):.1%} a slot, most for its node-hours"


def fits(site: SiteDirectory, document: Mapping[str, Any], job: Job) -> bool:
    """Whether the node-hours that are left pay for a job, and for a sample of what is predicted beside it."""
    others = [one for one in site.predicted_jobs if one != job] if site.sample is None else []
    kept_h = min((cost_h(site, document, one, SAMPLED) for one in others), default=0.0)
    return cost_h(site, document, job) + kept_h <= hours(document) - site.node_hours


def cost_h(site: SiteDirectory, document: Mapping[str, Any], job: Job, launches: float = 0.0) -> float:
    """Node-hours that a job takes, or so many launches of it."""
    done = len(site.campaigns[job].history) if job in site.campaigns and not launches else 0
    left = max((launches or _launches(site, document)) - done, 1.0)
    return left * job[0] * launch_s(site, document, job[0] * job[1]) / 3600


def launch_s(site: SiteDirectory, document: Mapping[str, Any], ranks: int) -> float:
    """Expected duration of a launch: as so far, by a power of the ranks; before any as it measures."""
    took: dict[int, list[float]] = {}
    for (nodes, ppn), campaign in site.campaigns.items():
        if mine := [o.duration_s for o in campaign.history if o.ok]:
            took.setdefault(nodes * ppn, []).extend(mine)
    if not took:
        return START_S + float(document["probe"]["budget_s"])
    x, y = np.log(list(took)), np.log([fmean(mine) for mine in took.values()])
    # No part of a launch that was seen grows faster than the ranks, and none becomes shorter with them.
    slope = float(np.clip(np.polyfit(x, y, 1)[0], 0, 1)) if len(took) > 1 else 0.0
    return float(np.exp(y.mean() + slope * (math.log(ranks) - x.mean())))


def hours(document: Mapping[str, Any]) -> float:
    """The budget of all jobs together."""
    most = document["budget"].get("node_hours")
    return math.inf if most is None else float(most)


def _launches(site: SiteDirectory, document: Mapping[str, Any]) -> float:
    """Launches of a job: as complete ones had, before any as planned."""
    if made := [len(c.history) for job, c in site.campaigns.items() if site.made(job)]:
        return fmean(made)
    budget, verify = document["budget"], document["verify"]
    searched = max(budget["launches"], 1)
    if document["proposer"]["name"] == "grid":  # which ends with its last point
        job_wide = load_space(space_text(document["space"]), document["space"]).job
        points = math.prod(len(p.values) for p in job_wide)
        searched = min(searched, points + min(document["baseline"]["launches"], max(1, searched // 3)))
    return float(searched + (verify["launches"] if verify["enabled"] else 0))
