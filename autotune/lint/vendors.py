"""Check variables of MPICH and MPIs derived from it, of libfabric and of plugins, wherever they are set."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from autotune.errors import UserError
from autotune.lint.assignment import Assignment
from autotune.lint.finding import Finding, likely_name
from autotune.lint.traps import traps
from autotune.stacks import mpich
from autotune.stacks.knobs.recorded import recorded

PREFIXES = ("FI_", "I_MPI_", "MPICH_", "MPIR_CVAR_", "MV2_", "MVP_")
"""Prefixes of the variables that this module checks; plugins declare their own prefixes."""

_GONE: Mapping[str, tuple[str, str]] = {
    "I_MPI_INTRANODE_EAGER_THRESHOLD": ("Intel MPI 2021 does not know it", "I_MPI_SHM_EAGER_THRESHOLD"),
    "FI_SHM_SAR_THRESHOLD": ("libfabric 2.5 does not know it: it is silently ignored there", "leave it out"),
    "FI_EFA_SHM_MAX_MEDIUM_SIZE": ("libfabric has ignored it since 1.20", "leave it out"),
}
"""Maps each variable that current versions do not know to (text of what happens, text of what to write)."""

_ALGORITHM = re.compile(r"MVP_(\w+)_INTRA_ALGORITHM")
_BESIDE = ("nb", "ccl", "pairwise_sendrecv_replace")
"""Algorithms of MPICH that tuning never tries because they are nonblocking, for accelerators or in place."""

_OLD_INTEL = re.compile(
    r"(?:impi|intel-?mpi|parallel_studio_xe|compilers_and_libraries|\bintel)[-_/=]+(?:[45]\.|201[0-8])", re.I
)
"""Name of an Intel MPI before version 2019, which had different variables."""

_NEW_INTEL = re.compile(r"oneapi|(?:impi|intel-?mpi|\bintel)[-_/=@]+(?:2019|202\d)", re.I)
"""Name of an Intel MPI of version 2019 or later, which has today's variables."""

_LARGEST_INTEL = 2**31 - 1  # Largest number that Intel MPI can read.

_NEW_MPICH = re.compile(r"\bmpich[-_/=@]+v?(?:4\.[3-9]|5\.)", re.I)
"""Name of an MPICH version whose variables this project has recorded."""

_REMOVED_INTEL = re.compile(
    r"I_MPI_(?:DAPL|TMI|OFA|RDMA|CKPOINT|MPD|DAT|STATS|TCP)_\w+|I_MPI_(?:FABRICS_LIST|FALLBACK(?:_DEVICE)?|DEVICE)"
)
"""Variables of Intel MPI before 2019; 2021.18 reports some of them as "removed", others as "not
supported"."""


def vendors(assigned: Sequence[Assignment], text: str = "") -> list[Finding]:
    """Return the findings on variables, each considered alone.

    Args:
        assigned: The assignments.
        text: Content of the file that sets the variables; versions of libraries in the text are used.
    """
    if _OLD_INTEL.search(text):
        assigned = [a for a in assigned if not a.name.startswith("I_MPI_")]
    new, mpich = bool(_NEW_INTEL.search(text)), bool(_NEW_MPICH.search(text))
    judges: list[Callable[[Assignment], Iterable[Finding]]] = [trap.variable for trap in traps().values()]
    judges = [partial(_one, new=new), partial(_name, new_intel=new, new_mpich=mpich), *judges]
    return [finding for a in assigned if a.variable and a.literal for judge in judges for finding in judge(a)]


def beside(
    assigned: Sequence[Assignment], texts: Collection[str], plugin_texts: Mapping[str, Sequence[str]]
) -> list[Finding]:
    """Return the findings on the combination of variables in one launch.

    Args:
        assigned: The assignments.
        texts: Contents of all files, which may contain directives of Slurm.
        plugin_texts: Maps each plugin's kind of file to the contents of the files of that kind.
    """
    last = {a.name: a for a in assigned if a.variable}
    findings: list[Finding] = []
    old = next((a for name, a in last.items() if name.startswith("MV2_")), None)
    if old and any(name.startswith("MVP_") for name in last):
        effect = f"MVAPICH 3 and later ignore {old.name}, and MVAPICH2 ignores MVP_*"
        findings.append(old.finding("MPI705", effect, "the names of the version that is installed"))
    for kind, trap in traps().items():
        findings += trap.together(last, texts, plugin_texts.get(kind, ()))
    return findings


def _one(a: Assignment, new: bool) -> Iterator[Finding]:
    """Yield the findings on one variable; ``new`` says that the file names an Intel MPI of 2019 or later."""
    if a.name in _GONE:
        effect, remedy = _GONE[a.name]
        yield a.finding("MPI702", f"{a.name}: {effect}", remedy, sure=new and a.name.startswith("I_MPI_"))
    elif a.name.startswith("FI_") and (slip := likely_name(a.name, recorded())):
        yield a.finding(
            "MPI701", f"libfabric knows no {a.name}: it is silently ignored", f"did you mean {slip}?"
        )
    if a.name == "I_MPI_FABRICS" and (old := {"dapl", "tcp", "tmi", "ofa"} & set(re.split("[:,]", a.value))):
        effect = f"I_MPI_FABRICS = {a.value}: Intel MPI has no {min(old)} since 2019"
        yield a.finding("MPI703", effect, "shm, ofi or shm:ofi; FI_PROVIDER chooses the network", sure=new)
    if a.name.startswith("MV2_INTER_") and a.name.endswith("_TUNING") and not a.value.isdecimal():
        yield a.finding(
            "MPI706", f"{a.name} takes the number of an algorithm, not {a.value!r}", "see its user guide"
        )
    if match := _ALGORITHM.fullmatch(a.name):
        yield from _forced(a, match[1].lower())
    if a.name.startswith("I_MPI_ADJUST_"):
        yield from _adjusted(a)


def _name(a: Assignment, new_intel: bool, new_mpich: bool) -> Iterator[Finding]:
    """Yield findings on a name that MPICH or Intel MPI does not know.

    A finding is sure if the file names a version whose variables this project has recorded.
    """
    if a.name in recorded():
        return
    if _REMOVED_INTEL.fullmatch(a.name):
        effect = f"Intel MPI has had no {a.name} since 2019: its value is ignored"
        yield a.finding("MPI702", effect, "FI_PROVIDER and FI_* choose and tune the network", sure=new_intel)
        return
    for prefix, library, names_version in (
        ("I_MPI_", "Intel MPI 2021", new_intel),
        ("MPIR_CVAR_", "MPICH", new_mpich),
    ):
        if not a.name.startswith(prefix) or a.name in _GONE:
            continue
        names = [name for name in recorded() if name.startswith(prefix)]
        ends = [name for name in names if name.endswith(f"_{a.name.removeprefix(prefix)}")]
        if close := likely_name(a.name, names):
            yield a.finding("MPI701", f"{library} knows no {a.name}: it is ignored", f"did you mean {close}?")
        elif len(ends) == 1:
            effect = f"{library} knows no {a.name}: it is ignored"
            yield a.finding("MPI701", effect, f"did you mean {ends[0]}?", sure=names_version)
        elif names_version and prefix == "MPIR_CVAR_":
            effect = f"{library} 4.3 to 5.0 list no {a.name}: it is ignored"
            yield a.finding(
                "MPI701", effect, "MPI_T lists the names (autotune doctor --knobs)", sure=False
            )  # an MPICH with another device may have the variable


def _forced(a: Assignment, collective: str) -> Iterator[Finding]:
    """Yield a finding if MVAPICH lacks the algorithm in a variable ``MVP_…_INTRA_ALGORITHM``.

    MVAPICH has the algorithms of MPICH, and further ones with names ``osu_…``.
    """
    if a.value.startswith("osu_"):
        return
    try:
        algorithms = mpich.algorithms(collective)
    except UserError:
        return  # this program does not know the collective's algorithms
    if a.value not in (*algorithms, *_BESIDE):
        yield a.finding(
            "MPI706",
            f"{collective} has no algorithm {a.value!r}: MPI_Init aborts",
            f"known: {', '.join(algorithms)}",
        )


def _adjusted(a: Assignment) -> Iterator[Finding]:
    """Yield findings on a value of ``I_MPI_ADJUST_*``, as Intel MPI 2021.18 was observed to read it."""
    if "@" in a.value and ":" in a.value:
        effect = "with @ in it the message sizes are forgotten: the first algorithm is taken for all"
        yield a.finding("MPI707", effect, "sizes or communicator sizes, not both")
    if any(float(number) > _LARGEST_INTEL for number in re.findall(r"\d+", a.value)):
        yield a.finding(
            "MPI707", f"a number beyond {_LARGEST_INTEL}: Intel MPI crashes as it starts", str(_LARGEST_INTEL)
        )
