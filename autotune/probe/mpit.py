"""Read and write MPI_T control variables of the MPI library that mpi4py has loaded; mpi4py has no MPI_T.

Values are passed as text, as in a parameter file: an integer, ``0``/``1`` for booleans, a word for strings.
Variables with an enumerator also accept the names in it.

Notation: a *control variable* (cvar) has a name, an MPI datatype and perhaps an *enumerator*, which maps the
names of values to numbers.

References:
    MPI: A Message-Passing Interface Standard, version 4.1, chapter 15.3 (the MPI tool information interface).
"""

import ctypes
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from autotune.errors import StackError, allowed

_NAME_BYTES, TEXT_BYTES = 512, 65536
"""Sizes in bytes of the buffers for names and for descriptions; MPI_T cuts longer texts."""
_NUMBERS: Mapping[str, Any] = {
    "INT": ctypes.c_int,
    "INT32_T": ctypes.c_int32,
    "UNSIGNED": ctypes.c_uint,
    "UNSIGNED_LONG": ctypes.c_ulong,
    "UNSIGNED_LONG_LONG": ctypes.c_ulonglong,
    "LONG": ctypes.c_long,
    "COUNT": ctypes.c_longlong,
    "DOUBLE": ctypes.c_double,
    "C_BOOL": ctypes.c_bool,
}


@dataclass(frozen=True, slots=True)
class ControlVariable:
    """One control variable of the MPI library, with the handle by which it is read and written."""

    name: str  # Name of the variable in the library.
    kind: str  # Name of the variable's MPI datatype in mpi4py, e.g. ``INT``.
    enumerator: Mapping[str, int]  # Name of a value → its number; empty: any value is allowed.
    handle: int  # MPI_T's handle of the variable.
    buffer: Any = field(repr=False)  # Object of ctypes that stores one value.


class ToolInterface:
    """The control variables of this process, through MPI_T."""

    def __init__(self, mpi: Any) -> None:
        """Start MPI_T for ``mpi4py.MPI``.

        MPI must be initialised before, since components register their variables during the initialisation.

        Raises:
            StackError: If the library refuses MPI_T.
        """
        # Symbols are looked up in mpi4py's extension module and its dependencies. So they belong to the very
        # library that mpi4py calls, wherever it is and whatever else this process has loaded.
        self._lib = ctypes.CDLL(mpi.__file__)
        self._handle_type = ctypes.c_void_p if mpi._sizeof(mpi.Datatype) == 8 else ctypes.c_int
        self._kinds = {
            self._handle_type.from_address(mpi._addressof(getattr(mpi, kind))).value: kind
            for kind in ("CHAR", *_NUMBERS)
        }
        self._known: dict[str, ControlVariable] = {}
        provided = ctypes.c_int()
        code = self._lib.MPI_T_init_thread(mpi.THREAD_SINGLE, ctypes.byref(provided))
        if code:
            raise StackError(f"MPI_T_init_thread failed with code {code}", "the library offers no MPI_T")

    @property
    def library(self) -> Path:
        """Return the real path of the MPI library that this process calls."""
        address = ctypes.cast(self._lib.MPI_T_init_thread, ctypes.c_void_p).value
        return library_of(address or 0)

    def variable(self, name: str) -> ControlVariable:
        """Return a control variable by its name.

        Raises:
            StackError: If there is no such variable, or the probe does not support its datatype.
        """
        if name not in self._known:
            self._known[name] = self._bind(name)
        return self._known[name]

    def read(self, name: str) -> str:
        """Return the value of a control variable that the library uses at present.

        Raises:
            StackError: If there is no such variable, or it cannot be read.
        """
        variable = self.variable(name)
        self._call("cvar_read", name, ctypes.c_void_p(variable.handle), ctypes.byref(variable.buffer))
        value = variable.buffer.value
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return str(int(value)) if isinstance(value, bool) else str(value)

    def write(self, name: str, value: int | str) -> str:
        """Set a control variable in this process, and return its value as it is read afterwards.

        Raises:
            StackError: If there is no such variable, or the value that is read afterwards is not ``value``.
        """
        variable = self.variable(name)
        if variable.kind == "CHAR":
            variable.buffer.value = str(value).encode()
        else:
            variable.buffer.value = _number(variable, value)
        self._call(
            "cvar_write", f"{name}={value}", ctypes.c_void_p(variable.handle), ctypes.byref(variable.buffer)
        )
        read_back = self.read(name)
        if not same_value(read_back, value, variable.enumerator):
            raise StackError(f"{name}={value} was written, {read_back!r} reads back")
        return read_back

    def values(self) -> dict[str, str]:
        """Return the value in effect of every control variable that can be read, by name."""
        total, values = ctypes.c_int(), {}
        self._call("cvar_get_num", "", ctypes.byref(total))
        for index in range(total.value):
            try:
                name, *_ = self._described(index)
                values[name] = self.read(name)
            except StackError:
                continue  # its component is closed, or the probe does not support its datatype
        return values

    def _bind(self, name: str) -> ControlVariable:
        index = ctypes.c_int()
        self._call("cvar_get_index", name, name.encode(), ctypes.byref(index))
        _, text, kind, enumtype = self._described(index.value)
        if kind is None:
            raise StackError(f"control variable {name} is of a datatype that the probe cannot hold")
        handle, count = ctypes.c_void_p(), ctypes.c_int()
        self._call("cvar_handle_alloc", name, index, None, ctypes.byref(handle), ctypes.byref(count))
        if kind == "CHAR":
            buffer: Any = ctypes.create_string_buffer(max(count.value, 1))
        elif count.value == 1:
            buffer = _NUMBERS[kind]()
        else:
            raise StackError(f"control variable {name} holds {count.value} numbers, not one")
        names = self._enumerator(enumtype) or names_of_description(text)
        return ControlVariable(name, kind, names, int(handle.value or 0), buffer)

    def _described(self, index: int) -> tuple[str, str, str | None, ctypes.c_void_p]:
        """Return name, description, datatype (None if not supported) and enumerator of a control variable."""
        verbosity, binding, scope = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
        # MPI_T_enum is a pointer in every implementation, whatever the other handles are.
        datatype, enumtype = self._handle_type(), ctypes.c_void_p()
        name, text = described(
            partial(self._call, "cvar_get_info", str(index), index),
            (verbosity, datatype, enumtype),
            (binding, scope),
        )
        return name, text, self._kinds.get(datatype.value), enumtype

    def _enumerator(self, enumtype: ctypes.c_void_p) -> dict[str, int]:
        """Return name → number of the values of an enumerator; empty if the variable has none."""
        if not enumtype.value:
            return {}
        text, length = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int(_NAME_BYTES)
        items, refer = ctypes.c_int(), ctypes.byref
        self._call("enum_get_info", "", enumtype, refer(items), text, refer(length))
        names = {}
        for index in range(items.value):
            number, length.value = ctypes.c_int(), _NAME_BYTES
            place = ctypes.c_int(index)
            self._call("enum_get_item", "", enumtype, place, refer(number), text, refer(length))
            names[text.value.decode(errors="replace")] = number.value
        return names

    def _call(self, function: str, about: str, *arguments: Any) -> None:
        """Call a function of MPI_T, or raise a StackError that names ``about``, such as a variable."""
        call(self._lib, function, about, *arguments)


class ControlVariables:
    """Control variables that this process has set through MPI_T, and their earlier values."""

    def __init__(self, tools: ToolInterface) -> None:
        self._tools = tools
        self._initial: dict[str, str] = {}
        self._current: dict[str, str] = {}
        self._labels: dict[str, list[str]] = {}

    @property
    def read_back(self) -> dict[str, str]:
        """Return variable → the values read after each time it was set, with the library's names for them."""
        return {name: ", ".join(values) for name, values in self._labels.items()}

    def enforce(self, cvars: Mapping[str, int | str]) -> None:
        """Set these variables; every other variable that was set before gets its initial value again.

        Raises:
            StackError: If a variable does not exist, or refuses its value.
        """
        for name in cvars:
            if name not in self._initial:
                self._initial[name] = self._current[name] = self._tools.read(name)
        for name, target in {**self._initial, **{k: str(v) for k, v in cvars.items()}}.items():
            if self._current[name] != target:
                value = self._tools.write(name, target)
                self._current[name] = target
                labels = self._labels.setdefault(name, [])
                label = named(value, self._tools.variable(name).enumerator)
                if label not in labels:
                    labels.append(label)


def call(library: Any, function: str, about: str, *arguments: Any) -> None:
    """Call a function of the MPI_T of a library that ``ctypes`` has loaded.

    Raises:
        StackError: If the function fails; the message names ``about``, such as a variable.
    """
    if code := getattr(library, f"MPI_T_{function}")(*arguments):
        raise StackError(f"MPI_T_{function} refused {about or 'the call'} (code {code})")


def described(
    call: Callable[..., None], before_text: Iterable[Any], after_text: Iterable[Any]
) -> tuple[str, str]:
    """Return the name and the description that a function of MPI_T gives, and fill its other outputs.

    All such functions have their arguments in the same order: the arguments bound in ``call``, the name, the
    arguments in ``before_text``, the description, the arguments in ``after_text``.
    """
    name, text = ctypes.create_string_buffer(_NAME_BYTES), ctypes.create_string_buffer(TEXT_BYTES)
    name_length, text_length = ctypes.c_int(_NAME_BYTES), ctypes.c_int(TEXT_BYTES)
    first, last = (name_length, *before_text), (text_length, *after_text)
    call(name, *map(ctypes.byref, first), text, *map(ctypes.byref, last))
    return name.value.decode(errors="replace"), text.value.decode(errors="replace")


def named(value: str, enumerator: Mapping[str, int]) -> str:
    """Return a value with the library's name for it, such as ``6 rabenseifner``, or only the value."""
    return next((f"{value} {name}" for name, number in enumerator.items() if str(number) == value), value)


def same_value(actual: str, target: object, enumerator: Mapping[str, int] | None = None) -> bool:
    """Return whether two texts mean the same value of a variable.

    The texts can be numbers, truth values, names of an enumerator, or lists of flags, which are added up.
    """
    names = {"true": 1, "yes": 1, "false": 0, "no": 0, **(enumerator or {})}

    def canonical(value: object) -> object:
        text = str(int(value)) if isinstance(value, bool) else str(value).strip()
        if text in names:
            return float(names[text])
        if "," in text and all(flag in names for flag in text.split(",")):
            return float(sum(names[flag] for flag in text.split(",")))
        try:
            return float(int(text, 0)) if re.fullmatch(r"[+-]?0[xX][0-9a-fA-F]+", text) else float(text)
        except ValueError:
            return text

    return canonical(actual) == canonical(target)


def names_of_description(text: str) -> dict[str, int]:
    """Return name → number of the values that MPICH lists in its description of a variable.

    Each value has a line ``name - meaning``; the numbers start at 0.
    """
    names = re.findall(r"^\s*(\w+)\s+- ", text, flags=re.MULTILINE)
    return {name: number for number, name in enumerate(names)} if len(names) > 1 else {}


def _number(variable: ControlVariable, value: int | str) -> Any:
    """Return a value as the number that MPI_T expects; raise a StackError if the value is not allowed."""
    names = variable.enumerator
    if isinstance(value, str) and value in names:
        return names[value]
    if isinstance(value, str) and variable.kind == "C_BOOL":
        return same_value(value, 1)
    try:
        number = float(value) if variable.kind == "DOUBLE" else int(value)
    except ValueError:
        raise StackError(f"{variable.name}={value}: not a number", allowed(value, names)) from None
    if names and number not in names.values():
        raise StackError(f"{variable.name}={value}: no such value", allowed(value, names))
    return number


class _SymbolInfo(ctypes.Structure):
    """The struct ``Dl_info`` of dladdr(3)."""

    _fields_ = (
        ("file_name", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol_name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def library_of(address: int) -> Path:
    """Return the real path of the shared library whose memory contains an address.

    Raises:
        StackError: If the address is in no library.
    """
    info = _SymbolInfo()
    if not ctypes.CDLL(None).dladdr(ctypes.c_void_p(address), ctypes.byref(info)):
        raise StackError(f"no library holds the address {address:#x}")
    return Path(info.file_name.decode()).resolve()
