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
from pathlib import Path
from typing import Any

from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Site
from autotune.commands.kept_status import is_site
from autotune.commands.site_directory import SiteDirectory, cells, job_folder, read_site
from autotune.commands.tune import tune
from autotune.errors import CampaignError, ExitCode, ScenarioError
from autotune.exporters.export_check import check_export
from autotune.exporters.files import export_files, how_to_use, unused
from autotune.exporters.writing import write_files
from autotune.history.events import State
from autotune.history.folder import WISHES
from autotune.recommend.recommendation import Recommendation
from autotune.scenario import Scenario, sizes_of
from autotune.scenario.whole_site import Wishes, node_bytes
from autotune.site import DEFAULT, loss_removed
from autotune.stacks import dialect
from autotune.structure import Document, plain
from autotune.views.site_map import site_page

_FIRST = 2  # Node counts that are measured before a model is asked: one shows nothing of another.
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
    }
    sys.stdout.write(json.dumps(plain(document)) + "\n" if as_json else status_text(site))


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
        CampaignError: no job could be measured.
    """
    wishes, root = wishes_of(document), Path(document["campaign"]["dir"])
    if is_site(root) and read_site(root).wishes != wishes:
        raise ScenarioError(f"{root} holds a site with other wishes", "campaign.dir=… for another")
    write_files({root / WISHES: json.dumps(plain(wishes)) + "\n"}, parents=True)
    code, tried = int(ExitCode.WELL), set[tuple[int, int]]()
    places: list[tuple[Scenario, Site]] = []
    while (upcoming := _next(site := read_site(root), document, tried)) is not None:
        job, why = upcoming
        tried.add(job)
        sys.stdout.write(f"\n{_name(job)}: {why}\n")
        sys.stdout.flush()
        scenario, place = compose(_job(document, root, job, site.node_hours))
        asked = place.asked(scenario)
        places.append((asked, place))
        try:
            code = max(code, tune(asked, place, quiet))
        except CampaignError as exc:  # the other jobs may do
            sys.stderr.write(f"{_name(job)}: {exc}\n")
            code = max(code, int(exc.exit_code))
    recommendation = site.recommendation()
    formats = tuple(document.get("export") or ()) or dialect(site.first.about.space.stack).formats
    if places or not (root / "export").is_dir():  # ended after its last job, before its files
        export_files(recommendation, formats, root / "export")
    for scenario, place in places if formats else ():
        if place.stack is None:
            continue
        measurement = measurement_of(scenario, place.placement.ranks)
        proof = check_export(
            formats, recommendation, root / "export", place.observer, measurement, place.whole
        )
        if proof is not None:
            sys.stdout.write(f"{place.placement.ranks} ranks: {proof}\n")
            if proof.refutes:
                code = max(code, int(ExitCode.FINDING))
                break  # the last proof is the one that stays beside the files
    sys.stdout.write(f"{status_text(site)}{_use(recommendation, formats, root / 'export')}\n")
    return code


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
    most, spent = _hours(document), site.node_hours
    lines = [f"{'nodes':>6} {'ppn':>4} {'ranks':>6} {'node-hours':>10} {'GiB/node':>8}"]
    for job in wishes.jobs:
        done = _complete(site, job)
        cost = 0.0 if done else _cost_h(site, document, job)
        fits = spent + cost <= most
        spent += cost if fits else 0.0
        room = max(node_bytes(*slot) for slot in wishes.slots(job)) / 2**30
        what = "measured already" if done else "measured" if fits else "predicted, or left to the library"
        lines.append(f"{job[0]:6} {job[1]:4} {job[0] * job[1]:6} {cost:10.2f} {room:8.2f}  {what}")
    slots = len(wishes.jobs) * len(wishes.slots(wishes.jobs[0]))
    limit = f" of {most:g}" if math.isfinite(most) else ""
    known = "launches as long as so far" if site.campaigns else "starting ranks comes on top"
    lines.append(f"together {spent:.2f}{limit} node-hours ({known}), {slots} slots in {root}")
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.WELL


def status_text(site: SiteDirectory) -> str:
    """How far a site is, a line for each job."""
    lines = []
    for job in site.wishes.jobs:
        if job in site.campaigns:
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
    return "\n".join([*lines, f"{site.node_hours:.2f} node-hours used; {doubt}\n"])


def _next(
    site: SiteDirectory, document: Mapping[str, Any], tried: set[tuple[int, int]]
) -> tuple[tuple[int, int], str] | None:
    """The job to make next, and why; None: none is left that fits the budget and would show more."""
    left_h = _hours(document) - site.node_hours
    left = [job for job in site.wishes.jobs if job not in tried and not _complete(site, job)]
    left = [job for job in left if _cost_h(site, document, job) <= left_h]
    begun = [job for job in left if job in site.campaigns]
    if begun:
        return begun[0], "continued"
    if not left:
        return None
    if len({nodes for nodes, _ in site.campaigns}) < _FIRST or not site.measured:
        return left[0], "small jobs come first"
    mine = {job: site.decided_for(job) for job in left}
    worth = {job: loss_removed(site.model, mine[job]) for job in left}
    best = max(left, key=lambda job: worth[job] / _cost_h(site, document, job))
    if worth[best] <= 0:
        return None
    return best, f"expected to gain {worth[best] / len(mine[best]):.1%} a slot, most for its node-hours"


def _cost_h(site: SiteDirectory, document: Mapping[str, Any], job: tuple[int, int]) -> float:
    """Node-hours that a job takes: its launches as long as those so far, before any as they measure."""
    budget, verify = document["budget"], document["verify"]
    launches = budget["launches"] + (verify["launches"] if verify["enabled"] else 0)
    took = [o.duration_s for c in site.campaigns.values() for o in c.history if o.ok]
    each_s = sum(took) / len(took) if took else document["probe"]["budget_s"]
    done = len(site.campaigns[job].history) if job in site.campaigns else 0
    return float(max(launches - done, 1) * job[0] * each_s / 3600)


def _hours(document: Mapping[str, Any]) -> float:
    hours = document["budget"].get("node_hours")
    return math.inf if hours is None else float(hours)


def _job(document: Mapping[str, Any], root: Path, job: tuple[int, int], spent_h: float) -> dict[str, Any]:
    """The configuration of one job."""
    budget = {**document["budget"]}
    if math.isfinite(_hours(document)):
        budget["node_hours"] = max(_hours(document) - spent_h, 1e-3)
    own = {key: value for key, value in document.items() if key != "site"}
    return own | {
        "collective": list(document["site"]["collectives"]),
        "cluster": {**document["cluster"], "nodes": job[0], "ppn": job[1], "ranks": job[0] * job[1]},
        "campaign": {**document["campaign"], "dir": str(job_folder(root, job)), "fresh": False},
        "budget": budget,
    }


def _complete(site: SiteDirectory, job: tuple[int, int]) -> bool:
    return job in site.campaigns and site.campaigns[job].state is State.COMPLETE


def _name(job: tuple[int, int]) -> str:
    return f"{job[0]} × {job[1]} ranks"
