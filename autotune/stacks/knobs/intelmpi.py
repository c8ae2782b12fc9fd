"""Read Intel MPI's variables from its ``impi_info``: names, types and descriptions, and most defaults."""

import re
from collections.abc import Mapping
from pathlib import Path

from autotune.stacks.knobs.child import ask
from autotune.stacks.knobs.knob import Knob, KnobKind, on_one_line

_KINDS = {"MPI_INT": KnobKind.INTEGER, "MPI_DOUBLE": KnobKind.REAL}
"""Maps an MPI datatype to a kind; variables of any other datatype are texts."""

_UNSET = ("not defined", '""')  # Words in the table of defaults that mean "no value".


def read(mpirun: Path, version: str, surroundings: Mapping[str, str]) -> tuple[Knob, ...]:
    """Return the variables of the installation that ``mpirun`` belongs to.

    The installation's tools need the environment variables ``surroundings`` to run.

    Raises:
        StackError: ``impi_info`` does not answer.
    """
    tool = str(mpirun.with_name("impi_info"))
    return parse(ask([tool, "-a", "-e"], surroundings), ask([tool, "-e"], surroundings), version)


def parse(texts: str, table: str, version: str) -> tuple[Knob, ...]:
    """Return the variables in two outputs of ``impi_info``: all descriptions, and the table of defaults."""
    rows = re.findall(r"^ \| (\w+) +\| (.*?) *\| \w+ +\|$", table, re.MULTILINE)
    defaults = {name: "" if value in _UNSET else value for name, value in rows}
    knobs: dict[str, Knob] = {}
    for entry in re.split(r"^(?=[A-Z]\w+ *$)", texts, flags=re.MULTILINE)[1:]:
        name, _, description = entry.partition("\n")
        datatype = re.search(r"^ *MPI Datatype:\s+(\w+)", description)
        text = description.partition("Description:")[2].partition("   Verbosity:")[0]
        knob = Knob(
            layer="intelmpi",
            version=version,
            name=name.strip(),
            kind=_KINDS.get(datatype[1] if datatype else "", KnobKind.TEXT),
            default=defaults.get(name.strip(), ""),
            documentation=on_one_line(text.replace("\n   ", "")),  # impi_info cuts words at its margin
        )
        knobs.setdefault(knob.name, knob)
    return tuple(knobs.values())
