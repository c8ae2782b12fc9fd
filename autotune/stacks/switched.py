"""Write the plan by which the switcher, a preloaded library, tries algorithms in a running job.

The switcher is ``probe/switcher/switcher.c``. Rows of the plan are
``candidate COLLECTIVE NUMBER VARIABLE=VALUE …``, ``learned COLLECTIVE BIN RANKS NUMBER``, ``budget SHARE``,
``dry 1`` (no algorithm is really switched) and ``exact 1`` (a reduction is switched only if no bit of its
result can change). A *bin* b contains messages of 2^b up to 2^(b+1) bytes, as the recorder counts them. The
*number* of a setting is its index among the settings of its collective; 0 is the default.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autotune.collectives import COLLECTIVES
from autotune.stacks import coll_tuned, mpich
from autotune.stacks.cleared import clearance
from autotune.stacks.installation import Installation

SWITCHED = (
    *("allreduce", "reduce", "reduce_scatter_block", "bcast", "allgather", "alltoall"),
    *("gather", "scatter", "barrier"),
)
"""Collectives for which the MPI standard requires equal counts on all ranks; only these are switched."""

_PAIRS = "it fails on more than two ranks"
_BY_COUNT = "it splits the message by its count, which ranks may give with other datatypes"
_IN_PLACE = "its results are wrong with MPI_IN_PLACE (Open MPI 5.0.11, tests/integration/test_run.py)"
_BEHIND = "with MPI_IN_PLACE it changes the receive buffer behind the result (MPICH 5.0.2)"
_SPLIT = ("split_binary", "scatter_allgather", "scatter_allgather_ring", "pipelined_tree", "circ_graph")
LEFT_OUT: Mapping[tuple[str, str], str] = {
    **dict.fromkeys((("bcast", name) for name in _SPLIT), _BY_COUNT),
    ("gather", "linear_sync"): _BY_COUNT,
    ("allgather", "sparbit"): _IN_PLACE,
    ("reduce_scatter_block", "pairwise"): _BEHIND,
    **dict.fromkeys(((name, "two_proc") for name in ("allgather", "alltoall", "barrier")), _PAIRS),
}
"""Maps each (collective, algorithm) pair that is never tried to the reason. Algorithms that the module
``cleared`` refuses are not tried either.

Algorithms that are wrong only for operations that do not commute are tried: the switcher only switches
reductions with MPI's own operations, and all of these commute (MPI 4.1, section 6.9.1)."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Holds the settings that can be tried for one collective."""

    names: tuple[str, ...]  # Names of the settings, indexed by their numbers; the default is the first.
    assignments: Mapping[int, tuple[str, ...]]  # Number of a setting → assignments of control variables.


def offers(installation: Installation) -> Mapping[str, Offer]:
    """Return collective → settings that an MPI can switch in a running job; empty if it can switch none."""
    by_collective = {}
    permission = clearance(installation.flavour, installation.version, commutative=True)
    for name in SWITCHED:
        if installation.flavour == "openmpi":
            major, minor = (int(part) for part in installation.version.split(".")[:2])
            names = coll_tuned.algorithms(name, (major, minor))
            forced = "coll_tuned_use_dynamic_rules=1 coll_tuned_{name}_algorithm={number}"
        elif installation.flavour == "mpich" and COLLECTIVES[name].mpich:
            names = mpich.algorithms(name)
            forced = "MPIR_CVAR_DEVICE_COLLECTIVES=none MPIR_CVAR_{upper}_INTRA_ALGORITHM={word}"
        else:
            continue
        by_collective[name] = Offer(
            names,
            {
                number: tuple(forced.format(name=name, upper=name.upper(), number=number, word=word).split())
                for number, word in enumerate(names)
                if number
                and (name, word) not in LEFT_OUT
                and not (permission and permission.refusal(name, word))
            },
        )
    return by_collective


def remark(installation: Installation) -> str:
    """Return a line for users which says that checks of another version of the MPI decide what is tried.

    The line is empty if the algorithms of this very version were checked.
    """
    clearance_here = clearance(installation.flavour, installation.version)
    return f"run: {clearance_here.note}\n" if clearance_here and clearance_here.note else ""


def unlocked(installation: Installation) -> Mapping[str, str]:
    """Return the variables that must be set when a job starts so that its algorithms can be switched.

    Only Open MPI 4 needs one, since 4.1.4 does not let a running program write this variable. The variable
    alone changes nothing: without a forced algorithm, Open MPI's fixed rules decide.
    """
    old = installation.flavour == "openmpi" and installation.version.startswith("4.")
    return {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1"} if old else {}


def plan(
    offered: Mapping[str, Offer],
    share: float,
    dry: bool,
    reductions: bool,
    learned: Iterable[tuple[str, int, int, str]],
) -> str:
    """Return the text of the plan, which rank 0 reads.

    Args:
        offered: Settings to try by collective, as ``offers`` returns them.
        share: Largest share of the run time that trials may take, from 0 to 1.
        dry: Whether trials are only planned, and no algorithm is switched.
        reductions: Whether reductions are switched even if bits of a result can change.
        learned: The best settings of earlier runs as (collective, bin, ranks, algorithm).
    """
    rows = [f"budget {share!r}", f"dry {int(dry)}", f"exact {int(not reductions)}"]
    for name, offer in offered.items():
        rows += [
            f"candidate {name} {number} {' '.join(words)}" for number, words in offer.assignments.items()
        ]
    for name, size_bin, ranks, algorithm in learned:
        if name in offered and algorithm in offered[name].names:
            rows.append(f"learned {name} {size_bin} {ranks} {offered[name].names.index(algorithm)}")
    return "\n".join(rows) + "\n"
