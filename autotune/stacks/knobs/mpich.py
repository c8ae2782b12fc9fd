"""Read MPICH's control variables and their categories by MPI's tool interface (MPI_T).

Run as a program (``python -m autotune.stacks.knobs.mpich LIBMPI``), this module prints the variables as JSON.
MPI itself need not be initialised: MPICH registers its variables when MPI_T starts.
"""

import ctypes
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from autotune.probe.mpit import TEXT_BYTES, call, described, names_of_description
from autotune.stacks.knobs.child import ask_module
from autotune.stacks.knobs.knob import Knob, KnobKind, on_one_line

_SWITCH = re.compile(r"\b(if|set to|when) (set to )?(true|1|on)\b|\benables?\b|\bdisables?\b|^force\b", re.I)
"""Words in MPICH's documentation of an integer variable which show that the variable is a truth value."""


def read(library: Path) -> tuple[Knob, ...]:
    """Return the variables of an MPICH library.

    Raises:
        StackError: the variables of the library cannot be read.
    """
    return parse(json.loads(ask_module(__name__, str(library), folder=library.parent)))


def parse(document: Mapping[str, Any]) -> tuple[Knob, ...]:
    """Return the variables in the JSON that this module prints as a program."""
    return tuple(_knob(document["version"], *declared) for declared in document["variables"])


def _knob(version: str, name: str, datatype: str, default: str, category: str, text: str) -> Knob:
    words = tuple(names_of_description(text))
    numbered = tuple(re.findall(r"^\s*(\d+)\s+[A-Za-z]", text, re.MULTILINE))
    kind, allowed = KnobKind.TEXT, words
    if words and (datatype == "int" or default in words):
        kind = KnobKind.ENUMERATOR
        default = words[int(default)] if default.isdecimal() and int(default) < len(words) else default
    elif len(numbered) > 1 and default in numbered:
        kind, allowed = KnobKind.ENUMERATOR, numbered
    elif len(listed := _counted(text)) > 1 and default in listed:
        kind, allowed = KnobKind.ENUMERATOR, listed
    elif datatype == "int" and default in ("0", "1") and _SWITCH.search(text):
        kind, allowed = KnobKind.BOOLEAN, ("0", "1")
    elif datatype in ("int", "double"):
        kind, allowed = (KnobKind.INTEGER if datatype == "int" else KnobKind.REAL), ()
    return Knob(
        layer="mpich",
        version=version,
        name=name,
        kind=kind,
        default=default,
        documentation=on_one_line(text),
        allowed=allowed,
        component=category.lower(),
    )


def _counted(text: str) -> tuple[str, ...]:
    """Return the values 0, 1, … if a text without line breaks explains them one after the other."""
    numbers = re.findall(r"\s(\d+)\s+(?=[A-Z])", text)
    return tuple(numbers) if numbers == [str(i) for i in range(len(numbers))] else ()


class _Library:
    def __init__(self, path: str) -> None:
        self._lib = ctypes.CDLL(path)
        self("init_thread", 0, ctypes.byref(ctypes.c_int()))

    def __call__(self, function: str, *arguments: Any) -> None:
        call(self._lib, function, "", *arguments)

    def version(self) -> str:
        text, length = ctypes.create_string_buffer(TEXT_BYTES), ctypes.c_int()
        self._lib.MPI_Get_library_version(text, ctypes.byref(length))
        match = re.search(r"MPICH Version:\s+(\S+)", text.value.decode(errors="replace"))
        return match[1] if match else ""

    def count(self, kind: str) -> int:
        number = ctypes.c_int()
        self(f"{kind}_get_num", ctypes.byref(number))
        return number.value

    def categories(self) -> dict[int, str]:
        by_index: dict[int, str] = {}
        for index in range(self.count("category")):
            variables = ctypes.c_int()
            name, _ = described(
                partial(self, "category_get_info", index), (), (variables, ctypes.c_int(), ctypes.c_int())
            )
            indices = (ctypes.c_int * max(1, variables.value))()
            self("category_get_cvars", index, variables, indices)
            by_index |= dict.fromkeys(indices[: variables.value], name)
        return by_index

    def variables(self) -> Iterator[tuple[str, str, str, str, str]]:
        categories = self.categories()
        for index in range(self.count("cvar")):
            verbosity, datatype, binding, scope = (ctypes.c_int() for _ in range(4))
            name, text = described(
                partial(self, "cvar_get_info", index),
                (verbosity, datatype, ctypes.c_void_p()),
                (binding, scope),
            )
            kind, value = self._value(index, datatype.value)
            yield name, kind, value, categories.get(index, ""), text

    def _value(self, index: int, datatype: int) -> tuple[str, str]:
        """Return the datatype and the value of a variable as texts.

        In MPICH's handle of a datatype, the second byte is the size of the datatype in bytes.
        """
        handle, count = ctypes.c_void_p(), ctypes.c_int()
        self("cvar_handle_alloc", index, None, ctypes.byref(handle), ctypes.byref(count))
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        self("cvar_read", handle, buffer)
        size, class_of_type = datatype >> 8 & 0xFF, datatype & 0xFF
        if size == 1:
            return "text", buffer.value.decode(errors="replace")
        kind: Any = (
            ctypes.c_double if class_of_type == 0x0B else {4: ctypes.c_int, 8: ctypes.c_longlong}[size]
        )
        values = [str(v) for v in (kind * count.value).from_buffer(buffer)]
        if len(values) > 1:
            return "range", ":".join(values)
        return ("double" if class_of_type == 0x0B else "int"), values[0]


if __name__ == "__main__":
    opened = _Library(sys.argv[1])
    json.dump({"version": opened.version(), "variables": list(opened.variables())}, sys.stdout)
