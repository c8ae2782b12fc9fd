"""Read Open MPI's MCA parameters from the output of ``ompi_info --all --parsable``."""

import re
from collections.abc import Iterator
from pathlib import Path

from autotune.stacks.knobs.child import ask
from autotune.stacks.knobs.knob import Knob, KnobKind, Way, on_one_line
from autotune.stacks.ompi_info import components_in

_KINDS = {"bool": KnobKind.BOOLEAN, "string": KnobKind.TEXT}
_KINDS |= {"size_t": KnobKind.BYTES, "double": KnobKind.REAL}
"""Maps a C type to a kind; variables of any other type are integers."""

NEVER_SET = frozenset({"mpi_ft_verbose", "pml_ucx_multi_send_nb"})
"""Parameters whose values are arbitrary and differ between launches with the same settings. Open MPI 5.0
never sets the first parameter; 4.1 and 5.0 read the second parameter from the stack frame of a function that
has ended."""

_LINE = re.compile(r"^mca:([^:]*):([^:]*):param:([^:]+):([a-z_]+)(?::(.*))?$")


def read(mpirun: Path) -> tuple[Knob, ...]:
    """Return the parameters of the installation that ``mpirun`` belongs to.

    Raises:
        StackError: ``ompi_info`` does not answer.
    """
    info = mpirun.resolve().with_name("ompi_info")
    # The variable keeps ompi_info from reading a parameter file, whose values it would report as defaults.
    text = ask([str(info), "--all", "--parsable"], {"OMPI_MCA_mca_base_param_files": "/dev/null"})
    return parse(text)


def components(mpirun: Path) -> dict[str, tuple[str, ...]]:
    """Return the components of each framework of the installation that ``mpirun`` belongs to.

    Raises:
        StackError: ``ompi_info`` does not answer.
    """
    return components_in(ask([str(mpirun.resolve().with_name("ompi_info")), "--parsable"]))


def parse(text: str) -> tuple[Knob, ...]:
    """Return the parameters in a listing of ``ompi_info --all --parsable``."""
    version = re.search(r"^ompi:version:full:(\S+)", text, re.MULTILINE)
    entries: dict[str, dict[str, list[str]]] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            framework, component, name, key, value = match.groups(default="")
            entry = entries.setdefault(name, {"component": [f"{framework}:{component}"]})
            entry.setdefault(key, []).append(value)
    return tuple(_knob(name, entry, version[1] if version else "") for name, entry in entries.items())


def _knob(name: str, entry: dict[str, list[str]], version: str) -> Knob:
    def first(key: str) -> str:
        return entry.get(key, [""])[0].strip('"')

    words = tuple(_words(entry.get("enumerator", [])))
    default = first("value")
    kind = _KINDS.get(first("type"), KnobKind.INTEGER)
    if words and kind is not KnobKind.BOOLEAN:
        kind = KnobKind.ENUMERATOR if default in words else KnobKind.LIST
    return Knob(
        layer="openmpi",
        version=version,
        name=name,
        kind=kind,
        default=default,
        documentation=on_one_line(first("help")),
        allowed=words,
        component=first("component"),
        inherits=tuple(s.removeprefix("name:") for s in entry.get("synonym_of", [])),
        children=tuple(s.removeprefix("name:") for s in entry.get("synonym", [])),
        way=Way.MCA,
        deprecated=first("deprecated") == "yes",
    )


def _words(enumerator: list[str]) -> Iterator[str]:
    for item in enumerator:
        parts = item.split(":", 2)
        if len(parts) == 3:
            yield parts[2]
