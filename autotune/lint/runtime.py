"""Parameters of the launcher: 4.x has a runtime of its own, 5.0 has PRRTE, with other names and sources.

Read in ``ompi_info --all`` of 4.1.8 and ``prte_info -a`` of 5.0.11, and tried on both: 5.0 takes parameters
of its launcher from the command line and from ``PRTE_MCA_*``, never from ``OMPI_MCA_*``, from Open MPI's
parameter files or from files for ``--tune``.
"""

from collections.abc import Iterator, Mapping

from autotune.lint.assignment import Assignment, Source
from autotune.lint.finding import Finding
from autotune.stacks.known import KNOWN, NEW, OLD

_TABLE = KNOWN["runtime"]

OPTIONS: Mapping[str, str] = _TABLE["options"]
"""Parameter of 4.x → the option of ``mpirun`` that says the same to 5.0."""

NAMES: Mapping[str, str] = _TABLE["names"] | {
    f"orte_{name}": f"prte_{name}" for name in _TABLE["orte"].split()
}
"""Parameter of 4.x → its name in PRRTE; ``plm_rsh_*`` is ``plm_ssh_*``, ``oob_tcp_*`` kept its names."""

PRRTE = frozenset(_TABLE["prte"].split())
"""Every parameter that PRRTE has."""


def runtime(a: Assignment, version: tuple[int, int]) -> Iterator[Finding]:
    """What the launcher makes of a parameter of its own."""
    old, new = OLD.fullmatch(a.name), NEW.fullmatch(a.name)
    if version < (5, 0):
        if new:
            yield a.finding(f"{a.name} is of Open MPI 5: 4.1 silently ignores it", _before(a.name))
        return
    if a.source is Source.COMMAND and (not old or a.name.startswith("plm_rsh_")):
        return  # mpirun of 5.0 translates plm_rsh_* there
    effect = f"{a.name} in {a.source} is silently ignored: the launcher of Open MPI 5 is PRRTE"
    if old and a.source is Source.COMMAND:
        effect = f"{a.name} is silently ignored: it is of Open MPI 4"
    yield a.finding(effect, _after(a))


def _after(a: Assignment) -> str:
    name = NAMES.get(a.name, a.name.replace("plm_rsh_", "plm_ssh_"))
    if a.name == "oob_tcp_disable_family":  # one parameter for both families in 4.1: a word or its number
        family = "ipv6" if a.value.lower() in ("ipv6", "6") else "ipv4"
        return f"export PRTE_MCA_oob_tcp_disable_{family}_family=1"
    if name not in PRRTE and "_" in name:  # a framework's own name chooses its components
        name = ""
    option = OPTIONS.get(a.name, "").format(a.value)
    ways = [f"mpirun {option}"] if option else []
    ways += [f"export PRTE_MCA_{name}={a.value}"] if name else []
    return ", or ".join(ways) or "5.0 has nothing in its place: leave it out"


def _before(name: str) -> str:
    back = {new: old for old, new in NAMES.items() if old != "orte_rsh_agent"}
    old = back.get(name, name.replace("plm_ssh_", "plm_rsh_"))
    return f"write {old}" if old != name else "4.1 has nothing in its place: leave it out"
