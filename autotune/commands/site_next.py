"""Which job of a site is next, by the journals of those that were made, and its configuration."""

import math
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from autotune.campaign.site import Compose
from autotune.commands.kept_status import is_site
from autotune.commands.site_costs import cost_h, hours, moot, sizes_within, space_of
from autotune.commands.site_directory import SAMPLED, SiteDirectory, job_folder, read_site
from autotune.errors import ScenarioError
from autotune.history.events import State
from autotune.scenario import scenario_of, sizes_of
from autotune.scenario.whole_site import Job, Wishes
from autotune.site import loss_removed
from autotune.structure import Document

_FIRST = 2  # Node counts that are measured before a model is asked: one shows nothing of another.


def upcoming(site: SiteDirectory, document: Mapping[str, Any], tried: Collection[Job]) -> dict[Job, str]:
    """Jobs to make next beside each other, and why each; empty: none is left that fits and would show more.

    All are chosen by what was known before the first of them, so that none waits for what another shows.
    """
    found: dict[Job, str] = {}
    while len(found) < document["site"]["at_once"] and (one := _following(site, document, tried, found)):
        found[one[0]] = one[1]
    return found


def _following(
    site: SiteDirectory, document: Mapping[str, Any], tried: Collection[Job], beside: Collection[Job]
) -> tuple[Job, str] | None:
    left = [job for job in site.wishes.jobs if job not in {*tried, *beside} and not site.made(job)]
    left = [job for job in left if fits(site, document, job, beside)]
    if begun := [job for job in left if job in site.campaigns and job != site.sampled_job]:
        return begun[0], "continued"
    if not left:
        return None
    if len({nodes for nodes, _ in (*site.campaigns, *beside)}) < _FIRST:
        return left[0], "small jobs come first"
    if not site.measured:  # these are made whatever the others show; of a further one that is not known yet
        return None if beside else (left[0], "small jobs come first")
    mine = {job: site.decided_for(job) for job in left}
    worth = {job: loss_removed(site.model, mine[job]) for job in left}
    best = max(left, key=lambda job: worth[job] / cost_h(site, document, job))
    if worth[best] <= 0:
        return None
    return best, f"expected to gain {worth[best] / len(mine[best]):.1%} a slot, most for its node-hours"


def fits(site: SiteDirectory, document: Mapping[str, Any], job: Job, beside: Collection[Job] = ()) -> bool:
    """Whether nodes and node-hours that are left pay for a job, and for a sample of what is predicted.

    There are as many nodes as the largest job has.
    """
    others = [one for one in site.predicted_jobs if one not in {job, *beside}] if site.sample is None else []
    kept_h = min((cost_h(site, document, one, SAMPLED) for one in others), default=0.0)
    asked_h = sum(cost_h(site, document, one) for one in (job, *beside))
    room = sum(nodes for nodes, _ in (job, *beside)) <= max(site.wishes.nodes)
    return room and asked_h + kept_h <= hours(document) - site.node_hours


def allowed_h(
    site: SiteDirectory, document: Mapping[str, Any], job: Job, beside: Collection[Job] = ()
) -> float:
    """Node-hours that a job may use, those that it has used among them; of what is left its share."""
    used_h = 0.0
    if job in site.campaigns and job != site.sampled_job:
        used_h = job[0] * sum(o.duration_s for o in site.campaigns[job].history) / 3600
    costs = {one: cost_h(site, document, one) for one in {job, *beside}}
    return used_h + (hours(document) - site.node_hours) * costs[job] / sum(costs.values())


def cut_short(before: SiteDirectory, after: SiteDirectory, job: Job, beside: Collection[Job]) -> bool:
    """Whether its share of the node-hours ended a job, which others may have left some."""
    if len(beside) < 2 or job not in after.campaigns or after.campaigns[job].state is not State.INTERRUPTED:
        return False
    made = len(before.campaigns[job].history) if job in before.campaigns else 0
    return len(after.campaigns[job].history) > made


def job_document(
    document: Mapping[str, Any], root: Path, job: Job, most_h: float = math.inf
) -> dict[str, Any]:
    """The configuration of one job, which may use so many node-hours."""
    budget = {**document["budget"]}
    if math.isfinite(most_h):
        budget["node_hours"] = max(most_h, 1e-3)
    own, fix = {key: value for key, value in document.items() if key != "site"}, document["fix"] or {}
    if fix and job[0] == 1:
        still = moot(space_of(document), job[0])
        fix = {name: value for name, value in fix.items() if name not in still}
    ranks, sizes = job[0] * job[1], list(sizes_within(document, job))
    place = {"nodes": job[0], "ppn": job[1], "ranks": ranks, "comm_sizes": sizes if sizes != [ranks] else []}
    return own | {
        "fix": fix,
        "collective": list(document["site"]["collectives"]),
        "cluster": document["cluster"] | place,
        "campaign": {**document["campaign"], "dir": str(job_folder(root, job))},
        "budget": budget,
    }


def check_largest(document: Mapping[str, Any], compose: Compose, site: SiteDirectory) -> None:
    """Look for a place for most ranks on a node, on the fewest nodes, before fewer are measured in vain.

    Raises:
        ScenarioError: they are more than its cores.
    """
    if left := [job for job in site.wishes.jobs if not site.made(job)]:
        largest = max(job for job in left if job[0] == left[0][0])
        compose(job_document(document, site.path, largest), launches=False)


def wishes_of(document: Mapping[str, Any]) -> Wishes:
    """Read the wishes of a composed configuration, whose other keys are checked as those of a job.

    Raises:
        ScenarioError: an unknown key, a value that is not allowed, or a call that no node has memory for.
    """
    asked, sizes = document["site"], sizes_of(document["sizes"])
    asked = {**asked, "sizes": sizes} if isinstance(asked, Mapping) else asked
    wishes = Document("site", ScenarioError).structured(Wishes, asked, "site")
    own, (nodes, ppn) = {key: value for key, value in document.items() if key != "site"}, wishes.jobs[-1]
    if isinstance(cluster := own.get("cluster"), Mapping):
        own["cluster"] = {**cluster, "nodes": nodes, "ppn": ppn, "ranks": nodes * ppn}
    scenario_of(own | {"collective": list(wishes.collectives)}, "site")
    wishes.check_memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return wishes


def begun(root: Path, wishes: Wishes) -> SiteDirectory:
    """The site in a directory; a new one where there is none."""
    return read_site(root) if is_site(root) else SiteDirectory(root, wishes, {})


def job_text(job: Job) -> str:
    """A job in words."""
    return f"{job[0]} × {job[1]} ranks"
