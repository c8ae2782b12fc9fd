"""Tables of the book that the program generates (a hook of MkDocs).

Pages are read in a plain view of the repository too, where links may lead out of ``docs/``; the site has no
such files, so there a link becomes its words.
"""

import dataclasses
import json
import math
import re
import statistics
import types
import typing
from pathlib import Path
from typing import Any

from autotune.commands.keys import explained
from autotune.resources import conf_text
from autotune.scenario import Scenario
from autotune.stacks.knobs.rules import load
from autotune.views.text import size_text

_OUTSIDE = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[^)#]+)[^)]*\)")
_DOCS = Path(__file__).parent
_MEASURED = _DOCS.parent / "benchmarks" / "truths" / "2026-11-24.jsonl"
_SIZES = [8 * 4**i for i in range(10)]
"""Message sizes of that measurement, in bytes."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """A page as the site shows it."""
    markdown = markdown.replace("<!-- keys of a scenario -->", key_table())
    markdown = markdown.replace("<!-- which knob does what -->", knob_table())
    place = (_DOCS / page.file.src_uri).parent

    def shown(link: re.Match[str]) -> str:
        inside = (place / link[2]).resolve().is_relative_to(_DOCS)
        return link[0] if inside else link[1]

    return _OUTSIDE.sub(shown, markdown)


def knob_table() -> str:
    """A row for each knob that was measured alone: its rule's reason, its best and its worst level."""
    rules = [rule for layer in ("openmpi", "ucx") for rule in load(layer)]
    measured: dict[str, list[tuple[float, str, int]]] = {}
    for line in _MEASURED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        usable = [pair for pair in row["pairs"] if pair and None not in pair]
        for size, logs in zip(_SIZES, zip(*usable, strict=True), strict=True) if usable else ():
            gain = math.exp(-statistics.median(logs))
            measured.setdefault(row["knob"], []).append((gain, str(row["level"]), size))
    rows = ["| knob | about | best level | worst level |", "|---|---|---|---|"]
    for knob, found in sorted(measured.items(), key=lambda item: -max(item[1])[0]):
        named = next((r for r in rules if knob in r.patterns), None)
        rule = named or next((r for r in rules if r.names(knob) or r.match(knob)), None)
        ends = (
            f"`{level}`: {gain:.2f}× at {size_text(size)}" for gain, level, size in (max(found), min(found))
        )
        about = _cell(rule.reason) if rule else ""
        rows.append(f"| `{knob}` | {about} | {' | '.join(ends)} |")
    return "\n".join(rows)


def key_table() -> str:
    """Every key of a scenario with its type, from the dataclasses, and its meaning, from ``config.yaml``."""
    meanings, comments = dict(explained()), key_comments()
    rows = ["| key | type | meaning, and what is in it |", "|---|---|---|"]
    types_of = typing.get_type_hints(Scenario)
    for field in dataclasses.fields(Scenario):
        kind, meaning = types_of[field.name], _cell(meanings.get(field.name, ""))
        if dataclasses.is_dataclass(kind):
            rows.append(f"| **`{field.name}`** | | {meaning} |")
            inner = typing.get_type_hints(kind)
            for its in dataclasses.fields(kind):
                key = its.metadata.get("key", its.name)
                said = _cell(comments.get(f"{field.name}.{key}", ""))
                rows.append(f"| `{field.name}.{key}` | {_type(inner[its.name])} | {said} |")
        elif field.name != "name":
            rows.append(f"| **`{field.name}`** | {_type(kind)} | {meaning} |")
    return "\n".join(rows)


def key_comments() -> dict[str, str]:
    """Comments behind the keys of sections, in ``config.yaml`` and in the files of its groups."""
    found, section = {}, ""
    for line in conf_text("config").splitlines():
        if top := re.match(r"(\w+):", line):
            section = top[1]
        elif said := re.match(r"  (\w+): .*?\s# (.+)", line):
            found[f"{section}.{said[1]}"] = said[2]
    for group in ("budget", "probe"):
        for said in re.finditer(r"(?m)^(\w+): .*?\s# (.+)$", conf_text(f"{group}/standard")):
            found[f"{group}.{said[1]}"] = said[2]
    return found


def _type(kind: Any) -> str:
    """A type in words."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        return " or ".join("null" if one is type(None) else _type(one) for one in arguments)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None and not isinstance(origin, type):
        return str(kind)
    if origin is not None:
        return "mapping"
    words = {int: "integer", float: "number", str: "text", bool: "true or false"}
    return words.get(kind, getattr(kind, "__name__", str(kind)))


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("<", "&lt;")
