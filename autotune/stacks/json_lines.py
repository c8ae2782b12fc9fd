"""Find the line number of each key and element of a JSON text."""

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

KeyPath = tuple[str | int, ...]  # Keys of objects and indices of lists, from the top of a document.

_BLANK = re.compile(r"\s*")
_DEEP = 200  # Largest number of levels of nesting; selection trees have some ten.


def lines_in(text: str) -> tuple[Any, Mapping[KeyPath, int]]:
    """Return the document in a JSON text, and the line of each key and element in it, counted from 1.

    Raises:
        ValueError: the text is no JSON, or is nested deeper than ``_DEEP`` levels.
    """
    lines: dict[KeyPath, int] = {}
    breaks = [match.start() for match in re.finditer("\n", text)]

    def line(at: int) -> int:
        return bisect_left(breaks, at) + 1

    def skip(at: int) -> int:
        return _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty text too

    def value(at: int, key_path: KeyPath) -> int:
        if len(key_path) > _DEEP:
            raise ValueError(f"line {line(at)}: nested deeper than {_DEEP} levels")
        at = skip(at)
        opened = text[at : at + 1]
        if opened not in ("{", "["):
            return json.JSONDecoder().raw_decode(text, at)[1]
        at, n = skip(at + 1), 0
        while text[at] not in "}]":
            key: str | int = n
            begin = at
            if opened == "{":
                key, at = json.JSONDecoder().raw_decode(text, at)
                at = skip(at) + 1  # skip the colon
            lines[*key_path, key] = line(begin)
            at, n = skip(value(at, (*key_path, key))), n + 1
            at = skip(at + (text[at] == ","))
        return at + 1

    document = json.loads(text)
    value(0, ())
    return document, lines
