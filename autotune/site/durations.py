"""Durations, in seconds, of launches and calls of jobs that were not run, from those of jobs that were.

A launcher starts itself, a daemon on each node and a process for each rank, so a launch takes ``a + b·nodes +
c·ranks``. A call takes ``a + b·log₂(ranks) + c·ranks + d·(ranks on other nodes)``. This covers the steps of
trees, and algorithms in which every rank sends to every other one, which take longer between nodes.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from autotune.scenario.whole_site import Job


def duration_s(durations: Mapping[Job, float], job: Job) -> float:
    """Return how many seconds a launch of a job takes, given the durations of one or more other jobs.

    If only one job is known, its duration is returned.
    """
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
    design = (
        np.array([terms(*known_job) for known_job in durations]) / np.array([*durations.values()])[:, None]
    )
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1  # all jobs are on one node
    coefficients, _ = nnls(design / lengths, np.ones(len(design)))
    return float(np.dot(terms(*job), coefficients / lengths))


def timed(jobs: tuple[Job, ...]) -> list[Job]:
    """Return at most four jobs, ascending, whose launches are timed to extrapolate to all other jobs.

    These are the smallest job, and on each of the three smallest numbers of nodes the job with most ranks a
    node.
    """
    node_counts = sorted({nodes for nodes, _ in jobs})[:3]
    return list(
        dict.fromkeys((jobs[0], *(max(job for job in jobs if job[0] == nodes) for nodes in node_counts)))
    )
