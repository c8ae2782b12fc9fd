"""Read the variables of UCX and UCC, as the configuration parser of the libraries prints them.

Run as a program (``python -m autotune.stacks.knobs.ucx LAYER FOLDER``), this module loads a library with its
transports and calls the parser.
"""

import ctypes
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from autotune.stacks.knobs.child import ask, ask_module
from autotune.stacks.knobs.knob import Knob, KnobKind, on_one_line

_LIBRARIES = {"ucx": ("libucs", "libucm", "libuct", "libucp"), "ucc": ("libucs", "libucc")}
"""Maps UCX or UCC to its libraries in the order of loading; the parser for both is in ``libucs``."""

_LISTS = {"ucx": ("libucs", "ucs_config_global_list"), "ucc": ("libucc", "ucc_config_global_list")}
"""Maps UCX or UCC to the library with its list of configuration tables, and the symbol of this list."""

_CONFIG, _HEADER, _DOC, _HIDDEN = 1, 2, 4, 8  # Flags of ``ucs_config_parser_print_all_opts``.

_ASSIGNMENT = re.compile(r"^(UC[XC]_\w+)(?:=(.*)| \(deprecated\))$")

_SYNTAXES: tuple[tuple[str, KnobKind], ...] = (
    ("memory units", KnobKind.BYTES),
    ("bandwidth value", KnobKind.BANDWIDTH),
    ("time value", KnobKind.DURATION),
    ("floating point number", KnobKind.REAL),
    ("positive floating point number", KnobKind.REAL),
    ("unsigned long", KnobKind.INTEGER),
    ("unsigned integer", KnobKind.INTEGER),
    ("integer", KnobKind.INTEGER),
)
"""Pairs of the beginning of a syntax description and the type of the value; the first match counts."""


def read(layer: str, folders: Iterable[Path]) -> tuple[Knob, ...]:
    """Return the variables of a layer, with parents that set several of them; empty if it is not installed.

    Args:
        layer: ``ucx`` or ``ucc``.
        folders: Folders in which the layer's libraries may be; for UCX, ``ucx_info`` on PATH is tried last.

    Raises:
        StackError: the library is installed, but its variables cannot be read.
    """
    name = _LIBRARIES[layer][-1]
    for folder in folders:
        if any(folder.glob(f"{name}.so*")):
            return parse(ask_module(__name__, layer, str(folder), folder=folder), layer)
    if layer == "ucx" and (tool := shutil.which("ucx_info")):
        version = re.search(r"[Vv]ersion (\d\S*)", ask([tool, "-v"]))
        return parse(f"version {version[1] if version else ''}\n" + ask([tool, "-caf"]), layer)
    return ()


def parse(text: str, layer: str = "ucx") -> tuple[Knob, ...]:
    """Return the variables in a listing, followed by parents that the listing names only after ``inherits``.

    A parent is a variable that sets several others, such as a variable for all transports.
    """
    version = re.search(r"^version (\S+)$", text, re.MULTILINE)
    knobs = tuple(_read(text, layer, version[1] if version else ""))
    return (*knobs, *_parents(knobs))


def kind_of(syntax: str) -> tuple[KnobKind, tuple[str, ...], tuple[str, ...]]:
    """Return the type, allowed words and keys of a variable, from the text after ``# syntax:``."""
    if keyed := re.match(
        r"comma-separated list of value or key:value pairs, .* \[(.*?)\] and value is: ", syntax
    ):
        kind, words, _ = kind_of(syntax[keyed.end() :].partition(". A value without")[0])
        return kind, words, tuple(keyed[1].split(","))
    if form := re.match(r"comma-separated list.* of: (?:\[(.*)\])?", syntax):
        return KnobKind.LIST, tuple((form[1] or "").split("|")) if form[1] else (), ()
    if form := re.fullmatch(r"[<\[](.+\|.+)[>\]]", syntax):
        words = tuple(form[1].split("|"))
        return (KnobKind.BOOLEAN if set(words) == {"y", "n"} else KnobKind.ENUMERATOR), words, ()
    for begin, kind in _SYNTAXES:
        if syntax.startswith(begin):
            return kind, tuple(re.findall(r'"(\w+)"', syntax)), ()
    return KnobKind.TEXT, (), ()


def _read(text: str, layer: str, version: str) -> Iterator[Knob]:
    documentation: list[str] = []
    attributes: dict[str, str] = {}
    for line in text.splitlines():
        if parts := _ASSIGNMENT.match(line.removeprefix("#")):
            kind, allowed, keys = kind_of(attributes.get("syntax", ""))
            yield Knob(
                layer=layer,
                version=version,
                name=parts[1],
                kind=kind,
                default=parts[2] or "",
                documentation=on_one_line(" ".join(documentation)),
                allowed=allowed,
                keys=keys,
                component=_part(parts[1]),
                inherits=tuple(
                    re.findall(r"\w+", attributes.get("inherits", attributes.get("alias of", "")))
                ),
                deprecated=parts[2] is None,
            )
            documentation, attributes = [], {}
        elif parts := re.match(r"# (syntax|inherits|alias of):\s*(.*)", line):
            attributes[parts[1]] = parts[2]
        elif line == "":
            documentation, attributes = [], {}
        else:
            documentation.append(line.strip("# "))


def _parents(knobs: tuple[Knob, ...]) -> Iterator[Knob]:
    """Yield a knob for each unlisted variable that comes first after a listed variable's ``inherits``."""
    listed = {knob.name for knob in knobs}
    families: dict[str, list[Knob]] = {}
    for knob in knobs:
        if knob.inherits and knob.inherits[0] not in listed:
            families.setdefault(knob.inherits[0], []).append(knob)
    for name, children in families.items():
        names = tuple(child.name for child in children)
        yield replace(children[0], name=name, component=_part(name), inherits=(), children=names)


def _part(name: str) -> str:
    words = name.split("_")
    return words[1].lower() if len(words) > 2 else ""


def _print(layer: str, folder: str) -> None:
    """Load UCX or UCC with its transports, and let its parser print all variables.

    References:
        UCX 1.20, ``ucs/config/parser.h``; UCC 1.3, ``utils/ucc_parser.h``, which uses UCX's parser.
    """
    loaded = {}
    for name in _LIBRARIES[layer]:
        files = sorted(Path(folder).glob(f"{name}.so*"), key=lambda path: len(path.name))
        loaded[name] = ctypes.CDLL(str(files[0]) if files else f"{name}.so.0", ctypes.RTLD_GLOBAL)
    last = loaded[_LIBRARIES[layer][-1]]
    version = last[f"{_LIBRARIES[layer][-1].removeprefix('lib')}_get_version_string"]
    version.restype = ctypes.c_char_p
    sys.stdout.write(f"version {version().decode()}\n")
    sys.stdout.flush()
    for module in sorted(Path(folder, layer).glob("*.so*")):
        try:
            ctypes.CDLL(str(module), ctypes.RTLD_GLOBAL)
        except OSError:
            continue  # the transport needs a driver that is missing, so its variables would have no effect
    library, symbol = _LISTS[layer]
    tables = ctypes.c_char.in_dll(loaded[library], symbol)
    libc = ctypes.CDLL(None)
    loaded["libucs"].ucs_config_parser_print_all_opts(
        ctypes.c_void_p.in_dll(libc, "stdout"),
        f"{layer.upper()}_".encode(),
        _CONFIG | _HEADER | _DOC | _HIDDEN,
        ctypes.byref(tables),
        None,
    )
    libc.fflush(None)
    os._exit(0)  # skips the libraries' own finalisers: they are not needed and may hang


if __name__ == "__main__":
    _print(sys.argv[1], sys.argv[2])
