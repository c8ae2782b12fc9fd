"""MPICH's names for its algorithms, and the tree by which MPICH selects an algorithm for a call.

The tree decides like nested ``if``s: an object's keys are conditions, tried in order, down to
``algorithm=NAME``. A file that the user names replaces the whole tree of the library, and MPICH aborts at the
first collective that is missing from the file. So the tree of the user's own library is read (it is in
``libmpi`` as JSON text) and the subtrees of tuned collectives are replaced. This follows the sources of 5.0
and was checked with 5.0.2.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from autotune.collectives import COLLECTIVES, Mpich
from autotune.errors import StackError, UserError, allowed
from autotune.stacks.installation import Installation
from autotune.stacks.ports import Placement
from autotune.stacks.stack import Stack
from autotune.stacks.words import Dialect, forwarded

DEFAULT = "auto"  # MPICH's own name for "the library chooses".

Tree = dict[str, Any]  # Condition → subtree; conditions are tried in order.

_MPICH: Mapping[str, Mpich] = {c.name: c.mpich for c in COLLECTIVES.values() if c.mpich}

_INTEL: Mapping[str, tuple[str, ...]] = {c.name: c.intel for c in COLLECTIVES.values() if c.intel}
"""Maps a collective to its algorithms in ``I_MPI_ADJUST_*`` of Intel MPI, which is derived from MPICH."""

_ANY = 1 << 20  # Number of rows that means "no limit".

_GUARDS = {
    "commutative": ("is_commutative=yes", "is_commutative=no", True),
    "built_in": ("is_op_built_in=yes", "is_op_built_in=no", True),
    "no_inplace": ("is_sendbuf_inplace=yes", "is_sendbuf_inplace=no", False),
    "count": ("count<pow2", "count=any", False),
    "pow2": ("comm_size=pow2", "comm_size=any", True),
    "parent": ("comm_hierarchy=parent", "comm_hierarchy=any", True),
    "consecutive": ("is_node_consecutive=yes", "is_node_consecutive=no", True),
}
"""Maps a requirement of an algorithm to the two branches of a tree that test the requirement, in their order,
and to whether the requirement is met in the first branch (else in the second)."""


_CHOOSERS = {
    "": "MPIR_CVAR_{}_INTRA_ALGORITHM",
    "posix": "MPIR_CVAR_{}_POSIX_INTRA_ALGORITHM",
    "ofi": "MPIR_CVAR_{}_OFI_INTRA_ALGORITHM",
    "inter": "MPIR_CVAR_{}_INTER_ALGORITHM",
    "composition": "MPIR_CVAR_{}_COMPOSITION",
    "device": "MPIR_CVAR_{}_DEVICE_COLLECTIVE",
}
"""Maps a choice that MPICH makes for a collective to the control variable that sets it. The choices are the
algorithm (an empty text), the algorithms of the layer for shared memory (``posix``) and of the layer for the
network (``ofi``), the algorithm for an intercommunicator (``inter``), the composition of parts inside and
between nodes, and whether the network device runs the collective."""

OWN: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_CHOOSERS, ("", DEFAULT)),
    "composition": ("", "0"),
    "device": ("", "1"),
}
"""Maps a choice to the values that leave it to the library."""


def chosen_by(variable: str) -> tuple[str, str]:
    """Return the collective and the choice (a key of ``OWN``) that a control variable sets.

    The collective is in lower case, as in ``bcast`` or ``ineighbor_allgather``. Both texts are empty if the
    variable sets no choice.
    """
    for choice, template in reversed(_CHOOSERS.items()):
        if match := re.fullmatch(template.format(r"((?:(?!_POSIX|_OFI)[A-Z_])+)"), variable):
            return match[1].lower(), choice
    return "", ""


def algorithms(collective: str) -> tuple[str, ...]:
    """Return all names of algorithms that a variable can force, ``auto`` first.

    Raises:
        UserError: MPICH offers no choice for this collective.
    """
    if collective not in _MPICH:
        raise UserError(f"MPICH offers no algorithms for {collective!r}", allowed(collective, _MPICH))
    mpich = _MPICH[collective]
    return (DEFAULT, *mpich.algorithms, *mpich.forcible)


def size_condition(collective: str, comm_size: int) -> tuple[str, int]:
    """Return the quantity in a tree's conditions on size, and how many messages the quantity adds up.

    The quantity is empty if trees have no conditions on size for the collective.
    """
    condition = _MPICH[collective].size
    return condition, comm_size if condition.startswith("total") else 1


def check(collective: str, algorithm: str) -> str:
    """Return the name of an algorithm, or ``auto`` for an empty name or ``default``.

    Raises:
        UserError: MPICH has no such algorithm, and would abort in MPI_Init.
    """
    names = algorithms(collective)
    if algorithm in ("", "default"):
        return DEFAULT
    if algorithm not in names:
        raise UserError(f"MPICH has no {collective} algorithm {algorithm!r}", allowed(algorithm, names))
    return algorithm


def leaf(collective: str, algorithm: str, otherwise: Tree) -> Tree:
    """Return a subtree that selects an algorithm for calls that meet its requirements.

    For all other calls, ``otherwise`` decides.

    Raises:
        UserError: a tree cannot name the algorithm.
    """
    if check(collective, algorithm) == DEFAULT:
        return otherwise
    needs = _MPICH[collective].algorithms
    if algorithm not in needs:
        raise UserError(
            f"MPICH's {collective} algorithm {algorithm!r} has no name that its selection tree knows",
            "export mpich_cvars instead: it forces one algorithm for all sizes",
        )
    tree: Tree = {f"algorithm=MPIR_{collective.capitalize()}_intra_{algorithm}": {}}
    for need in reversed(needs[algorithm]):
        first, second, fulfils = _GUARDS[need]
        tree = {first: tree, second: otherwise} if fulfils else {first: otherwise, second: tree}
    return tree


def installed_tree(library: Path) -> Tree:
    """Return the generic selection tree in an MPICH library.

    Raises:
        StackError: the library cannot be read or contains no tree.
    """
    try:
        content = library.read_bytes()
    except OSError as exc:
        raise StackError(f"{library} cannot be read: {exc}") from exc
    for match in re.finditer(rb'\{"collective=[ -~]+', content):
        text = match[0].decode()
        # The library has three trees; only the generic one names algorithms of nonblocking collectives too.
        if '"collective=ibcast"' in text and "algorithm=MPIR_Allreduce_intra" in text:
            tree: Tree = json.loads(text)
            return tree
    raise StackError(
        f"{library} holds no collective-selection tree", "MPICH 4 and 5 have one; Intel MPI and MVAPICH 2 not"
    )


def intel_id(collective: str, name: str) -> int:
    """Return Intel MPI's id of an algorithm, which is given by its name or as the id itself.

    Raises:
        UserError: Intel MPI offers no choice for this collective, or has no such algorithm.
    """
    if collective not in _INTEL:
        raise UserError(f"Intel MPI adjusts no {collective}", allowed(collective, _INTEL))
    if name.isdecimal():
        return int(name)
    names = _INTEL[collective]
    if name not in names:
        raise UserError(f"Intel MPI has no {collective} algorithm {name!r}", allowed(name, names))
    return names.index(name) + 1


class MpichDialect(Dialect):
    """Knows the names and options of MPICH and of its launcher, the process manager Hydra."""

    formats = ("mpich_json",)
    one_row: ClassVar[Mapping[str, int]] = {name: 1 for name, mpich in _MPICH.items() if not mpich.size}
    by_ranks = True
    banner = re.compile(r"HYDRA build details:\s+Version:\s+(\S+)")
    distribution = "mpich"
    campaigns = "MPICH 4 or 5"
    slurm_plugins = ("pmi2", "pmix", "cray_shasta")
    # Without this setting the device composes even forced algorithms from parts inside and between nodes.
    reproducible: ClassVar[Mapping[str, str]] = {"MPIR_CVAR_DEVICE_COLLECTIVES": "none"}
    by_place = ("smp",)

    def mpirun_options(self, placement: Placement, env: Mapping[str, str]) -> list[str]:
        """Return the options of ``mpirun``: see ``Dialect``."""
        options = {
            "-n": str(placement.ranks),
            "-hosts": ",".join(placement.hosts),
            "-ppn": str(placement.ppn or ""),
            "-map-by": placement.map_by,
            "-bind-to": placement.bind_to,
            "-genvlist": ",".join(forwarded(env)),
        }
        return [word for option, value in options.items() if value for word in (option, value)]

    def detect(
        self, installation: Installation, settings: Mapping[str, str], env: Mapping[str, str], ranks: int
    ) -> Stack:
        """Return the description of an installation: see ``Dialect``."""
        from autotune.stacks.mpich_here import detect  # here, since that module imports this one

        if settings:
            raise StackError(
                f"mpi.mca.{next(iter(settings))} with {installation.flavour}",
                "set variables by mpi.env.NAME=…",
            )
        return detect(self, installation, env, ranks)

    def surroundings(self, mpirun: Path) -> dict[str, str]:
        """Return the variables that make MPICH print at its start which provider of libfabric it uses."""
        return {} if "MPIR_CVAR_DEBUG_SUMMARY" in os.environ else {"MPIR_CVAR_DEBUG_SUMMARY": "1"}


class IntelMpiDialect(MpichDialect):
    """Knows the names and options of Intel MPI, which has the launcher of MPICH."""

    formats = ("intel",)
    one_row: ClassVar[Mapping[str, int]] = dict.fromkeys(_INTEL, _ANY)
    by_ranks = False
    banner = re.compile(r"Intel\(R\) MPI Library.*?Version (\S+)")
    distribution = "impi-rt"
    campaigns = "Intel MPI 2021"
    reproducible: ClassVar[Mapping[str, str]] = {"I_MPI_CBWR": "1"}
    by_place = ("",)  # every algorithm: with I_MPI_CBWR the library always uses its own algorithm for sums

    def surroundings(self, mpirun: Path) -> dict[str, str]:
        """Return variables that make Intel MPI print its settings, and for a PyPI wheel also its paths.

        In other installations, a site's own scripts set the paths.
        """
        report = {} if "I_MPI_DEBUG" in os.environ else {"I_MPI_DEBUG": "5"}
        prefix = mpirun.parent.parent
        if os.environ.get("I_MPI_ROOT") or not (prefix / "lib" / "libmpi.so.12").exists():
            return report
        libraries = str(prefix / "lib")
        search = [libraries, *filter(None, [os.environ.get("LD_LIBRARY_PATH", "")])]
        providers = prefix / "opt/mpi/libfabric/lib/prov"
        provider_path = {"FI_PROVIDER_PATH": str(providers)} if providers.exists() else {}
        return {
            **report,
            **provider_path,
            "I_MPI_ROOT": str(prefix),
            "LD_LIBRARY_PATH": os.pathsep.join(search),
        }
