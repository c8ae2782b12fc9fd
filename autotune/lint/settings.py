"""Check MCA parameters, alone and combined, for unknown names, contradictions and settings without effect."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import chain

from autotune.errors import UserError
from autotune.lint.assignment import USES_UCX, Assignment, Reach, Source
from autotune.lint.finding import Finding, likely_name
from autotune.lint.runtime import PRTE_MCA, launcher, runtime
from autotune.lint.selection import FRAMEWORKS, component_of, is_list, lacks, listed, selection
from autotune.lint.values import values
from autotune.stacks import coll_tuned
from autotune.stacks.knobs import Knob
from autotune.stacks.known import KNOWN, of_the_runtime
from autotune.stacks.parameter_file import ENV_LIST

_FORCED = re.compile(r"coll_tuned_(\w+?)_algorithm(?:_(\w+))?")
_UNSEGMENTED = {"alltoallv", "barrier", "exscan", "scan"}
_NOT_OF_ALL = {
    "max_requests": {"alltoall", "reduce", "scatter"},
    "segmentsize": set(coll_tuned.ALGORITHMS) - _UNSEGMENTED,
    "tree_fanout": set(coll_tuned.ALGORITHMS) - _UNSEGMENTED,
    "chain_fanout": set(coll_tuned.ALGORITHMS) - _UNSEGMENTED - {"reduce_scatter_block"},
    "count": set(coll_tuned.ALGORITHMS),
}
"""Maps the end of a parameter's name to the collectives that have a parameter with that end; they are the
same in the sources of 4.1, 5.0 and 6.0."""
_FILE, _DYNAMIC = "coll_tuned_dynamic_rules_filename", "coll_tuned_use_dynamic_rules"
_TUNED = frozenset(
    {_FILE, _DYNAMIC}
    | {f"coll_tuned_{name}" for name in KNOWN["tuned"]["once"].split()}
    | {f"coll_tuned_{c}_algorithm" for c in coll_tuned.ALGORITHMS}
    | {
        f"coll_tuned_{c}_algorithm_{suffix}"
        for suffix, collectives in _NOT_OF_ALL.items()
        for c in collectives
    }
)
"""Names of all parameters of ``coll_tuned``."""

_COMMON = frozenset(KNOWN["common"]["openmpi"].split())
"""Parameters that are often set. If no installed Open MPI lists its names, a name that is similar to one of
these counts as a misspelling."""

_REPLACED: Mapping[str, str] = KNOWN["replaced"]
"""Maps each parameter of Open MPI 4.x that 5.0 no longer has to a text that says what to write for 5.0."""

_TOLD = re.compile(r"UCX_(?:LOG|HANDLE|WARN|STATS|ERROR|PROFILE|MEMTYPE)")
"""Variables of UCX that do not affect performance."""

_USERS_OF_UCX = re.compile(
    r"(?:osc|spml|coll|btl)=(?!\^).*(?:ucx|uct|ucc|hcoll)|coll_(?:hcoll|ucc)_enable=[1tyTY$]|UCC_|HCOLL_|"
    r"NCCL_(?:NET_)?PLUGIN|NCCL_NET=UCX"
)
"""Settings, written ``name=value``, that make parts of the program other than ``pml`` use UCX."""

_NETWORKS = frozenset({"ofi", "openib", "sm", "tcp", "usnic", "vader"})
"""Components of ``btl`` that people name to choose a network."""
_OF_ALL = re.compile(rf"(?:{'|'.join([*KNOWN['common']['beginnings'].split(), *FRAMEWORKS])})_base_verbose")
"""Parameters that every framework has (``mca_base_framework.c``), whether or not ``ompi_info`` lists them."""

_ON = frozenset({"1", "true", "yes", "enabled", "t", "y"})
"""Words for true in Open MPI, which accepts lower case only."""


def settings(
    assigned: Sequence[Assignment],
    version: tuple[int, int],
    parameter_names: Collection[str] | None = None,
    exists: Callable[[str], bool] | None = None,
    knobs: Mapping[str, Knob] | None = None,
    components: Mapping[str, Collection[str]] | None = None,
) -> list[Finding]:
    """Return the findings on assignments, each considered alone.

    Args:
        assigned: The assignments.
        version: Open MPI's (major, minor).
        parameter_names: Names of all parameters of this version. If None, an unknown name is reported only if
            it begins with ``coll_tuned_`` or is similar to a known name.
        exists: Returns whether a file that a parameter names exists; None means that this is not checked.
        knobs: Maps the name of each parameter and variable to its declaration by an installed library.
        components: Maps each framework to the components that are installed here.
    """
    findings: list[Finding] = []
    for a in assigned:
        if not a.variable:
            findings += _one(a, version, parameter_names, exists)
        elif a.name.startswith(PRTE_MCA) and version >= (5, 0):
            findings += launcher(a)
        if a.literal and not a.variable and is_list(a.name):
            findings += selection(a, version, components or {})
        elif a.literal and not _forced(a.name) and (knob := (knobs or {}).get(a.name)):
            findings += values(a, knob)
    return findings


def together(reach: Reach, version: tuple[int, int], one_node: bool = False) -> list[Finding]:
    """Return the findings on the combination of parameters in one launch.

    Args:
        reach: The settings that apply to the launch.
        version: Open MPI's (major, minor).
        one_node: Whether the launch is on a single node, where ``coll_han`` is not used.
    """
    parameters = [a for a in reach.assigned if not a.variable]
    last = {a.name: a for a in parameters}
    findings: list[Finding] = []
    forced = [a for n, a in last.items() if _forced(n) and a.value not in ("0", "ignore", "")]
    for name in sorted(last):
        excluding = last.get(f"{name.removesuffix('include')}exclude") if name.endswith("_include") else None
        if excluding is not None and excluding.value:
            effect = f"{name} and {excluding.name} exclude each other: Open MPI refuses them with a message"
            findings.append(excluding.finding("MPI325", effect, "keep one of them"))
    file = last.get(_FILE)
    choices = ([file] if file else []) + forced
    unsaid = reach.closed and not reach.perhaps & {_DYNAMIC, "coll", "coll_han_priority"}
    if choices and (switch := last.get(_DYNAMIC)) is None and unsaid:
        effect = f"without {_DYNAMIC} = 1 rules and forced algorithms are silently ignored"
        findings.append(choices[0].finding("MPI121", effect, f"add {_DYNAMIC} = 1", sure=reach.alone))
    elif choices and switch is not None and switch.literal and switch.value not in _ON:
        effect = f"{_DYNAMIC} = {switch.value}: rules and forced algorithms are silently ignored"
        findings.append(switch.finding("MPI121", effect, f"write {_DYNAMIC} = 1"))
    if file and forced:
        winner = "the forced algorithm" if version >= (5, 0) else "the file"
        effect = f"beside a rules file: {winner} wins on this version, the other one on another"
        findings += [
            parameter.finding("MPI122", f"{parameter.name} {effect}", "keep one of them")
            for parameter in forced
        ]
    if choices and version >= (5, 0) and not one_node and unsaid and not _han_is_below(last):
        effect = (
            "coll_han (priority 35) outranks coll_tuned (30) in Open MPI 5: on several nodes it decides first"
        )
        remedy = "coll_han_priority = 0, or coll = ^han, if these choices shall hold"
        findings.append(choices[0].finding("MPI123", effect, remedy))
    findings += [finding for a in forced for finding in _segments(a, last)]
    out = last.get("coll")
    if choices and out and out.literal and out.value[:1] == "^" and "tuned" in out.value[1:].split(","):
        effect = f"coll = {out.value}: rules and algorithms of coll_tuned mean nothing without it"
        findings.append(choices[0].finding("MPI124", effect, "leave one of them out"))
    for parameter in forced:
        if _algorithm_name(parameter) == coll_tuned.PAIRS_ONLY:
            effect = f"{parameter.name}: {coll_tuned.PAIRS_ONLY} fails on any other number of ranks than two"
            findings.append(
                parameter.finding("MPI107", effect, "put it into a rules file, under communicator size 2")
            )
    findings += _alone(last.get("btl"), last.get("pml"), reach)
    return findings + list(_unused(reach, last.get("pml")))


def _alone(btl: Assignment | None, pml: Assignment | None, reach: Reach) -> Iterator[Finding]:
    """Yield a finding if a list of BTLs lacks ``self``, by which a rank sends to itself under ``pml = ob1``.

    On Open MPI 5.0.11, ``MPI_Init`` aborts if the list has only ``sm``, ``tcp`` or both, whether or not
    ``pml = ob1`` is set.
    """
    if btl is None or not btl.literal or (pml and (not pml.literal or "ob1" not in pml.value.split(","))):
        return
    without, names = listed(btl.value)
    if names and ("self" in names) == without:
        effect = f"btl = {btl.value}: without self no rank reaches itself, and MPI_Init aborts under pml ob1"
        remedy = "name self, too" if not without else "do not name self after ^"
        yield btl.finding(
            "MPI324",
            effect,
            remedy,
            sure=pml is not None and pml.value == "ob1" and not reach.perhaps & {"pml", "btl"},
        )


def _unused(reach: Reach, pml: Assignment | None) -> Iterator[Finding]:
    """Yield findings on settings that the chosen ``pml`` ignores: BTLs, or variables of UCX."""
    if pml is None or not pml.literal or pml.value.startswith("^"):
        return
    btl = next((a for a in reversed(reach.assigned) if a.name == "btl" and a.literal), None)
    if pml.value == "ucx" and btl and btl.value[:1] != "^" and _NETWORKS & set(btl.value.split(",")):
        effect = f"pml = ucx sends no message over a BTL: btl = {btl.value} changes nothing"
        remedy = "leave btl out (UCX_TLS chooses the transports), or pml = ob1"
        yield btl.finding("MPI326", effect, remedy, sure=False)  # one-sided communication (osc) may use BTLs
    if "ucx" in pml.value.split(",") or USES_UCX in reach.perhaps:
        return
    if any(_USERS_OF_UCX.match(f"{a.name}={a.value}") for a in reach.assigned):
        return
    for ucx in reach.assigned:
        if ucx.variable and ucx.name.startswith("UCX_") and not _TOLD.match(ucx.name):
            effect = f"pml = {pml.value} does not use UCX: UCX_* variables change nothing"
            yield ucx.finding(
                "MPI327", effect, "pml = ucx, or leave the variables out", sure=False
            )  # a program may use UCX by itself
            return


def released(assigned: Sequence[Assignment], releases: Collection[tuple[int, ...]]) -> Iterator[Finding]:
    """Yield findings on parameters that a bug disables in all releases of Open MPI that a file names."""
    for bug in KNOWN["released"]:
        since, mended = (tuple(map(int, bug[key].split("."))) for key in ("since", "mended"))
        if not releases or not all(since <= release < mended for release in releases):
            continue
        for a in assigned:
            if not a.variable and a.source in bug["ways"] and re.fullmatch(bug["parameter"], a.name):
                effect, remedy = (bug[key].format(name=a.name, value=a.value) for key in ("effect", "remedy"))
                yield a.finding("MPI308", f"Open MPI before {bug['mended']}: {effect}", remedy)


def _one(
    a: Assignment,
    version: tuple[int, int],
    parameter_names: Collection[str] | None,
    exists: Callable[[str], bool] | None,
) -> Iterator[Finding]:
    if a.name != a.name.lower() and _is_parameter(a.name.lower(), parameter_names):
        yield a.finding(
            "MPI302", f"nothing reads {a.name}: names are in small letters", f"write {a.name.lower()}"
        )
        return
    if of_the_runtime(a.name):
        yield from runtime(a, version)
        return
    if a.literal and re.fullmatch(r"(?:opal_common|pml|osc)_ucx_tls", a.name) and (problem := _transports(a)):
        yield a.finding("MPI329", *problem, sure=False)  # osc = ucx may need these transports
        return
    if which := lacks(a.name, version):
        yield a.finding("MPI304", f"{which}: it is silently ignored", "leave it out")
        return
    if a.name in _REPLACED and version >= (5, 0):
        effect = f"Open MPI {version[0]} has no {a.name}: it is silently ignored"
        yield a.finding("MPI305", effect, _REPLACED[a.name])
        return
    if _OF_ALL.fullmatch(a.name) or (parameter_names and _of_another_build(a.name, parameter_names)):
        return
    if re.match(r"(?:spml|scoll|atomic|memheap|sshmem|oshmem)(?:_|$)", a.name):
        return  # frameworks of OpenSHMEM, which an Open MPI that was built without it does not list
    names = parameter_names or _TUNED | _COMMON
    # Without a list from Open MPI, only names of coll_tuned and names similar to a known one are checked.
    listed = {name.split("_")[0] for name in parameter_names} if parameter_names else set()
    is_checked = a.name.split("_")[0] in listed or a.name.startswith("coll_tuned_")
    # Open MPI also accepts a name with its project in front (``mca_base_var.c``). Unknown names that begin
    # with a project may be parameters of other builds.
    project = re.match(r"(?:opal|ompi|oshmem)_", a.name)
    if project and (a.name.removeprefix(project[0]) in names or not likely_name(a.name, names)):
        return
    if full_name := _full_name(a.name, names, _COMMON, KNOWN["runtime"]["prte"].split()):
        effect = f"nothing reads {a.name}: a parameter's name begins with its framework"
        yield a.finding("MPI303", effect, f"did you mean {full_name}?")
        return
    slip = likely_name(a.name, names)
    if a.name not in names and (slip or is_checked):
        close = slip and not (slip in FRAMEWORKS and a.value.isdigit())  # a framework takes names, no number
        remedy = f"did you mean {slip}?" if close else "ompi_info --all lists the names"
        release = f"Open MPI {version[0]}.{version[1]}"
        sure = bool(slip) or a.name.startswith("coll_tuned_")  # other builds have further components
        yield a.finding(
            "MPI301", f"{release} has no parameter {a.name}: it is silently ignored", remedy, sure=sure
        )
        return
    if a.name == ENV_LIST:
        yield from _env_list(a, version)
    if not a.literal:
        return
    if a.name == _FILE:
        yield from _rules_path(a, exists)
    collective = _forced(a.name)
    if collective:
        yield from _algorithm(a, collective, version)


def _is_parameter(name: str, parameter_names: Collection[str] | None) -> bool:
    """Whether a name in small letters is a parameter of the installed Open MPI or of some release."""
    of_release = component_of(name) is not None or name in FRAMEWORKS or of_the_runtime(name)
    return of_release or name in (parameter_names or ()) or name in _TUNED | _COMMON


def _full_name(name: str, *name_lists: Collection[str]) -> str:
    """Return the parameter whose name without its framework is ``name``; empty unless exactly one fits."""
    begins = name.partition("_")[0]
    if begins == name or begins in FRAMEWORKS or begins in KNOWN["common"]["beginnings"].split():
        return ""
    full_names = {candidate for candidate in chain(*name_lists) if candidate.endswith(f"_{name}")}
    return full_names.pop() if len(full_names) == 1 else ""


def _transports(a: Assignment) -> tuple[str, str] | None:
    """Return (effect, remedy) if a list of transports keeps Open MPI from choosing UCX; otherwise None.

    The effects were observed on Open MPI 5.0.11.
    """
    names = a.value.removeprefix("^").split(",")
    if "all" in names:
        return f"{a.name} = {a.value}: 'all' is taken for the name of a transport", "any"
    if set(names) <= {"self", "sm", "shm", "posix", "sysv", "cma", "tcp", ""}:
        effect = f"{a.name} says which transports must be there so that pml ucx is chosen, not which UCX uses"
        return effect, f"UCX_TLS={a.value}, and {a.name} = any"
    return None


def _of_another_build(name: str, parameter_names: Collection[str]) -> bool:
    """Whether a parameter belongs to a component that some release has but the installed Open MPI lacks."""
    component = "_".join(component_of(name) or ("",))
    return bool(component) and not any(k.startswith(f"{component}_") for k in parameter_names)


def _env_list(a: Assignment, version: tuple[int, int]) -> Iterator[Finding]:
    """Yield findings on ``mca_base_env_list``, a parameter with a list of environment variables.

    On a command line, or in a file for ``--tune``, the parameter is set for one job on purpose. In other
    places it affects jobs unnoticed.
    """
    effects = ["every mpirun -x aborts beside it"] if version < (5, 0) and a.source != Source.COMMAND else []
    if a.source in (Source.FILE, Source.ENVIRONMENT):
        effects.append("it overrides what users export themselves")
    if effects:
        remedy = "ucx.conf in UCX_CONFIG_DIR, export in a script, or -x lines in a file for --tune"
        yield a.finding("MPI328", f"{ENV_LIST}: {' and '.join(effects)}", remedy)


def _rules_path(a: Assignment, exists: Callable[[str], bool] | None) -> Iterator[Finding]:
    # A relative path works in a script, which chooses the directory of its job, but not in files for any job.
    anywhere = a.source in (Source.FILE, Source.TUNE) or a.value.startswith(("~", "$"))
    if not a.value.startswith("/") and anywhere:
        effect = "is looked up in the working directory of each rank, and ignored if it is not there"
        yield a.finding(
            "MPI125", f"{a.value!r} {effect}", "write an absolute path; ~ and $HOME are not expanded"
        )
    elif a.value.startswith("/") and exists is not None and not exists(a.value):
        is_certain = a.source in (Source.FILE, Source.TUNE)
        yield a.finding(
            "MPI125", f"{a.value} is missing: silently ignored", "correct the path", sure=is_certain
        )


def _algorithm(a: Assignment, collective: str, version: tuple[int, int]) -> Iterator[Finding]:
    algorithms = coll_tuned.algorithms(collective, version)
    try:
        number = coll_tuned.algorithm_id(collective, a.value)
        spelt = a.value.isdecimal() or a.value == coll_tuned.enumerator(collective, number, version)
    except UserError:
        number, spelt = len(algorithms), False
    if number >= len(algorithms) or not spelt:
        names = ", ".join(
            f"{i} {coll_tuned.enumerator(collective, i, version)}" for i, _ in enumerate(algorithms)
        )
        effect = f"{a.name} = {a.value} is refused with a message, and the default runs"
        yield a.finding("MPI113", effect, f"known: {names}")


def _algorithm_name(forced: Assignment) -> str:
    collective = _forced(forced.name)
    try:
        return coll_tuned.ALGORITHMS[collective][coll_tuned.algorithm_id(collective, forced.value)]
    except UserError:
        return ""


def _segments(forced: Assignment, last: dict[str, Assignment]) -> Iterator[Finding]:
    collective = _forced(forced.name)
    size = last.get(f"{forced.name}_segmentsize")
    name = _algorithm_name(forced)
    if (
        size
        and size.value != "0"
        and name not in ("", coll_tuned.DEFAULT)
        and name not in coll_tuned.SEGMENTED.get(collective, ())
    ):
        yield size.finding(
            "MPI111", f"{name} of {collective} has no segments: {size.name} is ignored", "leave it out"
        )


def _forced(name: str) -> str:
    """Return the collective for which a parameter forces an algorithm; empty for any other parameter."""
    match = _FORCED.fullmatch(name)
    return match[1] if match and not match[2] and match[1] in coll_tuned.ALGORITHMS else ""


def _han_is_below(last: dict[str, Assignment]) -> bool:
    def value(name: str, default: str) -> str:
        return last[name].value if name in last else default

    coll = value("coll", "")
    if coll.startswith("^"):
        listed_out = "han" in coll[1:].split(",")
    else:
        listed_out = bool(coll) and "han" not in coll.split(",")
    han, tuned = value("coll_han_priority", "35"), value("coll_tuned_priority", "30")
    below = han.lstrip("-").isdecimal() and tuned.isdecimal() and int(han) < int(tuned)
    return listed_out or below
