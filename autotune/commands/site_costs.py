"""Seconds and node-hours of a site's jobs: as ``measure conf=site`` timed few, and as those so far took."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from autotune.commands.site_directory import SiteDirectory
from autotune.errors import UserError
from autotune.probe.protocol import OTHER_SHARE, UNTIMED
from autotune.resources import space_text, user_text
from autotune.scenario import sizes_of
from autotune.scenario.whole_site import Job, communicators
from autotune.site import call_s, duration_s
from autotune.space import Space
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.ports import START_S
from autotune.structure import Document, parsed

STARTS = "start.json"  # In a directory of a site: what a launch and a sweep of few jobs took.


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A launch of a kind on a job."""

    took_s: float
    sampled_s: float  # Of that for calls that were timed, at most.
    calls_s: Mapping[str, Mapping[str, float]]
    """Collective → bytes → one call of each of its choices, together, on all ranks."""

    def __post_init__(self) -> None:
        """Refuse what no clock shows.

        Raises:
            ValueError: a time that is not above zero.
        """
        times = self.took_s, self.sampled_s, *(s for by in self.calls_s.values() for s in by.values())
        if not all(0 < s < math.inf for s in times):
            raise ValueError(f"{', '.join(map(str, times))} s: expected durations above zero")

    @property
    def calls(self) -> dict[tuple[str, int], float]:
        """Seconds of one call of each choice, together, by collective and bytes."""
        return {(name, int(size)): s for name, by in self.calls_s.items() for size, s in by.items()}


@dataclass(frozen=True, slots=True)
class TimedJob:
    """One job's."""

    launch: TimedLaunch  # Of one choice, the library's.
    sweep: TimedLaunch  # On average of the job-wide values that differ most in how much is swept.


Starts = Mapping[Job, TimedJob]


def read_starts(root: Path) -> dict[Job, TimedJob]:
    """Launches and sweeps of jobs as ``measure conf=site`` found them; empty where it was not run.

    Raises:
        UserError: its file cannot be read.
    """
    if not (path := root / STARTS).is_file():
        return {}
    again, read = "autotune measure conf=site … writes it", Document(str(path), UserError)
    try:
        document = parsed(user_text(path), str(path), UserError, again).items()
        jobs = {
            tuple(map(int, name.split("x"))): read.structured(TimedJob, one, name) for name, one in document
        }
    except (ValueError, TypeError, AttributeError) as exc:
        raise UserError(f"{path} cannot be read: {exc}", again) from exc
    if not all(len(job) == 2 and min(job) > 0 for job in jobs):
        raise UserError(f"{path}: {', '.join(map(str, jobs))}", f"expected NODESxPPN; {again}")
    return {(nodes, ppn): one for (nodes, ppn), one in jobs.items()}


def cost_h(site: SiteDirectory, document: Mapping[str, Any], job: Job, launches: float = 0.0) -> float:
    """Node-hours that a job takes, or so many launches of it."""
    done = len(site.campaigns[job].history) if job in site.campaigns and not launches else 0
    left = max((launches or _launches(site, document, job[0])) - done, 1.0)
    return left * job[0] * launch_s(site, document, job) / 3600


def launch_s(site: SiteDirectory, document: Mapping[str, Any], job: Job) -> float:
    """Expected mean duration of a launch of a job.

    By nodes, ranks and calls as `measure conf=site` found it, times what those so far took of that; without
    it as those so far; before any as planned.
    """
    took: dict[Job, list[float]] = {}
    for made, campaign in site.campaigns.items():
        took.setdefault(made, []).extend(o.duration_s for o in campaign.history if o.ok)
    means = {made: fmean(mine) for made, mine in took.items() if mine}
    started = read_starts(site.path)
    if means and len(started) < 2:  # one job shows nothing of others
        return duration_s(means, job)
    known = [math.log(s / _planned_s(started, document, made)) for made, s in means.items()]
    return _planned_s(started, document, job) * math.exp(fmean(known or [0.0]))


def sweep_s(started: Starts, document: Mapping[str, Any], job: Job) -> dict[tuple[str, int], float]:
    """Seconds that one call of each choice of a sweep takes, by collective and bytes, as far as timed."""
    known = {made: one.sweep for made, one in started.items()}
    return _calls_s(known, document, job[1], sizes_within(document, job))


def _planned_s(started: Starts, document: Mapping[str, Any], job: Job) -> float:
    """By starts and calls alone."""
    untouched, verified, sweeps = _kinds(document, job[0])
    other = document["verify"]["other_loop"] != "ignored" and document["probe"]["sync"] == "barrier"
    ranks = sizes_within(document, job) if started else ()

    def kind_s(kind: Callable[[TimedJob], TimedLaunch], budget: float = 1.0) -> float:
        known = {made: kind(one) for made, one in started.items()}
        if not known:
            return START_S + sampled_s(math.inf, document["probe"], budget)
        once_s = sum(_calls_s(known, document, job[1], ranks).values())
        sampled = sampled_s(once_s, document["probe"], budget)
        return duration_s(_starts_s(known), job) + UNTIMED * once_s + sampled

    together_s = (
        untouched * kind_s(lambda one: one.launch)
        + verified * kind_s(lambda one: one.launch, 1 + other * OTHER_SHARE)
        + sweeps * kind_s(lambda one: one.sweep)
    )
    return together_s / max(untouched + verified + sweeps, 1)


def sampled_s(once_s: float, probe: Mapping[str, Any], budget: float = 1.0) -> float:
    """Seconds for timed calls in a launch, at most: one call of each cell takes ``once_s``."""
    return min(budget * float(probe["budget_s"]), int(probe["max_samples"]) * once_s)


def _starts_s(known: Mapping[Job, TimedLaunch]) -> dict[Job, float]:
    """Seconds of launches without calls; at least half: medians of few may be above their average."""
    calls = {made: one.calls for made, one in known.items()}
    common = _common(calls)
    untimed = {made: UNTIMED * sum(its[cell] for cell in common) for made, its in calls.items()}
    return {m: max(one.took_s - one.sampled_s - untimed[m], one.took_s / 2) for m, one in known.items()}


def _common(calls: Mapping[Job, Mapping[tuple[str, int], float]]) -> set[tuple[str, int]]:
    """Collectives and bytes that were timed on each job; what others take counts as their start."""
    return set.intersection(*map(set, calls.values()))


def _calls_s(
    known: Mapping[Job, TimedLaunch], document: Mapping[str, Any], ppn: int, sizes: Sequence[int]
) -> dict[tuple[str, int], float]:
    """Seconds of one call of each choice on communicators of these sizes, by collective and bytes."""
    found = dict[tuple[str, int], float]()
    calls = {made: one.calls for made, one in known.items()}
    of_ranks = [(-(-ranks // ppn), min(ranks, ppn)) for ranks in sizes]
    asked = set(product(document["site"]["collectives"], sizes_of(document["sizes"])))
    for cell in sorted(asked & _common(calls)):
        mine = {made: its[cell] for made, its in calls.items()}
        found[cell] = sum(call_s(mine, one) for one in of_ranks)
    return found


def sizes_within(document: Mapping[str, Any], job: Job) -> tuple[int, ...]:
    """Ranks of the communicators that a job measures, its own first.

    What the scenario names, else, where files know communicators by their size, what no smaller job has.
    """
    if named := document["cluster"]["comm_sizes"]:
        return tuple(named)
    if not document["site"]["within"] or not dialect(space_of(document).stack).by_ranks:
        return (job[0] * job[1],)
    return communicators(list(product(document["site"]["nodes"], document["site"]["ppn"])), job)


def space_of(document: Mapping[str, Any]) -> Space:
    """The search space that a configuration names."""
    name = str(document["space"])
    return load_space(space_text(name), name)


def moot(space: Space, nodes: int) -> set[str]:
    """Parameters that have no effect on one node."""
    return {p.name for p in space.parameters if nodes == 1 and "nodes:2" in p.requires}


def hours(document: Mapping[str, Any]) -> float:
    """The budget of all jobs together."""
    most = document["budget"].get("node_hours")
    return math.inf if most is None else float(most)


def _launches(site: SiteDirectory, document: Mapping[str, Any], nodes: int) -> float:
    """Launches of a job: as complete ones of several nodes, or of one, had; before any as planned."""
    made = [job for job in site.campaigns if site.made(job) and (job[0] > 1) == (nodes > 1)]
    if made:
        return fmean(len(site.campaigns[job].history) for job in made)
    return float(sum(_kinds(document, nodes)))


def _kinds(document: Mapping[str, Any], nodes: int) -> tuple[int, int, int]:
    """Planned launches of a job: of the library as it is, of the verification, and sweeps."""
    budget, verify = document["budget"], document["verify"]
    searched = max(budget["launches"], 1)
    untouched = min(document["baseline"]["launches"], max(1, searched // 3))
    sweeps = max(searched - untouched, 0)
    if document["proposer"]["name"] == "grid":  # which ends with its last point
        space = space_of(document)
        still = moot(space, nodes) | (document["fix"] or {}).keys()
        sweeps = min(sweeps, math.prod(len(p.values) for p in space.job if p.name not in still))
    return (
        untouched,
        2 * verify["launches"] if verify["enabled"] else 0,
        sweeps,
    )  # both sides of a verification
