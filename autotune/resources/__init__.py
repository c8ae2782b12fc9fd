"""Finds the folders ``conf`` and ``search_spaces`` of an installation or checkout; reads users' files."""

import codecs
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

from autotune.errors import SpaceError, TableError, UserError, allowed

MOST_BYTES, MOST_LINES, MOST_DIGITS = 64 << 20, 500_000, 4_000
"""Limits of a user's file: its bytes, its lines, and the digits of a number in it.

Python itself converts at most 4,300 digits. The largest recorded table has 17,521 lines in 0.7 MB; readers of
logs take some 20 µs a line."""
MOST_COLUMNS, MOST_CELLS = 1_000, 4_000_000
"""Limits of one table: its columns, and its values, each of which takes some 60 bytes of memory."""
MOST_YAML = 1 << 20
"""Limit of a YAML file in bytes; reading 100 kB takes a second. The longest one in this project has 6 kB."""

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"  # Characters at which ``str.splitlines`` splits a text.
_LONG_NUMBER = re.compile(rf"(?<![0-9])[0-9]{{{MOST_DIGITS + 1}}}")

_PACKAGE = Path(__file__).resolve().parents[1]


def folder(name: str) -> Path:
    """Return the path of ``conf`` or ``search_spaces``: in an installed package, else in the checkout."""
    inside = _PACKAGE / name
    return inside if inside.is_dir() else _PACKAGE.parent / name


def conf_text(name: str) -> str:
    """Return the text of a file of ``conf/``, e.g. ``probe/standard``."""
    return (folder("conf") / f"{name}.yaml").read_text(encoding="utf-8")


def facts(name: str) -> dict[str, Any]:
    """Return the content of the table ``autotune/NAME.toml``, which is next to the modules that read it.

    An example of a name is ``importers/endings``.
    """
    return tomllib.loads((_PACKAGE / f"{name}.toml").read_text(encoding="utf-8"))


def space_text(name: str, *others: str) -> str:
    """Return the text of a search space's file: one in ``search_spaces`` by its name, or any other by a path.

    Raises:
        SpaceError: there is no such file; the message lists the names, and ``others`` that are allowed too.
    """
    shipped = {path.stem: path for path in sorted(folder("search_spaces").glob("*.yaml"))}
    path = shipped.get(name, Path(name).expanduser())
    hint = f"{allowed(name, [*shipped, *others])}, or a path"
    return user_text(path, f"space={name}", hint, raised=SpaceError, max_bytes=MOST_YAML)


def rules_text(layer: str) -> str:
    """Return the text of ``search_spaces/knobs/LAYER.yaml``: rules for a library layer's variables.

    Raises:
        SpaceError: there is no such file; the message lists the layers that have one.
    """
    shipped = {path.stem: path for path in sorted((folder("search_spaces") / "knobs").glob("*.yaml"))}
    if layer not in shipped:
        raise SpaceError(f"no rules for the variables of {layer!r}", allowed(layer, shipped))
    return shipped[layer].read_text(encoding="utf-8")


def user_text(
    path: Path,
    name: str = "",
    hint: str = "",
    *,
    raised: type[UserError] = TableError,
    lenient: bool = False,
    line_ends: bool = False,
    max_bytes: int = MOST_BYTES,
) -> str:
    """Return the text of a file that the user named, which must be in UTF-8.

    Args:
        path: Path of the file.
        name: Name that the error's message gives to the file; empty: the path.
        hint: Hint of the error.
        raised: Class of the error.
        lenient: Whether to replace bytes that are no UTF-8, since logs can contain anything.
        line_ends: Whether to leave the line ends as they are, instead of turning them into line feeds.
        max_bytes: Size of the largest file that is read.

    Raises:
        UserError: ``raised``: the file cannot be read, is no UTF-8, or is larger than ``max_bytes``.
    """
    content = user_bytes(path, name, hint, raised=raised, max_bytes=max_bytes)
    try:
        text = decoded(content, lenient=lenient)
    except ValueError as exc:
        raise raised(f"{name or path} cannot be read: {exc}", hint) from exc
    return text if line_ends else text.replace("\r\n", "\n").replace("\r", "\n")


def decoded(content: bytes, *, lenient: bool = False) -> str:
    """Decode bytes as UTF-8, and return the text.

    Args:
        content: The bytes.
        lenient: Whether to accept a byte-order mark, UTF-16 as PowerShell writes it, and bytes that are no
            UTF-8, which are replaced.

    Raises:
        ValueError: the bytes are no UTF-8, or have too many lines or a number of too many digits; the message
            says which.
    """
    try:
        marked = "utf-16" if content[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
        text = content.decode(*((marked, "replace") if lenient else ()))
    except UnicodeDecodeError as exc:
        raise ValueError(f"byte {exc.start + 1} is no UTF-8") from exc
    if sum(map(text.count, _LINE_ENDS)) > MOST_LINES:
        raise ValueError(f"it has more than {MOST_LINES:,} lines")
    if _LONG_NUMBER.search(text):
        raise ValueError(f"it has a number of more than {MOST_DIGITS:,} digits")
    return text


def user_bytes(
    path: Path,
    name: str = "",
    hint: str = "",
    *,
    raised: type[UserError] = TableError,
    max_bytes: int = MOST_BYTES,
) -> bytes:
    """Return the content of a file that the user named; the arguments are those of ``user_text``.

    Only regular files are read: opening a pipe would wait for its other end, and a device may have no end.

    Raises:
        UserError: ``raised``: the path is no regular file, cannot be read, or is larger than ``max_bytes``.
    """
    try:
        with open(path.expanduser(), "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                why = "it is no regular file"
            elif len(content := file.read(max_bytes + 1) or b"") > max_bytes:  # None for some files in /proc
                why = f"it has more than {max_bytes >> 20} MiB"
            else:
                return content
    except OSError as exc:
        why = exc.strerror or str(exc)
    except (ValueError, RuntimeError) as exc:  # the path is invalid, or in the home of an unknown user
        why = str(exc)
    raise raised(f"{name or path} cannot be read: {why}", hint)


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
