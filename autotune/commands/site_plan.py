"""``plan conf=site`` and ``measure conf=site``: what the jobs of a site take, before they are made."""

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

from autotune.campaign.observing import measurement_of
from autotune.campaign.site import Compose
from autotune.commands.site_costs import (
    STARTS,
    TimedJob,
    TimedLaunch,
    cost_h,
    hours,
    read_starts,
    sampled_s,
    space_of,
    sweep_s,
)
from autotune.commands.site_directory import SiteDirectory
from autotune.commands.site_next import begun, check_largest, job_document, job_text, wishes_of
from autotune.errors import CampaignError, ExitCode
from autotune.exporters.writing import write_files
from autotune.history.folder import make_empty
from autotune.history.trial import Observation, Phase, Subject, Trial
from autotune.scenario.whole_site import Job, Wishes, node_bytes
from autotune.site import timed
from autotune.space import Point
from autotune.structure import plain
from autotune.views.text import size_text


def plan_site(
    document: Mapping[str, Any], compose: Compose, planned: list[tuple[float, float]] | None = None
) -> int:
    """Print the jobs of a site, what each takes, and which of them its node-hours reach.

    The jobs' own order is decided as they are measured; planned is from small to large. The sum is added to
    ``planned``.
    """
    del compose  # nothing is launched, so that no place is asked for
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    site, started = begun(root, wishes), read_starts(root)
    most, spent = hours(document), site.node_hours
    lines = [f"{'nodes':>6} {'ppn':>4} {'ranks':>6} {'node-hours':>10} {'GiB/node':>8}"]
    for job in wishes.jobs:
        done = site.made(job)
        cost = 0.0 if done else cost_h(site, document, job)
        fits = spent + cost <= most
        spent += cost if fits else 0.0
        room = max(node_bytes(*slot) for slot in wishes.slots(job)) / 2**30
        what = "measured already" if done else "measured" if fits else "predicted, or left to the library"
        lines.append(f"{job[0]:6} {job[1]:4} {job[0] * job[1]:6} {cost:10.3f} {room:8.2f}  {what}")
    slots = len(wishes.jobs) * len(wishes.slots(wishes.jobs[0]))
    limit = f" of {most:g}" if math.isfinite(most) else ""
    known = "launches as so far" if site.campaigns else "started as measured" if started else ""
    known = known or "before any launch, a start taken for 1.5 s: measure conf=site … times it and a sweep"
    lines.append(f"together {spent:.3f}{limit} node-hours ({known}), {slots} slots in {root}")
    if started:
        lines.append(_calls_text(sweep_s(started, document, wishes.jobs[-1]), wishes))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    if planned is not None:
        planned.append((spent, spent))
    return ExitCode.WELL


def _calls_text(calls_s: Mapping[tuple[str, int], float], wishes: Wishes) -> str:
    """Seconds of one call of each choice on the largest job, by collective, with the size that takes most."""
    by: dict[str, dict[int, float]] = defaultdict(dict)
    for (collective, size), seconds in calls_s.items():
        by[collective][size] = seconds
    parts = []
    for collective, mine in sorted(by.items(), key=lambda one: -sum(one[1].values())):
        longest = max(mine, key=lambda size: mine[size])
        parts.append(f"{collective} {sum(mine.values()):.2g} s ({size_text(longest)}: {mine[longest]:.2g} s)")
    left = Counter(c for c, s in product(wishes.collectives, wishes.sizes) if (c, s) not in calls_s)
    said = [f"{name} of {n} of {len(wishes.sizes)} sizes" for name, n in left.items()]
    parts += [f"not timed: {', '.join(said)}"] if said else []
    return f"{job_text(wishes.jobs[-1])}, one call of each choice: {'; '.join(parts)}"


def measure_site(document: Mapping[str, Any], compose: Compose) -> int:
    """Time a launch and a sweep of a few small jobs, from which ``plan`` takes those of all.

    Raises:
        CampaignError: a launch failed.
        ScenarioError: a job does not fit this machine.
    """
    wishes, root = wishes_of(document), Path(str(document["campaign"]["dir"]))
    check_largest(document, compose, SiteDirectory(root, wishes, {}))
    for job in timed(wishes.jobs):

        def seen(point: Point | None, job: Job = job) -> Observation:
            asked, folder = job_document(document, root, job), make_empty(root / "start")
            # Smaller communicators take what jobs of as many ranks do.
            alone = {"cluster": {**asked["cluster"], "comm_sizes": []}}
            # Nodes are looked at by files in the campaign's directory.
            alone["campaign"] = {**asked["campaign"], "dir": str(folder)}
            scenario, place = compose(asked | alone)
            measurement = measurement_of(place.asked(scenario), place.placement.ranks)
            trial = Trial(1, Phase.BASELINE, place.space.untouched, Subject.UNTOUCHED, seed=scenario.seed)
            if point is not None:
                swept = place.space.complete(dict(point.restricted(place.space.job_wide)))
                trial = replace(trial, phase=Phase.SEARCH, point=swept, subject=Subject.SWEEP)
            made = place.observer(measurement, place.space, folder).observe(trial)
            if not made.ok:
                raise CampaignError(f"{job_text(job)}: the launch was {made.status}: {made.reason}")
            return made

        # Levels differ in how much is swept under them.
        free = [p for p in space_of(document).job if p.name not in (document["fix"] or {})]
        ends = dict.fromkeys(Point.of({p.name: p.values[k] for p in free}) for k in (0, -1))
        swept = [seen(point) for point in ends]
        found = TimedJob(*(_timed(job, document["probe"], one) for one in ([seen(None)], swept)))
        kept = {**read_starts(root), job: found}
        named = {f"{nodes}x{ppn}": plain(both) for (nodes, ppn), both in kept.items()}
        write_files({root / STARTS: json.dumps(named) + "\n"}, below=root)
        sys.stdout.write(
            f"{job_text(job)}: {found.launch.took_s:.2f} s a launch, {found.sweep.took_s:.2f} s a sweep\n"
        )
    return ExitCode.WELL


def _timed(job: Job, probe: Mapping[str, Any], launches: Sequence[Observation]) -> TimedLaunch:
    """The mean of some launches; calls on all ranks, of all choices."""
    calls: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in launches:
        for e in (e for e in one.usable if e.cell.comm_size == job[0] * job[1]):
            calls[e.cell.collective][str(e.cell.message_bytes)] += e.median_s / len(launches)
    once_s = sum(s for by in calls.values() for s in by.values())
    took_s = fmean(one.duration_s for one in launches)
    return TimedLaunch(round(took_s, 3), sampled_s(once_s, probe), calls)
