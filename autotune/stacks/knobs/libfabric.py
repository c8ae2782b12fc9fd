"""Read libfabric's variables by its function ``fi_getparams``.

Run as a program (``python -m autotune.stacks.knobs.libfabric LIBRARY``), this module prints the variables as
JSON.
"""

import ctypes
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from autotune.stacks.knobs.child import ask_module
from autotune.stacks.knobs.knob import Knob, KnobKind, on_one_line

_TYPES = (KnobKind.TEXT, KnobKind.INTEGER, KnobKind.BOOLEAN, KnobKind.BYTES)
"""Types of values, indexed by the numbers of ``enum fi_param_type``: string, int, bool, size_t."""

_DEFAULT = re.compile(r"default(?: is)?:\s*([-\w.]+)|\(default (-?\d+)\)", re.IGNORECASE)


class _Parameter(ctypes.Structure):
    text = ctypes.c_char_p
    _fields_ = (("name", text), ("type", ctypes.c_int), ("help", text), ("value", text))


def read(folders: Iterable[Path]) -> tuple[Knob, ...]:
    """Return the variables of the first libfabric in these folders; empty if there is none.

    Raises:
        StackError: the folders have a libfabric, but its variables cannot be read.
    """
    for folder in folders:
        for library in sorted(folder.glob("libfabric.so*"), key=lambda path: len(path.name)):
            return parse(json.loads(ask_module(__name__, str(library), folder=folder)))
    return ()


def parse(document: dict[str, Any]) -> tuple[Knob, ...]:
    """Return the variables in the JSON that this module prints as a program, each once.

    Several providers can declare the same variable.
    """
    knobs: dict[str, Knob] = {}
    for name, number, text in document["parameters"]:
        kind = _TYPES[number] if number < len(_TYPES) else KnobKind.TEXT
        provider, separator, _ = text.partition(": ")
        default = _DEFAULT.search(text)
        knobs.setdefault(
            name,
            Knob(
                layer="libfabric",
                version=document["version"],
                name=name,
                kind=kind,
                default=(default[1] or default[2]).rstrip(".") if default else "",
                documentation=on_one_line(text),
                allowed=("0", "1") if kind is KnobKind.BOOLEAN else (),
                component=provider if separator and re.fullmatch(r"\w+", provider) else "",
            ),
        )
    return tuple(knobs.values())


def _print(path: str) -> None:
    """Print the version and the parameters of a library as JSON.

    References:
        fabric(7), ``fi_getparams``, ``fi_freeparams``.
    """
    library = ctypes.CDLL(path)
    library.fi_version.restype = ctypes.c_uint32
    version = library.fi_version()
    declared, count = ctypes.POINTER(_Parameter)(), ctypes.c_int()
    library.fi_getparams(ctypes.byref(declared), ctypes.byref(count))
    listed = [
        (entry.name.decode(), entry.type, (entry.help or b"").decode(errors="replace"))
        for entry in declared[: count.value]
    ]
    json.dump({"version": f"{version >> 16}.{version & 0xFFFF}", "parameters": listed}, sys.stdout)


if __name__ == "__main__":
    _print(sys.argv[1])
