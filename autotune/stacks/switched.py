"""Plan of a running job's trials, for its preloaded switcher (see ``probe/switcher/switcher.c``).

Rows of the plan: ``candidate COLLECTIVE NUMBER VARIABLE=VALUE …``, ``learned COLLECTIVE BIN RANKS NUMBER``,
``budget SHARE``, ``dry 1``, ``exact 1`` (of reductions those alone that cannot change a bit). A *bin* b
holds messages of 2^b up to 2^(b+1) bytes, as the recorder counts them. The *number* of a setting is its
place among its collective's, 0 for the default.
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
"""Collectives whose counts are the same on all ranks by the standard; others pass."""

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
"""Algorithms that are never tried → why; nor are those that ``cleared`` refuses.

Those that are wrong for operations alone that do not commute are tried: the switcher passes such calls on."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Candidates for one collective."""

    names: tuple[str, ...]  # Of its settings by number, the default first.
    tried: Mapping[int, tuple[str, ...]]  # Number → assignments of control variables.


def offers(installation: Installation) -> Mapping[str, Offer]:
    """Collective → what this MPI can switch while it runs; empty where it can nothing."""
    found = {}
    known = clearance(installation.flavour, installation.version)
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
        found[name] = Offer(
            names,
            {
                number: tuple(forced.format(name=name, upper=name.upper(), number=number, word=word).split())
                for number, word in enumerate(names)
                if number and (name, word) not in LEFT_OUT and not (known and known.refusal(name, word))
            },
        )
    return found


def remark(installation: Installation) -> str:
    """A line for users where another version than this one decides what is tried; else empty."""
    known = clearance(installation.flavour, installation.version)
    return f"run: {known.note}\n" if known and known.note else ""


def unlocked(installation: Installation) -> Mapping[str, str]:
    """Variables without which a stack cannot be switched: Open MPI 4.1.4 lets nobody write this one later.

    By itself it changes nothing: without a forced algorithm the fixed decisions hold.
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
    """The text that rank 0 reads; ``learned`` has collective, bin, ranks and algorithm."""
    rows = [f"budget {share!r}", f"dry {int(dry)}", f"exact {int(not reductions)}"]
    for name, offer in offered.items():
        rows += [f"candidate {name} {number} {' '.join(words)}" for number, words in offer.tried.items()]
    for name, size_bin, ranks, algorithm in learned:
        if name in offered and algorithm in offered[name].names:
            rows.append(f"learned {name} {size_bin} {ranks} {offered[name].names.index(algorithm)}")
    return "\n".join(rows) + "\n"
