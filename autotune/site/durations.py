"""Seconds that launches and calls of jobs take which were not made.

A launcher starts itself, a daemon on each node and a process for each rank: ``a + b·nodes + c·ranks``. A call
takes ``a + b·log₂(ranks) + c·ranks + d·(ranks on other nodes)``: the steps of trees, and of algorithms in
which each rank has a message for each other, which between nodes takes longer.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np

from autotune.site.transfer import Job


def duration_s(known: Mapping[Job, float], job: Job) -> float:
    """Seconds of a launch of a job by those of others, at least one; by a single one the same."""
    return _by_others(known, job, lambda nodes, ppn: (1, nodes, nodes * ppn))


def call_s(known: Mapping[Job, float], job: Job) -> float:
    """The same of a call."""

    def parts(nodes: int, ppn: int) -> tuple[float, ...]:
        return 1, math.log2(nodes * ppn), nodes * ppn, (nodes - 1) * ppn

    return _by_others(known, job, parts)


def _by_others(known: Mapping[Job, float], job: Job, parts: Callable[[int, int], tuple[float, ...]]) -> float:
    """Least squares of relative errors; no part is negative."""
    from scipy.optimize import nnls

    if job in known or len(known) < 2:
        return known.get(job, next(iter(known.values())))
    design = np.array([parts(*one) for one in known]) / np.array([*known.values()])[:, None]
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1  # jobs of one node alone
    found, _ = nnls(design / lengths, np.ones(len(design)))
    return float(np.dot(parts(*job), found / lengths))


def timed(jobs: tuple[Job, ...]) -> list[Job]:
    """The jobs, ascending, whose starts are timed for all others, four at most.

    The smallest, and those with most ranks on a node on the three least numbers of nodes.
    """
    few = sorted({nodes for nodes, _ in jobs})[:3]
    return list(dict.fromkeys((jobs[0], *(max(job for job in jobs if job[0] == nodes) for nodes in few))))
