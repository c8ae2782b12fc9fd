"""Positions in a JSON text: path of keys and places → line."""

import json
import re
from collections.abc import Mapping
from typing import Any

Where = tuple[str | int, ...]  # Keys of objects and places in lists, from the top.

_BLANK = re.compile(r"\s*")
_DEEP = 200  # Levels that are followed; selection trees have some ten.


def lines_in(text: str) -> tuple[Any, Mapping[Where, int]]:
    """The document, and the lines of all keys and elements in it.

    Raises:
        ValueError: no JSON, or nested deeper than is followed.
    """
    lines: dict[Where, int] = {}
    breaks = [match.start() for match in re.finditer("\n", text)]

    def line(at: int) -> int:
        from bisect import bisect_left

        return bisect_left(breaks, at) + 1

    def skip(at: int) -> int:
        return _BLANK.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing too

    def value(at: int, where: Where) -> int:
        if len(where) > _DEEP:
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
                at = skip(at) + 1  # the colon
            lines[*where, key] = line(begin)
            at, n = skip(value(at, (*where, key))), n + 1
            at = skip(at + (text[at] == ","))
        return at + 1

    document = json.loads(text)
    value(0, ())
    return document, lines
