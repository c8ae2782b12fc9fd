"""Estimate the seconds and node-hours of a site's jobs; a job is a number of nodes and of ranks on each node.

The estimates follow from the launches of a few jobs that ``measure conf=site`` timed, and from the durations
of the jobs that were measured so far. A per-size choice, such as the algorithm, is a set of values that can
vary with the message size within a launch.

A launcher starts itself, a daemon on each node and a process for each rank, so a launch takes ``a + b·nodes +
c·ranks`` seconds. A call takes ``a + b·log₂(ranks) + c·ranks + d·(ranks on other nodes)``. The logarithm
covers the steps of trees, and the other terms cover algorithms in which every rank sends to every other rank,
which takes longer between nodes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from autotune.errors import UserError
from autotune.probe.protocol import OTHER_SHARE, UNTIMED
from autotune.resources import space_text, user_text
from autotune.scenario import sizes_of
from autotune.scenario.whole_site import Job, communicators
from autotune.site.directory import SiteDirectory
from autotune.space import Space
from autotune.space.loader import load_space
from autotune.stacks import dialect
from autotune.stacks.ports import START_S
from autotune.structure import Document, parsed

STARTS = "start.json"
"""File in a site's directory with the durations of two launches of a few jobs: one of the library's defaults,
and one that times every per-size choice."""


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """The duration of a job's launch, and of the calls in it."""

    took_s: float  # Duration of the launch, in seconds.
    sampled_s: float  # Upper bound of the part of the launch that timed calls take, in seconds.
    calls_s: Mapping[str, Mapping[str, float]]
    """Maps each collective and, below it, each message size in bytes to the seconds of one call with each
    per-size choice, added up."""

    def __post_init__(self) -> None:
        """Raise a ``ValueError`` unless all durations are above zero."""
        times = (self.took_s, self.sampled_s, *self.calls.values())
        if not all(0 < seconds < math.inf for seconds in times):
            raise ValueError(f"{', '.join(map(str, times))} s: expected durations above zero")

    @property
    def calls(self) -> dict[tuple[str, int], float]:
        """Return the total seconds of one call with each choice, by collective and message size in bytes."""
        pairs = ((name, by_size.items()) for name, by_size in self.calls_s.items())
        return {(name, int(size)): seconds for name, sizes in pairs for size, seconds in sizes}


@dataclass(frozen=True, slots=True)
class TimedJob:
    """The durations of one job's launches of both kinds."""

    launch: TimedLaunch  # A launch of the library's defaults.
    sweep: TimedLaunch  # The mean of the launches that time all per-size choices.


Starts = Mapping[Job, TimedJob]


def read_starts(root: Path) -> dict[Job, TimedJob]:
    """Return the durations of launches that ``measure conf=site`` has stored; empty if it was not run.

    Raises:
        UserError: the file cannot be read.
    """
    if not (path := root / STARTS).is_file():
        return {}
    hint, reader = "autotune measure conf=site … writes it", Document(str(path), UserError)
    starts = dict[Job, TimedJob]()
    try:
        for name, values in parsed(user_text(path), str(path), UserError, hint).items():
            nodes, ppn = map(int, name.split("x"))
            starts[nodes, ppn] = reader.structured(TimedJob, values, name)
    except (ValueError, TypeError, AttributeError) as exc:
        raise UserError(f"{path} cannot be read: {exc}", hint) from exc
    if not all(min(job) > 0 for job in starts):
        raise UserError(f"{path}: {', '.join(map(str, starts))}", f"expected NODESxPPN; {hint}")
    return starts


def cost_h(site: SiteDirectory, document: Mapping[str, Any], job: Job, launches: float = 0.0) -> float:
    """Return the expected node-hours of ``launches`` of a job; 0 means all launches that remain."""
    finished = len(site.campaigns[job].history) if job in site.campaigns and not launches else 0
    remaining = max((launches or _launches(site, document, job[0])) - finished, 1.0)
    return remaining * job[0] * launch_s(site, document, job) / 3600


def launch_s(site: SiteDirectory, document: Mapping[str, Any], job: Job) -> float:
    """Return the expected mean duration of a launch of a job, in seconds.

    If ``measure conf=site`` was run, the duration is estimated from nodes, ranks and calls, and multiplied by
    the mean ratio of measured to estimated durations of the jobs so far. Otherwise the duration is
    extrapolated from the durations of the jobs so far or, if no job was measured yet, is the planned
    duration.
    """
    took = {other: [o.duration_s for o in one.history if o.ok] for other, one in site.campaigns.items()}
    means = {other: fmean(durations_s) for other, durations_s in took.items() if durations_s}
    started = read_starts(site.path)
    if means and len(started) < 2:  # one timed job cannot be extrapolated
        return duration_s(means, job)
    logs = [math.log(mean_s / _planned_s(started, document, other)) for other, mean_s in means.items()]
    return _planned_s(started, document, job) * math.exp(fmean(logs or [0.0]))


def sweep_s(started: Starts, document: Mapping[str, Any], job: Job) -> dict[tuple[str, int], float]:
    """Return the total seconds of one call with each per-size choice, by collective and message size.

    Collectives and sizes that ``measure conf=site`` did not time are missing.
    """
    sweeps = {other: timed_job.sweep for other, timed_job in started.items()}
    return _calls_s(sweeps, document, job[1], sizes_within(document, job))


def _planned_s(started: Starts, document: Mapping[str, Any], job: Job) -> float:
    """Return the mean duration of a job's planned launches in seconds, from the timed launches of other jobs.

    If no launches were timed, a start is assumed to take ``START_S``, and the timed calls of a launch are
    assumed to take the probe's whole time limit.
    """
    untouched, verified, sweeps = _kinds(document, job[0])
    has_other_loop = document["verify"]["other_loop"] != "ignored" and document["probe"]["sync"] == "barrier"
    ranks = sizes_within(document, job) if started else ()
    timed_defaults = {other: timed_job.launch for other, timed_job in started.items()}
    timed_sweeps = {other: timed_job.sweep for other, timed_job in started.items()}

    def kind_s(timed_launches: Mapping[Job, TimedLaunch], budget: float = 1.0) -> float:
        """Return the seconds of a launch of one kind; ``budget`` multiplies the seconds of timed calls."""
        if not timed_launches:
            return START_S + sampled_s(math.inf, document["probe"], budget)
        once_s = sum(_calls_s(timed_launches, document, job[1], ranks).values())
        sampled = sampled_s(once_s, document["probe"], budget)
        return duration_s(_starts_s(timed_launches), job) + UNTIMED * once_s + sampled

    together_s = untouched * kind_s(timed_defaults)
    together_s += verified * kind_s(timed_defaults, 1 + has_other_loop * OTHER_SHARE)
    together_s += sweeps * kind_s(timed_sweeps)
    return together_s / max(untouched + verified + sweeps, 1)


def sampled_s(once_s: float, probe: Mapping[str, Any], budget: float = 1.0) -> float:
    """Return an upper bound of the seconds that the timed calls of a launch take.

    ``once_s`` is the total of one call of each kind in seconds; ``budget`` multiplies the probe's time limit.
    """
    return min(budget * float(probe["budget_s"]), int(probe["max_samples"]) * once_s)


def _starts_s(timed_launches: Mapping[Job, TimedLaunch]) -> dict[Job, float]:
    """Return how many seconds of each job's launch are not spent in calls: at least half of the launch.

    The lower limit is needed because the median of few calls may exceed their mean, so that subtracting the
    calls would leave too little.
    """
    common, starts_s = _common(timed_launches), dict[Job, float]()
    for job, launch in timed_launches.items():
        untimed_s = UNTIMED * sum(launch.calls[cell] for cell in common)
        starts_s[job] = max(launch.took_s - launch.sampled_s - untimed_s, launch.took_s / 2)
    return starts_s


def _common(timed_launches: Mapping[Job, TimedLaunch]) -> set[tuple[str, int]]:
    """Return the calls that were timed on every job; all other calls count as part of the start."""
    return set.intersection(*(set(launch.calls) for launch in timed_launches.values()))


def _calls_s(
    timed_launches: Mapping[Job, TimedLaunch], document: Mapping[str, Any], ppn: int, sizes: Sequence[int]
) -> dict[tuple[str, int], float]:
    """Return the total seconds of one call with each choice on communicators of some ``sizes``."""
    shapes, total_s = [(-(-ranks // ppn), min(ranks, ppn)) for ranks in sizes], dict[tuple[str, int], float]()
    wanted = set(product(document["site"]["collectives"], sizes_of(document["sizes"])))
    for cell in sorted(wanted & _common(timed_launches)):
        measured_s = {job: launch.calls[cell] for job, launch in timed_launches.items()}
        total_s[cell] = sum(call_s(measured_s, shape) for shape in shapes)
    return total_s


def sizes_within(document: Mapping[str, Any], job: Job) -> tuple[int, ...]:
    """Return the sizes of the communicators that a job measures.

    If the scenario names sizes, these are measured. Otherwise a job measures the communicator of all its
    ranks, which comes first in the result. If ``site.within`` is set and the library's rules distinguish
    communicators by size, the job also measures those smaller sizes that no smaller job measures.
    """
    if named_sizes := document["cluster"]["comm_sizes"]:
        return tuple(named_sizes)
    if not document["site"]["within"] or not dialect(space_of(document).stack).by_ranks:
        return (job[0] * job[1],)
    return communicators(list(product(document["site"]["nodes"], document["site"]["ppn"])), job)


def space_of(document: Mapping[str, Any]) -> Space:
    """Return the search space that a configuration names."""
    name = str(document["space"])
    return load_space(space_text(name), name)


def moot(space: Space, nodes: int) -> set[str]:
    """Return the names of the parameters that have no effect on a job with this number of nodes."""
    return {p.name for p in space.parameters if nodes == 1 and "nodes:2" in p.requires}


def hours(document: Mapping[str, Any]) -> float:
    """Return the budget of all jobs together in node-hours; infinite if there is none."""
    node_hours = document["budget"].get("node_hours")
    return math.inf if node_hours is None else float(node_hours)


def _launches(site: SiteDirectory, document: Mapping[str, Any], nodes: int) -> float:
    """Return the mean number of launches of complete jobs of the same kind (on one node, or on several).

    Before any such job is complete, the planned number is returned.
    """
    alike = [job for job in site.campaigns if site.is_complete(job) and (job[0] > 1) == (nodes > 1)]
    if not alike:
        return float(sum(_kinds(document, nodes)))
    return fmean(len(site.campaigns[job].history) for job in alike)


def _kinds(document: Mapping[str, Any], nodes: int) -> tuple[int, int, int]:
    """Return the planned numbers of launches with the library's defaults, to verify, and to search."""
    budget, verify = document["budget"], document["verify"]
    searched = max(budget["launches"], 1)
    untouched = min(document["baseline"]["launches"], max(1, searched // 3))
    sweeps = max(searched - untouched, 0)
    if document["proposer"]["name"] == "grid":  # this proposer stops after its last point
        space = space_of(document)
        still = moot(space, nodes) | (document["fix"] or {}).keys()
        sweeps = min(sweeps, math.prod(len(p.values) for p in space.job if p.name not in still))
    # In a heat (launches that are alive at once) the library with its defaults runs beside each sweep, and
    # beside itself. Whether the launcher can run heats is known only after a launch, so that is assumed here.
    modelled = (document["simulate"] or {}).get("at_once", True)
    heats = document["launch"]["heats"] and modelled and document["probe"]["sync"] == "barrier"
    heats_untouched = untouched + sweeps if heats else 0
    both_sides = 2 * verify["launches"] if verify["enabled"] else 0
    return untouched + heats_untouched, both_sides, sweeps


def duration_s(durations: Mapping[Job, float], job: Job) -> float:
    """Return how many seconds a launch of a job takes, given the durations of one or more other jobs."""
    return _by_others(durations, job, lambda nodes, ppn: (1, nodes, nodes * ppn))


def call_s(durations: Mapping[Job, float], job: Job) -> float:
    """Return how many seconds a call of a job takes, given the durations of one or more other jobs."""

    def terms(nodes: int, ppn: int) -> tuple[float, ...]:
        return 1, math.log2(nodes * ppn), nodes * ppn, (nodes - 1) * ppn

    return _by_others(durations, job, terms)


def _by_others(
    durations: Mapping[Job, float], job: Job, terms: Callable[[int, int], tuple[float, ...]]
) -> float:
    """Extrapolate durations by least squares of relative errors, with coefficients that are not negative."""
    from scipy.optimize import nnls

    if job in durations or len(durations) < 2:
        return durations.get(job, next(iter(durations.values())))
    design = np.array([terms(*known) for known in durations]) / np.array([*durations.values()])[:, None]
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1  # a column is zero if all jobs are on one node
    coefficients, _ = nnls(design / lengths, np.ones(len(design)))
    return float(np.dot(terms(*job), coefficients / lengths))


def timed(jobs: tuple[Job, ...]) -> list[Job]:
    """Return at most four jobs, ascending, whose launches are timed to extrapolate to all other jobs.

    These are the smallest job and, for each of the three smallest numbers of nodes, the job with most ranks
    on a node.
    """
    largest = {nodes: (nodes, ppn) for nodes, ppn in sorted(jobs)}
    return list(dict.fromkeys((jobs[0], *[largest[nodes] for nodes in sorted(largest)[:3]])))
