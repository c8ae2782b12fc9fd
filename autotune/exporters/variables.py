"""Variables of Intel MPI and MVAPICH that tell algorithms apart by size (step 12 of the flow)."""

from collections.abc import Mapping
from itertools import pairwise, zip_longest
from pathlib import Path

from autotune.errors import UserError, allowed
from autotune.exporters.settings import algorithm_of, check_family, exports, one_algorithm, tables
from autotune.history.trial import Rule
from autotune.recommend.comm_sizes import reaches
from autotune.recommend.front import Recommendation
from autotune.stacks import mpich

INTEL: Mapping[str, tuple[str, ...]] = {
    "allreduce": (
        "recursive_doubling",
        "rabenseifner",
        "reduce_bcast",
        "topology_reduce_bcast",
        "binomial_gather_scatter",
        "topology_binomial_gather_scatter",
        "shumilin_ring",
        "ring",
        "knomial",
    ),
    "bcast": (
        "binomial",
        "recursive_doubling",
        "ring",
        "topology_binomial",
        "topology_recursive_doubling",
        "topology_ring",
        "shumilin",
        "knomial",
    ),
    "reduce": ("shumilin", "binomial", "topology_shumilin", "topology_binomial", "rabenseifner"),
    "allgather": ("recursive_doubling", "bruck", "ring", "topology_gatherv_bcast", "knomial"),
    "allgatherv": ("recursive_doubling", "bruck", "ring", "topology_gatherv_bcast"),
    "alltoall": ("bruck", "isend_irecv", "pairwise", "plum"),
    "gather": ("binomial", "topology_binomial", "shumilin"),
    "scatter": ("binomial", "topology_binomial", "shumilin"),
    "reduce_scatter": (
        "recursive_halving",
        "pairwise",
        "recursive_doubling",
        "reduce_scatterv",
        "topology_reduce_scatterv",
    ),
    "barrier": (
        "dissemination",
        "recursive_doubling",
        "topology_dissemination",
        "topology_recursive_doubling",
        "binomial_gather_scatter",
        "topology_binomial_gather_scatter",
    ),
    "scan": ("partial_results_gathering", "topology_partial_results_gathering"),
    "exscan": ("partial_results_gathering", "partial_results_gathering_layout"),
}
"""Algorithms of ``I_MPI_ADJUST_*`` by id, from 1 (developer reference, *I_MPI_ADJUST family*)."""


class IntelMpi:
    """``I_MPI_ADJUST_*`` with ranges of message and communicator sizes."""

    name = "intel"
    summary = "intel-mpi-env.sh: I_MPI_ADJUST_* variables by message and communicator size (Intel MPI)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script; sizes without a rule are left to the library.

        Raises:
            UserError: an algorithm that Intel MPI has no id for.
        """
        check_family(recommendation, "Intel MPI")
        values = {
            f"I_MPI_ADJUST_{collective.upper()}": ";".join(_intel_ranges(collective, by_size))
            for collective, by_size in tables(recommendation.rules).items()
        }
        chosen = {name: value for name, value in values.items() if value}
        return exports(recommendation, directory / "intel-mpi-env.sh", chosen)


class Mvapich2:
    """``MV2_INTER_*_TUNING``: one algorithm for each collective, by its id."""

    name = "mvapich2"
    summary = "mvapich2-env.sh: MV2_* variables, one algorithm id for each collective (MVAPICH2 2.x)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: algorithms that differ by size, or are no ids.
        """
        check_family(recommendation, "MVAPICH")
        variables = {}
        for collective, by_size in tables(recommendation.rules).items():
            number = one_algorithm(collective, by_size)
            if number and not number.isdecimal():
                raise UserError(
                    f"MVAPICH2 takes a number for {collective}, not {number!r}",
                    "MV2_INTER_*_TUNING forces an algorithm by its id",
                )
            if number:
                variables[f"MV2_INTER_{collective.upper()}_TUNING"] = number
        return exports(recommendation, directory / "mvapich2-env.sh", variables)


class Mvapich3:
    """``MVP_*_INTRA_ALGORITHM``: MVAPICH 3 is made from MPICH and adds algorithms named ``osu_*``."""

    name = "mvapich3"
    summary = "mvapich-env.sh: MVP_* variables, one algorithm for each collective (MVAPICH 3 and later)"

    def export(self, recommendation: Recommendation, directory: Path) -> Mapping[str, str]:
        """The script.

        Raises:
            UserError: algorithms that differ by size, or that neither MPICH nor OSU knows.
        """
        check_family(recommendation, "MVAPICH")
        variables = {}
        for collective, by_size in tables(recommendation.rules).items():
            name = one_algorithm(collective, by_size)
            if not name.startswith("osu_"):
                name = mpich.check(collective, name)
            variables[f"MVP_{collective.upper()}_INTRA_ALGORITHM"] = name
        return exports(recommendation, directory / "mvapich-env.sh", variables)


def _intel_ranges(collective: str, by_size: Mapping[int, list[Rule]]) -> list[str]:
    """``id:low-high@p-q`` for each rule; sizes in bytes, both ends inclusive."""
    starts = reaches(sorted(by_size))
    found = []
    for (start, owner), (end, _) in pairwise(starts):
        table = by_size.get(owner, [])
        for rule, after in zip_longest(table, table[1:]):
            if name := algorithm_of(rule):
                high = 2**31 - 1 if after is None else after.min_bytes - 1
                found.append(f"{_intel_id(collective, name)}:{rule.min_bytes}-{high}@{start}-{end - 1}")
    return found


def _intel_id(collective: str, name: str) -> int:
    if collective not in INTEL:
        raise UserError(f"Intel MPI adjusts no {collective}", allowed(collective, INTEL))
    if name.isdecimal():
        return int(name)
    if name not in INTEL[collective]:
        raise UserError(f"Intel MPI has no {collective} algorithm {name!r}", allowed(name, INTEL[collective]))
    return INTEL[collective].index(name) + 1
