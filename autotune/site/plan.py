"""Implement ``plan conf=site`` and ``measure conf=site``, which estimate the cost of a site's jobs."""

import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.campaign.bench import Compose
from autotune.campaign.observing import measurement_of
from autotune.errors import CampaignError, ExitCode
from autotune.exporters.writing import write_files
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.scenario.whole_site import Job, Wishes, node_bytes
from autotune.site.costs import (
    STARTS,
    TimedJob,
    TimedLaunch,
    cost_h,
    hours,
    read_starts,
    sampled_s,
    space_of,
    sweep_s,
    timed,
)
from autotune.site.directory import SiteDirectory
from autotune.site.next_job import check_largest, job_document, job_text, site_at, wishes_of
from autotune.space import Point
from autotune.structure import plain
from autotune.views.text import size_text

_OUTCOMES = {
    "complete": "measured already",
    "measured": "measured",
    "predicted": "predicted, or left to the library",
}
"""Maps what becomes of a job, as JSON has it, to words: the budget pays for its launches or does not."""


def plan_site(
    document: Mapping[str, Any],
    compose: Compose,
    planned: list[tuple[float, float]] | None = None,
    documents: list[dict[str, Any]] | None = None,
) -> int:
    """Print the jobs of a site, the node-hours of each, and which of them the budget pays for.

    The plan goes from small jobs to large jobs; the real order is decided while the jobs are measured. The
    node-hours of all jobs are appended to ``planned``, twice: as the lower and the upper end of an interval.
    If ``documents`` is given, the plan is appended to it as JSON values, and nothing is printed.

    Raises:
        ScenarioError: the configuration asks for something that is not allowed.
        UserError: a document of the site cannot be read.
    """
    del compose
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    site, started = site_at(root, wishes), read_starts(root)
    budget_h, spent_h = hours(document), site.node_hours
    jobs: list[dict[str, Any]] = []
    for job in wishes.jobs:
        is_complete = site.is_complete(job)
        job_h = 0.0 if is_complete else cost_h(site, document, job)
        fits = spent_h + job_h <= budget_h
        spent_h += job_h if fits else 0.0
        largest = max(node_bytes(*slot) for slot in wishes.slots(job))
        outcome = "complete" if is_complete else "measured" if fits else "predicted"
        jobs.append({"nodes": job[0], "ppn": job[1], "node_hours": job_h, "node_bytes": largest,
                     "outcome": outcome})  # fmt: skip
    if planned is not None:
        planned.append((spent_h, spent_h))
    if documents is not None:
        asked = {"directory": str(root), "collectives": list(wishes.collectives), "sizes": list(wishes.sizes)}
        documents.append({**asked, "jobs": jobs, "node_hours": spent_h, "budget_node_hours": budget_h})
        return ExitCode.WELL
    lines = [f"{'nodes':>6} {'ppn':>4} {'ranks':>6} {'node-hours':>10} {'GiB/node':>8}"]
    lines += map(_job_line, jobs)
    slots = len(wishes.jobs) * len(wishes.slots(wishes.jobs[0]))
    limit = f" of {budget_h:g}" if math.isfinite(budget_h) else ""
    basis = "launches as so far" if site.campaigns else "started as measured" if started else ""
    basis = basis or "before any launch, a start taken for 1.5 s: measure conf=site … times it and a sweep"
    lines.append(f"together {spent_h:.3f}{limit} node-hours ({basis}), {slots} slots in {root}")
    if started:
        lines.append(_calls_text(sweep_s(started, document, wishes.jobs[-1]), wishes))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.WELL


def _job_line(job: Mapping[str, Any]) -> str:
    ranks, node_gib = job["nodes"] * job["ppn"], job["node_bytes"] / 2**30
    figures = f"{job['nodes']:6} {job['ppn']:4} {ranks:6} {job['node_hours']:10.3f} {node_gib:8.2f}"
    return f"{figures}  {_OUTCOMES[job['outcome']]}"


def _calls_text(calls_s: Mapping[tuple[str, int], float], wishes: Wishes) -> str:
    """Return a line with the total seconds of one call with each per-size choice on the largest job."""
    by_collective: dict[str, dict[int, float]] = defaultdict(dict)
    for (collective, size), seconds in calls_s.items():
        by_collective[collective][size] = seconds
    parts = []
    for collective, sizes_s in sorted(by_collective.items(), key=lambda entry: -sum(entry[1].values())):
        longest = max(sizes_s, key=lambda size: sizes_s[size])
        total_s = sum(sizes_s.values())
        parts.append(f"{collective} {total_s:.2g} s ({size_text(longest)}: {sizes_s[longest]:.2g} s)")
    untimed_sizes = Counter(c for c, s in product(wishes.collectives, wishes.sizes) if (c, s) not in calls_s)
    texts = [f"{name} of {count} of {len(wishes.sizes)} sizes" for name, count in untimed_sizes.items()]
    parts += [f"not timed: {', '.join(texts)}"] if texts else []
    return f"{job_text(wishes.jobs[-1])}, one call of each choice: {'; '.join(parts)}"


def measure_site(document: Mapping[str, Any], compose: Compose) -> int:
    """Time launches of a few small jobs, from which ``plan conf=site`` estimates the durations of all jobs.

    One launch of each job uses the library's defaults; the others time every per-size choice, such as the
    algorithm.

    Raises:
        CampaignError: a launch failed.
        ScenarioError: a job does not fit this machine.
    """
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    check_largest(document, compose, SiteDirectory(root, wishes, {}))
    for job in timed(wishes.jobs):

        def observed(point: Point | None, job: Job = job) -> Observation:
            job_keys, folder = job_document(document, root, job), make_empty(root / "start")
            # Smaller communicators are left out, because their calls take as long as calls of smaller jobs.
            job_keys["cluster"] |= {"comm_sizes": []}
            # Examining the nodes needs files in the campaign's directory.
            job_keys["campaign"] |= {"dir": str(folder)}
            scenario, place = compose(job_keys)
            measurement = measurement_of(place.asked(scenario), place.placement.ranks)
            trial = Trial(1, Phase.BASELINE, place.space.untouched, Subject.UNTOUCHED, seed=scenario.seed)
            if point is not None:
                swept = place.space.complete(dict(point.restricted(place.space.job_wide)))
                trial = replace(trial, phase=Phase.SEARCH, point=swept, subject=Subject.SWEEP)
            observation = place.observer(measurement, place.space, folder).observe(trial)
            if not observation.ok:
                outcome = f"{observation.status}: {observation.reason}"
                raise CampaignError(f"{job_text(job)}: the launch was {outcome}")
            return observation

        # How many per-size choices are timed depends on the job-wide values, so two launches are averaged.
        free_parameters = [p for p in space_of(document).job if p.name not in (document["fix"] or {})]
        ends = dict.fromkeys(Point.of({p.name: p.values[i] for p in free_parameters}) for i in (0, -1))
        swept, probe = [observed(point) for point in ends], document["probe"]
        durations = TimedJob(_timed(job, probe, [observed(None)]), _timed(job, probe, swept))
        timed_jobs = {**read_starts(root), job: durations}
        starts = {f"{nodes}x{ppn}": plain(timed_job) for (nodes, ppn), timed_job in timed_jobs.items()}
        write_files({root / STARTS: json.dumps(starts) + "\n"}, below=root)
        took_s, sweep_took_s = durations.launch.took_s, durations.sweep.took_s
        sys.stdout.write(f"{job_text(job)}: {took_s:.2f} s a launch, {sweep_took_s:.2f} s a sweep\n")
    return ExitCode.WELL


def _timed(job: Job, probe: Mapping[str, Any], launches: Sequence[Observation]) -> TimedLaunch:
    """Return the mean duration of some launches of a job, and of the calls on all of its ranks."""
    calls: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for launch in launches:
        for e in (e for e in launch.usable if e.cell.comm_size == job[0] * job[1]):
            calls[e.cell.collective][str(e.cell.message_bytes)] += e.median_s / len(launches)
    once_s = sum(seconds for by_size in calls.values() for seconds in by_size.values())
    took_s = fmean(launch.duration_s for launch in launches)
    return TimedLaunch(round(took_s, 3), sampled_s(once_s, probe), calls)
