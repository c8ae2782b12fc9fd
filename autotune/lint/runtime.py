"""Check parameters of Open MPI's launcher; 5.0 uses PRRTE, whose parameters differ from those of 4.x.

The names are listed by ``ompi_info --all`` of 4.1.8 and ``prte_info -a`` of 5.0.11, and were tried on both.
Open MPI 5.0 reads parameters of its launcher from the command line, from ``PRTE_MCA_*`` and from PRRTE's own
files (``~/.prte/mca-params.conf``, ``etc/prte-mca-params.conf``), never from ``OMPI_MCA_*``, from Open MPI's
parameter files or from files for ``--tune``.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath

from autotune.errors import allowed
from autotune.lint.assignment import Assignment, Read, Source
from autotune.lint.finding import Finding, likely_name
from autotune.lint.parameters import mca_file
from autotune.stacks.known import KNOWN, NEW, OLD

_TABLE = KNOWN["runtime"]

OPTIONS: Mapping[str, str] = _TABLE["options"]
"""Maps each parameter of Open MPI 4.x to the option of ``mpirun`` that has the same effect in 5.0."""

NAMES: Mapping[str, str] = _TABLE["names"] | {
    f"orte_{name}": f"prte_{name}" for name in _TABLE["orte"].split()
}
"""Maps parameters of Open MPI 4.x to their names in PRRTE. Not included are ``plm_rsh_*``, which became
``plm_ssh_*``, and ``oob_tcp_*``, which kept their names."""

PRRTE = frozenset(_TABLE["prte"].split())
"""Names of all parameters of PRRTE."""

COMPONENTS: Mapping[str, str] = _TABLE["components"]
"""Maps each framework of PRRTE to the components that it has in every build."""

PRTE_MCA = "PRTE_MCA_"
"""Prefix of environment variables that set PRRTE's parameters."""

_POLICIES = {
    f"{framework}_default_{setting}_policy": option
    for framework, setting, option in (
        ("rmaps", "mapping", "map-by"),
        ("rmaps", "ranking", "rank-by"),
        ("hwloc", "binding", "bind-to"),
    )
}
"""Maps parameters of PRRTE to the option of ``mpirun`` that accepts the same words."""


def runtime(a: Assignment, version: tuple[int, int]) -> Iterator[Finding]:
    """Yield a finding if a version of Open MPI ignores a parameter of the launcher."""
    old, new = OLD.fullmatch(a.name), NEW.fullmatch(a.name)
    if version < (5, 0):
        if new:
            yield a.finding("MPI306", f"{a.name} is of Open MPI 5: 4.1 silently ignores it", _before(a.name))
        return
    if a.source is Source.COMMAND and (not old or a.name.startswith("plm_rsh_")):
        return  # mpirun of 5.0 translates plm_rsh_* on its command line
    effect = f"in Open MPI 5 {a.name} in {a.source} is silently ignored: its launcher is PRRTE"
    if old and a.source is Source.COMMAND:
        effect = f"in Open MPI 5 {a.name} is silently ignored: it is of Open MPI 4"
    yield a.finding("MPI306", effect, _after(a))


def _after(a: Assignment) -> str:
    name = NAMES.get(a.name, a.name.replace("plm_rsh_", "plm_ssh_"))
    if a.name == "oob_tcp_disable_family":  # 4.1 has one parameter for both families
        family = "ipv6" if a.value.lower() in ("ipv6", "6") else "ipv4"
        return f"export PRTE_MCA_oob_tcp_disable_{family}_family=1"
    if name not in PRRTE and "_" in name:  # a name without "_" is a framework
        name = ""
    if a.name in COMPONENTS and not {*a.value.lstrip("^").split(",")} <= {*COMPONENTS[a.name].split()}:
        name = ""  # PRRTE would abort at a component that only 4.x has (``plm = isolated``)
    option = OPTIONS.get(a.name, "")
    off = a.value == "" or ("{}" not in option and a.value.lower() in ("0", "false", "no", "f", "n"))
    if option and ("\n" in a.value or off):
        return "leave it out"
    value = shlex.quote(a.value) if a.literal else f'"{a.value}"'
    option = option.format(value)
    ways = [f"mpirun {option}"] if option else []
    ways += [f"export PRTE_MCA_{name}={value}"] if name else []
    return ", or ".join(ways) or "5.0 has nothing in its place: leave it out"


def _before(name: str) -> str:
    back = {new: old for old, new in NAMES.items() if old != "orte_rsh_agent"}
    old = back.get(name, name.replace("plm_ssh_", "plm_rsh_"))
    return f"write {old}" if old != name else "4.1 has nothing in its place: leave it out"


def prte_file(path: PurePath, text: str, version: tuple[int, int]) -> Read:
    """Read one of PRRTE's own files; each line is returned as the equivalent environment variable."""
    read = mca_file(path, text, version, prefix_here=PRTE_MCA)
    return Read([replace(a, name=PRTE_MCA + a.name, variable=True) for a in read.assigned], read.findings)


def launcher(a: Assignment) -> Iterator[Finding]:
    """Yield findings on an environment variable that sets a parameter of PRRTE."""
    name = a.name.removeprefix(PRTE_MCA)
    ignored = f"PRRTE has no parameter {name}: it is silently ignored"
    if policy := _POLICIES.get(name):
        word = a.value.lower().partition(":")[0]
        words = [candidate for candidate in KNOWN["places"][f"{policy}"]["5"].split() if a.literal]
        stem = word.partition("=")[0]
        if (
            word
            and words
            and not any(candidate.startswith(stem) or stem.startswith(candidate) for candidate in words)
        ):
            effect = f"{name} = {a.value}: PRRTE does not know {word!r}, and mpirun aborts"
            yield a.finding("MPI403", effect, allowed(word, words))
    elif name in COMPONENTS:
        wrong = [
            component
            for component in a.value.split(",")
            if component and component not in COMPONENTS[name].split()
        ]
        if wrong and a.literal and not a.value.startswith("^"):
            effect = f"PRRTE has no {name} {wrong[0]!r}: mpirun aborts"
            yield a.finding("MPI322", effect, allowed(wrong[0], COMPONENTS[name].split()))
    elif name in PRRTE or name.startswith("mca_"):
        return
    elif name.lower() in PRRTE:
        yield a.finding("MPI302", f"{ignored}: names are in small letters", f"write {PRTE_MCA}{name.lower()}")
    elif OLD.fullmatch(name) or name == "oob_tcp_disable_family":
        yield a.finding("MPI306", ignored, _after(replace(a, name=name, variable=False)))
    elif re.match(r"(?:btl|coll|pml|mtl|osc|opal|ompi|mpi)(?:_|$)", name):
        yield a.finding("MPI307", f"{ignored}, for it is Open MPI's", f"export OMPI_MCA_{name}={a.value}")
    elif close := likely_name(name, PRRTE):
        yield a.finding("MPI307", ignored, f"did you mean {close}?")
